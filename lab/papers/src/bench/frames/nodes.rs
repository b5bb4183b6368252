//! `lab bench frames-nodes`: one to five cameras on one wireless channel, beside NATS.
//!
//! Five camera nodes and an edge server as processes, and a NATS server; whose turn it is has the channel alone.
//! NATS carries the frames as they are, with a larger `max_payload`, from cameras straight to its server.
//!
//! The channel is one queue for all stations, as an access point's airtime is. Stations that contend waste some of
//! it: the rate is `megabits / (1 + contention (n - 1))`, with constants for which unmodified frames grow in p95 from
//! one camera to five as Table 1 of papers/mez.txt has it, 5.6 to 8.4 times; the run says by how much they did.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use tidegate::services::cameras::wire::SubscribeRequest;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::client::{self, Answer, Came, Schedule, Watching, all_ready, now_ns, on, sleep_until};
use super::film::{CLIP, Film};
use super::judge::{self, Judge};
use super::rig::{Rig, camera};
use super::rival::{self, PAYLOAD_MAX, Place};
use super::score::{Fate, Score};
use super::{BOUND_MS, table};
use crate::link::{Change, Options as Way, Profile, Service};
use crate::net::namespace::{Link, Side};
use crate::net::process::Quiet;
use crate::net::pump;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::Findings;
use crate::rig::versions::Program;
use crate::rig::{self, brokers::NATS_PORT};
use crate::world::Broker;

const DELAY: Duration = Duration::from_millis(2);
/// Bytes that wait for the air at most.
const QUEUE: u64 = 1_000_000;
/// Frames a second, as in the paper's Table 1.
const PER_SECOND: u64 = 5;
const CAMERAS: usize = 5;
const SECOND_NS: u64 = 1_000_000_000;
/// What comes before is not counted: nodes and TCP get to know the channel.
const WARM_NS: u64 = 2 * SECOND_NS;
/// Cameras' clocks differ by so much, so that their frames meet in every way.
const DRIFT: f64 = 0.004;
/// Between two cameras' first frames, in periods.
const PHASE: f64 = 0.37;
/// For what still waits when the last frame was taken.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Folder of the clips, above vision/clips; a picture is made where it is absent
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub(crate) data: PathBuf,
    /// The clip, below vision/clips
    #[arg(long, value_name = "FILE", default_value = CLIP)]
    pub(crate) clip: String,
    /// Who looks at what came
    #[command(flatten)]
    pub(crate) judge: judge::Options,
    /// A ladder for the cameras, from `tidegate calibrate frames`; the generic one if left out
    #[arg(long, value_name = "FILE")]
    pub(crate) ladder: Option<PathBuf>,
    /// How long each turn is counted, in seconds
    #[arg(long, default_value_t = 10)]
    pub(crate) seconds: u64,
    /// Turns of each, interleaved
    #[arg(long, default_value_t = 2)]
    pub(crate) rounds: u32,
    /// Numbers of cameras, with one subscriber each
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_values_t = [1, 2, 3, 4, 5])]
    pub(crate) cameras: Vec<usize>,
    /// Numbers of subscribers of each of five cameras
    #[arg(long, value_name = "COUNT", value_delimiter = ',', default_values_t = [2, 4, 8])]
    pub(crate) subscribers: Vec<usize>,
    /// Mbit/s of the channel with one station
    #[arg(long, default_value_t = 100.0)]
    pub(crate) megabits: f64,
    /// What each further station wastes of what a station has
    #[arg(long, default_value_t = 0.36)]
    pub(crate) contention: f64,
    /// Accuracy that subscribers ask for; what fits goes where it cannot be kept
    #[arg(long, default_value_t = 0.97)]
    pub(crate) accuracy: f64,
}

/// Who carries the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Tidegate,
    Nats,
}

/// Who carries how many cameras' frames to how many subscribers of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) cameras: usize,
    pub(super) subscribers: usize,
    pub(super) who: Who,
}

/// Cameras with one subscriber each, then subscribers of all cameras; Tidegate and NATS in turn.
fn turns(options: &Options) -> Vec<Turn> {
    let alone = options.cameras.iter().map(|&cameras| (cameras, 1));
    let together = options.subscribers.iter().map(|&subscribers| (CAMERAS, subscribers));
    let both = |(cameras, subscribers)| {
        [Who::Tidegate, Who::Nats].map(|who| Turn { cameras, subscribers, who })
    };
    alone.chain(together).flat_map(both).collect()
}

impl Options {
    /// The channel's bits a second while so many stations contend.
    fn rate(&self, stations: usize) -> u64 {
        (1e6 * self.megabits / (1.0 + self.contention * (stations as f64 - 1.0))) as u64
    }
}

