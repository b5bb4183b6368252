//! The scenarios that come with the lab.

use tidegate_capacity::RateControllerName;

use super::quantity::{Amount, Span, Speed};
use super::scenario::{
    Arrivals, Change, ConnectionSpec, Feedback, FlowKind, FlowSpec, LinkSpec, LoadSpec, NodeSpec,
    Order, Phase, Scenario, Step, Window,
};
use crate::link::Loss;

/// The laws that stand beside ours.
pub(super) const RIVALS: [RateControllerName; 4] = [
    RateControllerName::Known,
    RateControllerName::Bbr,
    RateControllerName::Copa,
    RateControllerName::Ledbat,
];

fn link(megabits: f64, delay: u64) -> LinkSpec {
    LinkSpec::new(Speed::megabits(megabits), Span::millis(delay), Amount(256 * 1024))
}

fn phase(name: &str, from: f64, until: f64, megabits: f64) -> Phase {
    let span = |seconds: f64| Span::millis((seconds * 1e3) as u64);
    let rate = Some(Speed::megabits(megabits));
    Phase { name: name.into(), from: span(from), until: span(until), rate }
}

fn step(at: u64, change: Change) -> Step {
    Step { at: Span::seconds(at), change }
}

/// Head-of-line blocking: bulk at 160 % of 2 Mbit/s, and alarms.
pub(super) fn hol() -> Scenario {
    Scenario {
        name: "node-hol".into(),
        length: Span::seconds(60),
        drain: Span::seconds(600),
        node: NodeSpec::default(),
        connection: ConnectionSpec::default(),
        link: link(2.0, 50),
        load: vec![
            LoadSpec::steady("alarm", 50, 200, Arrivals::Constant(5.0)),
            LoadSpec::steady("bulk", 1000, 20_000, Arrivals::Constant(20.0)),
        ],
        flow: Vec::new(),
        step: Vec::new(),
        phase: Vec::new(),
    }
}

/// The common ground of steps and disturbances: 8 Mbit/s, bulk without end, 50 alarms a second.
fn busy(name: &str, megabits: f64, delay: u64) -> Scenario {
    Scenario {
        name: name.into(),
        length: Span::seconds(60),
        drain: Span::default(),
        link: link(megabits, delay),
        load: vec![
            LoadSpec::steady("alarm", 50, 200, Arrivals::Constant(50.0)),
            LoadSpec::steady("bulk", 1000, 20_000, Arrivals::Backlogged),
        ],
        ..hol()
    }
}

/// When the rate falls and rises again, seconds.
const STEPS: (u64, u64) = (20, 40);
/// How long a drop's own bytes drain, seconds.
const AFTER_DROP: f64 = 1.5;
/// Time until the new capacity must be in use, seconds.
const FOUND: f64 = 3.0;

/// 8 -> 1 -> 8 Mbit/s, shifted by `offset` milliseconds, so that no law can owe its figures to luck.
pub(super) fn steps(offset: u64) -> Scenario {
    let at = |seconds: u64| Span::millis(seconds * 1000 + offset);
    let (down, up) = (at(STEPS.0).as_secs_f64(), at(STEPS.1).as_secs_f64());
    let end = up + 20.0;
    Scenario {
        length: Span::millis((end * 1e3) as u64),
        step: vec![
            Step { at: at(STEPS.0), change: Change::rate(Speed::megabits(1.0)) },
            Step { at: at(STEPS.1), change: Change::rate(Speed::megabits(8.0)) },
        ],
        phase: vec![
            phase("8 Mbit/s", 0.0, down, 8.0),
            phase("from 3 s", FOUND, down, 8.0),
            phase("drop", down, down + AFTER_DROP, 1.0),
            phase("1 Mbit/s", down + AFTER_DROP, up, 1.0),
            phase("from 3 s", down + FOUND, up, 1.0),
            phase("8 again", up, end, 8.0),
            phase("from 3 s", up + FOUND, end, 8.0),
        ],
        ..busy("steps", 8.0, 50)
    }
}

