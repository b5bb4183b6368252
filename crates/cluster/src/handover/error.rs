//! Why bytes of another member are refused.

use tidegate_types::codec::Malformed;

/// The bytes are no frame of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberFrameError {
    /// Another version wrote them.
    #[error(
        "the other node speaks version {0} of groups and this one {VERSION}: update the older one"
    )]
    Version(u8),
    /// Another version wrote what it tells of its loads.
    #[error(
        "the other node tells its loads in version {0}, which is unknown here: update this one"
    )]
    Loads(u8),
    /// They are nothing that a member writes.
    #[error("the other end is no member of a group: {0}")]
    Malformed(#[from] Malformed),
}

/// The version of these frames.
pub const VERSION: u8 = 1;
