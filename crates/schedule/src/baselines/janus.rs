//! JANUS at the node as it must have been meant: rates an interval ahead, anew in every interval.
//! Source: papers/janus.txt, §V-A Alg. 1, Alg. 2, Eq. 22.
//! Inputs: capacity, and each class's input rate and backlog, once an interval. Outputs: the class to serve;
//! bytes/s of each class, shortage, spare. O(classes).
//! Deviations: reallocates in every interval, not only after a violation; Eq. 22 as printed, clamped to
//! [0, C]; minimum shares and caps; what is free is lent to whoever has something, and offered; a shortage
//! is what stays short over a second (docs/ALGORITHMS.md#janus).
//! Limits: CLASSES_MAX.
//!
//! It still grants ahead: what a class does not use of its own share within an interval is lost.

use std::time::Duration;

use tidegate_types::class::Classes;
use tidegate_types::units::{Rate, Time};

use super::janus_paper::equation_22;
use crate::allocate::{Demand, allocate};
use crate::granted::{GrantRule, Granted, even};
use crate::queue::Ranking;
use crate::scheduler::{ClassLoad, SchedulerEntry, UplinkLoad, interval};
use crate::shares::{Shortage, Spare, UplinkShares};

/// How the node uses it.
pub(crate) const ENTRY: SchedulerEntry = SchedulerEntry {
    build: |classes| Box::new(Janus::new(classes)),
    ranking: Ranking::Arrival,
    has_classes: true,
    favours_alarms: false,
};

/// Time over which a shortage is averaged: a backlog that is gone sooner is nobody else's concern.
const SHORTAGE_PERIOD: Duration = Duration::from_secs(1);

/// The paper's scheduler, repaired.
#[derive(Debug)]
struct Janus {
    classes: Classes,
    /// t of Alg. 1.
    interval: Duration,
    reallocated_at: Time,
}

impl Janus {
    fn new(classes: &Classes) -> Granted<Self> {
        let (interval, reallocated_at) = (interval(classes), Time::ZERO);
        Granted::new(classes, Janus { classes: classes.clone(), interval, reallocated_at })
    }

    /// Alg. 2 for one interval. `weight` is that of this interval in the average of shortages.
    fn reallocated(&self, load: &UplinkLoad<'_>, old: &UplinkShares, weight: f64) -> UplinkShares {
        let demand = |((_, spec), (class, &rate)): ((_, &tidegate_types::class::ClassSpec), _)| {
            let class: &ClassLoad = class;
            let wanted = equation_22(class.backlog, class.input, rate, self.interval, spec.latency);
            let wanted = Rate::new(wanted).min(load.capacity);
            Demand { wanted, min_share: spec.min_share, cap: spec.cap }
        };
        let classes = self.classes.iter().zip(load.classes.iter().zip(&old.rates));
        let demands: Vec<Demand> = classes.map(demand).collect();
        let allocation = allocate(load.capacity, &demands);
        let short = demands.iter().zip(&allocation.rates).zip(&old.shortage.amounts);
        let amounts = short.map(|((demand, &rate), &old)| {
            old.times(1.0 - weight) + (demand.wanted - rate).times(weight)
        });
        // As in the paper, what is free stands at the most urgent class; any class may use it.
        let mut spare = vec![Rate::ZERO; allocation.rates.len()];
        spare[0] = allocation.spare;
        UplinkShares {
            shortage: Shortage { amounts: amounts.collect() },
            spare: Spare { amounts: spare },
            rates: allocation.rates,
            lent: allocation.spare,
        }
    }

    /// The first shares: even ones.
    fn first(&self, capacity: Rate) -> UplinkShares {
        let classes = self.classes.len();
        let nothing = vec![Rate::ZERO; classes];
        UplinkShares {
            rates: even(capacity, classes),
            lent: Rate::ZERO,
            shortage: Shortage { amounts: nothing.clone() },
            spare: Spare { amounts: nothing },
        }
    }
}

