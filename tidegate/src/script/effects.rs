//! What scripts leave behind beside verdicts: words, timers, watches.

use std::time::Duration;

use mlua::Function;
use tidegate_node::io::QueueId;
use tidegate_types::units::{Rate, Time};

use super::verdict::Verdict;

/// What a script tells endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptNotice {
    /// The place of its name among the configuration's notifications; `None`: it has none.
    pub name: Option<usize>,
    /// What is told.
    pub text: String,
}

/// What a call left beside verdicts.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) notices: Vec<ScriptNotice>,
    pub(super) lines: Vec<String>,
    /// Queues that are held to a rate, or no more.
    pub(super) rates: Vec<(QueueId, Option<Rate>)>,
    pub(super) verdicts: [u64; Verdict::ALL.len()],
}

/// A function that is called now and then.
#[derive(Debug)]
pub(super) struct Timer {
    pub(super) period: Duration,
    pub(super) function: Function,
    pub(super) next: Time,
}

/// A change that a script waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    State,
    Bandwidth,
    Latency,
}
