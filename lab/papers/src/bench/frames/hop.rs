//! `lab bench frames-hop`: a frame of a megabyte through one node to one and to eight subscribers, beside NATS.
//!
//! Everybody is on this machine and speaks TLS with certificates on both sides; the camera takes 15 frames a
//! second, and a frame's latency ends when the subscriber has all of it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use tidegate::services::cameras::wire::SubscribeRequest;
use tidegate::support::tls::{self, ClientFiles};
use tidegate_testbed::free_port;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::client::{self, Came, Schedule, Seat, Watching, all_ready, now_ns, sleep_until};
use super::film::Film;
use super::nodes::Who;
use super::rig::{Keys, camera};
use super::rival::{self, PAYLOAD_MAX, Place};
use super::score::{Fate, Score};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::net::usage::on_processor;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::rig::versions::Program;
use crate::rig::{CONNECT, tidegate_program};

const SECOND_NS: u64 = 1_000_000_000;
const PER_SECOND: u64 = 15;
const WARM_NS: u64 = SECOND_NS;
/// Subscribers of each turn.
const SUBSCRIBERS: [usize; 2] = [1, 8];
/// For what is still under way when the last frame was taken.
const DRAIN_NS: u64 = SECOND_NS / 2;
/// The bound that subscribers ask for: nothing is given up for it.
const BOUND_MS: u32 = 10_000;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How long each turn is counted, in seconds
    #[arg(long, default_value_t = 5)]
    pub(crate) seconds: u64,
    /// Turns of each, interleaved
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: u32,
    /// Bytes of a frame, at least
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) bytes: usize,
}

/// Who, and to how many.
type Turn = (usize, Who);

/// All turns.
///
/// # Errors
/// NATS is not installed, or a process or client fails.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let scratch = Scratch::new()?;
    let film = Arc::new(Film::of_size(options.bytes));
    let stage = Stage::new(&scratch).await?;
    let turns: Vec<Turn> = SUBSCRIBERS
        .iter()
        .flat_map(|&count| [(count, Who::Tidegate), (count, Who::Nats)])
        .collect();
    let progress = Progress::new("frames-hop", turns.len() * options.rounds as usize);
    let mut scores: BTreeMap<Turn, (Score, Duration)> = BTreeMap::new();
    for _ in 0..options.rounds.max(1) {
        for &(subscribers, who) in &turns {
            let step = format!("{who:?}, {subscribers} subscribers");
            progress.step(&step, Some(Duration::from_secs(options.seconds + 2)));
            let played = stage.play((subscribers, who), options.seconds, &film).await;
            let (fates, busy) = played.with_context(|| step.clone())?;
            let (score, all_busy) = scores.entry((subscribers, who)).or_default();
            fates.iter().for_each(|fates| score.add(fates, Duration::from_millis(BOUND_MS.into())));
            *all_busy += busy;
        }
    }
    drop(progress);
    let mut lines = vec![format!("frames: {}, {:.0} bytes", film.source, film.mean())];
    let (rows, figures) = report(&scores);
    lines.extend(rows);
    let versions = Program::all_with_versions(&[Program::Tidegate, Program::Nats]);
    let versions = versions.into_iter().collect();
    Ok(Findings { lines, figures, versions, ..Findings::default() })
}

/// Both servers, and how to reach them.
struct Stage {
    seat: Seat,
    place: Place,
    node: Process,
    nats: Process,
}

impl Stage {
    async fn new(scratch: &Scratch) -> anyhow::Result<Stage> {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let keys = Keys::new(scratch, &[("server", here), ("client", here)])?;
        let [node_port, nats_port] = [free_port(), free_port()];
        let configuration = format!(
            "[node]\nname = \"hop\"\n[http]\nlisten = []\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
             [frames]\nlisten = \"127.0.0.1:{node_port}\"\n{}\n[[camera]]\nname = \"{}\"\n",
            keys.written("server", "\n"),
            camera(0)
        );
        let mut command = Command::new(tidegate_program()?);
        command.args(["run", "-c"]).arg(scratch.file("hop.toml", &configuration)?);
        command.current_dir(scratch.path());
        let mut node = Process::start("tidegate", command)?;
        node.says("ready", CONNECT).await?;
        let [ca, certificate, key] = keys.files("server");
        let settings = format!(
            "listen: \"127.0.0.1:{nats_port}\"\nmax_payload: {PAYLOAD_MAX}\n\
             tls {{ ca_file: {ca:?}, cert_file: {certificate:?}, key_file: {key:?}, verify: true, \
             handshake_first: true }}\n"
        );
        let mut command = Command::new(Program::Nats.path()?);
        command.arg("-c").arg(scratch.file("nats.conf", &settings)?);
        let mut nats = Process::start("nats-server", command)?;
        nats.says("Server is ready", CONNECT).await?;
        let [ca, certificate, key] = keys.files("client");
        let config = tls::client(&ClientFiles { ca, own: Some((certificate, key)) })?;
        let at = |port| SocketAddr::from((here, port));
        Ok(Stage {
            seat: Seat { address: at(node_port), tls: keys.client("client")? },
            place: Place { address: at(nats_port), tls: Some(config) },
            node,
            nats,
        })
    }

