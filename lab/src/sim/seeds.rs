//! Random worlds: links, loads and faults from a seed, and what must hold in every one of them.

use tidegate_capacity::RateControllerName;
use tidegate_schedule::SchedulerName;
use tidegate_types::record::DropReason;

use super::quantity::{Amount, Span, Speed};
use super::random::Random;
use super::report;
use super::scenario::{
    Arrivals, Change, ConnectionSpec, Feedback, FlowKind, FlowSpec, LinkSpec, LoadSpec, NodeSpec,
    Order, Scenario, Step, Window,
};
use super::world::Outcome;
use crate::link::Loss;

/// How long a world lives, and how long its node may take to deliver the rest.
const LENGTH: Span = Span::seconds(20);
const DRAIN: Span = Span::seconds(3600);

/// The world of a seed.
pub(super) fn scenario(seed: u64) -> Scenario {
    use RateControllerName::{Bbr, Copa, Ledbat, Tide};
    use SchedulerName::{Native, Tidegate as Ours};
    let random = &mut Random::new(seed, 7);
    let megabits = random.pick(&[0.1, 0.5, 1.0, 2.0, 5.0, 20.0]);
    let delay = Span::millis(random.between(1, 200));
    let queue = Amount(random.pick(&[8, 32, 256, 1024]) * 1024);
    let mut link = LinkSpec::new(Speed::megabits(megabits), delay, queue);
    link.uplink.loss = Loss::Random(random.pick(&[0.0, 0.0, 0.0, 0.005, 0.03]));
    let (five, twenty) = (Span::millis(5), Span::millis(20));
    let connection = ConnectionSpec {
        order: random.pick(&[Order::Kept, Order::Kept, Order::None]),
        window: random.pick(&[Window::Open, Window::Reno]),
        feedback: random.pick(&[
            Feedback::Each,
            Feedback::Polled(five),
            Feedback::Batched(five, twenty),
            Feedback::Held(Span::millis(40), Span::millis(100)),
        ]),
        ..ConnectionSpec::default()
    };
    let node = NodeSpec {
        scheduler: random.pick(&[Ours, Ours, Ours, Native]),
        law: random.pick(&[Tide, Tide, Tide, Bbr, Copa, Ledbat]),
        rate: random.happens(0.2).then(|| Speed::megabits(megabits * 0.8)),
        ..NodeSpec::default()
    };
    Scenario {
        name: format!("seed {seed}"),
        length: LENGTH,
        drain: DRAIN,
        node,
        connection,
        link,
        load: loads(random, megabits),
        flow: flows(random, megabits),
        step: steps(random, megabits),
        phase: Vec::new(),
    }
}

fn loads(random: &mut Random, megabits: f64) -> Vec<LoadSpec> {
    let count = random.between(1, 5);
    let load = |place: u64| {
        let small = random.between(10, 2000);
        let large = random.pick(&[small, small, 4 * small, 60_000]).max(small);
        // Alone, a load takes between nothing and the whole link, so that some worlds are overloaded.
        let mean = (small + large) as f64 / 2.0;
        let per_second = (megabits * 1e6 / 8.0 * random.share() / mean).clamp(0.1, 400.0);
        LoadSpec {
            name: format!("load{place}"),
            key: format!("load{place}"),
            latency: Span::millis(random.pick(&[20, 50, 200, 500, 1000, 5000])),
            size: (Amount(small), Amount(large)),
            arrivals: match random.between(0, 5) {
                0 => Arrivals::Backlogged,
                1 | 2 => Arrivals::Constant(per_second),
                _ => Arrivals::Poisson(per_second),
            },
            from: Span::millis(random.between(0, 5000)),
            until: None,
        }
    };
    (0..count).map(load).collect()
}

fn flows(random: &mut Random, megabits: f64) -> Vec<FlowSpec> {
    let kind = random.pick(&[FlowKind::Reno, FlowKind::Constant(Speed::megabits(megabits * 0.4))]);
    let from = Span::millis(random.between(0, 10_000));
    let until = Some(Span::millis(random.between(10_000, 20_000)));
    if random.happens(0.3) { vec![FlowSpec { kind, from, until }] } else { Vec::new() }
}

