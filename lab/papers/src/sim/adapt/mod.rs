//! Case studies of adaptation scripts in virtual time: the product's engine with its scripts, over core's queues.

pub mod depth;
pub mod hls;
mod stage;
pub mod yahoo;