/// All turns.
///
/// # Errors
/// Links cannot be made here, NATS is not installed, or a process or client fails.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let counts = 1..=CAMERAS;
    ensure!(options.cameras.iter().all(|one| counts.contains(one)), "1 to {CAMERAS} cameras");
    ensure!(options.subscribers.iter().all(|one| *one > 0), "at least one subscriber");
    let _awake = Spinners::start()?;
    let scratch = Scratch::new()?;
    let film = Arc::new(Film::load(&options.data, &options.clip, scratch.path()));
    let mut judge = Judge::open(&options.judge, film.clone())?;
    let stage = Stage::new(&scratch, options.clone()).await?;
    let turns = turns(&options);
    let progress = Progress::new("frames-nodes", turns.len() * options.rounds as usize);
    let mut scores: BTreeMap<Turn, Score> = BTreeMap::new();
    for _ in 0..options.rounds.max(1) {
        for &turn in &turns {
            let Turn { cameras, subscribers, who } = turn;
            let step = format!("{who:?}, {cameras} cameras, {subscribers} subscribers");
            progress.step(&step, Some(Duration::from_secs(options.seconds + 4)));
            let played = stage.play(turn, &film).await;
            let score = scores.entry(turn).or_default();
            let Played { fates, arrived } = played.with_context(|| step.clone())?;
            for fates in fates {
                score.add(&fates, Duration::from_millis(BOUND_MS.into()));
            }
            if let Some(judge) = &mut judge {
                for (number, jpeg) in arrived {
                    score.see(judge.look(number, &jpeg)?);
                }
            }
        }
    }
    drop(progress);
    let mut lines = vec![format!("frames: {}, {:.0} bytes each (mean)", film.source, film.mean())];
    lines.extend(judge.map(|judge| {
        let (boxes, frames) = judge.boxes();
        format!(
            "found: F1 of {} on what came to the first subscriber of each camera; {boxes} boxes on {frames} of the frames as they were taken",
            judge.name()
        )
    }));
    let mut found = Findings::from(lines);
    found.add(table::findings(&scores, &film)?);
    found.versions =
        Program::all_with_versions(&[Program::Tidegate, Program::Nats]).into_iter().collect();
    Ok(found)
}

/// The channel and all that stands at its ends.
struct Stage {
    // In this order: processes end before the link.
    rig: Rig,
    _nats: Quiet,
    link: Link,
    options: Options,
}

/// What a turn came to.
struct Played {
    /// What became of the frames of each camera at each of its subscribers.
    fates: Vec<Vec<Fate>>,
    /// What came to the first subscriber of each camera, by the film's number. Nothing over NATS.
    arrived: Vec<(usize, Bytes)>,
}

impl Stage {
    async fn new(scratch: &Scratch, options: Options) -> anyhow::Result<Stage> {
        let way = || Way::new(options.rate(1), DELAY, QUEUE);
        let link = Link::emulated([way(), way()], 1)?;
        let settings = format!("max_payload: {PAYLOAD_MAX}\n");
        let nats = rig::broker(Side::Cloud, Broker::Nats, &settings);
        let nats = rig::raise(&link, scratch, &nats).await?.quietly();
        let rig = Rig::start(&link, scratch, CAMERAS, options.ladder.as_deref()).await?;
        Ok(Stage { rig, _nats: nats, link, options })
    }

