//! Why a connection to a broker ends, and what would help.

use std::io;

use tidegate_types::record::RefuseReason;

use crate::mqtt::Violation;
use crate::support::tls;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// Nobody answers there, or the connection broke.
    #[error("{0}: is the broker running, and is its address right?")]
    Io(io::Error),
    #[error("no TLS: {0}")]
    Untrusted(String),
    #[error("the broker closed the connection")]
    Closed,
    #[error("the broker did not answer the login in time")]
    NoLogin,
    #[error("the broker is silent")]
    Silent,
    #[error("it knows no MQTT 5: trying 3.1.1")]
    TooNew,
    #[error("the broker refuses the login (code {code}) {words}{}", cure(*code))]
    Refused { code: u8, words: Box<str> },
    #[error(
        "the broker does not grant {topic:?} (code {code:#04x}): allow it in the broker's access \
         list, or take it out of topics"
    )]
    NotGranted { topic: Box<str>, code: u8 },
    #[error("the broker ended the connection (code {code:#04x}){}", cure(*code))]
    Farewell { code: u8 },
    #[error(
        "the node refuses ({}): the broker keeps what is not acknowledged and sends it again",
        .0.name()
    )]
    Refusing(RefuseReason),
    #[error("the broker breaks the protocol: {0}")]
    Violation(#[from] Violation),
    /// The node is gone.
    #[error("the node is stopping")]
    Stopping,
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        match tls::explain(&error) {
            Some(words) => Trouble::Untrusted(words),
            None => Trouble::Io(error),
        }
    }
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
