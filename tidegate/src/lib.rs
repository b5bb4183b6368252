//! The runtime of Tidegate: inputs, outputs and the loop that joins them to core.

pub mod assemble;
pub mod config;
pub mod drive;
pub mod http;
pub mod metrics;
pub mod port;
pub mod status;
