//! JANUS at the node as it is printed: rates an interval ahead, reallocated when a bound is in danger.
//! Source: papers/janus.txt, §IV-A Eq. 1, §V-A Alg. 1, Alg. 2, Eq. 22.
//! Inputs: capacity, ε, and each class's arrivals and backlog in bytes, once an interval. Outputs: the
//! class to serve; bytes/s of each class, shortage, spare. O(classes).
//! Deviations: only what it cannot run without (docs/ALGORITHMS.md#janus-paper): s is the queue's length;
//! a negative bandwidth is zero; a delay at V = 0 is finite; while the capacity is unknown nothing is held
//! back, and where it is measured the classes run as much faster as the law paces above its estimate, and a
//! fall below what is allocated counts as a violation; the interval is chosen; spare is share less demand.
//! Limits: CLASSES_MAX.
//!
//! Known faults of the paper that are kept: shares move only when a bound is violated; what is free goes to
//! the most urgent class alone; a class may be left with nothing, and then all of its want is requested.

use std::time::Duration;

use tidegate_types::class::Classes;
use tidegate_types::units::{Rate, Size, Time};

use crate::allocate::wanted_rate;
use crate::estimate::queue_delay;
use crate::granted::{GrantRule, Granted, even};
use crate::queue::Ranking;
use crate::scheduler::{ClassLoad, SchedulerEntry, UplinkLoad, interval};
use crate::shares::{Shortage, Spare, UplinkShares};

/// How the node uses it.
pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    build: |classes| Box::new(JanusPaper::new(classes)),
    ranking: Ranking::Arrival,
    has_classes: true,
    favours_alarms: false,
};

/// Bandwidth that clears what waits, and what will have gathered by the end of the interval, within the
/// bound. JANUS Eq. 22: (s + (Λ - V) t) / δ + V.
/// backlog: bytes; input, allocated: bytes/s; interval, bound: seconds > 0. Returns bytes/s, of any sign.
pub(crate) fn equation_22(
    backlog: Size,
    input: Rate,
    allocated: Rate,
    interval: Duration,
    bound: Duration,
) -> f64 {
    let gathered = (input.as_f64() - allocated.as_f64()) * interval.as_secs_f64();
    (backlog.as_f64() + gathered) / bound.as_secs_f64() + allocated.as_f64()
}

/// To each class its want, most urgent first; the first that must do with less leaves nothing to those
/// after it, and what is free goes to the most urgent one. JANUS Alg. 2, lines 4-24.
/// Returns bytes/s of each class, their sum at most `capacity`, and what is requested of others.
pub(crate) fn algorithm_2(capacity: Rate, wanted: &[Rate]) -> (Vec<Rate>, Shortage) {
    let mut free = capacity;
    let mut is_short = false;
    let mut rates = Vec::with_capacity(wanted.len());
    for &wanted in wanted {
        // Lines 14, 18 and 23: the first class that is short takes the rest, then there is none.
        let rate = if is_short { Rate::ZERO } else { wanted.min(free) };
        is_short |= wanted > free;
        free = free - rate;
        rates.push(rate);
    }
    let short = rates.iter().zip(wanted).map(|(&rate, &wanted)| wanted - rate);
    let shortage = Shortage { amounts: short.collect() };
    if let Some(first) = rates.first_mut().filter(|_| !is_short) {
        *first = *first + free; // lines 10 and 11
    }
    (rates, shortage)
}

/// The paper's scheduler.
#[derive(Debug)]
struct JanusPaper {
    /// t of Alg. 1.
    interval: Duration,
    /// δ of each class.
    bounds: Vec<Duration>,
    /// Bytes that had come into each class when they were counted last, and when that was.
    counted: Vec<Size>,
    counted_at: Time,
}

impl JanusPaper {
    fn new(classes: &Classes) -> Granted<Self> {
        let rule = JanusPaper {
            interval: interval(classes),
            bounds: classes.iter().map(|(_, spec)| spec.latency).collect(),
            counted: vec![Size::ZERO; classes.len()],
            counted_at: Time::ZERO,
        };
        Granted::new(classes, rule)
    }

