//! Predicts 90th percentiles of a broker whose machine was measured: by its pool, the earliest deadline first or first come, first
//! served, or by a thread for each topic.
//! Source: own. Erlang's C and Allen and Cunneen's correction as in `physics.rs`; the earliest deadline first by its frontier
//! (Doytchinov, Lehoczky and Shreve, Real-time queues in heavy traffic, 2001): whatever is due before it has been served.
//! Inputs: work, its variation, rate, bound and fan-out of each topic; what was measured of the machine. Outputs: 90th percentile of
//! each topic, seconds. O(n log n).
//! Deviations: the frontier is put where the 90th percentile of the wait of all is; below it a record still waits as the most urgent
//! of a queue with priorities; what is late comes behind, as in `operators/pool.rs` (docs/algorithms-place.md#broker).
//! Limits: none.

use serde::{Deserialize, Serialize};

use super::super::physics::{LOAD_MAX, NORMAL_P90, SLOWER, waiting_chance};
use super::super::{Machine, Topic};

/// How a broker's records find a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dispatch {
    /// A pool, the earliest deadline first.
    #[default]
    Edf,
    /// A pool, first come, first served.
    Fifo,
    /// A thread for each topic.
    ThreadPerTopic,
}

/// What was measured of a machine with a broker.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineParameters {
    /// Processors that the operators really get.
    pub cores: f64,
    /// How much longer each record takes for every other topic, as a part of its work.
    pub contention: f64,
    /// What predictions are multiplied by.
    pub bias: f64,
    /// CPU time of a record beside its work, seconds.
    pub overhead_seconds: f64,
    /// CPU time of each subscriber's copy, seconds.
    pub copy_seconds: f64,
    /// What every record takes that no load makes longer, seconds.
    pub latency_seconds: f64,
}

impl MachineParameters {
    /// The machine as placement knows it.
    pub fn machine(&self) -> Machine {
        let MachineParameters { cores, contention, bias, .. } = *self;
        Machine { cores, speed: 1.0, contention, bias }
    }
}

/// What the physics say of one topic among the others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Foreseen {
    /// 90th percentile, seconds.
    pub(super) p90: f64,
    /// Processor time of a record, all of it, seconds.
    pub(super) service: f64,
    /// Of that, what is not its work.
    pub(super) fixed: f64,
    /// How long a record holds up the next where one goes after the other: copies are made beside the line.
    line: f64,
    /// Processors that the topic keeps busy.
    pub(super) load: f64,
    /// Those that topics with shorter bounds keep busy.
    pub(super) before: f64,
    /// The same with those that have its own bound, itself included.
    pub(super) urgent: f64,
    /// 90th percentile of the wait if shorter bounds always went first.
    ranked: f64,
}

/// Some topics' records together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Together {
    /// Records/s.
    pub(super) rate: f64,
    /// Processors kept busy.
    pub(super) load: f64,
    /// Sum of rate times the second moment of the service.
    pub(super) square: f64,
    /// Sum of load times bound, seconds.
    pub(super) bounds: f64,
}

impl Together {
    fn add(&mut self, rate: f64, service: f64, topic: &Topic) {
        self.rate += rate;
        self.load += rate * service;
        self.square += rate * service * service * (1.0 + topic.work_cv * topic.work_cv);
        self.bounds += rate * service * bound(topic);
    }

    /// 90th percentile of the wait where `before` of the load always goes first, and `urgent` before what comes later.
    fn wait(&self, cores: f64, before: f64, urgent: f64) -> f64 {
        if self.load <= 0.0 {
            return 0.0;
        }
        let limit = cores * LOAD_MAX;
        let chance = waiting_chance(cores, self.load.min(limit));
        let rest = self.square / (2.0 * self.load);
        let mean = rest * cores / ((cores - before.min(limit)) * (cores - urgent.min(limit)));
        mean * (chance / SLOWER).ln().max(0.0)
    }

    /// What is added to every wait within `seconds` of too much load.
    fn overload(&self, cores: f64, seconds: f64) -> f64 {
        let excess = self.load / cores - LOAD_MAX;
        if excess > 0.0 { excess * seconds } else { 0.0 }
    }
}

/// What the physics say of each topic, in their order. Under too much load latencies grow for as long as it lasts: `seconds`, infinite
/// where it does not end.
///
/// Where the earliest deadline goes first, what is late comes behind all that can still be in time: a 90th percentile is at the bound, and
/// not beyond, as long as [`IN_TIME`] of the records alone would keep it.
pub(super) fn foresee(
    scheduler: Dispatch,
    parameters: &MachineParameters,
    (speed, seconds): (f64, f64),
    topics: &[&Topic],
    answer: &mut Vec<Foreseen>,
) -> Together {
    let all = of_part(1.0, scheduler, parameters, (speed, seconds), topics, answer);
    let is_late = |(one, topic): (&Foreseen, &&Topic)| one.p90 > bound(topic);
    let keeps_up = all.load <= parameters.cores * LOAD_MAX;
    if scheduler == Dispatch::Edf && keeps_up && answer.iter().zip(topics).any(is_late) {
        let mut in_time = Vec::with_capacity(topics.len());
        of_part(IN_TIME, scheduler, parameters, (speed, seconds), topics, &mut in_time);
        for ((one, few), topic) in answer.iter_mut().zip(&in_time).zip(topics) {
            one.p90 = one.p90.min(few.p90.max(bound(topic)));
        }
    }
    all
}

