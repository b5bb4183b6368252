//! Predicts 90th percentiles by the physics of the broker's worker pool: many workers, the earliest deadline first.
//! Source: own, after the M/G/c queue: Erlang's C for the chance of waiting, Allen and Cunneen's correction for work
//! that is not exponential, an exponential tail for the wait of those that wait.
//! Inputs: work, its variation, rate, bound and fan-out of each topic; processors, speed, contention and bias of the
//! machine. Outputs: 90th percentile of each topic, seconds. O(n log n).
//! Deviations: the earliest deadline first is read as priority by bound: a record waits for the load of bounds up to
//! its own and for the rest of one record of the others (docs/algorithms-place.md#physics).
//! Limits: none.

use super::{LatencyModel, Machine, Topic};

/// The part of records that may be slower: of a 90th percentile, a tenth.
pub(super) const SLOWER: f64 = 0.1;
/// How many standard deviations of a normal the 90th percentile is above its mean.
pub(super) const NORMAL_P90: f64 = 1.281_552;
/// The load of a machine beyond which no wait is predicted.
pub(super) const LOAD_MAX: f64 = 0.98;
/// CPU time of one subscriber's copy, seconds, on the machine where topics are measured.
const COPY_S: f64 = 4e-6;

/// The physics of the pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Physics;

/// What topics with bounds up to some bound do to a machine.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    rate: f64,
    /// Processors kept busy.
    load: f64,
    /// Sum of rate times the second moment of the work.
    square: f64,
}

impl Stream {
    fn add(&mut self, rate: f64, work: f64, cv: f64) {
        self.rate += rate;
        self.load += rate * work;
        self.square += rate * work * work * (1.0 + cv * cv);
    }

    /// Variation of the work, and 90th percentile of the wait for `cores` workers.
    fn wait(&self, cores: f64) -> f64 {
        let used = self.load / cores;
        if used >= LOAD_MAX {
            return f64::INFINITY;
        }
        if self.rate <= 0.0 {
            return 0.0;
        }
        let work = self.load / self.rate;
        let variation = self.square / self.rate / (work * work);
        let chance = waiting_chance(cores, self.load);
        // Those that wait do so for this long on average, with an exponential tail.
        let mean = work / (cores - self.load) * variation / 2.0;
        mean * (chance / SLOWER).ln().max(0.0)
    }
}

/// Erlang's C: the chance that a record finds every worker busy. Between whole numbers of workers it is
/// interpolated, as shares of processors are.
pub(super) fn waiting_chance(cores: f64, load: f64) -> f64 {
    let whole = |workers: f64| {
        if load >= workers {
            return 1.0;
        }
        // Erlang's B by its recursion, then C from B.
        let mut blocked = 1.0;
        for worker in 1..=workers as u32 {
            blocked = load * blocked / (f64::from(worker) + load * blocked);
        }
        let used = load / workers;
        blocked / (1.0 - used * (1.0 - blocked))
    };
    let below = cores.floor().max(1.0);
    let part = (cores - below).clamp(0.0, 1.0);
    whole(below) * (1.0 - part) + whole(below + 1.0) * part
}

impl LatencyModel for Physics {
    fn p90(&self, machine: &Machine, topics: &[&Topic], answer: &mut Vec<f64>) {
        let slower = (1.0 + machine.contention * (topics.len() as f64 - 1.0)) / machine.speed;
        let work = |topic: &Topic| {
            (topic.work.as_secs_f64() + COPY_S * f64::from(topic.subscribers)) * slower
        };
        let mut order: Vec<usize> = (0..topics.len()).collect();
        order.sort_by_key(|&place| topics[place].bound);
        let mut all = Stream::default();
        topics.iter().for_each(|topic| all.add(topic.rate, work(topic), topic.work_cv));
        let busy = (all.load / machine.cores).min(1.0);
        let base = answer.len();
        answer.resize(base + topics.len(), 0.0);
        let mut urgent = Stream::default();
        let mut at = 0;
        while at < order.len() {
            let bound = topics[order[at]].bound;
            let same =
                order[at..].iter().take_while(|&&place| topics[place].bound == bound).count();
            let (level, later) = order[at..].split_at(same);
            level.iter().for_each(|&place| {
                urgent.add(topics[place].rate, work(topics[place]), topics[place].work_cv);
            });
            // A record under work is finished first, whatever its bound.
            let longest = later.iter().map(|&place| work(topics[place])).fold(0.0, f64::max);
            let rest = longest * busy / machine.cores;
            // The pool does not know in advance what will come: it is stable only as a whole.
            let wait = if all.load >= machine.cores * LOAD_MAX {
                f64::INFINITY
            } else {
                urgent.wait(machine.cores) + rest
            };
            for &place in level {
                let topic = topics[place];
                let own = work(topic) * (1.0 + NORMAL_P90 * topic.work_cv);
                answer[base + place] =
                    machine.bias * (own + wait.max(alone_in_line(topic, work(topic))));
            }
            at += same;
        }
    }

