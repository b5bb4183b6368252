//! The bounds that all parts of a link know.

/// Paths of one link.
pub const PATHS_MAX: usize = 16;
