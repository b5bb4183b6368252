//! The runtime of Tidegate: inputs, outputs and the loop that joins them to core.

pub mod input;
pub mod port;
