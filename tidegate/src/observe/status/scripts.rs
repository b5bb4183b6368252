//! Scripts in the status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::script::Verdict;
use crate::script::board::ScriptStatus;

/// One script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptView {
    /// What streams call it by.
    pub name: String,
    /// Whether it runs; false after it failed too often.
    pub is_on: bool,
    /// Calls.
    pub runs: u64,
    /// Time of all calls.
    pub run_seconds: f64,
    /// Calls that failed, whose verdicts count for nothing.
    pub failed_runs: u64,
    /// Calls that were left out while it was off.
    pub unadapted_runs: u64,
    /// Verdicts by the name of their function; those that were never given are left out.
    pub verdicts: BTreeMap<String, u64>,
    /// Requests that no endpoint answered.
    pub unanswered_requests: u64,
}

impl From<&ScriptStatus> for ScriptView {
    fn from(script: &ScriptStatus) -> Self {
        let counts = &script.counts;
        let verdicts = Verdict::ALL.iter().zip(counts.verdicts).filter(|(_, count)| *count > 0);
        ScriptView {
            name: script.name.to_string(),
            is_on: script.is_on,
            runs: counts.runs,
            run_seconds: counts.time.as_secs_f64(),
            failed_runs: counts.too_long + counts.too_large + counts.wrong,
            unadapted_runs: counts.unadapted,
            verdicts: verdicts.map(|(verdict, count)| (verdict.name().into(), count)).collect(),
            unanswered_requests: script.unanswered,
        }
    }
}