/// The same where only a part of the records comes.
fn of_part(
    part: f64,
    scheduler: Dispatch,
    parameters: &MachineParameters,
    (speed, seconds): (f64, f64),
    topics: &[&Topic],
    answer: &mut Vec<Foreseen>,
) -> Together {
    let slower = (1.0 + parameters.contention * (topics.len() as f64 - 1.0)) / speed;
    let cores = parameters.cores;
    let mut all = Together::default();
    answer.clear();
    for topic in topics {
        let line = (topic.work.as_secs_f64() + parameters.overhead_seconds) * slower;
        let copies = parameters.copy_seconds * f64::from(topic.subscribers) * slower;
        let (service, fixed) = (line + copies, parameters.overhead_seconds * slower + copies);
        let rate = topic.rate * part;
        all.add(rate, service, topic);
        let load = rate * service;
        answer.push(Foreseen { service, fixed, line, load, ..Foreseen::default() });
    }
    rank(topics, answer);
    let wait = all.wait(cores, 0.0, all.load);
    for one in answer.iter_mut() {
        one.ranked = all.wait(cores, one.before, one.urgent);
    }
    let frontier = frontier(topics, answer, wait);
    let overload = all.overload(cores, seconds);
    for (one, topic) in answer.iter_mut().zip(topics) {
        let (waits, stretch) = match scheduler {
            Dispatch::Edf => (one.waits(topic, frontier, wait), 1.0),
            Dispatch::Fifo => (wait, 1.0),
            Dispatch::ThreadPerTopic => (0.0, stretch(cores, all.load - one.load)),
        };
        let service = one.service * stretch;
        let in_line = if topic.is_serial || scheduler == Dispatch::ThreadPerTopic {
            let mut own = Together::default();
            own.add(topic.rate * part, one.line * stretch, topic);
            own.wait(1.0, 0.0, own.load) + own.overload(1.0, seconds)
        } else {
            0.0
        };
        let takes = service * (1.0 + NORMAL_P90 * topic.work_cv) + waits.max(in_line) + overload;
        one.p90 = parameters.latency_seconds + parameters.bias * takes;
    }
    all
}

impl Foreseen {
    /// The wait, where all that is due before the frontier has been served: never outside of what no order and a strict one give.
    fn waits(&self, topic: &Topic, frontier: f64, wait: f64) -> f64 {
        let (low, high) = (self.ranked.min(wait), self.ranked.max(wait));
        (bound(topic) - frontier).clamp(low, high)
    }
}

/// Puts in what topics with shorter bounds keep busy.
fn rank(topics: &[&Topic], answer: &mut [Foreseen]) {
    let mut order: Vec<usize> = (0..topics.len()).collect();
    order.sort_by_key(|&place| topics[place].bound);
    let (mut load, mut at) = (0.0, 0);
    while at < order.len() {
        let bound = topics[order[at]].bound;
        let same = order[at..].iter().take_while(|&&place| topics[place].bound == bound).count();
        let before = load;
        load += order[at..at + same].iter().map(|&place| answer[place].load).sum::<f64>();
        for &place in &order[at..at + same] {
            (answer[place].before, answer[place].urgent) = (before, load);
        }
        at += same;
    }
}

/// The time, in seconds from now, before which whatever is due has been served: whoever goes first, the work that waits is the same, so the
/// waits are those with the sum that they have in no order.
fn frontier(topics: &[&Topic], answer: &[Foreseen], wait: f64) -> f64 {
    let bounds = || topics.iter().map(|topic| bound(topic));
    let longest = answer.iter().map(|one| one.ranked).fold(wait, f64::max);
    let mut early = bounds().fold(f64::INFINITY, f64::min) - longest;
    let mut late = bounds().fold(0.0, f64::max);
    let work: f64 = answer.iter().map(|one| one.load * wait).sum();
    for _ in 0..STEPS {
        let middle = f64::midpoint(early, late);
        let of = |(one, topic): (&Foreseen, &&Topic)| one.load * one.waits(topic, middle, wait);
        if answer.iter().zip(topics).map(of).sum::<f64>() > work {
            early = middle;
        } else {
            late = middle;
        }
    }
    f64::midpoint(early, late)
}

/// The bound, seconds; a longer one than an hour is one.
pub(super) fn bound(topic: &Topic) -> f64 {
    topic.bound.as_secs_f64().min(3600.0)
}

/// How much longer a thread's work takes beside this load of others, which share the processors with it.
fn stretch(cores: f64, others: f64) -> f64 {
    let others = others.min(cores * LOAD_MAX);
    1.0 + waiting_chance(cores, others) / (cores - others)
}