fn steps(random: &mut Random, megabits: f64) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = 0;
    for _ in 0..random.between(0, 6) {
        at += random.between(1, 4000);
        let mut push = |at, change| steps.push(Step { at: Span::millis(at), change });
        match random.between(0, 4) {
            0 => push(at, Change::rate(Speed::megabits(megabits * random.share().max(0.05)))),
            1 => push(at, Change::delay(Span::millis(random.between(1, 200)))),
            2 => push(at, Change::loss(random.share() * 0.05)),
            3 => {
                push(at, Change::rate(Speed::megabits(0.0)));
                at += random.between(1, 2000);
                push(at, Change::rate(Speed::megabits(megabits)));
            }
            _ => {
                push(at, Change::Down);
                at += random.between(1, 3000);
                push(at, Change::Up);
            }
        }
    }
    // In the end the link is what it was, so that what is held can be delivered within `DRAIN`.
    steps.push(Step { at: LENGTH, change: Change::rate(Speed::megabits(megabits)) });
    steps.push(Step { at: LENGTH, change: Change::loss(0.0) });
    steps
}

/// Records lost, and every promise that this run broke.
pub(super) fn check(scenario: &Scenario, outcome: &Outcome) -> (i128, Vec<String>) {
    let (lost, mut broken) = report::audit(scenario, outcome);
    let status = &outcome.status;
    if lost != 0 {
        broken.push(format!("{lost} accepted records have no fate"));
    }
    // A rival may stop in a path that became longer or a queue that is too short: that is its own affair.
    if status.held > 0 && scenario.node.law == RateControllerName::Tide {
        let waited = outcome.ended.as_secs_f64();
        broken.push(format!("{} records still held after {waited:.0} s", status.held));
    }
    for (place, (accepted, refused, unanswered)) in outcome.answers.iter().enumerate() {
        // A source that is blocked when the loads end has offers without an answer until there is room.
        if *unanswered > 0 && status.held == 0 {
            broken.push(format!("{unanswered} offers of load {place} were never answered"));
        }
        let received = outcome.ledger.distinct(place);
        if received > *accepted || (status.held == 0 && received < *accepted) {
            let what = format!("{accepted} accepted, {refused} refused, {received} received");
            broken.push(format!("load {place}: {what}"));
        }
    }
    let dropped = status.counts.dropped;
    let reasons = DropReason::ALL.into_iter().filter(|reason| dropped[reason.index()] > 0);
    // Nothing in these worlds is a reason to drop.
    broken.extend(reasons.map(|reason| format!("dropped: {}", reason.name())));
    (lost, broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::world::World;

    fn run(scenario: &Scenario, seed: u64) -> Outcome {
        World::new(scenario, seed).unwrap().strict().run()
    }

    #[test]
    fn promises_hold_in_random_worlds() {
        let mut again = 0;
        for seed in 1..=24 {
            let scenario = scenario(seed);
            let outcome = run(&scenario, seed);
            let (lost, broken) = check(&scenario, &outcome);
            assert!(lost == 0 && broken.is_empty(), "seed {seed}: {broken:#?}");
            again += outcome.status.counts.again;
        }
        assert!(again > 0, "no world had a broken connection with something under way");
    }

    #[test]
    fn checkers_bite() {
        let scenario = scenario(1);
        let mut outcome = run(&scenario, 1);
        outcome.status.counts.confirmed -= 1;
        assert_eq!(check(&scenario, &outcome).0, 1);
        outcome.status.counts.confirmed += 1;
        outcome.answers[0].0 += 1;
        let (_, broken) = check(&scenario, &outcome);
        assert!(broken.iter().any(|what| what.contains("received")), "{broken:?}");
        outcome.status.counts.dropped[DropReason::Full.index()] = 1;
        let (lost, broken) = check(&scenario, &outcome);
        assert!(lost == -1 && broken.iter().any(|what| what == "dropped: full"), "{broken:?}");
    }

    #[test]
    fn a_cut_of_nothing_known_is_a_broken_promise() {
        let mut ledger = tidegate_lab_engine::sim::ledger::Ledger::new(1);
        let now = tidegate_types::units::Time::ZERO;
        ledger.received(now, tidegate_types::record::DeliveryId(7), 100);
        assert_eq!(ledger.broken.len(), 1);
    }
}
