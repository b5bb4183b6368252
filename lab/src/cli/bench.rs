//! The command line of the benchmarks.

use std::path::{Path, PathBuf};
#[cfg(feature = "stores")]
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, Subcommand};

use super::adapt::Adapt;
use super::frames::Frames;
use super::{is_skipped, on_links, say};
use crate::bench::contestants::Contestant;
#[cfg(feature = "stores")]
use crate::bench::spool;
use crate::bench::{
    backlog, broker, core, fleet, hol, hostile, ingest, kill9, link, load, model, moves,
    orchestrator, overhead, placelive, powercut, sensitivity, sidecar, world,
};
use crate::janus;
use crate::net::wire;
use crate::recorded;
use crate::report::Findings;
use crate::rig::{self, versions::Program};
use crate::sim::Amount;

#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// Alarms beside bulk over 2 Mbit/s at 160 % load: Tidegate, its FIFO, and its rivals
    Hol {
        /// How long the load is on
        #[arg(long, default_value_t = 30)]
        seconds: u32,
        /// How long to wait afterwards for what still waits, in seconds
        #[arg(long, default_value_t = 60)]
        drain: u32,
        /// Runs of each, in turn; figures are medians
        #[arg(long, default_value_t = 1)]
        runs: u32,
        /// Only this contestant (may be given again): tidegate, tidegate-native, mosquitto-bridge,
        /// mosquitto-forwarder, nats-leaf, nats-stream, zenoh
        #[arg(long, value_parser = contestant)]
        only: Vec<Contestant>,
    },
    /// CPU per accepted record and memory per connection, beside Mosquitto
    Ingest {
        /// Records of each run
        #[arg(long)]
        records: Option<u64>,
        /// Runs of each, in turn; figures are medians
        #[arg(long)]
        runs: Option<usize>,
        /// Idle connections
        #[arg(long)]
        connections: Option<usize>,
    },
    /// Publish and subscribe at one process: deliveries for a second of CPU, p99, beside Mosquitto, Mochi and NanoMQ
    Broker(broker::Options),
    /// Latency against subscribers, rate, cost and neighbours, pool and thread per topic (topic placement, Fig. 1)
    Sensitivity(sensitivity::Options),
    /// Plans of each method, run node by node on one processor: topics over their bounds are counted
    PlaceLive(placelive::Options),
    /// Latency models of this machine's broker, calibrated for minutes and judged by configurations they have not seen
    Model(model::Options),
    /// A topic moves between nodes under load: lost, repeated, out of order, longest pause
    Move(moves::Options),
    /// Killed again and again while publishers insist: does all that was acknowledged arrive?
    Kill9(kill9::Options),
    /// The power fails while publishers insist: does all that was acknowledged arrive?
    PowerCut(powercut::Options),
    /// Strangers push against a node of default limits: memory, others' waits and losses, beside a served client
    Hostile(hostile::Options),
    /// A node that was killed with a large backlog in its log: when do live records go, and how fast?
    Backlog {
        /// Payload in the log
        #[arg(long, default_value = "1GiB")]
        size: Amount,
        /// For how long live records are measured
        #[arg(long, default_value_t = 30)]
        seconds: u32,
    },
    /// Three unequal paths with 10, 10 and 5 % loss: Tidegate's link, kernel MPTCP, single-path TCP
    LinkH(LinkOptions),
    /// The same paths with a tenth of the loss
    LinkL(LinkOptions),
    /// The same paths and receive windows of 128, 256 and 512 KiB
    LinkBuffer(LinkOptions),
    /// The shortest of the paths dies and returns
    LinkDeath(LinkOptions),
    /// Thousands of MQTT publishers, arrivals even, random or recorded, through a node to any destination
    Load(load::Options),
    /// CPU and memory of each component at the edge, at given rates, beside Mosquitto's
    Overhead(overhead::Options),
    /// An HTTP sidecar beside Envoy: latency and CPU of a request, with queues and a script
    Sidecar(sidecar::Options),
    #[command(flatten)]
    Adapt(Adapt),
    #[command(flatten)]
    Frames(Frames),
    /// Durable records a second, beside embedded stores and a plain file (cargo feature `stores`)
    Spool {
        /// A folder on the disk that is meant
        #[arg(long)]
        directory: Option<PathBuf>,
        /// One measurement of this contestant in this process, as the benchmark itself starts it
        #[cfg(feature = "stores")]
        #[arg(long, hide = true, requires = "directory")]
        only: Option<spool::Contestant>,
        /// Records of a commit (may be given again)
        #[arg(long, default_values_t = [1, 64, 256])]
        group: Vec<usize>,
        /// Seconds of each measurement
        #[arg(long, default_value_t = 0.3)]
        seconds: f64,
        /// Measurements of each, in turn
        #[arg(long, default_value_t = 11)]
        runs: usize,
    },
    /// A world with real processes, beside the same file in virtual time: lab bench FILE.toml
    #[command(external_subcommand)]
    World(Vec<String>),
    /// The paper's busy node on its 4G link, the link being the limit: each scheduler in turn, real processes
    #[command(name = "janus-4g")]
    Janus4g(janus::Options),
    /// Recorded LTE and UMTS links: one FIFO, BBR and tide in turn, real processes
    LteTraces(recorded::Options),
    /// Four nodes on emulated 4G uplinks, an elected orchestrator and RabbitMQ, beside the simulation
    Fleet(fleet::Options),
    /// The same while leader, lender and borrower are killed and networks fail: is anything lost?
    FleetFaults(fleet::FaultOptions),
    /// What an orchestrator costs that leads a thousand nodes with mutual TLS
    Orchestrator(orchestrator::Options),
    /// Nanoseconds per record through a node with 10,000 queues
    Core {
        /// Records in one input (may be given again)
        #[arg(long, default_values_t = [1, 64])]
        batch: Vec<usize>,
    },
}

