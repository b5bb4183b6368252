//! Case studies of adaptation scripts in virtual time: the product's engine with its scripts, over core's queues.

pub(crate) mod hls;
mod stage;
pub(crate) mod yahoo;
