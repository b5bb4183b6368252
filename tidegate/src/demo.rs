//! `tidegate demo`.

pub mod load;
pub mod meter;
pub mod relay;
