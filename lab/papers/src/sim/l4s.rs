//! `lab sim node-l4s`: a node at queues that mark packets in place of dropping them.
//!
//! A coupled dual queue (RFC 9332), where the node's packets are L4S's: alone, beside a flow of Prague in the same queue, and
//! beside CUBIC in the classic one. And CoDel (RFC 8289), one queue for all. What is asked: how long the node's packets stand in
//! the queue, what of the link is used, and the node's part over the other's.

use tidegate_capacity::RateControllerName;
use tidegate_lab_engine::sim::links::statistics::percentile;
use tidegate_types::units::Time;

use super::parallel;
use super::quantity::{Amount, Span, Speed};
use super::report::{self, Alarm};
use super::scenario::{
    Arrivals, ConnectionSpec, FlowKind, FlowSpec, LinkSpec, LoadSpec, NodeSpec, Phase, Scenario,
};
use super::world::{Outcome, World};
use crate::link::{Discipline, Ecn};
use crate::report::{Findings, figure};

/// Mbit/s, and round trips in milliseconds.
const RATES: [f64; 3] = [4.0, 20.0, 100.0];
const ROUND_TRIPS: [u64; 2] = [20, 80];
const FLOWS: [(Discipline, Option<FlowKind>, &str); 5] = [
    (Discipline::DualPi2, None, "dual queue, alone"),
    (Discipline::DualPi2, Some(FlowKind::Prague), "dual queue, Prague"),
    (Discipline::DualPi2, Some(FlowKind::Cubic), "dual queue, CUBIC"),
    (Discipline::CoDel, None, "CoDel, alone"),
    (Discipline::CoDel, Some(FlowKind::Cubic), "CoDel, CUBIC"),
];
/// What the queue holds, seconds.
const QUEUE: f64 = 0.25;
/// When the other flow comes, when both have found their part, and the end, seconds.
const TIMES: (u64, u64, u64) = (5, 20, 60);
/// What is asked: wait for the wire in milliseconds, part of the link in use, and the node's part over the other's.
const WAIT: f64 = 5.0;
const USED: f64 = 0.95;
const RATIO: (f64, f64) = (0.5, 2.0);

/// What was seen from when both had found their part.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Waits of the node's packets for the wire, ms.
    p50: f64,
    p99: f64,
    /// Parts of the link.
    own: f64,
    other: f64,
    /// Part of the node's packets that came marked.
    marked: f64,
    alarm: Option<Alarm>,
}

fn scenario(rate: f64, trip: u64, flow: (Discipline, Option<FlowKind>, &str)) -> Scenario {
    let (discipline, kind, name) = flow;
    let queue = Amount((rate * 125_000.0 * QUEUE) as u64);
    let mut link = LinkSpec::new(Speed::megabits(rate), Span::millis(trip / 2), queue);
    link.uplink.discipline = discipline;
    let (from, until) = (Span::seconds(TIMES.1), Span::seconds(TIMES.2));
    let other = |kind| FlowSpec { kind, from: Span::seconds(TIMES.0), until: None };
    Scenario {
        name: format!("{rate} Mbit/s {trip} ms, {name}"),
        length: until,
        drain: Span::default(),
        node: NodeSpec::default(),
        connection: ConnectionSpec { ecn: Ecn::Ect1, ..ConnectionSpec::default() },
        link,
        load: vec![
            LoadSpec::steady(report::ALARM, 50, 200, Arrivals::Constant(50.0)),
            LoadSpec::steady("bulk", 1000, 20_000, Arrivals::Backlogged),
        ],
        flow: kind.map(other).into_iter().collect(),
        step: Vec::new(),
        phase: vec![Phase { name: "together".into(), from, until, rate: None }],
    }
}

