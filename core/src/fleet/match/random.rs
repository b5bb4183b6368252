//! Serves requests provider by provider, in any order.
//! Source: papers/janus.txt, §VII-A, "Random".
//! Inputs: wanted bytes/s[node][class], spare bytes/s[node], candidate peers, a seed. Outputs:
//! redirections in bytes/s. O(p log p + r c).
//! Deviations: the loop over providers is that of Alg. 3; the order is drawn once, not once a provider
//! (docs/algorithms-fleet.md#rivals).
//! Limits: NODES_MAX, CANDIDATES_MAX, CLASSES_MAX.

use super::pmrfs::provider_first;
use crate::fleet::{Problem, Redirection};

pub(super) fn random(problem: &Problem<'_>, seed: u64) -> Vec<Redirection> {
    let mut requests: Vec<usize> = problem.requests().collect();
    let mut state = seed;
    // Fisher and Yates: from the last place down, each swaps with one that is not above it.
    for place in (1..requests.len()).rev() {
        let other = next(&mut state) % (place as u64 + 1);
        requests.swap(place, other as usize);
    }
    provider_first(problem, &requests)
}

/// `SplitMix64`: a counter and three mixing steps.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs of SplitMix64 for the seed 1234567, as its authors print them.
        let mut state = 1_234_567;
        let found = [next(&mut state), next(&mut state)];
        assert_eq!(found, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }
}
