//! Serves requests one by one, the most urgent and largest first, each from the provider with most left.
//! Source: papers/janus.txt, §V-B.2, the text beside Alg. 3.
//! Inputs: wanted bytes/s[node][class], spare bytes/s[node], candidate peers. Outputs: redirections in
//! bytes/s. O(r log r + r c g) for r requests, c candidates of each and g grants for each.
//! Deviations: candidates only (docs/algorithms-fleet.md#pmrfs).
//! Limits: NODES_MAX, CANDIDATES_MAX, CLASSES_MAX.

use super::pmrfs::{by_urgency, redirection};
use crate::matching::Matching;
use crate::{MatchingProblem, Redirection};

/// How the fleet asks for it.
pub(crate) const ENTRY: Matching = |problem, _| pmrfs_text(problem);

fn pmrfs_text(problem: &MatchingProblem<'_>) -> Vec<Redirection> {
    let mut spare = problem.spare().to_vec();
    let mut redirections = Vec::new();
    for request in by_urgency(problem) {
        let mut wanted = problem.wanted()[request];
        let peers = problem.candidates().peers(problem.node_of(request));
        while !wanted.is_zero() {
            // Of equals the first, as after a stable sort.
            let places = peers.iter().rev().map(|peer| peer.place as usize);
            let largest = places.max_by_key(|&place| spare[place]);
            let Some(provider) = largest.filter(|&place| !spare[place].is_zero()) else { break };
            let amount = wanted.min(spare[provider]);
            redirections.push(redirection(problem, request, provider, amount));
            wanted -= amount;
            spare[provider] -= amount;
        }
    }
    redirections
}
