//! Operators: what a topic's records go through on their way to subscribers (publish-process-subscribe).
//!
//! Read in this order: [`Item`] is a record under way, its payload or the [`Row`] that was read from it; a
//! [`Step`] makes a [`Run`] for each key, which takes one item and gives none, one or several; a [`Chain`] is
//! steps one after another; `memory` is what they remember, as bytes. Which of many waiting records is worked on next, and that a key keeps its
//! order, is decided by a [`Pool`]. Nothing here waits, reads a clock or has a thread.

#![forbid(unsafe_code)]

mod anonymise;
mod average;
mod bloom;
mod by;
mod chain;
mod csv;
mod format;
mod interpolate;
mod join;
mod json;
mod kalman;
mod linear;
pub mod memory;
pub mod pool;
mod range;
mod regression;
mod senml;
mod target;
mod tree;
mod value;
mod window;

pub use self::anonymise::Anonymise;
pub use self::average::{BlockAverage, ErrorEstimate};
pub use self::bloom::{Bloom, Filter as BloomFilter, Repeats};
pub use self::by::KEYS_MAX;
pub use self::chain::{Chain, Run, Step, Work};
pub use self::csv::{CsvFormat, Table};
pub use self::format::{Format, Parse, Write};
pub use self::interpolate::Interpolate;
pub use self::join::{Annotate, Join};
pub use self::json::{read as read_json, write as write_json};
pub use self::kalman::Kalman;
pub use self::linear::Linear;
pub use self::memory::{MemoryError, Saver};
pub use self::pool::{Discipline, LaneId, OperatorId, Pool, Task};
pub use self::range::Range;
pub use self::regression::Regression;
pub use self::target::{Key, TargetError, Template};
pub use self::tree::{Tree, TreeError};
pub use self::value::{Content, Fault, Item, Row, Value};
pub use self::window::{Aggregate, Extent, Window};

/// Rows that one record may become, at any step.
pub const ROWS_MAX: usize = 10_000;

#[cfg(test)]
mod tests;
