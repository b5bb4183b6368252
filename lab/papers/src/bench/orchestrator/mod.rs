//! What an orchestrator costs that leads a fleet of a thousand nodes: processor time and memory of the real
//! process, every node with a stream of its own under mutual TLS.
//! Source: papers/janus.txt, §VII-B.4.

mod crowd;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use tidegate::services::fleet::FleetTls;
use tidegate::support::tls::authority::Authority;
use tidegate_testbed::free_port;
use tokio::time::{sleep, timeout};

use self::crowd::Counts;
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::net::usage::{on_processor, raise_open_files, resident_kib};
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::rig;

/// The targets at a thousand nodes: MiB, and part of one processor.
const TARGET: (f64, f64) = (80.0, 0.05);
/// Time for the process to listen.
const START: Duration = Duration::from_secs(20);
/// Time for all nodes to find it.
const ATTEND: Duration = Duration::from_secs(120);
/// From then on until counting begins: everybody has been told of what changed by their coming.
const SETTLE: Duration = Duration::from_secs(5);
/// Certificates are good for a day.
const DAYS: u64 = 1;

#[derive(Clone, Copy, Debug, Args)]
pub struct Options {
    /// Nodes
    #[arg(long, default_value_t = 1000)]
    pub(crate) nodes: usize,
    /// How long is counted, in seconds
    #[arg(long, default_value_t = 30)]
    pub(crate) seconds: u64,
    /// Of the nodes' loads
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Showed {
    /// Part of one processor.
    processor: f64,
    /// MiB: before the nodes came, at the end, at most.
    resident: [f64; 3],
    /// Processor time of a node's coming, handshake included, ms.
    coming_ms: f64,
    /// Beats, directives and new grants a second.
    beats: f64,
    directives: f64,
    granted: f64,
}

/// Runs it and returns what was found.
///
/// # Errors
/// The process cannot be started, or not all nodes find it.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    raise_open_files();
    let scratch = Scratch::new()?;
    let progress = Progress::new("orchestrator", 3);
    progress.step("certificates", None);
    let (folder, nodes) = (scratch.path().to_owned(), options.nodes);
    let all = tokio::task::spawn_blocking(move || certificates(&folder, nodes)).await??;
    let port = free_port();
    let mut process = start(&scratch, port)?;
    process.says("ready, leading", START).await?;
    let id = process.id().context("the orchestrator ended")?;
    let _process = process.quietly();
    let showed = measure(id, all, port, options, &progress).await?;
    drop(progress);
    Ok(report(&showed, options))
}

/// The files of every node; the orchestrator's have its name.
fn certificates(folder: &Path, nodes: usize) -> anyhow::Result<Vec<FleetTls>> {
    let authority = Authority::at(folder);
    authority.init()?;
    authority.issue("orchestrator", &["127.0.0.1".into()], DAYS)?;
    let issue = |number| {
        let issued = authority.issue(&crowd::name(number), &[], DAYS)?;
        let ca = folder.join("ca.pem");
        Ok(FleetTls { ca, certificate: issued.certificate, key: issued.key })
    };
    (0..nodes).map(issue).collect()
}

fn start(scratch: &Scratch, port: u16) -> anyhow::Result<Process> {
    let folder = scratch.path();
    let text = format!(
        "[orchestrator]\nlisten = \"127.0.0.1:{port}\"\nca = {:?}\ncertificate = {:?}\nkey = {:?}\n",
        folder.join("ca.pem"),
        folder.join("orchestrator.pem"),
        folder.join("orchestrator.key")
    );
    let mut command = Command::new(rig::tidegate_program()?);
    command.args(["orchestrate", "-c"]).arg(scratch.file("fleet.toml", &text)?);
    Ok(Process::start("orchestrator", command)?)
}

