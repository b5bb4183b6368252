//! The yardstick, measured: by hand, by chance, and against every scheduler.

use proptest::prelude::*;
use tidegate_schedule::SchedulerName;
use tidegate_types::random::SplitMix;

use super::gap::{Score, allocation, objective, objective_as_served};
use super::random::{Pressure, instance};
use super::*;

fn uniform(seed: u64) -> impl FnMut() -> f64 {
    let mut random = SplitMix(seed);
    move || random.share()
}

/// (backlog, input, bound in ms, weight) of each class; ε = 0, Δt = 50 ms.
fn of(capacity: f64, parts: &[(u64, f64, u64, f64)]) -> Instance {
    let part = |&(backlog, input, bound, weight): &(u64, f64, u64, f64)| Part {
        backlog: Size(backlog),
        input: Rate::new(input),
        bound: Duration::from_millis(bound),
        weight,
    };
    Instance {
        capacity: Rate::new(capacity),
        interval: Duration::from_millis(50),
        processing: Duration::ZERO,
        parts: parts.iter().map(part).collect(),
    }
}

fn assert_best(instance: &Instance, rates: &[f64], objective: f64) {
    let best = instance.optimum().unwrap();
    let is_near = |(found, wanted): (&Rate, &f64)| (found.as_f64() - wanted).abs() < 1e-6;
    assert!(best.rates.iter().zip(rates).all(is_near), "{best:?}");
    assert!((best.objective - objective).abs() < 1e-9, "{best:?}");
    assert_eq!(instance.objective(&best.rates), Some(best.objective));
}

#[test]
fn the_most_urgent_class_gets_what_keeps_its_bound_and_no_more() {
    // 2 / 50 ms = 40. Of 60, nm's 100 take 1.67 s: 1.17 too long, at 10 a second.
    let instance = of(100.0, &[(2, 10.0, 50, 0.0), (100, 0.0, 500, 10.0)]);
    assert_best(&instance, &[40.0, 60.0], 100.0 - 10.0 * (100.0 / 60.0 - 0.5));
}

#[test]
fn two_late_classes_share_by_the_square_root_of_what_their_delay_costs() {
    // √(9 · 100) : √(4 · 100) = 3 : 2.
    let instance = of(100.0, &[(0, 0.0, 50, 0.0), (100, 0.0, 500, 9.0), (100, 0.0, 1000, 4.0)]);
    let penalty = 9.0 * (100.0 / 60.0 - 0.5) + 4.0 * (100.0 / 40.0 - 1.0);
    assert_best(&instance, &[0.0, 60.0, 40.0], 100.0 - penalty);
}

#[test]
fn where_every_bound_is_kept_only_throughput_counts() {
    let instance = of(1000.0, &[(2, 10.0, 50, 0.0), (50, 10.0, 500, 9.0), (50, 10.0, 1000, 4.0)]);
    let best = instance.optimum().unwrap();
    assert!((best.objective - 1000.0).abs() < 1e-6, "{best:?}");
    // With more than there is to carry: 2 / Δt + 10 and twice 50 / Δt + 10.
    let roomy = Instance { capacity: Rate::new(1e6), ..instance };
    let best = roomy.optimum().unwrap();
    assert!((best.objective - 2070.0).abs() < 1e-6, "{best:?}");
}

#[test]
fn a_bound_beyond_reach_and_an_empty_node() {
    assert_eq!(of(30.0, &[(2, 0.0, 50, 0.0)]).optimum(), None);
    let empty = of(30.0, &[(0, 0.0, 50, 0.0), (0, 0.0, 500, 1.0)]).optimum().unwrap();
    assert!(empty.objective.abs() < 1e-9);
    // ε alone breaks the bound of nm: every byte/s helps a little.
    let slow = Instance {
        processing: Duration::from_millis(600),
        ..of(100.0, &[(0, 0.0, 1000, 0.0), (100, 0.0, 500, 5.0)])
    };
    let best = slow.optimum().unwrap();
    assert!((best.objective - (100.0 - 5.0 * 1.1)).abs() < 1e-6, "{best:?}");
}

#[test]
fn allocations_that_are_none() {
    let instance = of(100.0, &[(2, 10.0, 50, 0.0), (100, 0.0, 500, 10.0)]);
    let objective = |rates: [f64; 2]| instance.objective(&rates.map(Rate::new));
    assert_eq!(objective([39.0, 61.0]), None, "Eq. 9");
    assert_eq!(objective([40.0, 61.0]), None, "Eq. 6");
    assert_eq!(objective([100.0, 0.0]), Some(f64::NEG_INFINITY));
}

/// Instances with any Δt, any ε, weights and backlogs of none.
fn any_instance() -> impl Strategy<Value = Instance> {
    let rare = |strategy: std::ops::Range<f64>| prop_oneof![1 => Just(0.0), 5 => strategy];
    let part = (rare(0.0..1e6), rare(0.0..1e6), 5..5_000u64, rare(0.0..1e6));
    let parts = prop::collection::vec(part, 1..7);
    (1.0..1e7f64, 1..1_000u64, 0..100u64, parts).prop_map(
        |(capacity, interval, processing, parts)| {
            let part = |(backlog, input, bound, weight): (f64, f64, u64, f64)| Part {
                backlog: Size(backlog as u64),
                input: Rate::new(input),
                bound: Duration::from_millis(bound),
                weight,
            };
            Instance {
                capacity: Rate::new(capacity),
                interval: Duration::from_millis(interval),
                processing: Duration::from_millis(processing),
                parts: parts.into_iter().map(part).collect(),
            }
        },
    )
}

