//! `lab sim node-start`: how soon a node that knows nothing fills a link, and what its alarms wait for meanwhile.

use tidegate_capacity::RateControllerName;

use super::parallel;
use super::quantity::{Amount, Span, Speed};
use super::report::{self, Row};
use super::scenario::{
    Arrivals, ConnectionSpec, Feedback, LinkSpec, LoadSpec, NodeSpec, Phase, Scenario,
};
use super::world::World;
use crate::report::{Findings, figure};

/// The links: Mbit/s, and round trips in milliseconds.
const MEGABITS: [f64; 7] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
const ROUND_TRIPS: [u64; 4] = [20, 50, 100, 200];
/// A buffer that nothing overflows.
const QUEUE: u64 = 4 << 20;
/// Part of the link that counts as full, from when on at the latest, and how long an alarm may wait; milliseconds.
const FULL: (f64, u64, f64) = (0.9, 1000, 100.0);
/// The share is that of spans so long, which begin so often; the end; milliseconds.
const SPANS: (u64, u64, u64) = (300, 100, 5000);

fn scenario(megabits: f64, round_trip: u64, law: RateControllerName) -> Scenario {
    let (length, delay) = (Span::millis(SPANS.2), Span::millis(round_trip / 2));
    let phase = |from: u64, until: u64| Phase {
        name: from.to_string(),
        from: Span::millis(from),
        until: Span::millis(until),
        rate: None,
    };
    let spans = (0..SPANS.2 - SPANS.0).step_by(SPANS.1 as usize);
    let polled = Feedback::Polled(super::file::SAMPLE);
    Scenario {
        name: format!("{megabits} Mbit/s {round_trip} ms"),
        length,
        drain: Span::default(),
        node: NodeSpec { law, ..NodeSpec::default() },
        connection: ConnectionSpec { feedback: polled, ..ConnectionSpec::default() },
        link: LinkSpec::new(Speed::megabits(megabits), delay, Amount(QUEUE)),
        load: vec![
            LoadSpec::steady(report::ALARM, 50, 200, Arrivals::Constant(50.0)),
            LoadSpec::steady("bulk", 1000, 20_000, Arrivals::Backlogged),
        ],
        flow: Vec::new(),
        step: Vec::new(),
        phase: std::iter::once(phase(0, SPANS.2))
            .chain(spans.map(|from| phase(from, from + SPANS.0)))
            .collect(),
    }
}

/// Milliseconds until the link is full, and the longest wait of an alarm beside its propagation.
fn found(rows: &[Row], round_trip: u64) -> (u64, f64) {
    let full = rows[1..].iter().position(|row| row.all >= FULL.0);
    let worst = rows[0].alarm.map_or(f64::NAN, |alarm| alarm.worst);
    (full.map_or(SPANS.2, |place| place as u64 * SPANS.1), worst - round_trip as f64 / 2.0)
}

/// Plays each link under each law; the figures are of the law under test.
///
/// # Errors
/// A scenario that cannot be played, or a broken promise.
pub fn run(laws: &[RateControllerName], seed: u64) -> anyhow::Result<Findings> {
    let mut lines = vec![format!(
        "ms until the share of {} ms is {}, and the longest wait of an alarm in ms, by round trip in ms",
        SPANS.0, FULL.0
    )];
    let mut figures = Vec::new();
    for law in laws {
        let links: Vec<(f64, u64)> =
            MEGABITS.iter().flat_map(|&rate| ROUND_TRIPS.map(|round| (rate, round))).collect();
        let play = |&(megabits, round_trip): &(f64, u64)| -> anyhow::Result<(u64, f64)> {
            let scenario = scenario(megabits, round_trip, *law);
            let outcome = World::new(&scenario, seed)?.run();
            let (lost, broken) = report::audit(&scenario, &outcome);
            anyhow::ensure!(lost == 0 && broken.is_empty(), "{}: {broken:?}", scenario.name);
            Ok(found(&report::rows(&scenario, &outcome), round_trip))
        };
        let found = parallel::map(&links, play).into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        lines.push(ROUND_TRIPS.iter().fold(format!("{:<16}", law.name()), |line, round| {
            format!("{line}{:>14}", format!("{round}"))
        }));
        for (megabits, found) in MEGABITS.iter().zip(found.chunks(ROUND_TRIPS.len())) {
            lines.push(found.iter().fold(format!("{megabits:>9} Mbit/s"), |line, (at, wait)| {
                format!("{line}{:>14}", format!("{at} / {wait:.0}"))
            }));
        }
        let kept = found.iter().filter(|(at, wait)| *at < FULL.1 && *wait <= FULL.2).count();
        let name = |what: &str| format!("start_{}_{what}", law.name());
        let most = found.iter().map(|(_, wait)| *wait).fold(0.0, f64::max);
        figures.push(figure(&name("kept"), kept as f64, "cases"));
        figures.push(figure(&name("wait_most"), most, "ms"));
        let latest = found.iter().map(|(at, _)| *at).max().unwrap_or_default();
        figures.push(figure(&name("full_latest"), latest as f64, "ms"));
    }
    Ok((lines, figures).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_over_with_the_first_full_span() {
        let scenario = scenario(2.0, 50, RateControllerName::Tide);
        assert_eq!((scenario.phase.len(), scenario.phase[3].name.as_str()), (48, "200"));
        let rows = |shares: [f64; 3]| -> Vec<Row> {
            let alarm = Some(report::Alarm { p50: 25.0, p99: 60.0, worst: 85.0 });
            let (case, law, phase) = (String::new(), String::new(), String::new());
            let row = Row { case, law, phase, alarm, bulk: 0.0, all: 0.5 };
            let spans = shares.map(|all| Row { all, ..row.clone() });
            std::iter::once(row).chain(spans).collect()
        };
        assert_eq!(found(&rows([0.1, 0.89, 0.9]), 50), (200, 60.0));
        assert_eq!(found(&rows([0.1, 0.2, 0.3]), 50), (5000, 60.0));
    }
}
