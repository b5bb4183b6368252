//! Why a connection ends, and what follows from it.

use std::io;
use std::sync::Arc;

use tidegate_types::account::Refusal;
use tidegate_types::record::RefuseReason;

use crate::{Reason, Violation};

/// Why a client may not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No such user, or not the password.
    #[error("wrong user name or password")]
    Password,
    /// A name is needed.
    #[error("no user name, and anonymous clients are not let in")]
    Anonymous,
    /// So many wait for their passwords to be checked that it would not be told in time.
    #[error("too many clients wait for their passwords to be checked")]
    Busy,
    /// The certificate says no name.
    #[error("no common name in the certificate of the client")]
    Certificate,
    /// Its password is a token that is not believed.
    #[error("its token is refused: {0}")]
    Token(&'static str),
    /// The server that knows the users could not be asked.
    #[error("the server that is asked about logins does not answer")]
    Unasked,
}

impl Denied {
    /// A word for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Denied::Password => "password",
            Denied::Anonymous => "anonymous",
            Denied::Busy => "busy",
            Denied::Certificate => "certificate",
            Denied::Token(_) => "token",
            Denied::Unasked => "unasked",
        }
    }
}

/// Why a connection ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// The client said goodbye.
    #[error("the client disconnected")]
    Disconnected {
        /// Whether it took its will back.
        discard_will: bool,
    },
    /// The client broke the protocol, or asked for what this server does not do.
    #[error("{violation}")]
    Violation {
        /// What it did.
        violation: Violation,
        /// The topic of the publish that did it, shortened.
        topic: Option<Box<str>>,
    },
    /// A QoS 1 publish was not accepted, and the client's version has no other way to tell it: it will
    /// publish again after it has come back.
    #[error("publish {id} was refused ({}); MQTT before 5 can only be told by a close", .reason.name())]
    Refused {
        /// Its packet identifier.
        id: u16,
        /// Why.
        reason: RefuseReason,
    },
    /// The connection was closed without a goodbye.
    #[error("the connection was closed without a disconnect packet")]
    Closed,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(io::ErrorKind),
    /// TLS could not be agreed on.
    #[error("no TLS: {0}")]
    Untrusted(Box<str>),
    /// WebSocket could not be agreed on.
    #[error("no WebSocket: {0}")]
    NoWebSocket(Box<str>),
    /// The client may not come in.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// Nothing was heard for one and a half times the keepalive, or for the time that the options allow to
    /// a client without one.
    #[error("nothing was heard for 1.5 times the keepalive interval, or for idle_timeout")]
    KeepAlive,
    /// A large packet took so long that others waited for its room.
    #[error("a large packet did not come within packet_timeout, and others waited for its room")]
    SlowPacket,
    /// A new connection sent no CONNECT in time.
    #[error("no connect packet came in time")]
    ConnectTimeout,
    /// The client does not read what it is answered.
    #[error("the client does not read its acknowledgements")]
    NotReading,
    /// There is no memory for what the client makes the node hold.
    #[error("there is no memory for it: {0}")]
    NoRoom(Refusal),
    /// Its user has as many connections as he may.
    #[error("more connections than the quota or the share of its user")]
    TooManyOfUser,
    /// The client id belongs to an input of this node that is itself a client.
    #[error(
        "its client id is that of an mqtt_client input of this node: give one of them another id"
    )]
    Reserved,
    /// The client id has a session of another user.
    #[error("its client id has a session of another user: give it an id of its own")]
    Foreign,
    /// The log did not forget the client's earlier session in time.
    #[error("the log did not forget the client's earlier session in time")]
    Unready,
    /// A newer connection uses the same client id.
    #[error("another connection uses the same client id")]
    TakenOver,
    /// All that the client publishes belongs to another node, which it can use at once.
    #[error("its topics are at another node: it was told {0}")]
    Elsewhere(Arc<str>),
    /// What the client had a right to when it came, it has a right to no more.
    #[error("its right has ended: {0}")]
    Revoked(&'static str),
    /// The listener is no more; others of the node may be.
    #[error("its listener is no more")]
    Removed,
    /// The node is stopping.
    #[error("the node is stopping")]
    Stopping,
}

impl From<Violation> for End {
    fn from(violation: Violation) -> Self {
        End::Violation { violation, topic: None }
    }
}

impl End {
    /// Whether the client's will is to be published.
    pub fn publishes_will(&self) -> bool {
        !matches!(self, End::Disconnected { discard_will: true } | End::Elsewhere(_))
    }

    /// The reason code of the DISCONNECT that an MQTT 5 client gets; `None` where it gets none.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            End::Disconnected { .. } | End::Closed | End::Failed(_) | End::ConnectTimeout => None,
            End::NotReading | End::Untrusted(_) | End::NoWebSocket(_) | End::Denied(_) => None,
            End::Reserved | End::Foreign | End::Unready | End::NoRoom(_) => None,
            End::TooManyOfUser => None,
            End::Violation { violation, .. } => Some(violation.reason),
            End::Refused { .. } | End::SlowPacket => Some(Reason::ImplementationSpecific),
            End::KeepAlive => Some(Reason::KeepAliveTimeout),
            End::TakenOver => Some(Reason::SessionTakenOver),
            End::Elsewhere(_) => Some(Reason::UseAnotherServer),
            End::Revoked(_) => Some(Reason::NotAuthorized),
            End::Removed => Some(Reason::AdministrativeAction),
            End::Stopping => Some(Reason::ServerShuttingDown),
        }
    }

    /// Whether people should hear of it.
    pub fn is_worth_a_warning(&self) -> bool {
        match self {
            End::Disconnected { .. } | End::Closed | End::Failed(_) | End::Stopping => false,
            End::Elsewhere(_) | End::Removed => false,
            End::Violation { .. } | End::Refused { .. } | End::KeepAlive => true,
            End::ConnectTimeout
            | End::NotReading
            | End::SlowPacket
            | End::TakenOver
            | End::Untrusted(_)
            | End::NoWebSocket(_) => true,
            End::Denied(_) | End::Reserved | End::Foreign | End::Unready | End::NoRoom(_) => true,
            End::TooManyOfUser | End::Revoked(_) => true,
        }
    }
}
