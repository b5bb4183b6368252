//! What an orchestrator shows.

use std::time::Duration;

use tidegate_fleet::{GrantTotals, MatchingRound};

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