async fn measure(
    id: u32,
    all: Vec<FleetTls>,
    port: u16,
    options: Options,
    progress: &Progress,
) -> anyhow::Result<Showed> {
    let mib = |kib: u64| kib as f64 / 1024.0;
    let alone = mib(resident_kib(id)?[0]);
    let counts = Arc::new(Counts::default());
    progress.step("nodes come", None);
    let before = on_processor(id)?;
    let nodes = all.len();
    let _crowd = crowd::start(all, &format!("127.0.0.1:{port}"), options.seed, &counts);
    let attending = || counts.attending.load(Ordering::Relaxed);
    let come = async {
        while attending() < nodes as u64 {
            sleep(Duration::from_millis(100)).await;
        }
    };
    if timeout(ATTEND, come).await.is_err() {
        bail!("{} of {nodes} nodes found the orchestrator in time", attending());
    }
    let coming = on_processor(id)? - before;
    sleep(SETTLE).await;
    progress.step("counted", Some(Duration::from_secs(options.seconds)));
    let of = |counts: &Counts| {
        [&counts.beats, &counts.directives, &counts.granted]
            .map(|counter| counter.load(Ordering::Relaxed) as f64)
    };
    let (begun, used, done) = (Instant::now(), on_processor(id)?, of(&counts));
    sleep(Duration::from_secs(options.seconds)).await;
    let (took, now) = (begun.elapsed().as_secs_f64(), of(&counts));
    let processor = (on_processor(id)? - used).as_secs_f64() / took;
    anyhow::ensure!(attending() == nodes as u64, "{} of {nodes} nodes are left", attending());
    let [resident, most] = resident_kib(id)?.map(mib);
    let rate = |place: usize| (now[place] - done[place]) / took;
    Ok(Showed {
        processor,
        resident: [alone, resident, most],
        coming_ms: coming.as_secs_f64() * 1e3 / nodes.max(1) as f64,
        beats: rate(0),
        directives: rate(1),
        granted: rate(2),
    })
}

fn report(showed: &Showed, options: Options) -> Findings {
    let Showed { processor, resident: [alone, resident, most], .. } = *showed;
    let Options { nodes, seconds, .. } = options;
    let word = |holds| if holds { "keeps" } else { "MISSES" };
    let lines = vec![
        format!(
            "{nodes} nodes with mutual TLS, {seconds} s, loads that change every 15 s with 30 % noise"
        ),
        format!("memory: {alone:.1} MiB alone, {resident:.1} MiB with them, {most:.1} MiB at most"),
        format!(
            "{:.0} beats, {:.0} directives and {:.1} new grants a second; a node's coming took {:.2} ms",
            showed.beats, showed.directives, showed.granted, showed.coming_ms
        ),
        format!("{}: {most:.1} MiB, at most {:.0}", word(most <= TARGET.0), TARGET.0),
        format!(
            "{}: {:.2} % of one processor, at most {:.0}",
            word(processor <= TARGET.1),
            processor * 100.0,
            TARGET.1 * 100.0
        ),
    ];
    let name = |what: &str| format!("orchestrator_{nodes}_{what}");
    let figures = vec![
        figure(&name("cpu"), processor * 100.0, "%"),
        figure(&name("resident"), resident, "MiB"),
        figure(&name("resident_most"), most, "MiB"),
        figure(&name("resident_alone"), alone, "MiB"),
        figure(&name("coming"), showed.coming_ms, "ms"),
        figure(&name("beats"), showed.beats, "1/s"),
        figure(&name("directives"), showed.directives, "1/s"),
        figure(&name("cpu_each_beat"), processor / showed.beats * 1e6, "us"),
    ];
    (lines, figures).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_whether_the_targets_are_kept() {
        let options = Options { nodes: 1000, seconds: 30, seed: 1 };
        let showed = Showed {
            processor: 0.04,
            resident: [10.0, 60.0, 90.0],
            beats: 2000.0,
            ..Showed::default()
        };
        let found = report(&showed, options);
        let lines = &found.lines;
        assert_eq!(lines[3], "MISSES: 90.0 MiB, at most 80");
        assert_eq!(lines[4], "keeps: 4.00 % of one processor, at most 5");
        assert!(found.value("orchestrator_1000_cpu_each_beat") == Some(20.0));
    }
}
