//! Serves requests provider by provider: the one that was made first.
//! Source: papers/janus.txt, §VII-A, "First Come First Served".
//! Inputs: wanted bytes/s[node][class] with the order in which they were made, spare bytes/s[node],
//! candidate peers. Outputs: redirections in bytes/s. O(r log r + p log p + r c).
//! Deviations: the loop over providers is that of Alg. 3 (docs/algorithms-fleet.md#rivals).
//! Limits: NODES_MAX, CANDIDATES_MAX, CLASSES_MAX.

use super::pmrfs::provider_first;
use crate::matching::Matching;
use crate::{MatchingProblem, Redirection};

/// How the fleet asks for it.
pub(crate) const ENTRY: Matching = |problem, _| fcfs(problem);

fn fcfs(problem: &MatchingProblem<'_>) -> Vec<Redirection> {
    let mut requests: Vec<usize> = problem.requests().collect();
    requests.sort_unstable_by_key(|&request| (problem.asked_at(request), request));
    provider_first(problem, &requests)
}
