//! Metrics of scripts: only of a node that has some.

use super::Metric;
use super::text::Text;
use crate::script::Verdict;
use crate::script::board::ScriptStatus;

pub(super) const ON: Metric = Metric::gauge(
    "tidegate_script_on",
    "1 while the script runs, 0 after it failed so often that it was switched off.",
);
pub(super) const RUNS: Metric = Metric::counter(
    "tidegate_script_runs_total",
    "Counts a call of the script: a record that came, a timer, a change that it watches. One call may serve all records that came since the last.",
);
pub(super) const SUSPENDED: Metric = Metric::counter(
    "tidegate_script_suspended_turns_total",
    "Counts a turn of a call that took its whole time: the call goes on at its next turn.",
);
pub(super) const TIME: Metric =
    Metric::counter("tidegate_script_run_seconds_total", "Grows by the time of each call.");
pub(super) const FAILED: Metric = Metric::counter(
    "tidegate_script_failed_runs_total",
    "Counts a call that changed nothing because it failed: time, memory, or error.",
);
pub(super) const UNADAPTED: Metric = Metric::counter(
    "tidegate_script_unadapted_runs_total",
    "Counts a call that was left out because the script is switched off.",
);
pub(super) const VERDICTS: Metric = Metric::counter(
    "tidegate_script_verdicts_total",
    "Counts a verdict of a call that did not fail, by its function.",
);
pub(super) const REQUESTS: Metric = Metric::counter(
    "tidegate_script_requests_total",
    "Counts a request of transform or notify when its endpoint has answered or will not.",
);

/// Adds all of them.
pub(super) fn encode(scripts: &[ScriptStatus], text: &mut Text) {
    if scripts.is_empty() {
        return;
    }
    type Read = fn(&ScriptStatus) -> f64;
    let plain: [(Metric, Read); 5] = [
        (ON, |script| f64::from(u8::from(script.is_on))),
        (RUNS, |script| script.counts.runs as f64),
        (SUSPENDED, |script| script.counts.suspended as f64),
        (TIME, |script| script.counts.time.as_secs_f64()),
        (UNADAPTED, |script| script.counts.unadapted as f64),
    ];
    for (metric, read) in plain {
        text.head(metric);
        for script in scripts {
            text.sample(metric.name, &[("script", &script.name)], read(script));
        }
    }
    text.head(FAILED);
    for script in scripts {
        let counts = &script.counts;
        let all =
            [("time", counts.too_long), ("memory", counts.too_large), ("error", counts.wrong)];
        for (reason, count) in all {
            let labels = [("script", &*script.name), ("reason", reason)];
            text.sample(FAILED.name, &labels, count as f64);
        }
    }
    text.head(VERDICTS);
    for script in scripts {
        for (verdict, count) in Verdict::ALL.iter().zip(script.counts.verdicts) {
            let labels = [("script", &*script.name), ("verdict", verdict.name())];
            text.sample(VERDICTS.name, &labels, count as f64);
        }
    }
    text.head(REQUESTS);
    for script in scripts {
        for (result, count) in [("answered", script.answered), ("unanswered", script.unanswered)] {
            let labels = [("script", &*script.name), ("result", result)];
            text.sample(REQUESTS.name, &labels, count as f64);
        }
    }
}
