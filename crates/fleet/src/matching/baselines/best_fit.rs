//! Each provider in turn serves the request that is nearest in size to what it has left.
//! Source: papers/janus.txt, §VII-A, "Best Fit".
//! Inputs: wanted bytes/s[node][class], spare bytes/s[node], candidate peers. Outputs: redirections in
//! bytes/s. O(p log p + r c g) for g grants of a provider.
//! Deviations: candidates only; of equally near requests the one of the lower place
//! (docs/algorithms-fleet.md#rivals).
//! Limits: NODES_MAX, CANDIDATES_MAX, CLASSES_MAX.

use super::pmrfs::{Reachable, providers, redirection};
use crate::matching::Matching;
use crate::{MatchingProblem, Redirection};

/// How the fleet asks for it.
pub(crate) const ENTRY: Matching = |problem, _| best_fit(problem);

fn best_fit(problem: &MatchingProblem<'_>) -> Vec<Redirection> {
    let requests: Vec<usize> = problem.requests().collect();
    let reachable = Reachable::new(problem, &requests);
    let mut wanted = problem.wanted().to_vec();
    let mut redirections = Vec::new();
    for provider in providers(problem) {
        let mut free = problem.spare()[provider];
        while !free.is_zero() {
            let open = reachable.of(provider).iter().map(|&request| request as usize);
            let open = open.filter(|&request| !wanted[request].is_zero());
            let nearest = open.min_by_key(|&request| wanted[request].0.abs_diff(free.0));
            let Some(request) = nearest else { break };
            let amount = free.min(wanted[request]);
            redirections.push(redirection(problem, request, provider, amount));
            wanted[request] -= amount;
            free -= amount;
        }
    }
    redirections
}
