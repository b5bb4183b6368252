//! Decides what is said in MQTT 5, 3.1.1 and 3.1: packets, the session of a broker with one client, and that of a client
//! with one broker. Bytes go in and out by slices; nothing here has a socket or a clock.
//!
//! Reading is strict, borrows from the read buffer and allocates nothing. Every refusal (a *violation*) carries the
//! reason code that MQTT 5 wants for it and says what was wrong; versions before 5 just close. A *session* outlives the
//! connection where its client asks for it: what is left of it then is its *memory*.
//!
//! | file | what |
//! |---|---|
//! | `frame.rs` | where a control packet begins and ends |
//! | `reader.rs`, `property.rs` | fields and properties of a packet |
//! | `connect.rs`, `control.rs`, `publish.rs` | what a client sends: CONNECT; SUBSCRIBE, acknowledgements, DISCONNECT; PUBLISH |
//! | `write.rs`, `deliver.rs` | what a broker answers, and how it publishes to a subscriber |
//! | `client.rs` | what a client writes, and how it reads what a broker answers |
//! | `session.rs`, `session` | a broker's side of one client: bytes in, records and answers out |
//! | `client_session.rs`, `client_session` | a client's side: login, subscription, records, acknowledgements |
//! | `topics.rs` | what topics are called at the far end |
//!
//! ```
//! use tidegate_mqtt::Version;
//! use tidegate_mqtt::client::{Login, connect};
//! use tidegate_mqtt::frame::{Front, front};
//!
//! let login = Login { keepalive: 30, ..Login::new(Version::V5, "gate-7") };
//! let mut bytes = Vec::new();
//! connect(&mut bytes, &login);
//! let Ok(Front::Complete(packet)) = front(&bytes, 1024) else { panic!("a whole packet") };
//! assert_eq!((packet.first, packet.size), (0x10, bytes.len()));
//! ```

#![forbid(unsafe_code)]

pub mod client;
pub mod client_session;
mod connect;
pub mod control;
mod deliver;
pub mod frame;
mod property;
pub mod publish;
mod reader;
pub mod session;
pub mod topics;
mod write;

/// Protocol version, in the order of appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// MQTT 3.1 (`MQIsdp`), treated as 3.1.1 but for the empty client id.
    V31,
    /// MQTT 3.1.1.
    V311,
    /// MQTT 5.
    V5,
}

/// Reason codes that this server uses or checks (MQTT 5, 2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum Reason {
    Success = 0x00,
    NoSubscriptionExisted = 0x11,
    MalformedPacket = 0x81,
    ProtocolError = 0x82,
    ImplementationSpecific = 0x83,
    UnsupportedVersion = 0x84,
    ClientIdNotValid = 0x85,
    BadUserNameOrPassword = 0x86,
    NotAuthorized = 0x87,
    ServerUnavailable = 0x88,
    ServerBusy = 0x89,
    ServerShuttingDown = 0x8B,
    BadAuthenticationMethod = 0x8C,
    KeepAliveTimeout = 0x8D,
    SessionTakenOver = 0x8E,
    TopicFilterInvalid = 0x8F,
    TopicNameInvalid = 0x90,
    PacketIdNotFound = 0x92,
    ReceiveMaximumExceeded = 0x93,
    TopicAliasInvalid = 0x94,
    PacketTooLarge = 0x95,
    QuotaExceeded = 0x97,
    AdministrativeAction = 0x98,
    QosNotSupported = 0x9B,
    UseAnotherServer = 0x9C,
}

/// What a client did that ends its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Violation {
    /// For MQTT 5 clients.
    pub reason: Reason,
    /// For the log.
    pub what: &'static str,
}

impl Violation {
    pub(crate) const fn new(reason: Reason, what: &'static str) -> Self {
        Violation { reason, what }
    }

    pub(crate) const fn malformed(what: &'static str) -> Self {
        Violation::new(Reason::MalformedPacket, what)
    }

    /// Something that the standard forbids.
    pub const fn protocol(what: &'static str) -> Self {
        Violation::new(Reason::ProtocolError, what)
    }
}