    /// Alg. 1, line 3: what came into each class since the last count, as a rate.
    fn count(&mut self, now: Time, loads: &[ClassLoad]) -> Vec<Rate> {
        let span = now.since(self.counted_at);
        self.counted_at = now;
        let mut count = |(counted, load): (&mut Size, &ClassLoad)| {
            let came = load.arrived.saturating_sub(*counted);
            *counted = load.arrived;
            Rate::of(came, span)
        };
        self.counted.iter_mut().zip(loads).map(&mut count).collect()
    }

    /// Alg. 1 for one interval.
    fn throttle_by_priority(
        &self,
        load: &UplinkLoad<'_>,
        input: &[Rate],
        old: Option<UplinkShares>,
    ) -> UplinkShares {
        let Some(old) = old else {
            let rates = even(load.capacity, self.bounds.len());
            return self.shares_of(rates, Shortage::default(), load, input);
        };
        if !self.is_violated(load, &old.rates) {
            return self.shares_of(old.rates, Shortage::default(), load, input);
        }
        let wants = load.classes.iter().zip(&self.bounds).zip(old.rates.iter().zip(input)).map(
            |((class, &bound), (&rate, &input))| {
                Rate::new(equation_22(class.backlog, input, rate, self.interval, bound))
            },
        );
        let (rates, shortage) = algorithm_2(load.capacity, &wants.collect::<Vec<_>>());
        self.shares_of(rates, shortage, load, input)
    }

    /// Alg. 1, lines 5 and 6.
    fn is_violated(&self, load: &UplinkLoad<'_>, rates: &[Rate]) -> bool {
        let is_late = |((class, &rate), &bound): ((&ClassLoad, &Rate), &Duration)| {
            queue_delay(class.backlog, rate, load.processing) > bound
        };
        let is_too_much = rates.iter().copied().sum::<Rate>() > load.capacity;
        is_too_much || load.classes.iter().zip(rates).zip(&self.bounds).any(is_late)
    }

    fn shares_of(
        &self,
        rates: Vec<Rate>,
        mut shortage: Shortage,
        load: &UplinkLoad<'_>,
        input: &[Rate],
    ) -> UplinkShares {
        shortage.amounts.resize(rates.len(), Rate::ZERO);
        let demands = load
            .classes
            .iter()
            .zip(&self.bounds)
            .zip(input)
            .map(|((class, &bound), &input)| wanted_rate(input, class.backlog, bound));
        let amounts = rates.iter().zip(demands).map(|(&rate, demand)| rate - demand).collect();
        UplinkShares { rates, lent: Rate::ZERO, shortage, spare: Spare { amounts } }
    }
}

