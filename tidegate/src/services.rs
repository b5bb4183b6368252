//! What a node does beside carrying records from inputs to outputs.

pub mod cameras;
pub mod cluster;
pub mod fleet;
pub mod operators;
pub mod proxy;
pub mod standby;
