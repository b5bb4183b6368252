//! What accepting a record costs: CPU of the whole process a record, beside Mosquitto in the same run.
//!
//! Equal work on both sides: each accepts and discards, then each forwards to one local consumer. Then records
//! are kept for later, beside NATS too, each by its own promise. The contestants take turns; medians are printed.

mod consumer;
mod durable;
pub(super) mod idle;
pub(super) mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use self::consumer::Consumer;
use self::idle::Held;
use self::server::{Contestant, Work};
use super::{brokers, median};
use crate::load::raw;
use crate::load::subscriber::{QUIET, Subscriber, until_quiet};
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::{Findings, figure};

const PUBLISHERS: u64 = 4;
/// Payload of every record.
const PAYLOAD: [u8; 64] = [b'x'; 64];

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Records of each run
    #[arg(long, default_value_t = 200_000)]
    pub(crate) records: u64,
    /// Runs of each, in turn; figures are medians
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: usize,
    /// Idle connections for the memory of each; 0 leaves it out
    #[arg(long, default_value_t = 10_000)]
    pub(crate) connections: usize,
    /// The program `tidegate`
    #[arg(skip)]
    pub(crate) tidegate: PathBuf,
}

/// Runs the benchmark; returns what was found.
///
/// # Errors
/// A process that does not start or a connection that breaks.
pub(crate) fn run(options: &Options, tidegate: &Path) -> io::Result<Findings> {
    let options = &Options { tidegate: tidegate.into(), ..options.clone() };
    let _awake = Spinners::start().map_err(io::Error::other)?;
    let steps = (4 * Contestant::ALL.len() + brokers::all(durable::BENCH).len()) * options.runs;
    let progress = Progress::new("ingest", steps + if options.connections > 0 { 2 } else { 0 });
    let mut lines = vec![
        format!("CPU of the whole process for each of {} records of 64 B from", options.records),
        format!("{PUBLISHERS} publishers, us; median of {} runs in turn", options.runs),
        format!("{:<16}{:>10}{:>11}{:>8}  arrived", "work", "tidegate", "mosquitto", "ratio"),
    ];
    let mut figures = Vec::new();
    for (work, name) in [(Work::Discard, "discard"), (Work::Forward, "forward")] {
        for qos in [0, 1] {
            let [(ours, our_part), (theirs, their_part)] = compare(work, qos, options, &progress)?;
            let (name, ratio) = (format!("{name}_qos{qos}"), ours / theirs);
            lines.push(format!(
                "{name:<16}{ours:>10.2}{theirs:>11.2}{ratio:>8.2}  {our_part:.3} {their_part:.3}"
            ));
            figures.push(figure(&format!("ingest_{name}_cpu"), ours, "us"));
            figures.push(figure(&format!("ingest_{name}_ratio"), ratio, "of_mosquitto"));
        }
    }
    let (mut kept, mut kept_figures) = durable::run(options, &progress)?;
    lines.append(&mut kept);
    figures.append(&mut kept_figures);
    if options.connections > 0 {
        for contestant in Contestant::ALL {
            progress.step(&format!("{}, idle connections", contestant.name()), None);
            let (name, mebi) = (contestant.name(), 1024.0 * 1024.0);
            let Held { alone, each } = idle::plain(contestant, options)?;
            let (alone, over_tls) = (alone / mebi, idle::over_tls(contestant, options)?.each);
            lines.push(format!(
                "{name}: {alone:.1} MiB idle, {each:.0} B a connection, {over_tls:.0} B with TLS"
            ));
            figures.push(figure(&format!("resident_idle_{name}"), alone, "MiB"));
            figures.push(figure(&format!("resident_connection_{name}"), each, "B"));
            figures.push(figure(&format!("resident_connection_tls_{name}"), over_tls, "B"));
        }
    }
    Ok((lines, figures).into())
}

/// Median CPU and least part arrived of each contestant, in turn.
fn compare(
    work: Work,
    qos: u8,
    options: &Options,
    progress: &Progress,
) -> io::Result<[(f64, f64); 2]> {
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..options.runs {
        for (runs, contestant) in runs.iter_mut().zip(Contestant::ALL) {
            progress.step(&format!("{}, QoS {qos}", contestant.name()), None);
            runs.push(measure(contestant, work, qos, options)?);
        }
    }
    Ok(runs.map(|runs| {
        let least = runs.iter().map(|run| run.1).fold(1.0, f64::min);
        (median(runs.into_iter().map(|run| run.0).collect()), least)
    }))
}

/// Microseconds of CPU a record, and the part of the records that arrived.
fn measure(
    contestant: Contestant,
    work: Work,
    qos: u8,
    options: &Options,
) -> io::Result<(f64, f64)> {
    let sink = Consumer::listen()?;
    let server = server::start(contestant, work, sink.address, &options.tidegate, None)?;
    let subscriber = match (work, contestant) {
        (Work::Forward, Contestant::Mosquitto) => {
            Some(Subscriber::to(server.address, "consumer", "#", qos, Instant::now())?)
        }
        _ => None,
    };
    let before = server.cpu()?;
    let each = options.records / PUBLISHERS;
    raw::saturate_by(server.address, PUBLISHERS, "bench/", qos, &PAYLOAD, each)?;
    let sent = each * PUBLISHERS;
    let arrived = match (work, &subscriber) {
        (Work::Discard, _) => sent,
        (Work::Forward, None) => until_quiet(&sink.count, sent, QUIET),
        (Work::Forward, Some(subscriber)) => subscriber.wait_for(sent),
    };
    let cpu = server.cpu()? - before;
    Ok((cpu.as_secs_f64() * 1e6 / sent as f64, arrived as f64 / sent as f64))
}
