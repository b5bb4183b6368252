//! Matching shortage with spare bandwidth, by name. Each matching is a file of its own.
//!
//! No matching grants more than a provider has or a request wants, and each looks at candidate peers only.

mod graph;

use super::{MatchingProblem, Redirection};

/// Who carries what for whom. The number is a seed, for a matching that leaves something to chance.
type Matching = fn(&MatchingProblem<'_>, u64) -> Vec<Redirection>;

tidegate_types::algorithms! {
    /// The matchings, by name; those of the paper first. A new one is a file in `matching/baselines/`, and a line here.
    pub enum MatchingName: "matching" -> Matching {
        mod baselines {
            Pmrfs = "pmrfs" in pmrfs: "Algorithm 3 as printed: each provider serves the most urgent and largest request.",
            PmrfsText = "pmrfs-text" in pmrfs_text: "The text beside it: each request asks the provider with the most left.",
            Fcfs = "fcfs" in fcfs: "First come, first served.",
            Lrfs = "lrfs" in lrfs: "The smallest request first.",
            BestFit = "best-fit" in best_fit: "Each provider serves the request nearest in size to what it has.",
            Random = "random" in random: "Requests in any order.",
        }
        mod {
            #[default]
            Augment = "augment" in augment: "The optimal volume in every class, with few redirections.",
            Flow = "flow" in flow: "The same volume at the least distance, by a min-cost flow.",
        }
    }
}

impl MatchingName {
    /// Who carries what for whom. `augment` alone looks at what the problem holds already, and may move it; the others
    /// begin anew.
    pub fn solve(self, problem: &MatchingProblem<'_>, seed: u64) -> Vec<Redirection> {
        self.entry()(problem, seed)
    }
}
