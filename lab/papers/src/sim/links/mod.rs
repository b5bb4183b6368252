//! FD-MVQS: its figures as tables, and its scheduler and predictor beside all others; small
//! records over recorded carriers.

mod ablation;
mod carriers;
mod claims;
mod paper;
mod recorded;

pub use self::ablation::run as ablation;
pub use self::carriers::run as carriers;
pub use self::paper::run as paper;
pub(crate) use tidegate_lab_engine::sim::links::{load, scene, statistics, way, world};
