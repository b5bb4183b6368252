//! Matching shortage with spare bandwidth, by name. Each rule is a file of its own.
//!
//! No rule grants more than a provider has or a request wants, and each looks at candidate peers only.

mod augment;
mod baselines;
mod flow;
mod graph;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use super::{MatchingProblem, Redirection};

/// The matchings, by name; those of the paper first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatchingName {
    /// Algorithm 3 as printed: provider by provider, each serves the most urgent and largest request.
    Pmrfs,
    /// The text beside it: request by request, each from the provider with the most left.
    PmrfsText,
    /// First come, first served.
    Fcfs,
    /// The smallest request first.
    Lrfs,
    /// Each provider serves the request nearest in size to what it has.
    BestFit,
    /// Requests in any order.
    Random,
    /// Ours: the optimal volume in every class, by augmenting paths, with few redirections.
    #[default]
    Augment,
    /// The same volume at the least distance, by a min-cost flow.
    Flow,
}

impl MatchingName {
    /// Every matching.
    pub const ALL: [MatchingName; 8] = [
        MatchingName::Pmrfs,
        MatchingName::PmrfsText,
        MatchingName::Fcfs,
        MatchingName::Lrfs,
        MatchingName::BestFit,
        MatchingName::Random,
        MatchingName::Augment,
        MatchingName::Flow,
    ];

    /// As in configuration.
    pub fn name(self) -> &'static str {
        match self {
            MatchingName::Pmrfs => "pmrfs",
            MatchingName::PmrfsText => "pmrfs-text",
            MatchingName::Fcfs => "fcfs",
            MatchingName::Lrfs => "lrfs",
            MatchingName::BestFit => "best-fit",
            MatchingName::Random => "random",
            MatchingName::Augment => "augment",
            MatchingName::Flow => "flow",
        }
    }

    /// Who carries what for whom. `seed` decides where a rule leaves it to chance. What a problem holds
    /// already is known to `augment` alone, which may move it; the others begin anew.
    pub fn solve(self, problem: &MatchingProblem<'_>, seed: u64) -> Vec<Redirection> {
        match self {
            MatchingName::Pmrfs => baselines::pmrfs::pmrfs(problem),
            MatchingName::PmrfsText => baselines::pmrfs_text::pmrfs_text(problem),
            MatchingName::Fcfs => baselines::fcfs::fcfs(problem),
            MatchingName::Lrfs => baselines::lrfs::lrfs(problem),
            MatchingName::BestFit => baselines::best_fit::best_fit(problem),
            MatchingName::Random => baselines::random::random(problem, seed),
            MatchingName::Augment => augment::augment(problem),
            MatchingName::Flow => flow::flow(problem),
        }
    }
}

impl FromStr for MatchingName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = MatchingName::ALL.into_iter().find(|matching| matching.name() == text);
        found.ok_or_else(|| {
            let names = MatchingName::ALL.map(MatchingName::name).join(", ");
            format!("no matching is called {text:?}: there are {names}")
        })
    }
}