/// How much better an allocation may look for want of digits.
fn slack(instance: &Instance, best: &Optimum) -> f64 {
    1e-9 * (best.objective.abs() + instance.capacity.as_f64())
}

proptest! {
    #[test]
    fn no_other_allocation_is_better(
        instance in any_instance(),
        parts in prop::collection::vec(0.0..1.0f64, 7),
        used in 0.0..=1.0f64,
    ) {
        let Some(best) = instance.optimum() else { return Ok(()) };
        prop_assert_eq!(instance.objective(&best.rates), Some(best.objective));
        let total: Rate = best.rates.iter().copied().sum();
        prop_assert!(total.as_f64() <= instance.capacity.as_f64() * (1.0 + 1e-12));
        // What the most urgent class needs, and any division of the rest.
        let hard = &instance.parts[0];
        let room = hard.bound.saturating_sub(instance.processing);
        let needed = Rate::of(hard.backlog, room);
        let rest = (instance.capacity - needed).times(used);
        let whole: f64 = parts[..instance.parts.len()].iter().sum::<f64>().max(1e-12);
        let mut rates: Vec<Rate> =
            parts[..instance.parts.len()].iter().map(|part| rest.times(part / whole)).collect();
        rates[0] = rates[0] + needed;
        if let Some(objective) = instance.objective(&rates) {
            prop_assert!(objective <= best.objective + slack(&instance, &best), "{rates:?} {best:?}");
        }
    }

    #[test]
    fn no_shift_between_two_classes_is_better(
        instance in any_instance(),
        from in 0..7usize,
        to in 0..7usize,
        part in 1e-6..1.0f64,
    ) {
        let Some(best) = instance.optimum() else { return Ok(()) };
        let count = instance.parts.len();
        let (from, to) = (from % count, to % count);
        let mut rates = best.rates.clone();
        let moved = rates[from].times(part);
        rates[from] = rates[from] - moved;
        rates[to] = rates[to] + moved;
        if let Some(objective) = instance.objective(&rates) {
            prop_assert!(objective <= best.objective + slack(&instance, &best), "{rates:?} {best:?}");
        }
    }
}

#[test]
fn no_scheduler_is_better_than_the_optimum() {
    let mut source = uniform(7);
    for _ in 0..1000 {
        let instance = instance(&mut source);
        let best = instance.optimum().unwrap();
        for name in SchedulerName::ALL {
            let rates = allocation(name, &instance);
            assert!(rates.iter().all(|rate| rate.as_f64().is_finite()), "{name:?}");
            let total: Rate = rates.iter().copied().sum();
            assert!(total.as_f64() <= instance.capacity.as_f64() * (1.0 + 1e-9), "{name:?}");
            if let Some(objective) = instance.objective(&rates) {
                assert!(objective <= best.objective + slack(&instance, &best), "{name:?}");
            }
        }
    }
}

/// A thousand instances of this pressure.
fn thousand(pressure: Pressure) -> Vec<Instance> {
    let mut source = uniform(1);
    let all = std::iter::repeat_with(|| instance(&mut source));
    all.filter(|instance| Pressure::of(instance) == pressure).take(1000).collect()
}

fn score(instances: &[Instance], objective: impl Fn(&Instance) -> Option<f64>) -> Score {
    let mut score = Score::default();
    instances.iter().for_each(|instance| score.add(instance, objective(instance)));
    assert_eq!(score.parts.len() + score.starves + score.late, instances.len());
    score
}

#[test]
fn where_all_fits_ours_is_the_optimum() {
    let instances = thousand(Pressure::Fits);
    let by_rates = score(&instances, |instance| objective(SchedulerName::Tidegate, instance));
    let as_served = score(&instances, objective_as_served);
    for score in [by_rates, as_served] {
        assert!(score.parts.len() == 1000 && score.parts.iter().all(|part| *part > 0.9999));
    }
}

#[test]
fn where_only_bulk_is_too_much_ours_is_near_the_optimum() {
    let instances = thousand(Pressure::Bulk);
    let ours = score(&instances, objective_as_served);
    assert!(ours.part() >= gap::NEAR && ours.near() >= 0.95 && ours.late == 0, "{}", ours.part());
    let parts = SchedulerName::ALL.map(|name| {
        let score = score(&instances, |instance| objective(name, instance));
        (name, score.part(), score.near())
    });
    assert!(parts.iter().all(|(_, _, near)| *near < ours.near()), "{parts:?}");
}

#[test]
fn as_printed_a_class_starves_wherever_an_urgent_one_is_short() {
    let instances = thousand(Pressure::Urgent);
    let paper = score(&instances, |instance| objective(SchedulerName::JanusPaper, instance));
    assert!(paper.starves > 800, "{}", paper.starves);
    for name in [SchedulerName::Janus, SchedulerName::Tidegate] {
        let score = score(&instances, |instance| objective(name, instance));
        assert_eq!(score.starves, 0, "{name:?}");
    }
    assert_eq!(score(&instances, objective_as_served).starves, 0);
}
