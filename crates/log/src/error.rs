//! Why a segment or a log cannot be used.

use crate::segment::{SegmentId, VERSION};

/// What is wrong with the head of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// Its bytes are not what was written, or not all of them are there.
    #[error("its header is damaged")]
    Damaged,
    /// A later version of this software wrote it.
    #[error(
        "it is of version {version} with features {features:#x}, and this software reads \
         version {VERSION}: use the newer software, or another folder"
    )]
    Newer {
        /// Its version.
        version: u16,
        /// Its feature bits.
        features: u16,
    },
    /// It is sealed, and no key is configured.
    #[error("it is encrypted and no key is configured")]
    NoKey,
    /// It is sealed with none of the keys.
    #[error("it is encrypted with another key than the configured ones")]
    WrongKey,
}

/// Why a log must not be used. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A segment that this process must not touch.
    #[error("{segment} cannot be used")]
    Unusable {
        /// Which one.
        segment: SegmentId,
        /// Why.
        source: Defect,
    },
    /// Segments of two logs in one folder.
    #[error("{segment} belongs to another log: {found}, not {expected}")]
    Foreign {
        /// Which one.
        segment: SegmentId,
        /// Whose it is: node and incarnation.
        found: String,
        /// Whose the others are.
        expected: String,
    },
}
