//! Divides a topic that fits nowhere alone: by key where its rate is too high, by subscribers where they are too
//! many; and says what else would help.
//! Source: own; the paper leaves both out (papers/topic-placement.txt, §III-D, footnote 1, and §IV-C).
//! Inputs: a topic, machines, model, margin. Outputs: a number of parts, the least that fits; a bound or a rate.
//! O(log) questions to the model for each.
//! Deviations: none.
//! Limits: [`PARTS_MAX`].

use std::time::Duration;

use super::{FeasibilityOracle, PlacementProblem, Topic, TopicId};

/// Parts of a topic at most: more would cost more processors in copies than they win.
pub const PARTS_MAX: u32 = 64;

/// What would help a topic that no machine can host alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SplitAdvice {
    /// Into so many parts by key.
    pub split: Option<u32>,
    /// So many copies, each with its part of the subscribers.
    pub replicas: Option<u32>,
    /// The shortest bound that it keeps; `None` where it keeps none.
    pub bound: Option<Duration>,
    /// The highest rate at which it keeps its bound (r_max of the paper), records/s; 0 where it keeps it at none.
    pub rate: f64,
}

/// A part of a topic that is split by key: its share of the records.
pub fn split(topic: &Topic, parts: u32) -> Topic {
    Topic { rate: topic.rate / f64::from(parts), ..topic.clone() }
}

/// A copy of a topic: all of the records, for its share of the subscribers.
pub fn replica(topic: &Topic, copies: u32) -> Topic {
    Topic { subscribers: topic.subscribers.div_ceil(copies), ..topic.clone() }
}

/// What would help; `keys` is how many keys its records have, 1 where they are to stay in one order.
pub fn help(problem: &PlacementProblem<'_>, topic: &Topic, keys: u32) -> SplitAdvice {
    let fits = |topic: &Topic| fits_alone(problem, topic);
    let least = |most: u32, part: fn(&Topic, u32) -> Topic| {
        (2..=most.min(PARTS_MAX)).find(|&parts| fits(&part(topic, parts)))
    };
    let (mut rate, mut too_high) = (0.0, topic.rate);
    for _ in 0..40 {
        let middle = f64::midpoint(rate, too_high);
        if fits(&Topic { rate: middle, ..topic.clone() }) {
            rate = middle;
        } else {
            too_high = middle;
        }
    }
    SplitAdvice {
        split: least(keys, split),
        replicas: least(topic.subscribers, replica),
        bound: shortest_bound(problem, topic),
        rate,
    }
}

/// Whether some machine can host a topic alone: what is admitted (Property 1a of the paper).
pub fn fits_alone(problem: &PlacementProblem<'_>, topic: &Topic) -> bool {
    let topics = std::slice::from_ref(topic);
    let mut feasible = FeasibilityOracle::new(PlacementProblem { topics, ..*problem });
    (0..machines(problem)).any(|place| {
        let machine = problem.machines.nth(place).copied();
        machine.is_some_and(|machine| feasible.fits(&machine, [TopicId(0)]))
    })
}

fn shortest_bound(problem: &PlacementProblem<'_>, topic: &Topic) -> Option<Duration> {
    let mut answer = Vec::new();
    for place in 0..machines(problem) {
        if let Some(machine) = problem.machines.nth(place) {
            problem.model.p90(machine, &[topic], &mut answer);
        }
    }
    let least = answer.into_iter().fold(f64::INFINITY, f64::min) / (1.0 - problem.margin);
    // A nanosecond more, for what a duration cannot hold.
    Duration::try_from_secs_f64(least).ok().map(|bound| bound + Duration::from_nanos(1))
}

fn machines(problem: &PlacementProblem<'_>) -> usize {
    match problem.machines {
        super::Machines::Any(_) => 1,
        super::Machines::Listed(all) => all.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Machines;
    use super::super::samples::{MACHINE, problem, topic};
    use super::*;

    #[test]
    fn a_topic_that_is_too_fast_is_split_by_key_into_as_few_parts_as_fit() {
        // A load of 10 processors of 4: two parts have 5 each, three have 3.3.
        let (machines, fast) = (Machines::Any(MACHINE), topic(10, 1000.0));
        let problem = problem(&[], &machines, 6);
        assert!(!fits_alone(&problem, &fast));
        let found = help(&problem, &fast, 1000);
        assert_eq!(found.split, Some(3));
        assert!(fits_alone(&problem, &split(&fast, 3)) && !fits_alone(&problem, &split(&fast, 2)));
        assert_eq!((found.replicas, found.bound), (None, None), "no bound helps an overload");
        assert!((300.0..400.0).contains(&found.rate), "{}", found.rate);
        assert_eq!(help(&problem, &fast, 1).split, None, "one key is one order");
    }

    #[test]
    fn a_topic_with_too_many_subscribers_is_replicated() {
        // 4 us a copy: a million subscribers are 4 s of a processor for each record.
        let machines = Machines::Any(MACHINE);
        let crowded = Topic { subscribers: 1_000_000, ..topic(1, 0.2) };
        let problem = problem(&[], &machines, 6);
        let found = help(&problem, &crowded, 1);
        let copies = found.replicas.unwrap();
        assert!((4..8).contains(&copies), "{copies}");
        assert!(fits_alone(&problem, &replica(&crowded, copies)));
        let longer = Topic { bound: found.bound.unwrap(), ..crowded };
        assert!(fits_alone(&problem, &longer), "the bound that is told is kept");
    }
}
