//! Why a broker or a client cannot go on with a connection, and what would help.

use tidegate_types::record::RefuseReason;

use crate::Violation;

/// Why a connection to a broker ends.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The next connection speaks 3.1.1.
    #[error("it knows no MQTT 5: trying 3.1.1")]
    TooNew,
    /// It does not let us in.
    #[error("the broker refuses the login (code {code}) {words}{}", cure(*code))]
    Refused {
        /// Return code of 3.1.1 or reason code of MQTT 5.
        code: u8,
        /// Why, in the broker's words.
        words: Box<str>,
    },
    /// It does not let us subscribe.
    #[error(
        "the broker does not grant {topic:?} (code {code:#04x}): allow it in the broker's access \
         list, or take it out of topics"
    )]
    NotGranted {
        /// The filter.
        topic: Box<str>,
        /// Its reason code.
        code: u8,
    },
    /// It said goodbye.
    #[error("the broker ended the connection (code {code:#04x}){}", cure(*code))]
    Farewell {
        /// Its reason code.
        code: u8,
    },
    /// The node has no room for a record.
    #[error(
        "the node refuses ({}): the broker keeps what is not acknowledged and sends it again",
        .0.name()
    )]
    Refusing(RefuseReason),
    /// It sent what it must not.
    #[error("the broker breaks the protocol: {0}")]
    Violation(#[from] Violation),
}

/// What would help, as a continued sentence: return codes of 3.1.1, reason codes of MQTT 5.
fn cure(code: u8) -> &'static str {
    match code {
        1 | 0x84 => ": choose another version",
        2 | 0x85 => ": choose another client_id",
        4 | 5 | 0x86 | 0x87 => ": check user and password, and the broker's access list",
        0x8E => ": another client has the same client_id: choose another one",
        0x95 => ": raise limits.record_max",
        _ => "",
    }
}
