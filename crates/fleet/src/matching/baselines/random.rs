//! Serves requests provider by provider, in any order.
//! Source: papers/janus.txt, §VII-A, "Random".
//! Inputs: wanted bytes/s[node][class], spare bytes/s[node], candidate peers, a seed. Outputs:
//! redirections in bytes/s. O(p log p + r c).
//! Deviations: the loop over providers is that of Alg. 3; the order is drawn once, not once a provider
//! (docs/algorithms-fleet.md#rivals).
//! Limits: NODES_MAX, CANDIDATES_MAX, CLASSES_MAX.

use tidegate_types::random::SplitMix;

use super::pmrfs::provider_first;
use crate::matching::Matching;

/// How the fleet asks for it.
pub(crate) const ENTRY: Matching = |problem, seed| {
    let mut requests: Vec<usize> = problem.requests().collect();
    let mut random = SplitMix(seed);
    // Fisher and Yates: from the last place down, each swaps with one that is not above it.
    for place in (1..requests.len()).rev() {
        requests.swap(place, random.below(place + 1));
    }
    provider_first(problem, &requests)
};