/// Part of the records that has the processors where a tenth may be late: that tenth has some of them before it is late. Chosen with
/// simulated brokers.
const IN_TIME: f64 = 0.95;
/// Halvings of the time between bounds: to less than a microsecond of an hour.
const STEPS: usize = 44;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::super::super::samples::topic;
    use super::*;

    const PARAMETERS: MachineParameters = MachineParameters {
        cores: 2.0,
        contention: 0.03,
        bias: 1.0,
        overhead_seconds: 0.0,
        copy_seconds: 0.0,
        latency_seconds: 0.0,
    };

    fn p90(scheduler: Dispatch, topics: &[Topic], seconds: f64) -> Vec<f64> {
        let (all, mut answer): (Vec<&Topic>, _) = (topics.iter().collect(), Vec::new());
        foresee(scheduler, &PARAMETERS, (1.0, seconds), &all, &mut answer);
        answer.iter().map(|one| one.p90).collect()
    }

    fn within(millis: u64, topic: Topic) -> Topic {
        Topic { bound: Duration::from_millis(millis), ..topic }
    }

    #[test]
    fn a_tenth_may_be_late_and_comes_behind() {
        // 0.95 of two processors, contention included: 128 ms in no order, 70 ms where one in twenty does not come.
        let busy = |bound, rate| vec![within(bound, topic(10, rate)); 4];
        let at = |bound, rate| p90(Dispatch::Edf, &busy(bound, rate), f64::INFINITY)[0];
        assert!((at(100, 43.5) - 0.1).abs() < 1e-12, "{}", at(100, 43.5));
        // A bound that these would miss too is missed, one that all keep is kept.
        assert!((0.05..0.1).contains(&at(50, 43.5)), "{}", at(50, 43.5));
        assert!((0.1..0.2).contains(&at(500, 43.5)), "{}", at(500, 43.5));
        assert!(p90(Dispatch::Fifo, &busy(100, 43.5), f64::INFINITY)[0] > 0.11);
        // What asks for more than there is has late records without end.
        assert!(at(100, 46.0).is_infinite());
    }

    #[test]
    fn equal_bounds_wait_as_in_no_order_and_unlike_ones_as_in_a_strict_one() {
        let same = vec![topic(10, 40.0); 4];
        let [edf, fifo] = [Dispatch::Edf, Dispatch::Fifo].map(|by| p90(by, &same, f64::INFINITY));
        assert!(edf.iter().zip(&fifo).all(|(edf, fifo)| (edf - fifo).abs() < 1e-9), "{edf:?}");
        let mixed = [within(30, topic(10, 80.0)), within(10_000, topic(10, 80.0))];
        let edf = p90(Dispatch::Edf, &mixed, f64::INFINITY);
        let fifo = p90(Dispatch::Fifo, &mixed, f64::INFINITY);
        assert!(edf[0] < fifo[0] && edf[1] > fifo[1], "{edf:?} {fifo:?}");
        // Nearly alike bounds are nearly no order.
        let near = [within(1000, topic(10, 80.0)), within(1001, topic(10, 80.0))];
        let near = p90(Dispatch::Edf, &near, f64::INFINITY);
        assert!((near[1] - near[0] - 0.001).abs() < 1e-6, "{near:?}");
    }

    #[test]
    fn too_much_load_grows_for_as_long_as_it_lasts() {
        let topics = vec![topic(10, 120.0); 2];
        assert_eq!(p90(Dispatch::Edf, &topics, f64::INFINITY), [f64::INFINITY; 2]);
        let [short, long] = [1.0, 3.0].map(|seconds| p90(Dispatch::Edf, &topics, seconds)[0]);
        // 2.4 processors with contention 2.472, of 2: 0.256 s a second beyond 0.98.
        assert!((long - short - 2.0 * (1.236 - 0.98)).abs() < 1e-9, "{short} {long}");
    }

    #[test]
    fn a_thread_for_each_topic_waits_where_a_pool_does_not() {
        let topics = [topic(10, 80.0), topic(10, 10.0)];
        let [pool, threads] =
            [Dispatch::Edf, Dispatch::ThreadPerTopic].map(|by| p90(by, &topics, f64::INFINITY));
        assert!(threads[0] > 1.5 * pool[0], "{pool:?} {threads:?}");
    }

    proptest! {
        /// Property 1 of the paper, to a hundredth: short records among long ones make the mean rest of a record shorter.
        /// It does not hold for single topics where the earliest deadline goes first: a topic whose bound is longer takes
        /// over a part of the wait that topics with nearly equal bounds shared.
        #[test]
        fn another_topic_makes_none_much_faster(
            topics in prop::collection::vec((1..60_u64, 0.1..40.0_f64, 20..1000_u64), 2..8),
        ) {
            let topics: Vec<Topic> =
                topics.into_iter().map(|(work, rate, bound)| within(bound, topic(work, rate))).collect();
            let after = p90(Dispatch::Fifo, &topics, f64::INFINITY);
            let before = p90(Dispatch::Fifo, &topics[1..], f64::INFINITY);
            for (before, after) in before.iter().zip(&after[1..]) {
                prop_assert!(*after >= before * 0.99, "{} {}", before, after);
            }
        }
    }
}