impl GrantRule for JanusPaper {
    fn divide(
        &mut self,
        now: Time,
        load: &UplinkLoad<'_>,
        old: Option<UplinkShares>,
    ) -> Option<UplinkShares> {
        let input = self.count(now, load.classes);
        (!load.capacity.is_zero()).then(|| self.throttle_by_priority(load, &input, old))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_types::class::default_classes;

    use super::*;
    use crate::scheduler::Scheduler;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn rates(values: &[f64]) -> Vec<Rate> {
        values.iter().copied().map(Rate::new).collect()
    }

    /// A scheduler of three classes on an uplink of `capacity`, after its first interval.
    struct Bench {
        scheduler: Granted<JanusPaper>,
        now: Time,
        capacity: f64,
        arrived: [f64; 3],
    }

    impl Bench {
        fn new(capacity: f64) -> Self {
            let classes = Classes::new(default_classes()).unwrap();
            let scheduler = JanusPaper::new(&classes);
            let mut bench = Bench { scheduler, now: Time::ZERO, capacity, arrived: [0.0; 3] };
            bench.interval([0.0; 3], [0; 3]);
            bench
        }

        /// One interval with this input in bytes/s, after which so many bytes wait.
        fn interval(&mut self, input: [f64; 3], backlog: [u64; 3]) -> UplinkShares {
            self.now += 50 * MILLISECOND;
            let load = |(place, arrived): (usize, &mut f64)| {
                *arrived += input[place] * 0.05;
                let arrived = Size(arrived.round() as u64);
                ClassLoad { arrived, input: Rate::ZERO, backlog: Size(backlog[place]) }
            };
            let classes: Vec<ClassLoad> = self.arrived.iter_mut().enumerate().map(load).collect();
            let capacity = Rate::new(self.capacity);
            let processing = Duration::ZERO;
            let load = UplinkLoad { capacity, pace: capacity, processing, classes: &classes };
            self.scheduler.reallocate(self.now, &load);
            self.scheduler.shares().unwrap().clone()
        }
    }

    #[test]
    fn equation_22_is_right_at_one_interval_only() {
        // Nothing waits, 30 come, 100 are allocated, δ = 50 ms: 30 is right.
        let at = |millis| {
            let (input, allocated) = (Rate::new(30.0), Rate::new(100.0));
            equation_22(Size::ZERO, input, allocated, millis * MILLISECOND, 50 * MILLISECOND)
        };
        for (millis, wanted) in [(10, 86.0), (50, 30.0), (200, -180.0)] {
            assert!((at(millis) - wanted).abs() < 1e-9, "{millis} ms: {}", at(millis));
        }
    }

    #[test]
    fn equation_22_swings_where_the_interval_is_long() {
        // 30 come; what gathers at V = 0 is gone after an interval at any V above 60.
        let mut allocated = Rate::ZERO;
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(allocated.as_f64().round());
            let backlog = if allocated.is_zero() { Size(6) } else { Size::ZERO };
            let input = Rate::new(30.0);
            let wanted =
                equation_22(backlog, input, allocated, 200 * MILLISECOND, 50 * MILLISECOND);
            allocated = Rate::new(wanted);
        }
        assert_eq!(seen, [0.0, 240.0, 0.0, 240.0]);
    }

    #[test]
    fn figure_4_the_node_that_is_short() {
        let (given, shortage) = algorithm_2(Rate::new(30.0), &rates(&[10.0, 10.0, 15.0]));
        assert_eq!(given, rates(&[10.0, 10.0, 10.0]));
        assert_eq!(shortage.amounts, rates(&[0.0, 0.0, 5.0]));
    }

    #[test]
    fn figure_4_the_node_that_can_lend() {
        let (given, shortage) = algorithm_2(Rate::new(30.0), &rates(&[10.0, 10.0, 2.0]));
        assert_eq!(given, rates(&[18.0, 10.0, 2.0]));
        assert!(shortage.total().is_zero());
        // The same of a running node: its most urgent class has 18, uses 10 and offers 8.
        let mut bench = Bench::new(30_000.0);
        bench.interval([10_000.0, 10_000.0, 2_000.0], [501, 0, 0]);
        let shares = bench.interval([10_000.0, 10_000.0, 2_000.0], [0; 3]);
        let spare = shares.rates[0] - Rate::new(10_000.0);
        assert_eq!(shares.spare.amounts[0], spare);
        assert!(spare > Rate::ZERO && shares.shortage.total().is_zero());
    }

    #[test]
    fn a_class_that_is_short_leaves_nothing_and_all_of_the_rest_is_requested() {
        // Lines 17-19 and 22-24.
        let (given, shortage) = algorithm_2(Rate::new(30.0), &rates(&[10.0, 25.0, 15.0]));
        assert_eq!(given, rates(&[10.0, 20.0, 0.0]));
        assert_eq!(shortage.amounts, rates(&[0.0, 5.0, 15.0]));
        let (given, shortage) = algorithm_2(Rate::new(30.0), &rates(&[40.0, 25.0, 15.0]));
        assert_eq!(given, rates(&[30.0, 0.0, 0.0]));
        assert_eq!(shortage.amounts, rates(&[10.0, 25.0, 15.0]));
    }

    #[test]
    fn one_class_and_many() {
        let (given, shortage) = algorithm_2(Rate::new(30.0), &rates(&[10.0]));
        assert_eq!((given, shortage.amounts), (rates(&[30.0]), rates(&[0.0])));
        let (given, _) = algorithm_2(Rate::new(10.0), &rates(&[3.0; 16]));
        assert_eq!(given[..5], rates(&[3.0, 3.0, 3.0, 1.0, 0.0]));
    }