fn see(scenario: &Scenario, outcome: &Outcome) -> Seen {
    let from = scenario.phase[0].from.0;
    let room = scenario.link.room(&scenario.phase[0]);
    let (mut waits, mut bytes, mut marked) = (Vec::new(), [0.0; 2], 0);
    for crossed in outcome.crossed.iter().filter(|crossed| crossed.at >= Time::ZERO + from) {
        bytes[usize::from(!crossed.is_own)] += crossed.bytes as f64 / room;
        if crossed.is_own {
            waits.push(crossed.waited.as_secs_f64() * 1e3);
            marked += u32::from(crossed.is_marked);
        }
    }
    Seen {
        p50: percentile(&waits, 50.0),
        p99: percentile(&waits, 99.0),
        own: bytes[0],
        other: bytes[1],
        marked: f64::from(marked) / waits.len().max(1) as f64,
        alarm: report::rows(scenario, outcome)[0].alarm,
    }
}

impl Seen {
    /// What is asked of a case, by its place in [`FLOWS`].
    fn keeps(&self, case: &Scenario) -> bool {
        let ratio = self.own / self.other;
        let is_fair = case.flow.is_empty() || (RATIO.0..=RATIO.1).contains(&ratio);
        // A classic queue is as long as its own rule allows.
        let is_short = self.p99 <= WAIT || case.link.uplink.discipline == Discipline::CoDel;
        is_fair && is_short && self.own + self.other >= USED
    }

    fn line(&self, case: &Scenario) -> String {
        let alarm = self.alarm.map_or(f64::NAN, |Alarm { p99, .. }| p99);
        format!(
            "{:<36}  {:>6.2}  {:>6.2}  {:>5.3}  {:>5.3}  {:>5.2}  {:>6.4}  {:>8.0}  {}",
            case.name,
            self.p50,
            self.p99,
            self.own,
            self.other,
            self.own / self.other,
            self.marked,
            alarm,
            if self.keeps(case) { "keeps" } else { "MISSES" }
        )
    }
}

/// Plays each case under the law under test.
///
/// # Errors
/// A scenario that cannot be played, or a broken promise.
pub fn run(laws: &[RateControllerName], seed: u64) -> anyhow::Result<Findings> {
    let mut cases = Vec::new();
    for law in laws {
        for flow in FLOWS {
            for rate in RATES {
                let with = |trip| scenario(rate, trip, flow).with_law(*law);
                cases.extend(ROUND_TRIPS.map(with));
            }
        }
    }
    let play = |scenario: &Scenario| -> anyhow::Result<Seen> {
        let outcome = World::new(scenario, seed)?.run();
        let (lost, broken) = report::audit(scenario, &outcome);
        anyhow::ensure!(lost == 0 && broken.is_empty(), "{}: {broken:?}", scenario.name);
        Ok(see(scenario, &outcome))
    };
    let seen = parallel::map(&cases, play).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let mut lines = vec![format!(
        "{:<36}  {:>6}  {:>6}  {:>5}  {:>5}  {:>5}  {:>6}  {:>8}",
        "case", "p50 ms", "p99 ms", "own", "other", "ratio", "marked", "alarms"
    )];
    let mut figures = Vec::new();
    for (law, played) in laws.iter().enumerate() {
        let each = cases.len() / laws.len();
        let own = || cases.iter().zip(&seen).skip(law * each).take(each);
        lines.extend(std::iter::once(played.name().into()));
        lines.extend(own().map(|(case, seen)| seen.line(case)));
        for (at, (_, _, name)) in FLOWS.iter().enumerate() {
            let kept = own().skip(at * 6).take(6).filter(|(case, seen)| seen.keeps(case)).count();
            let plain = name.to_lowercase().replace(", ", "_").replace(' ', "_");
            figures.push(figure(
                &format!("l4s_{}_{plain}_kept", played.name()),
                kept as f64,
                "cases",
            ));
        }
    }
    Ok((lines, figures).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_at_a_dual_queue_the_wire_is_in_use_and_nobody_waits() {
        let mut case = scenario(20.0, 20, FLOWS[0]);
        (case.length, case.phase[0].until) = (Span::seconds(30), Span::seconds(30));
        let outcome = World::new(&case, 1).unwrap().run();
        let seen = see(&case, &outcome);
        assert!(seen.keeps(&case), "{seen:?}");
        assert!(seen.marked > 0.0 && seen.other == 0.0, "{seen:?}");
    }
}
