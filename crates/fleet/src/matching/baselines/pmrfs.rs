//! Serves requests provider by provider: the most urgent and largest one first.
//! Source: papers/janus.txt, §V-B.2, Alg. 3 (PMRFS).
//! Inputs: wanted bytes/s[node][class], spare bytes/s[node], candidate peers. Outputs: redirections in
//! bytes/s. O(r log r + p log p + r c) for r requests, p providers and c candidates of each.
//! Deviations: candidates only; what is nothing is skipped; a provider that is empty or a request that is
//! served leaves the loop instead of the set that the loop walks (docs/algorithms-fleet.md#pmrfs).
//! Limits: NODES_MAX, CANDIDATES_MAX, CLASSES_MAX.

use std::cmp::Reverse;

use crate::matching::Matching;
use crate::{Amount, MatchingProblem, Redirection};

/// How the fleet asks for it.
pub(crate) const ENTRY: Matching = |problem, _| pmrfs(problem);

fn pmrfs(problem: &MatchingProblem<'_>) -> Vec<Redirection> {
    provider_first(problem, &by_urgency(problem))
}

/// `PriorityFirstSort`: requests by class, the largest of a class first.
pub(crate) fn by_urgency(problem: &MatchingProblem<'_>) -> Vec<usize> {
    let mut requests: Vec<usize> = problem.requests().collect();
    let rank =
        |&request: &usize| (problem.class_of(request), Reverse(problem.wanted()[request]), request);
    requests.sort_unstable_by_key(rank);
    requests
}

/// `Sort`: nodes with something to lend, the largest amount first.
pub(crate) fn providers(problem: &MatchingProblem<'_>) -> Vec<usize> {
    let spare = problem.spare();
    let mut providers: Vec<usize> =
        (0..problem.nodes()).filter(|&node| !spare[node].is_zero()).collect();
    providers.sort_unstable_by_key(|&provider| (Reverse(spare[provider]), provider));
    providers
}

/// For each node the requests that it could serve, in the order given: rows, one behind the other.
pub(crate) struct Reachable {
    starts: Vec<u32>,
    requests: Vec<u32>,
}

impl Reachable {
    pub(crate) fn new(problem: &MatchingProblem<'_>, order: &[usize]) -> Self {
        let candidates = problem.candidates();
        let peers = |&request: &usize| {
            let peers = candidates.peers(problem.node_of(request)).iter();
            let providers = peers.filter(|peer| !problem.spare()[peer.place as usize].is_zero());
            providers.map(move |peer| (peer.place as usize, request as u32))
        };
        let mut starts = vec![0; problem.nodes() + 1];
        order.iter().flat_map(peers).for_each(|(provider, _)| starts[provider + 1] += 1);
        for node in 0..problem.nodes() {
            starts[node + 1] += starts[node];
        }
        let mut ends = starts.clone();
        let mut requests = vec![0; starts[problem.nodes()] as usize];
        for (provider, request) in order.iter().flat_map(peers) {
            requests[ends[provider] as usize] = request;
            ends[provider] += 1;
        }
        Reachable { starts, requests }
    }

    pub(crate) fn of(&self, provider: usize) -> &[u32] {
        &self.requests[self.starts[provider] as usize..self.starts[provider + 1] as usize]
    }
}

/// The loop of Alg. 3 over requests in this order.
pub(crate) fn provider_first(problem: &MatchingProblem<'_>, order: &[usize]) -> Vec<Redirection> {
    let reachable = Reachable::new(problem, order);
    let mut wanted = problem.wanted().to_vec();
    let mut redirections = Vec::new();
    for provider in providers(problem) {
        let mut free = problem.spare()[provider];
        for &request in reachable.of(provider) {
            let wanted = &mut wanted[request as usize];
            let amount = free.min(*wanted);
            if amount.is_zero() {
                continue;
            }
            redirections.push(redirection(problem, request as usize, provider, amount));
            *wanted -= amount;
            free -= amount;
            if free.is_zero() {
                break;
            }
        }
    }
    redirections
}

pub(crate) fn redirection(
    problem: &MatchingProblem<'_>,
    request: usize,
    provider: usize,
    amount: Amount,
) -> Redirection {
    Redirection {
        receiver: problem.node_of(request) as u32,
        class: problem.class_of(request) as u8,
        provider: provider as u32,
        amount,
    }
}