#[derive(Debug, Args)]
pub(super) struct LinkOptions {
    /// How long each load is on
    #[arg(long, default_value_t = 25)]
    seconds: u32,
    /// Runs of each, in turn; figures are medians
    #[arg(long, default_value_t = 1)]
    runs: u32,
    /// tidegate, mptcp-bbr, mptcp-cubic, tcp-bbr or tcp-cubic (may be given again); all of them if left out
    #[arg(long, value_parser = carrier)]
    only: Vec<link::Contestant>,
}

impl LinkOptions {
    async fn run(self, scenario: link::Scenario) -> anyhow::Result<Option<Findings>> {
        let LinkOptions { seconds, runs, only } = self;
        let contestants = if only.is_empty() { link::Contestant::ALL.to_vec() } else { only };
        on_tuns(link::run(link::Options { scenario, contestants, seconds, runs })).await
    }
}

fn carrier(name: &str) -> Result<link::Contestant, String> {
    let found = link::Contestant::ALL.into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("no contestant is called {name}"))
}

fn contestant(name: &str) -> Result<Contestant, String> {
    let found = hol::contestants().into_iter().find(|one| one.name() == name);
    found.ok_or_else(|| format!("no contestant is called {name}"))
}

impl Bench {
    pub(super) async fn run(self) -> anyhow::Result<Option<Findings>> {
        match self {
            Bench::Hol { seconds, drain, runs, only } => {
                let contestants = if only.is_empty() { hol::contestants() } else { only };
                on_links(hol::run(hol::Options { contestants, seconds, drain, runs })).await
            }
            Bench::Ingest { records, runs, connections } => {
                accepting(records, runs, connections).await
            }
            Bench::Broker(options) => subscribing(options).await,
            Bench::Sensitivity(options) => {
                blocking(move |tidegate| sensitivity::run(&options, tidegate)).await
            }
            Bench::PlaceLive(options) => planned(options).await,
            Bench::Model(options) => blocking(move |tidegate| model::run(&options, tidegate)).await,
            Bench::Move(options) => blocking(move |tidegate| moves::run(&options, tidegate)).await,
            Bench::Kill9(options) => on_links(kill9::run(options)).await,
            Bench::PowerCut(options) => on_links(powercut::run(options)).await,
            Bench::Hostile(options) => Ok(Some(hostile::run(options).await?)),
            Bench::Backlog { size, seconds } => {
                on_tuns(backlog::run(backlog::Options { bytes: size.0, seconds })).await
            }
            Bench::LinkH(options) => options.run(link::Scenario::Heavy).await,
            Bench::LinkL(options) => options.run(link::Scenario::Light).await,
            Bench::LinkBuffer(options) => options.run(link::Scenario::Buffer).await,
            Bench::LinkDeath(options) => options.run(link::Scenario::Death).await,
            Bench::Load(options) => on_links(load::run(options)).await,
            Bench::Overhead(options) => on_links(overhead::run(options)).await,
            Bench::Sidecar(options) => Ok(Some(sidecar::run(options).await?)),
            Bench::Adapt(case) => case.run().await,
            #[cfg(feature = "stores")]
            Bench::Spool { directory: Some(folder), only: Some(only), group, seconds, .. } => {
                let time = Duration::from_secs_f64(seconds);
                say(&spool::one(only, group[0], time, &folder).await?);
                Ok(None)
            }
            #[cfg(feature = "stores")]
            Bench::Spool { directory, group, seconds, runs, .. } => {
                let time = Duration::from_secs_f64(seconds);
                let options = spool::Options { directory, groups: group, time, runs };
                Ok(Some(spool::run(&options).await?.into()))
            }
            #[cfg(not(feature = "stores"))]
            Bench::Spool { .. } => {
                anyhow::bail!(
                    "built without the stores: cargo run --features stores -p tidegate-lab"
                );
            }
            Bench::World(words) => play(&words).await,
            Bench::Janus4g(options) => on_wires(janus::really(&options, say)).await,
            Bench::LteTraces(options) => on_wires(recorded::run(&options, say)).await,
            Bench::Fleet(options) => on_wires(fleet::run(options, say)).await,
            Bench::FleetFaults(options) => on_wires(fleet::faults(options, say)).await,
            Bench::Orchestrator(options) => Ok(Some(orchestrator::run(options).await?)),
            Bench::Frames(case) => case.run().await,
            Bench::Core { batch } => blocking(move |_| core::run(&batch)).await,
        }
    }
}

