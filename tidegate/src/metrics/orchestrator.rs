//! Metrics of an orchestrator: of a process of its own.

use std::time::Duration;

use tidegate_fleet::{EndReason, GrantTotals, MatchingRound};

use super::Metric;
use super::text::{NONE, Text};

pub(super) const LEADS: Metric =
    Metric::gauge("tidegate_orchestrator_leading", "1 while this orchestrator leads, else 0.");
pub(super) const NODES: Metric =
    Metric::gauge("tidegate_orchestrator_nodes", "Nodes that this leader hears.");
pub(super) const GRANTS: Metric =
    Metric::gauge("tidegate_orchestrator_grants", "Grants that are in force now.");
pub(super) const WANTED: Metric = Metric::gauge(
    "tidegate_orchestrator_wanted_bytes_per_second",
    "What all nodes together were short of at the last decision.",
);
pub(super) const GRANTED: Metric = Metric::gauge(
    "tidegate_orchestrator_granted_bytes_per_second",
    "What all grants together amount to.",
);
pub(super) const APART: Metric = Metric::gauge(
    "tidegate_orchestrator_apart_pairs",
    "Pairs of nodes that are left alone for a while, for redirection did not help them.",
);
pub(super) const DECISIONS: Metric =
    Metric::counter("tidegate_orchestrator_decisions_total", "Counts each decision.");
pub(super) const DECIDING: Metric = Metric::counter(
    "tidegate_orchestrator_decision_seconds_total",
    "Grows by the time that each decision took.",
);
pub(super) const BEATS: Metric = Metric::counter(
    "tidegate_orchestrator_beats_total",
    "Counts a node's heartbeat when it is newer than what is known.",
);
pub(super) const FALSE_CLAIMS: Metric = Metric::counter(
    "tidegate_orchestrator_false_claims_total",
    "Counts a heartbeat that claims more than uplink_max, which is not believed.",
);
pub(super) const DIRECTIVES: Metric = Metric::counter(
    "tidegate_orchestrator_directives_total",
    "Counts a directive when a decision makes it: what has changed, and what is renewed.",
);
pub(super) const GIVEN: Metric = Metric::counter(
    "tidegate_orchestrator_given_grants_total",
    "Counts a grant when it is new: a provider, a receiver and a class.",
);
pub(super) const ENDED: Metric = Metric::counter(
    "tidegate_orchestrator_ended_grants_total",
    "Counts a grant when it is over, by reason: unwanted, given-up (by its provider), silent, no-help.",
);

/// What an orchestrator shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct OrchestratorFigures {
    /// Whether it leads.
    pub leads: bool,
    /// Nodes that it hears.
    pub nodes: usize,
    /// The last decision.
    pub round: MatchingRound,
    /// All decisions.
    pub totals: GrantTotals,
    /// How long they took together.
    pub deciding: Duration,
    /// Pairs that are left alone.
    pub apart: usize,
}

/// The metrics of an orchestrator as text for Prometheus.
pub fn encode(figures: &OrchestratorFigures) -> String {
    let OrchestratorFigures { leads, nodes, round, totals, deciding, apart } = figures;
    let mut text = Text::default();
    for (metric, value) in [
        (LEADS, f64::from(u8::from(*leads))),
        (NODES, *nodes as f64),
        (GRANTS, round.grants as f64),
        (WANTED, round.wanted.0 as f64),
        (GRANTED, round.granted.0 as f64),
        (APART, *apart as f64),
        (DECISIONS, totals.decisions as f64),
        (DECIDING, deciding.as_secs_f64()),
        (BEATS, totals.beats as f64),
        (FALSE_CLAIMS, totals.false_claims as f64),
        (DIRECTIVES, totals.directives as f64),
        (GIVEN, totals.given as f64),
    ] {
        text.family(metric, [(NONE, value)]);
    }
    text.head(ENDED);
    for reason in EndReason::ALL {
        let count = totals.ended[reason.index()] as f64;
        text.sample(ENDED.name, &[("reason", reason.name())], count);
    }
    text.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_is_counted() {
        let totals = GrantTotals { given: 7, ended: [1, 2, 3, 4], ..GrantTotals::default() };
        let figures = OrchestratorFigures { leads: true, nodes: 3, totals, ..Default::default() };
        let text = encode(&figures);
        for line in [
            "tidegate_orchestrator_leading 1",
            "tidegate_orchestrator_nodes 3",
            "tidegate_orchestrator_given_grants_total 7",
            "tidegate_orchestrator_ended_grants_total{reason=\"no-help\"} 4",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
    }
}