    async fn play(&self, turn: Turn, film: &Arc<Film>) -> anyhow::Result<Played> {
        let seconds = self.options.seconds;
        let wire = self.link.wire().context("the link is emulated")?;
        let service = Service::Rate(Profile::constant(self.options.rate(turn.cameras)));
        wire.change(pump::Way::Uplink, Change::Service(service));
        let all = turn.cameras * turn.subscribers;
        let (ready, mut is_ready) = mpsc::channel(all);
        let (stop, until) = watch::channel(false);
        let mut watches: Vec<(usize, Answer<Vec<Came>>)> = Vec::new();
        let mut kept = Vec::new();
        for seat in 0..all {
            let number = seat % turn.cameras;
            let (keep, frames) = mpsc::unbounded_channel();
            let is_first = seat < turn.cameras && self.options.judge.detector.is_some();
            let keep = is_first.then_some(keep);
            let watching = Watching { ready: ready.clone(), until: until.clone(), kept: keep };
            kept.push(frames);
            watches.push((number, self.watch(turn.who, number, watching)?));
        }
        drop(ready);
        all_ready(&mut is_ready, all).await?;
        let begin_ns = now_ns() + SECOND_NS / 2;
        let schedules: Vec<Schedule> =
            (0..turn.cameras).map(|number| schedule(number, begin_ns, seconds)).collect();
        let mut cameras = Vec::new();
        for (number, &schedule) in schedules.iter().enumerate() {
            cameras.push(self.publish(turn.who, number, film.clone(), schedule)?);
        }
        sleep_until(begin_ns + WARM_NS + seconds * SECOND_NS).await;
        for camera in cameras {
            // One that is not through by now has frames that count as not come.
            if let Ok(published) = timeout(DRAIN, camera).await {
                published??;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        stop.send_replace(true);
        let counts_from = begin_ns + WARM_NS;
        let (mut fates, mut arrived) = (Vec::new(), Vec::new());
        for ((number, watch), mut kept) in watches.into_iter().zip(kept) {
            let schedule = schedules[number];
            let counted = schedule.dues().filter(|due| *due >= counts_from);
            fates.push(Fate::all(counted, &watch.await??));
            while let Some((due_ns, jpeg)) = kept.recv().await {
                if due_ns >= counts_from {
                    arrived.push((offset(number) + schedule.number(due_ns), jpeg));
                }
            }
        }
        Ok(Played { fates, arrived })
    }

    fn nats(&self) -> Place {
        Place { address: SocketAddr::from((Side::Cloud.address(), NATS_PORT)), tls: None }
    }

    fn watch(
        &self,
        who: Who,
        number: usize,
        watching: Watching,
    ) -> anyhow::Result<Answer<Vec<Came>>> {
        match who {
            Who::Nats => {
                let place = self.nats();
                on(&self.link, Side::Cloud, move || rival::watch(place, camera(number), watching))
            }
            Who::Tidegate => {
                let seat = self.rig.server_seat()?;
                let request = SubscribeRequest {
                    camera: camera(number),
                    latency_ms: BOUND_MS,
                    accuracy: self.options.accuracy,
                    ..SubscribeRequest::default()
                };
                on(&self.link, Side::Cloud, move || client::watch(seat, request, watching))
            }
        }
    }

    fn publish(
        &self,
        who: Who,
        number: usize,
        film: Arc<Film>,
        schedule: Schedule,
    ) -> anyhow::Result<Answer<()>> {
        let offset = offset(number);
        match who {
            Who::Nats => {
                let place = self.nats();
                on(&self.link, Side::Edge, move || {
                    rival::publish(place, camera(number), film, offset, schedule)
                })
            }
            Who::Tidegate => {
                let seat = self.rig.camera_seat(number)?;
                on(&self.link, Side::Edge, move || async move {
                    let published = client::publish(seat, camera(number), film, offset, schedule);
                    let refused = published.await?;
                    ensure!(refused == 0, "{refused} frames were refused");
                    Ok(())
                })
            }
        }
    }
}

/// Number of a camera's first frame: no two see the same at a time.
fn offset(number: usize) -> usize {
    number * 17
}

/// When a camera takes frames.
fn schedule(number: usize, begin_ns: u64, seconds: u64) -> Schedule {
    let period = SECOND_NS as f64 / PER_SECOND as f64;
    let drifted = period * (1.0 + DRIFT * number as f64);
    let first_ns = begin_ns + (period * (PHASE * number as f64).fract()) as u64;
    let length = (WARM_NS + seconds * SECOND_NS) as f64;
    Schedule { first_ns, period_ns: drifted as u64, count: (length / drifted) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_have_the_same_turns_and_more_stations_have_less_together() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let words = ["lab", "--cameras", "1,5", "--subscribers", "8", "--contention", "0.25"];
        let options = <Line as clap::Parser>::parse_from(words).options;
        let turns = turns(&options);
        assert_eq!(turns.len(), 6);
        for pair in turns.chunks(2) {
            assert_eq!(Turn { who: Who::Nats, ..pair[0] }, pair[1]);
        }
        assert_eq!([1, 5].map(|stations| options.rate(stations)), [100_000_000, 50_000_000]);
    }

    #[test]
    fn cameras_frames_meet_in_every_way() {
        let [first, second] = [0, 1].map(|number| schedule(number, 0, 60));
        assert_eq!((first.first_ns, first.period_ns), (0, 200_000_000));
        assert_eq!((second.first_ns, second.period_ns), (74_000_000, 200_800_000));
        let apart = |number: u64| {
            let due = second.first_ns + number * second.period_ns;
            due % first.period_ns
        };
        assert!(apart(0) < 80_000_000 && apart(150) > 190_000_000);
    }
}
