//! Divides an uplink among classes by urgency.
//! Source: papers/janus.txt, §V-A, Alg. 2 (order of service), Eq. 22 (our reading).
//! Inputs: wanted bytes/s, minimum share and cap of each class, capacity in bytes/s. Outputs: bytes/s of
//! each class and what is spare; their sum is at most the capacity. O(classes).
//! Deviations: minimum shares; caps; wanted = input + backlog / bound instead of Eq. 22 as printed
//! (docs/ALGORITHMS.md#allocate).
//! Limits: CLASSES_MAX.

use std::time::Duration;

use tidegate_types::limits::CLASSES_MAX;
use tidegate_types::units::{Rate, Ratio, Size};

/// What a class asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Bytes/s that keep its bound.
    pub wanted: Rate,
    /// Part of the capacity that is its own while it wants it.
    pub min_share: Ratio,
    /// Never more, in bytes/s.
    pub cap: Option<Rate>,
}

/// What the classes get.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocation {
    /// Bytes/s of each class, most urgent first.
    pub rates: Vec<Rate>,
    /// What no class wants: lent at once to whoever has something, and offered to neighbours.
    pub spare: Rate,
}

/// Rate that carries the arrivals and clears the backlog within the bound: Λ + s / δ.
/// input: bytes/s; backlog: bytes; bound > 0. JANUS Eq. 22 read at t = δ, where its V cancels.
pub fn wanted_rate(input: Rate, backlog: Size, bound: Duration) -> Rate {
    input + Rate::of(backlog, bound)
}

/// Floors first, then each class its want, most urgent first. JANUS Alg. 2.
pub fn allocate(capacity: Rate, demands: &[Demand]) -> Allocation {
    assert!(demands.len() <= CLASSES_MAX, "a node has at most {CLASSES_MAX} classes");
    let wanted = |demand: &Demand| demand.cap.map_or(demand.wanted, |cap| demand.wanted.min(cap));
    let floor = |demand: &Demand| capacity.times(demand.min_share.as_f64()).min(wanted(demand));
    let mut rates: Vec<Rate> = demands.iter().map(floor).collect();
    let mut free = capacity - rates.iter().copied().sum();
    for (rate, demand) in rates.iter_mut().zip(demands) {
        let more = (wanted(demand) - *rate).min(free);
        *rate = *rate + more;
        free = free - more;
    }
    Allocation { rates, spare: free }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(wanted: f64, min_share: f64) -> Demand {
        Demand { wanted: Rate::new(wanted), min_share: Ratio::new(min_share), cap: None }
    }

    fn rates(allocation: &Allocation) -> Vec<f64> {
        allocation.rates.iter().map(|rate| rate.as_f64()).collect()
    }

    #[test]
    fn what_is_wanted_clears_the_backlog_within_the_bound() {
        // 1 kB/s come in, 500 B wait and must be gone in 50 ms: 11 kB/s.
        let rate = wanted_rate(Rate::new(1000.0), Size(500), Duration::from_millis(50));
        assert_eq!(rate, Rate::new(11_000.0));
    }

    #[test]
    fn urgent_classes_are_served_first() {
        // Fig. 4 of the paper, node 1: 30 units, its queues want 10, 10 and 15.
        let allocation =
            allocate(Rate::new(30.0), &[10.0, 10.0, 15.0].map(|want| demand(want, 0.0)));
        assert_eq!(rates(&allocation), [10.0, 10.0, 10.0]);
        assert_eq!(allocation.spare, Rate::ZERO);
    }

    #[test]
    fn a_minimum_share_survives_any_urgency() {
        let allocation = allocate(Rate::new(100.0), &[demand(500.0, 0.01), demand(20.0, 0.05)]);
        assert_eq!(rates(&allocation), [95.0, 5.0]);
    }

    #[test]
    fn what_nobody_wants_is_spare_and_a_cap_holds() {
        let capped = Demand { cap: Some(Rate::new(10.0)), ..demand(50.0, 0.0) };
        let allocation = allocate(Rate::new(100.0), &[capped, demand(20.0, 0.5)]);
        assert_eq!(rates(&allocation), [10.0, 20.0]);
        assert_eq!(allocation.spare, Rate::new(70.0));
    }
}