impl GrantRule for Janus {
    fn divide(
        &mut self,
        now: Time,
        load: &UplinkLoad<'_>,
        old: Option<UplinkShares>,
    ) -> Option<UplinkShares> {
        let span = now.since(self.reallocated_at).as_secs_f64();
        self.reallocated_at = now;
        let weight = 1.0 - (-span / SHORTAGE_PERIOD.as_secs_f64()).exp();
        (!load.capacity.is_zero()).then(|| match old {
            Some(old) => self.reallocated(load, &old, weight),
            None => self.first(load.capacity),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_types::class::{ClassSpec, default_classes};
    use tidegate_types::units::{Ratio, Size};

    use super::*;
    use crate::scheduler::Scheduler;

    const STEP: Duration = Duration::from_millis(50);

    /// A scheduler without minimum shares on an uplink of `capacity`.
    struct Bench {
        scheduler: Granted<Janus>,
        now: Time,
        capacity: f64,
    }

    impl Bench {
        fn new(capacity: f64, change: impl Fn(&mut ClassSpec)) -> Self {
            let mut specs = default_classes();
            specs.iter_mut().for_each(|spec| {
                spec.min_share = Ratio::ZERO;
                change(spec);
            });
            let scheduler = Janus::new(&Classes::new(specs).unwrap());
            let mut bench = Bench { scheduler, now: Time::ZERO, capacity };
            bench.interval([0.0; 3], [0; 3]);
            bench
        }

        fn interval(&mut self, input: [f64; 3], backlog: [u64; 3]) -> UplinkShares {
            self.now += STEP;
            let load = |place: usize| ClassLoad {
                arrived: Size::ZERO,
                input: Rate::new(input[place]),
                backlog: Size(backlog[place]),
            };
            let classes = [0, 1, 2].map(load);
            let capacity = Rate::new(self.capacity);
            let processing = Duration::ZERO;
            let load = UplinkLoad { capacity, pace: capacity, processing, classes: &classes };
            self.scheduler.reallocate(self.now, &load);
            self.scheduler.shares().unwrap().clone()
        }

        /// After so many of the same intervals.
        fn intervals(&mut self, count: usize, input: [f64; 3], backlog: [u64; 3]) -> UplinkShares {
            (0..count).map(|_| self.interval(input, backlog)).last().unwrap()
        }
    }

    #[test]
    fn shares_follow_the_load_without_any_violation() {
        let mut bench = Bench::new(30_000.0, |_| ());
        let shares = bench.intervals(2000, [10_000.0, 10_000.0, 2_000.0], [0; 3]);
        for (rate, wanted) in shares.rates.iter().zip([10_000.0, 10_000.0, 2_000.0]) {
            assert!((rate.as_f64() - wanted).abs() < 1.0, "{shares:?}");
        }
        // Fig. 4: [8, 0, 0] can be lent, to whoever has something meanwhile.
        assert!((shares.spare.total().as_f64() - 8_000.0).abs() < 3.0, "{shares:?}");
        assert_eq!(shares.lent, shares.spare.amounts[0]);
        assert!(shares.shortage.total().as_f64() < 1.0);
    }

    #[test]
    fn what_is_wanted_is_never_more_than_there_is() {
        let mut bench = Bench::new(30_000.0, |_| ());
        let shares = bench.intervals(1000, [0.0; 3], [0, 0, 9_000_000]);
        assert!((shares.rates[2].as_f64() - 30_000.0).abs() < 1.0, "{shares:?}");
        assert!(shares.shortage.total().as_f64() < 1.0, "{shares:?}");
    }

    #[test]
    fn a_minimum_share_and_a_cap_are_kept() {
        let mut bench = Bench::new(30_000.0, |spec| spec.min_share = Ratio::new(0.1));
        let shares = bench.intervals(100, [90_000.0, 90_000.0, 90_000.0], [1_000_000; 3]);
        let expected = [24_000.0, 3_000.0, 3_000.0].map(Rate::new);
        assert_eq!(shares.rates, expected);
        let mut bench = Bench::new(30_000.0, |spec| spec.cap = Some(Rate::new(5_000.0)));
        let shares = bench.intervals(100, [90_000.0, 90_000.0, 90_000.0], [1_000_000; 3]);
        assert_eq!(shares.rates, [5_000.0; 3].map(Rate::new));
    }

    #[test]
    fn a_shortage_is_what_stays_short() {
        let mut bench = Bench::new(30_000.0, |_| ());
        let calm = [10_000.0, 0.0, 0.0];
        bench.intervals(200, calm, [0; 3]);
        // A burst of one interval: 134 kB of the most urgent class, 90 times what there is.
        let burst = bench.interval(calm, [134_000, 0, 0]);
        assert_eq!(burst.rates[0], Rate::new(30_000.0));
        assert!(burst.shortage.total().as_f64() < 0.05 * 30_000.0, "{burst:?}");
        // Twice the uplink for ten seconds is a shortage.
        let short = bench.intervals(200, [10_000.0, 25_000.0, 25_000.0], [0, 500_000, 500_000]);
        let amounts: Vec<f64> = short.shortage.amounts.iter().map(|rate| rate.as_f64()).collect();
        assert!(amounts[0] < 1.0 && amounts[1] > 9_000.0 && amounts[2] > 25_000.0, "{amounts:?}");
    }

    proptest! {
        #[test]
        fn no_load_breaks_the_capacity(
            steps in prop::collection::vec(
                (1.0..1e7, prop::array::uniform3(0.0..1e8), prop::array::uniform3(0..100_000_000u64)),
                1..20,
            ),
        ) {
            let mut bench = Bench::new(1e6, |spec| spec.min_share = Ratio::new(0.01));
            for (capacity, input, backlog) in steps {
                bench.capacity = capacity;
                let shares = bench.interval(input, backlog);
                let total = shares.rates.iter().copied().sum::<Rate>() + shares.lent;
                prop_assert!(total.as_f64() <= capacity * (1.0 + 1e-9), "{shares:?}");
                prop_assert_eq!(shares.spare.total(), shares.lent);
                let amounts = shares.rates.iter().chain(&shares.shortage.amounts);
                prop_assert!(amounts.copied().all(|rate| rate.as_f64().is_finite()));
            }
        }

        #[test]
        fn more_urgent_means_no_less(
            input in 0.0..1e6,
            backlog in 0..1_000_000u64,
        ) {
            // The same load in every class: the more urgent one has no less.
            let mut bench = Bench::new(1e6, |_| ());
            let shares = bench.intervals(400, [input; 3], [backlog; 3]);
            prop_assert!(shares.rates.is_sorted_by(|a, b| a.as_f64() >= b.as_f64() - 1.0), "{shares:?}");
        }
    }
}
