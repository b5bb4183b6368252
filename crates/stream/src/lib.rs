//! Runs a topic's records through operators on their way to subscribers (publish-process-subscribe).
//!
//! An *item* is a record under way: its payload, or the [`Row`] that was read from it. An [`OperatorStep`] is configured
//! once and starts a [`StepInstance`] for each key, which takes one item and gives none, one or several. A [`Chain`] is
//! steps one after another. *Memory* is the state of a key as bytes, which moves with its topic. A [`Pool`] chooses which
//! waiting record is worked on next, and keeps the order of each key in a *lane*. Nothing here waits, reads a clock or has a
//! thread.
//!
//! | file | what |
//! |---|---|
//! | `value.rs` | items, rows and fields, and why a step fails |
//! | `chain.rs`, `keyed.rs` | the `OperatorStep` trait and chains; what a step remembers for each value of a field |
//! | `pool.rs` | which waiting record is worked on next |
//! | `memory.rs` | the state of operators, as bytes |
//! | `format.rs`, `json.rs`, `csv.rs`, `senml.rs` | rows in payloads |
//! | `template.rs` | topics of results and partition keys, made from the topic of a record |
//! | `range.rs`, `bloom.rs`, `anonymise.rs`, `join.rs` | filters, sets, less about people, tables |
//! | `average.rs`, `window.rs`, `interpolate.rs`, `kalman.rs`, `regression.rs` | statistics of fields |
//! | `linear.rs`, `tree.rs` | models that were trained elsewhere |
//!
//! ```
//! use std::sync::Arc;
//!
//! use tidegate_stream::{Chain, Format, Item, ItemContent, ParseRows, RangeFilter};
//! use tidegate_types::units::Time;
//!
//! let hot = RangeFilter { field: "celsius".into(), min: 60.0, max: f64::MAX };
//! let chain = Chain::new(vec![Arc::new(ParseRows(Format::Json)), Arc::new(hot)]);
//! let mut work = chain.start();
//! let mut out = Vec::new();
//! for payload in ["{\"celsius\": 20}", "{\"celsius\": 90}"] {
//!     let content = ItemContent::Payload(payload.into());
//!     out.extend(work.run(Item { at: Time::ZERO, content }, |error| panic!("{error:?}")));
//! }
//! assert_eq!(out.len(), 1);
//! ```

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
pub use self::memory::{MemoryError, Saver};
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
