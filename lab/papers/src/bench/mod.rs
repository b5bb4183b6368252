//! Experiments of papers with real processes.

pub mod adapt;
pub mod frames;
pub mod model;
pub mod orchestrator;
pub mod placelive;
pub mod rungs;
pub mod sensitivity;
mod topics;

pub(crate) use tidegate_lab_engine::median;
