//! Fig. 7 on recorded uplinks: the paper's own was a 4G connection that nobody else has.

use std::path::Path;
use std::time::Duration;

use super::super::{Case, Limit, Network, SMALL, URGENT};
use super::{Cell, by_rate, run, spread};
use crate::link::Options;
use crate::sim::traces::{self, DELAY, QUEUE, Trace};

const UPLINKS: [&str; 3] =
    ["ATT-LTE-driving.up", "TMobile-UMTS-driving.up", "Verizon-LTE-short.up"];
/// Records/s of `lt`.
const BULK: [f64; 3] = [1000.0, 3000.0, 5000.0];
/// What comes with the most `lt`, over the mean of the link.
const DEMAND: f64 = 2.0;
/// How much of a recording is played before records count, and then: as in link mode.
const WARM_UP: u64 = 10;

fn case(trace: &Trace, name: &'static str, bulk: f64) -> Case {
    let mean = trace.service.room(Duration::ZERO, trace.length) / trace.length.as_secs_f64();
    let most = URGENT.iter().sum::<f64>() + BULK[2];
    let bytes = ((mean * DEMAND / most).round() as u64).max(SMALL);
    let delay = u64::try_from(DELAY.as_millis()).unwrap_or_default();
    let network = Network { name, megabits: mean * 8e-6, delay };
    Case { network, bulk, limit: Limit::Size(bytes), warm_up: WARM_UP }
}

/// Latency of `ls` and throughput over the recorded uplinks.
pub(super) fn fig_7(data: &Path, seed: u64, runs: u64) -> anyhow::Result<(Vec<String>, Vec<Cell>)> {
    let Some(traces) = traces::traces(data)? else {
        return Ok((vec![traces::absent(data)], Vec::new()));
    };
    let known = |trace: &Trace| UPLINKS.into_iter().find(|name| *name == trace.name);
    let of = |trace: &Trace| {
        let name = known(trace)?;
        Some(BULK.map(|bulk| case(trace, name, bulk)))
    };
    let cases: Vec<Case> = traces.iter().filter_map(of).flatten().collect();
    let play = |case: &Case, scheduler, seed| {
        let trace = traces.iter().find(|trace| trace.name == case.network.name);
        let service = trace.expect("cases are made of recordings").service.clone();
        case.run_over(&Options { service, ..Options::new(1, DELAY, QUEUE) }, scheduler, seed)
    };
    let cells = run(&cases, play, seed, runs)?;
    let mut lines = vec![format!(
        "Fig. 7, on recorded uplinks in link mode: records of {}; 30 s after 10 s; {runs} runs",
        sizes(&cells)
    )];
    lines.extend(by_rate("mean latency of ls, s", &cells, |cell| spread(cell.latency(0), 3)));
    lines.push("  the paper: at 3,000 lt native is more than 5 times the others; at 5,000 JANUS is 0.17 of it".into());
    lines.extend(by_rate("records/s that came", &cells, |cell| spread(cell.records(), 0)));
    lines.push(
        "  the paper: JANUS with redirection has 1.56 times native, 1.7 times QM-Only".into(),
    );
    Ok((lines, cells))
}

fn sizes(cells: &[Cell]) -> String {
    let mut all: Vec<String> = cells
        .iter()
        .map(|cell| format!("{} B on {}", cell.case.size(), cell.case.network.name))
        .collect();
    all.dedup();
    all.sort();
    all.dedup();
    all.join(", ")
}