    fn load_max(&self, machine: &Machine, together: usize) -> f64 {
        // `load` counts the work as it was measured.
        let slower = 1.0 + machine.contention * (together as f64 - 1.0).max(0.0);
        machine.cores * machine.speed * LOAD_MAX / slower
    }
}

/// The wait of a topic whose records are worked on one after the other, for itself.
fn alone_in_line(topic: &Topic, work: f64) -> f64 {
    if !topic.is_serial {
        return 0.0;
    }
    let mut own = Stream::default();
    own.add(topic.rate, work, topic.work_cv);
    own.wait(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{MACHINE, topic};
    use super::*;

    fn p90(machine: &Machine, topics: &[Topic]) -> Vec<f64> {
        let (all, mut answer): (Vec<&Topic>, _) = (topics.iter().collect(), Vec::new());
        Physics.p90(machine, &all, &mut answer);
        answer
    }

    #[test]
    fn erlangs_table() {
        // C(c, a) from the textbooks: two servers at 1 Erlang 1/3, ten at 8 Erlang 0.409.
        assert!((waiting_chance(2.0, 1.0) - 1.0 / 3.0).abs() < 1e-12);
        assert!((waiting_chance(10.0, 8.0) - 0.409).abs() < 5e-4);
        // One server: the load itself.
        assert!((waiting_chance(1.0, 0.7) - 0.7).abs() < 1e-12);
    }

    #[test]
    fn one_server_with_exponential_work_waits_as_the_textbook_says() {
        // M/M/1 at 0.8: the wait of those that wait has mean S / (1 - rho) = 50 ms, and a chance of 0.8.
        let mut stream = Stream::default();
        stream.add(80.0, 0.01, 1.0);
        assert!((stream.wait(1.0) - 0.05 * 8.0_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn an_urgent_topic_hardly_feels_the_others() {
        let urgent = Topic { bound: std::time::Duration::from_millis(100), ..topic(10, 20.0) };
        let others = vec![topic(20, 40.0); 4];
        let alone = p90(&MACHINE, std::slice::from_ref(&urgent))[0];
        let all: Vec<Topic> = std::iter::once(urgent).chain(others).collect();
        let together = p90(&MACHINE, &all);
        assert!(together[0] < alone * 1.8 && together[1] > together[0] * 2.0, "{together:?}");
    }

    #[test]
    fn a_serial_topic_has_one_worker() {
        let pooled = topic(10, 80.0);
        let serial = Topic { is_serial: true, ..pooled.clone() };
        let [pooled, serial] = [pooled, serial].map(|topic| p90(&MACHINE, &[topic])[0]);
        assert!(serial > pooled * 2.0, "{serial} {pooled}");
        let too_fast = Topic { is_serial: true, ..topic(10, 120.0) };
        assert_eq!(p90(&MACHINE, &[too_fast]), [f64::INFINITY]);
    }

    fn any_topic() -> impl Strategy<Value = Topic> {
        let bound = prop::sample::select(vec![100_u64, 300, 1000]);
        (1..60_u64, 0.1..60.0_f64, bound, any::<bool>(), 0.0..2.0_f64).prop_map(
            |(work, rate, bound, is_serial, work_cv)| Topic {
                bound: std::time::Duration::from_millis(bound),
                is_serial,
                work_cv,
                ..topic(work, rate)
            },
        )
    }

    proptest! {
        /// Property 1 of the paper: a topic more makes none faster.
        #[test]
        fn another_topic_makes_none_faster(
            topics in prop::collection::vec(any_topic(), 1..8), more in any_topic(),
        ) {
            let before = p90(&MACHINE, &topics);
            let all: Vec<Topic> = topics.into_iter().chain([more]).collect();
            let after = p90(&MACHINE, &all);
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(after >= &(before * (1.0 - 1e-9)), "{before} {after}");
            }
        }

        #[test]
        fn no_set_is_feasible_beyond_the_greatest_load(topics in prop::collection::vec(any_topic(), 1..8)) {
            let load: f64 = topics.iter().map(Topic::load).sum();
            if load > Physics.load_max(&MACHINE, topics.len()) {
                prop_assert!(p90(&MACHINE, &topics).iter().all(|p90| p90.is_infinite()));
            }
        }
    }
}
