//! Why a connection to a broker ends.

use std::io;

use tidegate_mqtt::client_session::ClientError;

use crate::support::tls;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// Nobody answers there, or the connection broke.
    #[error("{0}: is the broker running, and is its address right?")]
    Io(io::Error),
    #[error("no TLS: {0}")]
    Untrusted(String),
    /// There is none to log in with.
    #[error("{0}")]
    NoPassword(String),
    #[error("the broker closed the connection")]
    Closed,
    #[error("the broker did not answer the login in time")]
    NoLogin,
    #[error("the broker is silent")]
    Silent,
    #[error(transparent)]
    Session(#[from] ClientError),
    /// The password will end soon.
    #[error("there is a newer password")]
    Renewing,
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
