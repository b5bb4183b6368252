//! The words that all rooms share: what a record is, how urgent it is, and quantities with their units.
//!
//! Nothing is decided here. A type stands here when two rooms that do not know each other both speak of it.
//!
//! | file | what |
//! |---|---|
//! | `units.rs` | `Time`, `Size`, `Rate`, `Ratio`: newtypes that panic on underflow |
//! | `amount.rs` | whole bytes/s, which are shared out among nodes |
//! | `class.rs` | latency bounds with a name, most urgent first |
//! | `record.rs` | a record, its identity, its body, its fate |
//! | `ids.rs` | outputs, uplinks, rules, queues and local subscribers of a node |
//! | `headers.rs` | what travels beside a record, under the same names in every protocol |
//! | `hidden.rs` | passwords and tokens, which are never printed |
//! | `topic.rs` | MQTT topic filters |
//! | `limits.rs` | every bound that is not a matter of taste |
//! | `shares.rs` | how much one owner may have of something bounded: more while more is free |
//! | `account.rs` | one account of the memory that others can make us hold |
//! | `ranges.rs`, `accepted.rs` | sets of numbers; the records of other nodes that were accepted |
//! | `demand.rs` | what a node measures of itself for its fleet |
//! | `codec.rs`, `crc.rs` | values as bytes; a checksum |
//! | `names.rs` | enums whose variants have names |
//! | `random.rs` | numbers from a seed |
//!
//! ```
//! use std::time::Duration;
//!
//! use tidegate_types::class::default_classes;
//! use tidegate_types::units::{Rate, Size, Time};
//!
//! let alarms = default_classes()[0].latency;
//! let arrival = Time::from_millis(1000);
//! let deadline = arrival + alarms;
//! assert_eq!(deadline, Time::from_millis(1050));
//! assert_eq!(Rate::new(250_000.0).in_span(Duration::from_millis(8)), Size(2000));
//! ```

#![forbid(unsafe_code)]

pub mod accepted;
pub mod account;
pub mod amount;
pub mod class;
pub mod codec;
pub mod crc;
pub mod demand;
pub mod headers;
pub mod hidden;
pub mod ids;
pub mod limits;
pub mod names;
pub mod random;
pub mod ranges;
pub mod record;
pub mod shares;
pub mod topic;
pub mod units;