    /// Plays a turn. Answers what became of the frames at each subscriber, and the server's processor time.
    async fn play(
        &self,
        (subscribers, who): Turn,
        seconds: u64,
        film: &Arc<Film>,
    ) -> anyhow::Result<(Vec<Vec<Fate>>, Duration)> {
        let process = match who {
            Who::Tidegate => &self.node,
            Who::Nats => &self.nats,
        };
        let id = process.id().context("a server has ended")?;
        let (ready, mut is_ready) = mpsc::channel(subscribers);
        let (stop, until) = watch::channel(false);
        let mut watches: JoinSet<anyhow::Result<Vec<Came>>> = JoinSet::new();
        for _ in 0..subscribers {
            let (ready, until) = (ready.clone(), until.clone());
            let watching = Watching { ready, until, kept: None };
            let (seat, place) = (self.seat.clone(), self.place.clone());
            let request = SubscribeRequest {
                camera: camera(0),
                latency_ms: BOUND_MS,
                ..SubscribeRequest::default()
            };
            match who {
                Who::Tidegate => watches.spawn(client::watch(seat, request, watching)),
                Who::Nats => watches.spawn(rival::watch(place, camera(0), watching)),
            };
        }
        all_ready(&mut is_ready, subscribers).await?;
        let first_ns = now_ns() + SECOND_NS / 5;
        let count = (WARM_NS / SECOND_NS + seconds) * PER_SECOND;
        let schedule = Schedule { first_ns, period_ns: SECOND_NS / PER_SECOND, count };
        let before = on_processor(id)?;
        match who {
            Who::Tidegate => {
                let seat = self.seat.clone();
                let published = client::publish(seat, camera(0), film.clone(), 0, schedule);
                let refused = published.await?;
                ensure!(refused == 0, "{refused} frames were refused");
            }
            Who::Nats => {
                let place = self.place.clone();
                rival::publish(place, camera(0), film.clone(), 0, schedule).await?;
            }
        }
        sleep_until(first_ns + count * schedule.period_ns + DRAIN_NS).await;
        let busy = on_processor(id)?.saturating_sub(before);
        stop.send_replace(true);
        let mut fates = Vec::new();
        while let Some(came) = watches.join_next().await {
            let counted = schedule.dues().filter(|due| *due >= first_ns + WARM_NS);
            fates.push(Fate::all(counted, &came??));
        }
        Ok((fates, busy))
    }
}

fn report(scores: &BTreeMap<Turn, (Score, Duration)>) -> (Vec<String>, Vec<Figure>) {
    let mut lines = vec![format!(
        "{:<10} {:>11} {:>9} {:>9} {:>9} {:>9} {:>14}",
        "", "subscribers", "p50 ms", "p95 ms", "p99 ms", "came", "CPU ms a frame"
    )];
    let mut figures = Vec::new();
    for (&(subscribers, who), (score, busy)) in scores {
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|part| score.quantile(part));
        // Warming up included, as frames are.
        let frames = score.taken as f64 / subscribers as f64;
        let cost = busy.as_secs_f64() * 1e3 / frames;
        lines.push(format!(
            "{:<10} {subscribers:>11} {p50:>9.1} {p95:>9.1} {p99:>9.1} {:>9.3} {cost:>14.1}",
            who.name(),
            score.in_time()
        ));
        let name = |what: &str| format!("frames_hop_{}_{subscribers}_{what}", who.name());
        figures.extend([
            figure(&name("p50"), p50, "ms"),
            figure(&name("p95"), p95, "ms"),
            figure(&name("cpu_a_frame"), cost, "ms"),
        ]);
    }
    for subscribers in SUBSCRIBERS {
        let p = |who, part| {
            scores.get(&(subscribers, who)).map_or(f64::NAN, |(score, _)| score.quantile(part))
        };
        let ratio = |part| p(Who::Tidegate, part) / p(Who::Nats, part);
        lines.push(format!(
            "{subscribers} subscribers: tidegate over NATS {:.2} (p50), {:.2} (p95)",
            ratio(0.5),
            ratio(0.95)
        ));
        let name = |what: &str| format!("frames_hop_{subscribers}_{what}_over_nats");
        figures.push(figure(&name("p50"), ratio(0.5), "1"));
        figures.push(figure(&name("p95"), ratio(0.95), "1"));
    }
    (lines, figures)
}
