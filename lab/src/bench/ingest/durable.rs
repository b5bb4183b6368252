//! What accepting a record costs that is to be kept: nobody takes it now, and who acknowledged it must still have
//! it later. Each contestant keeps its own promise, which the table names.

use std::io;
use std::path::Path;
use std::time::Instant;

use super::{Options, PAYLOAD, PUBLISHERS, median};
use crate::bench::brokers::{self, BrokerSpec};
use crate::load::raw;
use crate::load::subscriber::Subscriber;
use crate::progress::Progress;
use crate::report::{Figure, figure};

/// Topics of one level: NATS has topics of its own below others.
const FILTER: &str = "+";
/// Its name in lab/brokers.toml.
pub(super) const BENCH: &str = "ingest-kept";

/// Records a second that are acknowledged, and microseconds of CPU for each.
fn measure(keeper: &BrokerSpec, path: &Path, options: &Options) -> io::Result<(f64, f64)> {
    // What the one before left to be written is not this one's.
    rustix::fs::syncfs(std::fs::File::open(std::env::temp_dir())?)?;
    let server = keeper.launch(path)?;
    if !keeper.is_ours() {
        // What it would get is kept for it.
        drop(Subscriber::open(server.address, ("later", true), FILTER, 1, Instant::now())?);
    }
    let (before, begun) = (server.cpu()?, Instant::now());
    let each = options.records / PUBLISHERS;
    raw::saturate_by(server.address, PUBLISHERS, "p", 1, &PAYLOAD, each)?;
    let sent = (each * PUBLISHERS) as f64;
    let rate = sent / begun.elapsed().as_secs_f64();
    Ok((rate, (server.cpu()? - before).as_secs_f64() * 1e6 / sent))
}

/// Measures all of them in turn; lines and figures.
pub(super) fn run(
    options: &Options,
    progress: &Progress,
) -> io::Result<(Vec<String>, Vec<Figure>)> {
    let keepers = brokers::all(BENCH);
    let mut runs = vec![Vec::new(); keepers.len()];
    let mut lines = vec![format!(
        "kept for later, QoS 1: {:<20}{:>12}{:>10}  an acknowledgement means",
        "", "records/s", "us CPU"
    )];
    let mut missing = Vec::new();
    for _ in 0..options.runs {
        for (runs, (keeper, path)) in runs.iter_mut().zip(&keepers) {
            progress.step(&format!("{}, kept", keeper.figure()), None);
            let path = path.as_ref().map_err(|error| io::Error::other(error.to_string()));
            match path.and_then(|path| measure(keeper, path, options)) {
                Ok(run) => runs.push(run),
                Err(error) if keeper.is_ours() => return Err(error),
                // An older version may not know its configuration, and ends.
                Err(error) => missing.push(format!(
                    "skipped: {}: {error}: is its version that of scripts/rivals.sh?",
                    keeper.figure()
                )),
            }
        }
    }
    missing.dedup();
    let mut figures = Vec::new();
    for (runs, (keeper, _)) in runs.iter().zip(&keepers).filter(|(runs, _)| !runs.is_empty()) {
        let (name, promise) = (keeper.figure(), &keeper.promise);
        let rate = median(runs.iter().map(|run| run.0).collect());
        let cpu = median(runs.iter().map(|run| run.1).collect());
        lines.push(format!("  {name:<41}{rate:>12.0}{cpu:>10.2}  {promise}"));
        figures.push(figure(&format!("ingest_kept_{name}_rate"), rate, "records/s"));
        figures.push(figure(&format!("ingest_kept_{name}_cpu"), cpu, "us"));
    }
    lines.append(&mut missing);
    Ok((lines, figures))
}
