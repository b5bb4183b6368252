//! What holds for every input: allocations, schedulers, queues, and a whole node under random operations.

use proptest::prelude::*;
use tidegate_schedule::allocate::{Demand, allocate, wanted_rate};
use tidegate_testing::{NodeOp, Trial};
use tidegate_types::units::{Rate, Ratio, Size};

fn demands() -> impl Strategy<Value = Vec<Demand>> {
    let demand = (0.0..1e6_f64, 0.0..0.06_f64, proptest::option::of(0.0..1e5_f64));
    let demand = demand.prop_map(|(wanted, share, cap)| Demand {
        wanted: Rate::new(wanted),
        min_share: Ratio::new(share),
        cap: cap.map(Rate::new),
    });
    proptest::collection::vec(demand, 1..16)
}

proptest! {
    #[test]
    fn an_allocation_never_exceeds_capacity_wants_and_caps(
        demands in demands(), capacity in 0.0..1e7_f64
    ) {
        let given = allocate(Rate::new(capacity), &demands);
        let sum: f64 = given.rates.iter().map(|rate| rate.as_f64()).sum();
        prop_assert!((sum + given.spare.as_f64() - capacity).abs() <= capacity * 1e-9 + 1e-6);
        for (rate, demand) in given.rates.iter().zip(&demands) {
            prop_assert!(rate.as_f64() <= demand.wanted.as_f64() * (1.0 + 1e-9));
            prop_assert!(demand.cap.is_none_or(|cap| rate.as_f64() <= cap.as_f64() * (1.0 + 1e-9)));
        }
    }

    #[test]
    fn an_allocation_keeps_floors_and_serves_the_urgent_first(
        demands in demands(), capacity in 0.0..1e7_f64
    ) {
        let given = allocate(Rate::new(capacity), &demands);
        let wanted =
            |demand: &Demand| demand.cap.map_or(demand.wanted, |cap| demand.wanted.min(cap)).as_f64();
        let floor = |demand: &Demand| {
            (capacity * demand.min_share.as_f64()).min(wanted(demand))
        };
        for (rate, demand) in given.rates.iter().zip(&demands) {
            prop_assert!(rate.as_f64() >= floor(demand) * (1.0 - 1e-9));
        }
        // Whoever lacks something leaves nothing above the floor to those below, and nothing spare.
        let lacks = |(rate, demand): (&Rate, &Demand)| rate.as_f64() < wanted(demand) * (1.0 - 1e-9);
        if let Some(first) = given.rates.iter().zip(&demands).position(lacks) {
            prop_assert!(given.spare.as_f64() <= capacity * 1e-9);
            for (rate, demand) in given.rates.iter().zip(&demands).skip(first + 1) {
                prop_assert!(rate.as_f64() <= floor(demand) + capacity * 1e-9);
            }
        }
    }

    #[test]
    fn a_larger_backlog_wants_no_less(
        input in 0.0..1e6_f64, backlog in 0..1_000_000_u64, more in 0..1_000_000_u64, bound in 1..5000_u64
    ) {
        let bound = std::time::Duration::from_millis(bound);
        let wanted = |backlog| wanted_rate(Rate::new(input), Size(backlog), bound);
        prop_assert!(wanted(backlog + more) >= wanted(backlog));
        prop_assert!(wanted(backlog).as_f64() >= input);
    }
}

proptest! {
    #[test]
    fn a_node_keeps_its_books_under_any_operations(
        setup in any::<u8>(),
        steps in proptest::collection::vec(any::<[u8; 4]>().prop_map(NodeOp::decode), 0..250),
    ) {
        let mut trial = Trial::new(setup);
        steps.into_iter().for_each(|step| trial.apply(step));
        trial.finish();
    }
}
