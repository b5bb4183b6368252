//! The runtime of Tidegate: inputs, outputs and the loop that joins them to core.

pub mod drive;
pub mod port;
