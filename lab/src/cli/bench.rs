//! The command line of the benchmarks.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use tidegate_lab_papers::bench::{
    adapt, frames, model, orchestrator, placelive, rungs, sensitivity,
};
use tidegate_lab_papers::sim::adapt::hls;
use tidegate_lab_papers::{janus, recorded};

use super::{spool, until_interrupted};
use crate::bench::{
    backlog, broker, core, fleet, hol, hostile, ingest, kill9, link, load, moves, overhead,
    powercut, sidecar, world,
};
use crate::report::Findings;
use crate::rig::{self, versions::Program};
use crate::say;

#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// Alarms beside bulk over 2 Mbit/s at 160 % load: Tidegate, its FIFO, and its rivals
    Hol(hol::Options),
    /// CPU per accepted record and memory per connection, beside Mosquitto
    Ingest(ingest::Options),
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
    /// A broker is killed, or its power fails, under a hundred sessions: what is lost, and what comes twice?
    SessionsKill9(kill9::sessions::Options),
    /// The power fails while publishers insist: does all that was acknowledged arrive?
    PowerCut(powercut::Options),
    /// Strangers push against a node of default limits: memory, others' waits and losses, beside a served client
    Hostile(hostile::Options),
    /// A node that was killed with a large backlog in its log: when do live records go, and how fast?
    Backlog(backlog::Options),
    /// Three unequal paths with 10, 10 and 5 % loss: Tidegate's link, kernel MPTCP, single-path TCP
    LinkH(link::Options),
    /// The same paths with a tenth of the loss
    LinkL(link::Options),
    /// The same paths and receive windows of 128, 256 and 512 KiB
    LinkBuffer(link::Options),
    /// The shortest of the paths dies and returns
    LinkDeath(link::Options),
    /// Processor time of a link's both ends for 100 Mbit of payload, beside bare QUIC on the same paths
    LinkCpu(link::Options),
    /// Thousands of MQTT publishers, arrivals even, random or recorded, through a node to any destination
    Load(load::Options),
    /// CPU and memory of each component at the edge, at given rates, beside Mosquitto's
    Overhead(overhead::Options),
    /// An HTTP sidecar beside Envoy: latency and CPU of a request, with queues and a script
    Sidecar(sidecar::Options),
    /// BumbleBee's three scripts as printed, in the node, in the HTTP sidecar and behind Envoy: do they do what the paper says?
    AdaptPaper,
    /// Detection of vehicles over an uplink that breaks and that is too slow: stock scripts in the HTTP sidecar
    AdaptTraffic(adapt::traffic::Options),
    /// A live stream once in a real browser (hls.js), over an uplink that falls: by itself and with a script
    AdaptBrowser(adapt::browser::Options),
    /// What other traffic of a node and of a proxy waits more while a script means harm
    AdaptHostile(adapt::hostile::Options),
    /// The Yahoo streaming benchmark's events in a burst, before a worker that cannot do them all: load is shed
    AdaptYahoo(adapt::yahoo::Options),
    /// A live stream over recorded paths: stalls and resolution with a player's own choice and with scripts
    AdaptHls(hls::Options),
    /// Bytes of frames at equal accuracy, beside the Mez paper's five knobs on PNG; what making a rung costs
    FramesLadder(rungs::Options),
    /// A camera's channel falls from 40 to 4 Mbit/s and rises: how long until frames are in time again?
    FramesStep(frames::step::Options),
    /// A frame of a megabyte through one node to one and to eight subscribers, beside NATS
    FramesHop(frames::hop::Options),
    /// One to five cameras on one wireless channel, one to eight subscribers of each, beside NATS
    FramesNodes(frames::nodes::Options),
    /// Durable records a second, beside embedded stores and a plain file (cargo feature `stores`)
    Spool(spool::Options),
    /// The paper's busy node on its 4G link, the link being the limit: each scheduler in turn, real processes
    #[command(name = "janus-4g")]
    Janus4g(janus::Options),
    /// Recorded LTE and UMTS links: one FIFO, BBR and tide in turn, real processes
    LteTraces(recorded::Options),
    /// Four nodes on emulated 4G uplinks, an elected orchestrator and RabbitMQ, beside the simulation
    Fleet(fleet::Options),
    /// The same while leader, lender and borrower are killed and networks fail: is anything lost?
    FleetFaults(fleet::FaultOptions),
    /// An uplink stands still or refuses, ten times: alarms of a node with a neighbour, alone, and of Mosquitto's bridge
    FleetOutage(fleet::outage::Options),
    /// What an orchestrator costs that leads a thousand nodes with mutual TLS
    Orchestrator(orchestrator::Options),
    /// Nanoseconds per record through a node with 10,000 queues
    Core(core::Options),
    /// A world in a file with real processes, beside the same file in virtual time
    #[command(name = "FILE.toml")]
    World {
        /// The world
        file: PathBuf,
    },
}

