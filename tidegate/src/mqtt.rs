//! MQTT on the wire: strict reading of what clients send, writing of what a server answers.
//!
//! Reading borrows from the read buffer and allocates nothing. Every refusal carries the reason code
//! that MQTT 5 wants for it and says what was wrong; versions before 5 just close. What only a client
//! needs is in `client`.

pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod control;
pub(crate) mod deliver;
pub(crate) mod frame;
pub(crate) mod property;
pub(crate) mod publish;
pub(crate) mod reader;
pub(crate) mod write;

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

    pub(crate) const fn protocol(what: &'static str) -> Self {
        Violation::new(Reason::ProtocolError, what)
    }
}
