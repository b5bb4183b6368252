//! How much one owner may have of something that is bounded, so that some is always left for others: a bound that
//! follows what is free.
//!
//! Source: A. K. Choudhury, E. L. Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
//! Switches", IEEE/ACM Transactions on Networking 6(2), 1998, section II: T(t) = alpha (B - Q(t)).
//! Inputs: what the owner has, what all have, the bound. Output: the owner's limit. O(log owners) a change.
//! Deviations: the square of what is free; a ceiling for one owner (docs/ALGORITHMS.md#shares).
//! Limits: none of its own.

use std::collections::BTreeMap;

/// An owner may have so many times what is free, times the free part of all: one alone gets 61 %.
const FAIR: u128 = 4;

/// What one owner may have while so much of a bound is free.
pub fn fair_part(free: u64, bound: u64) -> u64 {
    let part = FAIR * u128::from(free) * u128::from(free) / u128::from(bound.max(1));
    u64::try_from(part).unwrap_or(u64::MAX)
}

/// What an owner may have who is alone: the x of x = 4 (bound - x)^2 / bound, 61 % of the bound.
pub fn alone(bound: u64) -> u64 {
    let part = (9.0 - 17_f64.sqrt()) / 8.0;
    (bound as f64 * part).ceil() as u64
}

/// What an owner may have in all, where all owners together have `used` of `bound`. One, while there is any.
pub fn limit(used: u64, bound: u64, ceiling: Option<u64>) -> u64 {
    let free = bound.saturating_sub(used);
    let fair = fair_part(free, bound).max(free.min(1));
    ceiling.map_or(fair, |ceiling| ceiling.min(fair))
}

/// How much each owner has. Who has nothing costs nothing.
#[derive(Clone, Debug)]
pub struct Shares<K>(BTreeMap<K, u64>);

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Shares(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Shares<K> {
    /// What an owner has.
    pub fn of(&self, owner: &K) -> u64 {
        self.0.get(owner).copied().unwrap_or_default()
    }

    /// An owner has more.
    pub fn add(&mut self, owner: &K, amount: u64) {
        match self.0.get_mut(owner) {
            Some(own) => *own += amount,
            None if amount > 0 => _ = self.0.insert(owner.clone(), amount),
            None => {}
        }
    }

    /// An owner has less.
    pub fn subtract(&mut self, owner: &K, amount: u64) {
        let Some(own) = self.0.get_mut(owner) else { return };
        debug_assert!(*own >= amount, "more is given back than was taken");
        *own = own.saturating_sub(amount);
        if *own == 0 {
            self.0.remove(owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Takes one at a time while it may.
    fn fill(shares: &mut Shares<u8>, owner: u8, bound: u64) {
        let used = |shares: &Shares<u8>| shares.0.values().sum();
        while shares.of(&owner) < limit(used(shares), bound, None) {
            shares.add(&owner, 1);
        }
    }

    #[test]
    fn one_owner_gets_most_and_the_next_ones_find_room() {
        let mut shares = Shares::default();
        let mut got = Vec::new();
        for owner in 1..=10 {
            fill(&mut shares, owner, 1_000_000);
            got.push(shares.of(&owner));
        }
        assert_eq!((got[0], alone(1_000_000)), (609_612, 609_612), "of a million");
        assert!(got[1] > 130_000 && got[4] > 10_000 && got[9] > 2_000, "{got:?}");
        assert!(got.is_sorted_by(|before, after| before > after), "{got:?}");
    }

    #[test]
    fn a_bound_of_a_few_is_no_bound_of_none() {
        for (bound, most) in [(1, 1), (2, 2), (3, 2), (4, 3), (8, 5)] {
            let mut shares = Shares::default();
            fill(&mut shares, 1, bound);
            assert_eq!((shares.of(&1), alone(bound)), (most, most), "of {bound}");
        }
        assert_eq!((limit(5, 3, None), limit(0, 0, None)), (0, 0));
        assert_eq!((limit(0, 100, Some(7)), limit(99, 100, Some(7))), (7, 1));
    }

    proptest! {
        /// Whatever is taken and given back, the bound holds, and who has nothing finds room.
        #[test]
        fn who_has_nothing_always_finds_room(
            steps in prop::collection::vec((0..12u8, any::<bool>()), 1..400),
        ) {
            const BOUND: u64 = 100;
            let mut shares = Shares::default();
            for (owner, takes) in steps {
                let used: u64 = shares.0.values().sum();
                // Twelve owners with one each at the least leave some of a hundred.
                prop_assert!(used < BOUND && limit(used, BOUND, None) > 0, "some is free");
                if takes && shares.of(&owner) < limit(used, BOUND, None) {
                    shares.add(&owner, 1);
                } else if !takes && shares.of(&owner) > 0 {
                    shares.subtract(&owner, 1);
                }
            }
        }
    }
}