    #[test]
    fn shares_are_even_and_stay_so_until_a_bound_is_in_danger() {
        let mut bench = Bench::new(30_000.0);
        // 10 kB/s carry 500 B within 50 ms; nobody asks that lt has nothing to send.
        let shares = bench.interval([10_000.0, 0.0, 0.0], [500, 0, 0]);
        assert_eq!(shares.rates, rates(&[10_000.0; 3]));
        let shares = bench.interval([10_000.0, 0.0, 0.0], [501, 0, 0]);
        // Eq. 22 at t = δ: 10,000 + 501 / 0.05; nm and lt: V - V t / δ.
        let wanted = [20_020.0, 9_000.0, 9_500.0];
        assert_eq!(shares.rates[0], Rate::new(wanted[0]));
        assert!((shares.rates[1].as_f64() - wanted[1]).abs() < 1e-6, "{shares:?}");
        assert!((shares.rates[2].as_f64() - 980.0).abs() < 1e-6, "{shares:?}");
        assert!((shares.shortage.amounts[2].as_f64() - 8_520.0).abs() < 1e-6, "{shares:?}");
        // Calm: they are kept, and nothing is requested any more.
        let calm = bench.interval([0.0; 3], [0; 3]);
        assert_eq!(calm.rates, shares.rates);
        assert!(calm.shortage.total().is_zero());
    }

    #[test]
    fn an_unknown_capacity_ends_the_allocation_and_a_known_one_begins_it_anew() {
        let mut bench = Bench::new(30_000.0);
        let load = UplinkLoad {
            capacity: Rate::ZERO,
            pace: Rate::ZERO,
            processing: Duration::ZERO,
            classes: &[ClassLoad::default(); 3],
        };
        bench.scheduler.reallocate(bench.now + 50 * MILLISECOND, &load);
        assert_eq!(bench.scheduler.shares(), None);
        let shares = bench.interval([0.0; 3], [0; 3]);
        assert_eq!(shares.rates, rates(&[10_000.0; 3]));
    }

    proptest! {
        #[test]
        fn algorithm_2_gives_what_there_is_to_the_most_urgent(
            capacity in 0.0..1e9,
            wanted in prop::collection::vec(0.0..1e9, 1..16),
        ) {
            let wanted = rates(&wanted);
            let (given, shortage) = algorithm_2(Rate::new(capacity), &wanted);
            let total: Rate = given.iter().copied().sum();
            prop_assert!(total.as_f64() <= capacity * (1.0 + 1e-12));
            for (place, (&given, &wanted)) in given.iter().zip(&wanted).enumerate() {
                prop_assert!(given.as_f64().is_finite());
                prop_assert_eq!(shortage.amounts[place], wanted - given);
            }
            let first_short = given.iter().zip(&wanted).position(|(given, wanted)| given < wanted);
            if let Some(place) = first_short {
                prop_assert!(given[place + 1..].iter().all(|rate| rate.is_zero()));
            } else {
                prop_assert!(total.as_f64() >= capacity * (1.0 - 1e-12));
            }
        }

        #[test]
        fn no_load_breaks_the_capacity(
            steps in prop::collection::vec(
                (1.0..1e7, prop::array::uniform3(0.0..1e8), prop::array::uniform3(0..100_000_000u64)),
                1..20,
            ),
        ) {
            let mut bench = Bench::new(1e6);
            for (capacity, input, backlog) in steps {
                bench.capacity = capacity;
                let shares = bench.interval(input, backlog);
                let total: Rate = shares.rates.iter().copied().sum();
                prop_assert!(total.as_f64() <= capacity * (1.0 + 1e-9), "{shares:?}");
                prop_assert!(shares.spare.total() <= total);
                let amounts = shares.rates.iter().chain(&shares.shortage.amounts);
                prop_assert!(amounts.copied().all(|rate| rate.as_f64().is_finite()));
            }
        }
    }
}
