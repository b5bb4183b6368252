//! Matching shortage with spare bandwidth, by name. Each rule is a file of its own.
//!
//! No rule grants more than a provider has or a request wants, and each looks at candidate peers only.

mod augment;
mod baselines;
mod flow;
mod graph;

use super::{MatchingProblem, Redirection};

tidegate_types::named! {
    /// The matchings, by name; those of the paper first.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum MatchingName: "matching" {
        /// Algorithm 3 as printed: provider by provider, each serves the most urgent and largest request.
        Pmrfs = "pmrfs",
        /// The text beside it: request by request, each from the provider with the most left.
        PmrfsText = "pmrfs-text",
        /// First come, first served.
        Fcfs = "fcfs",
        /// The smallest request first.
        Lrfs = "lrfs",
        /// Each provider serves the request nearest in size to what it has.
        BestFit = "best-fit",
        /// Requests in any order.
        Random = "random",
        /// Ours: the optimal volume in every class, by augmenting paths, with few redirections.
        #[default]
        Augment = "augment",
        /// The same volume at the least distance, by a min-cost flow.
        Flow = "flow",
    }
}

impl MatchingName {
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
