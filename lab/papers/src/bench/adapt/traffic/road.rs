//! One run: a camera, the proxy beside it, a detector behind an uplink, and one at the edge.

use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::clip::Clip;
use crate::bench::adapt::http::{self, Message};
use crate::link::{Change, Options};
use crate::net::host::{self, Host};
use crate::net::process::Process;
use crate::net::pump::Way;
use crate::net::scratch::Scratch;
use crate::net::wire::Wire;
use crate::rig;

/// One way of the uplink.
pub(super) const DELAY: Duration = Duration::from_millis(20);
/// Bytes of the uplink's queue.
const QUEUE: u64 = 256 * 1024;
const BACK: u64 = 100_000_000;
const CLOUD_PORT: u16 = 8000;
const EDGE_PORT: u16 = 8001;
const SMALL_PORT: u16 = 8002;
const PROXY_PORT: u16 = 8080;
/// For the proxy to listen.
const START: Duration = Duration::from_secs(30);
/// For frames that still wait at the end: late ones go after all fresh ones.
const DRAIN: Duration = Duration::from_secs(120);
/// A connection that was idle for longer is not used again: the proxy closes it (`header_timeout`).
const IDLE_MAX: Duration = Duration::from_secs(5);

/// What a run is.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Bits a second of the uplink.
    pub(super) rate: u64,
    /// `[[script]]` and keys of the route, or nothing.
    pub(super) script: Option<(&'static str, &'static str)>,
    /// Keys of that script.
    pub(super) keys: String,
    /// Frames that the cloud's detector may have unanswered.
    pub(super) in_flight: u32,
    /// Whether the camera itself sends frames at half resolution.
    pub(super) sends_half: bool,
    pub(super) seconds: f64,
    /// From when to when the uplink is down, in frames: a little before each of these is due.
    pub(super) cuts: Vec<(usize, usize)>,
}

/// Who looked at a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detector {
    Strong,
    Weak,
}

/// What became of a frame.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) number: usize,
    /// Seconds since the first frame, when it was due and when its answer came.
    pub(super) due: f64,
    pub(super) answered: Option<f64>,
    pub(super) status: String,
    /// Each time that a detector got it: when, which, and at half resolution or not.
    pub(super) seen: Vec<(f64, Detector, bool)>,
}

impl Frame {
    /// What was found in it.
    pub(super) fn found(&self, clip: &Clip) -> u64 {
        let place = self.number % clip.len();
        self.seen.first().map_or(0, |seen| match seen {
            (_, Detector::Weak, _) => clip.seen.weak_full[place],
            (_, Detector::Strong, true) => clip.seen.strong_half[place],
            (_, Detector::Strong, false) => clip.seen.strong_full[place],
        })
    }
}

/// When which detector got which frame, and whether at half resolution.
type Book = Arc<Mutex<Vec<(Instant, usize, Detector, bool)>>>;

/// Plays a run; answers with its frames.
pub(super) async fn play(clip: &Arc<Clip>, run: &Run) -> anyhow::Result<Vec<Frame>> {
    host::remove_stale()?;
    let number = host::next_run();
    let hosts = [Host::new(number, "edge")?, Host::new(number, "cloud")?];
    let [edge, cloud] = &hosts;
    let ways = [Options::new(run.rate, DELAY, QUEUE), Options::new(BACK, DELAY, QUEUE)];
    let wire = Wire::new([edge, cloud], "uplink", 0, ways, 1)?;
    let [near, far] = wire.addresses();
    let mut servers = JoinSet::new();
    let book = Book::default();
    let detectors = [
        (cloud, SocketAddrV4::new(far, CLOUD_PORT), Detector::Strong),
        (edge, SocketAddrV4::new(near, EDGE_PORT), Detector::Weak),
    ];
    for (host, at, who) in detectors {
        http::serve(host.listen(at)?, &mut servers, detector(clip, &book, who))?;
    }
    let small = SocketAddrV4::new(near, SMALL_PORT);
    http::serve(edge.listen(small)?, &mut servers, shrinker(clip))?;
    let scratch = Scratch::new()?;
    let file = scratch.file("proxy.toml", &configuration(run, &scratch, [near, far])?)?;
    let mut command = edge.command(rig::tidegate_program()?);
    command.args(["--log", "info", "proxy", "-c"]).arg(file);
    let mut proxy = Process::start("tidegate", command)?;
    proxy.says("requests at ", START).await?;
    let _proxy = proxy.quietly();
    // Connections and the rate are known before it begins.
    let to = SocketAddrV4::new(near, PROXY_PORT);
    sleep(Duration::from_millis(300)).await;
    let start = Instant::now() + Duration::from_millis(200);
    let cutting = cut(clip, run, &wire, start);
    let ((), frames) = tokio::join!(cutting, shoot(clip, run, edge, to, start));
    let mut frames = frames?;
    for (at, number, who, is_half) in book.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        if let Some(frame) = frames.get_mut(*number) {
            frame.seen.push((at.saturating_duration_since(start).as_secs_f64(), *who, *is_half));
        }
    }
    Ok(frames)
}