impl Bench {
    /// Runs it; `None` where it was for itself.
    pub(super) async fn run(self) -> anyhow::Result<Option<Findings>> {
        use link::Scenario::{Buffer, Cost, Death, Heavy, Light};
        let found = match self {
            Bench::Hol(options) => until_interrupted(hol::run(options)).await?,
            Bench::Ingest(options) => {
                let programs = [Program::Tidegate, Program::Mosquitto, Program::Nats];
                blocking(&programs, move |tidegate| ingest::run(&options, tidegate)).await?
            }
            Bench::Broker(options) => blocking(&BROKERS, move |_| broker::run(&options)).await?,
            Bench::Sensitivity(options) => {
                blocking(&OURS, move |tidegate| sensitivity::run(&options, tidegate)).await?
            }
            Bench::PlaceLive(options) => {
                blocking(&OURS, move |tidegate| placelive::run(&options, tidegate)).await?
            }
            Bench::Model(options) => {
                blocking(&OURS, move |tidegate| model::run(&options, tidegate)).await?
            }
            Bench::Move(options) => {
                blocking(&OURS, move |tidegate| moves::run(&options, tidegate)).await?
            }
            Bench::Kill9(options) => until_interrupted(kill9::run(options)).await?,
            Bench::SessionsKill9(options) => {
                blocking(&BROKERS, move |_| kill9::sessions::run(&options)).await?
            }
            Bench::PowerCut(options) => until_interrupted(powercut::run(options)).await?,
            Bench::Hostile(options) => hostile::run(options).await?,
            Bench::Backlog(options) => until_interrupted(backlog::run(options)).await?,
            Bench::LinkH(options) => until_interrupted(link::run(Heavy, options)).await?,
            Bench::LinkL(options) => until_interrupted(link::run(Light, options)).await?,
            Bench::LinkBuffer(options) => until_interrupted(link::run(Buffer, options)).await?,
            Bench::LinkDeath(options) => until_interrupted(link::run(Death, options)).await?,
            Bench::LinkCpu(options) => until_interrupted(link::run(Cost, options)).await?,
            Bench::Load(options) => until_interrupted(load::run(options)).await?,
            Bench::Overhead(options) => until_interrupted(overhead::run(options)).await?,
            Bench::Sidecar(options) => sidecar::run(options).await?,
            Bench::AdaptPaper => adapt::paper::run().await?,
            Bench::AdaptTraffic(options) => adapt::traffic::run(options).await?,
            Bench::AdaptBrowser(options) => adapt::browser::run(options).await?,
            Bench::AdaptHostile(options) => adapt::hostile::run(options).await?,
            Bench::AdaptYahoo(options) => adapt::yahoo::run(options).await?,
            Bench::AdaptHls(options) => {
                tokio::task::spawn_blocking(move || hls::run(&options.data, &options)).await??
            }
            Bench::FramesLadder(options) => {
                tokio::task::spawn_blocking(move || rungs::run(&options)).await??
            }
            Bench::FramesStep(options) => until_interrupted(frames::step::run(options)).await?,
            Bench::FramesHop(options) => frames::hop::run(options).await?,
            Bench::FramesNodes(options) => until_interrupted(frames::nodes::run(options)).await?,
            Bench::Spool(options) => return spool::run(options).await,
            Bench::Janus4g(options) => janus::really(&options, say).await?,
            Bench::LteTraces(options) => recorded::run(&options, say).await?,
            Bench::Fleet(options) => fleet::run(options, say).await?,
            Bench::FleetFaults(options) => fleet::faults(options, say).await?,
            Bench::FleetOutage(options) => fleet::outage::run(options, say).await?,
            Bench::Orchestrator(options) => orchestrator::run(options).await?,
            Bench::Core(options) => {
                tokio::task::spawn_blocking(move || core::run(&options)).await??
            }
            Bench::World { file } => world::run(&file, say).await?,
        };
        Ok(Some(found))
    }
}

const OURS: [Program; 1] = [Program::Tidegate];
const BROKERS: [Program; 5] =
    [Program::Tidegate, Program::Mosquitto, Program::Mochi, Program::Nats, Program::HiveMq];

/// Runs what waits on threads of its own, with the versions of the programs that take part.
async fn blocking<E: Into<anyhow::Error> + Send + 'static>(
    programs: &[Program],
    work: impl FnOnce(&Path) -> Result<Findings, E> + Send + 'static,
) -> anyhow::Result<Findings> {
    let tidegate = rig::tidegate_program()?;
    let found = tokio::task::spawn_blocking(move || work(&tidegate)).await?.map_err(Into::into)?;
    let versions = Program::all_with_versions(programs).into_iter().collect();
    Ok(Findings { versions, ..found })
}
