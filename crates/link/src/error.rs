//! What can be wrong with bytes of a peer.

use thiserror::Error;
use tidegate_types::codec::Malformed;

/// What is wrong with bytes from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WireError {
    /// Another version wrote them.
    #[error("version {0} of the link is not known here")]
    Version(u8),
    /// They use features that this version does not know.
    #[error("features {0:#04x} of the link are not known here")]
    Feature(u8),
    /// They are nothing that a link writes.
    #[error("the other end is no link: {0}")]
    Malformed(#[from] Malformed),
}