fn configuration(
    run: &Run,
    scratch: &Scratch,
    [near, far]: [std::net::Ipv4Addr; 2],
) -> anyhow::Result<String> {
    let mut text = format!(
        "[http]\nlisten = []\n[[proxy.listener]]\nlisten = \"{near}:{PROXY_PORT}\"\n\
         [[proxy.upstream]]\nname = \"cloud\"\nto = [\"{far}:{CLOUD_PORT}\"]\nrate = \"auto\"\n\
         in_flight = {}\n\
         [[proxy.upstream]]\nname = \"edge\"\nto = [\"{near}:{EDGE_PORT}\"]\n\
         [[proxy.route]]\nto = \"cloud\"\ndown = \"wait\"\nwait = \"5m\"\ntimeout = \"2m\"\n\
         memory = \"256MiB\"\n",
        run.in_flight
    );
    if let Some((name, script)) = run.script {
        let file = scratch.file(&format!("{name}.luau"), script)?.display().to_string();
        let keys = run.keys.replace("SMALL", &format!("http://{near}:{SMALL_PORT}/half"));
        text.push_str(&format!(
            "script = \"{name}\"\n[[script]]\nname = \"{name}\"\nfile = {file:?}\n{keys}"
        ));
    }
    Ok(text)
}

fn number_of(request: &Message) -> usize {
    request.header("frame").and_then(|text| text.parse().ok()).unwrap_or(usize::MAX)
}

/// Notes what comes, and answers with what was found in it.
fn detector(clip: &Arc<Clip>, book: &Book, who: Detector) -> http::Handler {
    let (clip, book) = (clip.clone(), book.clone());
    Arc::new(move |request| {
        let number = number_of(&request);
        let is_half = clip.is_half(number, &request.body);
        let seen = (Instant::now(), number, who, is_half);
        book.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        let place = number % clip.len();
        let found = match (who, is_half) {
            (Detector::Weak, _) => clip.seen.weak_full[place],
            (Detector::Strong, true) => clip.seen.strong_half[place],
            (Detector::Strong, false) => clip.seen.strong_full[place],
        };
        Message::answer(200, found.to_string())
    })
}

/// Answers with half of a frame's resolution.
fn shrinker(clip: &Arc<Clip>) -> http::Handler {
    let clip = clip.clone();
    Arc::new(move |request| {
        let place = clip.full.iter().position(|frame| *frame == request.body);
        match place {
            Some(place) => Message::answer(200, clip.half[place].clone()),
            None => Message::answer(400, "no frame of the clip"),
        }
    })
}

/// Takes the uplink down and up.
async fn cut(clip: &Clip, run: &Run, wire: &Wire, start: Instant) {
    // What went before is acknowledged then, and the next frame is not due yet.
    let before = Duration::from_millis(8);
    let due = |frame: usize| start + Duration::from_secs_f64(frame as f64 / clip.frames_per_second);
    for (from, until) in &run.cuts {
        for (at, is_up) in [(*from, false), (*until, true)] {
            sleep_until(due(at) - before).await;
            Way::ALL.into_iter().for_each(|way| wire.change(way, Change::Up(is_up)));
        }
    }
}

/// Sends each frame when it is due, whatever became of earlier ones, on a connection of its own.
async fn shoot(
    clip: &Arc<Clip>,
    run: &Run,
    edge: &Host,
    to: SocketAddrV4,
    start: Instant,
) -> anyhow::Result<Vec<Frame>> {
    let count = (run.seconds * clip.frames_per_second) as usize;
    let mut tasks = JoinSet::new();
    let mut idle: Vec<(TcpStream, Instant)> = Vec::new();
    let end = start + Duration::from_secs_f64(run.seconds) + DRAIN;
    let (give_back, mut returned) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..count {
        let due = number as f64 / clip.frames_per_second;
        sleep_until(start + Duration::from_secs_f64(due)).await;
        while let Ok(stream) = returned.try_recv() {
            idle.push((stream, Instant::now()));
        }
        idle.retain(|(_, since)| since.elapsed() < IDLE_MAX);
        let mut stream = match idle.pop() {
            Some((stream, _)) => stream,
            None => {
                let stream = edge.connect(to).context("the camera cannot reach the proxy")?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                TcpStream::from_std(stream)?
            }
        };
        let frames = if run.sends_half { &clip.half } else { &clip.full };
        let body = frames[number % clip.len()].clone();
        let give_back = give_back.clone();
        tasks.spawn(async move {
            let text = number.to_string();
            let request = Message::post("/detect", &[("frame", &text)], body);
            let answer = tokio::time::timeout_at(end, http::ask(&mut stream, &request)).await;
            let (status, answered) = match answer {
                Ok(Ok(answer)) => {
                    let _ = give_back.send(stream);
                    (answer.second().to_owned(), Some(start.elapsed().as_secs_f64()))
                }
                Ok(Err(error)) => (error.to_string(), None),
                Err(_) => ("no answer".into(), None),
            };
            Frame { number, due, answered, status, seen: Vec::new() }
        });
    }
    let mut frames = tasks.join_all().await;
    frames.sort_by_key(|frame| frame.number);
    Ok(frames)
}