/// Everything else that may go wrong below, each a scenario of its own.
pub(super) fn disturbances() -> Vec<Scenario> {
    let feedback = |name: &str, megabits: f64, feedback: Feedback| Scenario {
        connection: ConnectionSpec { feedback, ..ConnectionSpec::default() },
        ..busy(name, megabits, 50)
    };
    let (five, twenty) = (Span::millis(5), Span::millis(20));
    let (forty, hundred) = (Span::millis(40), Span::millis(100));
    let flow = |name: &str, kind: FlowKind, rate: f64| Scenario {
        flow: vec![FlowSpec { kind, from: Span::seconds(20), until: Some(Span::seconds(40)) }],
        phase: vec![
            phase("alone", 3.0, 20.0, 8.0),
            phase("together", 20.0, 40.0, rate),
            phase("alone again", 43.0, 60.0, 8.0),
        ],
        ..busy(name, 8.0, 50)
    };
    let lossy = |name: &str, order, window| {
        let mut scenario = busy(name, 8.0, 50);
        scenario.link.uplink.loss = Loss::Random(0.01);
        scenario.connection = ConnectionSpec { order, window, ..ConnectionSpec::default() };
        scenario
    };
    let longer = |name: &str, before: u64, after: u64| Scenario {
        step: vec![step(20, Change::delay(Span::millis(after)))],
        phase: vec![
            phase("before", 3.0, 20.0, 8.0),
            phase("first 3 s", 20.0, 23.0, 8.0),
            phase("later", 23.0, 60.0, 8.0),
        ],
        ..busy(name, 8.0, before)
    };
    vec![
        feedback("polled each 5 ms", 2.0, Feedback::Polled(five)),
        feedback("batched 5-20 ms", 2.0, Feedback::Batched(five, twenty)),
        feedback("batched, 18 Mbit/s", 18.0, Feedback::Batched(five, twenty)),
        feedback("held 40 of 100 ms", 2.0, Feedback::Held(forty, hundred)),
        feedback("held, 18 Mbit/s", 18.0, Feedback::Held(forty, hundred)),
        flow("constant flow, half", FlowKind::Constant(Speed::megabits(4.0)), 8.0),
        flow("Reno flow", FlowKind::Reno, 8.0),
        longer("path 30 -> 80 ms", 30, 80),
        longer("path 50 -> 65 ms", 50, 65),
        longer("path 80 -> 30 ms", 80, 30),
        lossy("1 % loss, no order", Order::None, Window::Open),
        lossy("1 % loss, in order", Order::Kept, Window::Open),
        lossy("1 % loss, Reno below", Order::Kept, Window::Reno),
        idle_then_burst(None),
        idle_then_burst(Some(2.0)),
    ]
}

/// Two minutes at a tenth of the rate, then more than it carries; the rate may fall meanwhile.
fn idle_then_burst(falls_to: Option<f64>) -> Scenario {
    let (quiet, end) = (120.0, 140.0);
    let rate = falls_to.unwrap_or(8.0);
    let name = match falls_to {
        Some(rate) => format!("idle, falls to {rate}"),
        None => "idle, then burst".into(),
    };
    let mut scenario = busy(&name, 8.0, 50);
    let alarms = LoadSpec::steady("alarm", 50, 200, Arrivals::Constant(50.0));
    let trickle = LoadSpec::steady("trickle", 500, 2000, Arrivals::Constant(45.0));
    let mut burst = LoadSpec::steady("bulk", 1000, 20_000, Arrivals::Backlogged);
    burst.from = Span::millis((quiet * 1e3) as u64);
    scenario.load = vec![alarms, trickle, burst];
    scenario.length = Span::millis((end * 1e3) as u64);
    scenario.step =
        falls_to.iter().map(|&rate| step(60, Change::rate(Speed::megabits(rate)))).collect();
    scenario.phase = vec![
        phase("idle", 3.0, quiet, rate),
        phase("first 2 s", quiet, quiet + 2.0, rate),
        phase("later", quiet + 2.0, end, rate),
    ];
    scenario
}