/// Brokers with subscribers.
async fn subscribing(options: broker::Options) -> anyhow::Result<Option<Findings>> {
    let tidegate = rig::tidegate_program()?;
    let work = move || broker::run(&options, &tidegate);
    let found = tokio::task::spawn_blocking(work).await??;
    let programs = [Program::Tidegate, Program::Mosquitto];
    let versions = Program::all_with_versions(&programs).into_iter().collect();
    Ok(Some(Findings { versions, ..found.into() }))
}

/// Runs what waits on threads of its own.
async fn blocking<F, E>(
    work: impl FnOnce(&Path) -> Result<F, E> + Send + 'static,
) -> anyhow::Result<Option<Findings>>
where
    F: Into<Findings> + Send + 'static,
    E: Into<anyhow::Error> + Send + 'static,
{
    let tidegate = rig::tidegate_program()?;
    let found = tokio::task::spawn_blocking(move || work(&tidegate)).await?.map_err(Into::into)?;
    let versions = Program::all_with_versions(&[Program::Tidegate]).into_iter().collect();
    Ok(Some(Findings { versions, ..found.into() }))
}

async fn planned(options: placelive::Options) -> anyhow::Result<Option<Findings>> {
    let tidegate = rig::tidegate_program()?;
    let work = move || placelive::run(&options, &tidegate);
    let (lines, broken) = tokio::task::spawn_blocking(work).await??;
    let versions = Program::all_with_versions(&[Program::Tidegate]).into_iter().collect();
    Ok(Some(Findings { versions, broken, ..lines.into() }))
}

/// Plays the file that the words name.
async fn play(words: &[String]) -> anyhow::Result<Option<Findings>> {
    let [file] = words else { anyhow::bail!("one FILE.toml, and no options: {words:?}") };
    ensure!(
        file.ends_with(".toml"),
        "no benchmark is called {file}: see `lab bench --help`, or give a FILE.toml"
    );
    on_wires(world::run(Path::new(file), say)).await
}

/// Runs what needs both kinds of links, unless they cannot be made here; a signal ends it and cleans up.
pub(super) async fn on_tuns<F: Into<Findings>>(
    run: impl Future<Output = anyhow::Result<F>>,
) -> anyhow::Result<Option<Findings>> {
    if is_skipped(wire::probe()) {
        return Ok(None);
    }
    on_links(run).await
}

/// Runs what needs emulated links, unless they cannot be made here.
pub(super) async fn on_wires(
    run: impl Future<Output = anyhow::Result<Findings>>,
) -> anyhow::Result<Option<Findings>> {
    if is_skipped(wire::probe()) {
        return Ok(None);
    }
    Ok(Some(run.await?))
}

/// What accepting costs.
async fn accepting(
    records: Option<u64>,
    runs: Option<usize>,
    connections: Option<usize>,
) -> anyhow::Result<Option<Findings>> {
    let mut options = ingest::Options::new(rig::tidegate_program()?);
    options.records = records.unwrap_or(options.records);
    options.runs = runs.unwrap_or(options.runs);
    options.connections = connections.unwrap_or(options.connections);
    let found = tokio::task::spawn_blocking(move || ingest::run(&options)).await??;
    let versions =
        Program::all_with_versions(&[Program::Tidegate, Program::Mosquitto, Program::Nats]);
    let versions = versions.into_iter().collect();
    Ok(Some(Findings { versions, ..found.into() }))
}
