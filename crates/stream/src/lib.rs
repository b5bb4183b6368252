//! Operators: what a topic's records go through on their way to subscribers (publish-process-subscribe).
//!
//! Read in this order: [`Item`] is a record under way, its payload or the [`Row`] that was read from it; a
//! [`OperatorStep`] makes a [`StepInstance`] for each key, which takes one item and gives none, one or several; a [`Chain`] is
//! steps one after another; `memory` is what they remember, as bytes. Which of many waiting records is worked on next, and that a key keeps its
//! order, is decided by a [`Pool`]. Nothing here waits, reads a clock or has a thread.

#![forbid(unsafe_code)]

mod anonymise;
mod average;
mod bloom;
mod chain;
mod csv;
mod format;
mod interpolate;
mod join;
mod json;
mod kalman;
mod keyed;
mod linear;
pub mod memory;
pub mod pool;
mod range;
mod regression;
mod senml;
mod template;
mod tree;
mod value;
mod window;

pub use self::anonymise::Anonymise;
pub use self::average::{BlockAverage, ErrorEstimate};
pub use self::bloom::{Bloom, BloomFilter, Deduplicate};
pub use self::chain::{Chain, ChainInstance, OperatorStep, StepInstance};
pub use self::csv::{CsvFormat, Table};
pub use self::format::{Format, ParseRows, WriteRows};
pub use self::interpolate::Interpolate;
pub use self::join::{Annotate, Join};
pub use self::json::{read as read_json, write as write_json};
pub use self::kalman::Kalman;
pub use self::keyed::KEYS_MAX;
pub use self::linear::Linear;
pub use self::memory::{Loader, MemoryError, Saver};
pub use self::pool::{LaneId, OperatorId, Pool, PoolOrder, Task};
pub use self::range::RangeFilter;
pub use self::regression::Regression;
pub use self::template::{PartitionKey, TargetError, Template};
pub use self::tree::{DecisionTree, TreeError};
pub use self::value::{Item, ItemContent, Row, StepError, Value};
pub use self::window::{Aggregate, Window, WindowLength};

/// Rows that one record may become, at any step.
pub const ROWS_MAX: usize = 10_000;

#[cfg(test)]
mod tests;
