//! What a node reports.

use tidegate_log::SegmentId;

use super::Destination;
use crate::options::OptionsError;

/// What people and metrics should know. State changes only, never one per record.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A destination came up or went down.
    Destination {
        /// Which one.
        destination: Destination,
        /// Its state from now on.
        up: bool,
    },
    /// The log fails (true) or works again (false): durable records are refused while it fails.
    LogFailing(bool),
    /// The log was to have records that it has not: so many deliveries were dropped (`storage`).
    LogLacks {
        /// In which segment they stood.
        segment: SegmentId,
        /// How many they are.
        deliveries: u64,
    },
    /// A stream reached its bound (true) or has room again (false).
    Full {
        /// The rule's place in the list.
        rule: usize,
        /// Its state from now on.
        full: bool,
    },
    /// New rules are in force: so many records that waited belong to another stream or queue now.
    NewRules {
        /// Records in memory.
        moved: u64,
    },
    /// New rules are not in force, and why.
    RulesRefused(OptionsError),
    /// An input that this version refuses; the driver should not have sent it.
    Unsupported(&'static str),
    /// After `Control::Stop`: nothing is held any more.
    Drained,
    /// So many reports were lost because the driver did not poll.
    Overflow(u64),
}
