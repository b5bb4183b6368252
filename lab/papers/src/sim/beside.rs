//! `lab sim node-beside`: a node at a tail-drop queue that a loss-based flow fills, under each law. `tide-beside` is made for it.
//!
//! Queues of half, one and four bandwidth-delay products; the flow comes, stays for long and goes. What is asked: the node's
//! part of the link, what its alarms wait meanwhile, and whether both are as before once the flow has gone. And links that fall to
//! a part above such queues, where nobody comes: its own queue is no rival's.

use tidegate_capacity::RateControllerName;

use super::parallel;
use super::quantity::{Amount, Span, Speed};
use super::report::{self, Alarm, Row};
use super::scenario::{
    Arrivals, Change, ConnectionSpec, FlowKind, FlowSpec, LinkSpec, LoadSpec, NodeSpec, Phase,
    Scenario, Step,
};
use super::world::World;
use crate::report::{Findings, figure};

/// The link: Mbit/s, and propagation one way in milliseconds.
const LINKS: [(f64, u64); 2] = [(8.0, 50), (20.0, 20)];
/// The queue, in bandwidth-delay products.
const QUEUES: [f64; 3] = [0.5, 1.0, 4.0];
const FLOWS: [(FlowKind, &str); 2] = [(FlowKind::Reno, "Reno"), (FlowKind::Cubic, "CUBIC")];
/// When the flow comes and goes, and the end, seconds.
const FLOW: (u64, u64) = (10, 60);
const END: u64 = 80;
/// Seconds in which both find their part, and in which the node has the link to itself again.
const FOUND: u64 = 5;
const GONE: u64 = 3;
/// To what links fall, Mbit/s; the first number is the link.
const FALLS: [(f64, u64, f64); 4] =
    [(20.0, 20, 2.0), (20.0, 20, 6.0), (20.0, 50, 2.0), (20.0, 50, 6.0)];
/// What the node's part of the link must be; and of a link that fell.
const PART: [f64; 2] = [0.35, 0.9];

fn phase(name: &str, from: u64, until: u64) -> Phase {
    let (from, until) = (Span::seconds(from), Span::seconds(until));
    Phase { name: name.into(), from, until, rate: None }
}

/// The link falls to so many Mbit/s at the time at which else the flow comes, and rises when it goes.
fn falling(link: (f64, u64), queue: f64, falls_to: f64) -> Scenario {
    let step = |at: u64, megabits: f64| Step {
        at: Span::seconds(at),
        change: Change::rate(Speed::megabits(megabits)),
    };
    let (megabits, delay) = link;
    let mut case = scenario(link, queue, FLOWS[0]);
    case.name = format!("{megabits} to {falls_to} Mbit/s {} ms, queue {queue}", 2 * delay);
    case.flow = Vec::new();
    case.step = vec![step(FLOW.0, falls_to), step(FLOW.1, megabits)];
    case.phase[1] = phase("fallen", FLOW.0, FLOW.1);
    case.phase[1].rate = Some(Speed::megabits(falls_to));
    case
}

fn scenario(link: (f64, u64), queue: f64, flow: (FlowKind, &str)) -> Scenario {
    let (megabits, delay) = link;
    let bytes = queue * megabits * 125.0 * 2.0 * delay as f64;
    let (from, until) = (Span::seconds(FLOW.0), Some(Span::seconds(FLOW.1)));
    Scenario {
        name: format!("{}, {megabits} Mbit/s {} ms, queue {queue}", flow.1, 2 * delay),
        length: Span::seconds(END),
        drain: Span::default(),
        node: NodeSpec::default(),
        connection: ConnectionSpec::default(),
        link: LinkSpec::new(Speed::megabits(megabits), Span::millis(delay), Amount(bytes as u64)),
        load: vec![
            LoadSpec::steady(report::ALARM, 50, 200, Arrivals::Constant(50.0)),
            LoadSpec::steady("bulk", 1000, 20_000, Arrivals::Backlogged),
        ],
        flow: vec![FlowSpec { kind: flow.0, from, until }],
        step: Vec::new(),
        phase: vec![
            phase("alone", 3, FLOW.0),
            phase("together", FLOW.0 + FOUND, FLOW.1),
            phase("gone", FLOW.1 + GONE, END),
        ],
    }
}

/// Plays each case under the law under test, under BBR and under what else is asked for.
///
/// # Errors
/// A scenario that cannot be played, or a broken promise.
pub fn run(laws: &[RateControllerName], seed: u64) -> anyhow::Result<Findings> {
    let rivals = laws[1..].iter().filter(|law| **law != RateControllerName::Bbr);
    let laws: Vec<_> = [laws[0], RateControllerName::Bbr].iter().chain(rivals).copied().collect();
    let mut cases = Vec::new();
    for flow in FLOWS {
        for link in LINKS {
            cases.extend(QUEUES.map(|queue| scenario(link, queue, flow)));
        }
    }
    for (megabits, delay, falls_to) in FALLS {
        cases.extend(QUEUES.map(|queue| falling((megabits, delay), queue, falls_to)));
    }
    let worlds: Vec<Scenario> =
        cases.iter().flat_map(|case| laws.iter().map(|&law| case.clone().with_law(law))).collect();
    let play = |scenario: &Scenario| -> anyhow::Result<Vec<Row>> {
        let outcome = World::new(scenario, seed)?.run();
        let (lost, broken) = report::audit(scenario, &outcome);
        anyhow::ensure!(lost == 0 && broken.is_empty(), "{}: {broken:?}", scenario.name);
        Ok(report::rows(scenario, &outcome))
    };
    let rows = parallel::map(&worlds, play).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    let mut lines = report::table(&rows.concat());
    let (mut least, mut longest, mut kept) = (f64::MAX, 0.0_f64, 0);
    for (case, rows) in cases.iter().zip(rows.chunks(laws.len())) {
        let together = |law: usize| &rows[law][1];
        let p99 = |law: usize| together(law).alarm.map_or(f64::NAN, |Alarm { p99, .. }| p99);
        let (part, of_bbr) = (together(0).all, p99(0) / p99(1));
        let asked = PART[usize::from(case.flow.is_empty())];
        let keeps = part >= asked && of_bbr <= 1.0;
        let verdict = if keeps { "keeps" } else { "MISSES" };
        lines.push(format!(
            "{}: {verdict} {asked} of the link at BBR's p99 ({part:.3}, {of_bbr:.2})",
            case.name
        ));
        (least, longest, kept) = (least.min(part), longest.max(of_bbr), kept + u32::from(keeps));
    }
    let name = |what: &str| format!("beside_{}_{what}", laws[0].name());
    let figures = vec![
        figure(&name("share_least"), least, "1"),
        figure(&name("p99_of_bbr_most"), longest, "1"),
        figure(&name("kept"), f64::from(kept), "cases"),
    ];
    Ok((lines, figures).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_counted_in_bandwidth_delay_products() {
        let case = scenario((8.0, 50), 0.5, FLOWS[1]);
        assert_eq!((case.link.uplink.queue, case.flow[0].kind), (50_000, FlowKind::Cubic));
        assert_eq!(case.name, "CUBIC, 8 Mbit/s 100 ms, queue 0.5");
    }
}
