//! FD-MVQS: its figures as tables, and its scheduler and predictor beside all others.

mod ablation;
mod paper;

pub use self::ablation::run as ablation;
pub use self::paper::run as paper;
pub(crate) use tidegate_lab_engine::sim::links::{load, scene, statistics};
