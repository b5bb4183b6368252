//! `lab bench adapt-yahoo`: BumbleBee's second case, the Yahoo streaming benchmark in a burst: a node with the stock
//! script `shed.luau` before a worker that keeps views, joins them to campaigns and counts.
//!
//! Real: node, MQTT on both sides, events and their times, the query. The worker takes no more than so many events a
//! second, whatever the machine could: that is what a burst is measured against. The same node without a script beside it.

mod events;
mod score;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use clap::Args;
use tidegate_testbed::free_address;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

pub(crate) use self::events::{Events, Plan};
pub(crate) use self::score::{Score, tell};
pub(crate) use self::worker::Worker;
use super::{Verdict, broker};
use crate::load::mqtt::{Hello, Packet, Reader, Writer, hello};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::Findings;
use crate::rig;
use crate::rig::versions::Program;

const SHED: &str = include_str!("../../../../../../tidegate/lua/shed.luau");
/// What the worker can do, as a multiple of the load outside of the burst.
pub(crate) const CAPACITY: f64 = 1.5;
/// Events that it may hold on each connection.
const HELD: u16 = 32;
/// How far a worker that was not woken in time may catch up.
const CATCH_UP: Duration = Duration::from_millis(20);
/// A driver that is later than this falls behind (as the benchmark's own says).
const BEHIND: Duration = Duration::from_millis(100);
/// For the node to start, and for what waits at the end.
const START: Duration = Duration::from_secs(30);
const DRAIN: Duration = Duration::from_secs(120);

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Folder of the events
    #[arg(long, value_name = "FOLDER", default_value = "../shared/data")]
    pub(crate) data: PathBuf,
    /// Events a second; twice as many in the burst
    #[arg(long, default_value_t = 4000)]
    pub(crate) per_second: u32,
    /// Seconds of warm-up, before, in and after the burst
    #[arg(long, value_delimiter = ',', default_values_t = [5.0, 10.0, 60.0, 60.0])]
    pub(crate) seconds: Vec<f64>,
}

/// Runs it and returns what was found.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let Some(events) = Events::read(&options.data)? else {
        return Ok(vec![Events::absent(&options.data)].into());
    };
    let seconds: [f64; 4] = options.seconds.as_slice().try_into().context("four lengths")?;
    let plan = Plan { base: f64::from(options.per_second), seconds };
    let _awake = Spinners::start()?;
    let mut verdict = Verdict::new("adapt_yahoo");
    verdict.say(format!(
        "{} events/s, twice that for {} s; a worker that does {CAPACITY} times {}",
        plan.base, seconds[2], plan.base
    ));
    let progress = Progress::new("adapt-yahoo", 2);
    let mut rows = Vec::new();
    for (name, script) in [("plain", None), ("shed", Some(SHED))] {
        progress.step(name, Some(Duration::from_secs_f64(seconds.iter().sum())));
        let turn = play(&plan, &events, script).await?;
        if turn.latest > BEHIND {
            verdict.say(format!(
                "{name}: falling behind: an event was {} ms late to be sent",
                turn.latest.as_millis()
            ));
        }
        if let Some(problem) = turn.problem {
            verdict.breaks(format!("{name}: {problem}"));
        }
        rows.push((name, turn.score));
    }
    tell(&rows, &mut verdict);
    Ok(verdict.findings(&[Program::Tidegate]))
}

/// What came of one run.
struct Turn {
    score: Score,
    /// How late the latest event was sent.
    latest: Duration,
    problem: Option<String>,
}

async fn play(plan: &Plan, events: &Events, script: Option<&str>) -> anyhow::Result<Turn> {
    let scratch = Scratch::new()?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let far = listener.local_addr()?;
    let worker = Arc::new(Mutex::new(Worker::new(&events.campaigns)));
    let problem = Arc::new(Mutex::new(None));
    let mut tasks = JoinSet::new();
    let handler = query(plan, &worker, &problem);
    broker::serve(listener, &mut tasks, HELD, handler)?;
    let near = free_address();
    let file = scratch.file("node.toml", &configuration(near, far, script, &scratch)?)?;
    let mut command = Command::new(rig::tidegate_program()?);
    command.args(["--log", "info", "run", "-c"]).arg(file);
    let mut node = Process::start("tidegate", command)?;
    node.says("output is up", START).await?;
    let _node = node.quietly();
    let socket = super::connect(near, START).await?;
    let (reader, writer, maximum) = hello(socket, Hello::new("events")).await?;
    let room = Semaphore::new(usize::from(maximum));
    let start = Instant::now() + Duration::from_millis(200);
    let begin_ms = unix_ms() as u64 + 200;
    let (sent, answered) = tokio::join!(
        timeout(length(plan) + DRAIN, send(plan, events, (start, begin_ms), writer, &room)),
        timeout(length(plan) + DRAIN, hear(plan, reader, &room))
    );
    answered.context("the node does not accept what is sent")??;
    let (latest, _writer) = sent.context("the node does not take what is sent")??;
    wait_for_the_worker(&worker).await;
    let problem = problem.lock().unwrap_or_else(PoisonError::into_inner).take();
    let worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Turn { score: Score::of(plan, events, &worker.taken, begin_ms), latest, problem })
}

fn length(plan: &Plan) -> Duration {
    Duration::from_secs_f64(plan.seconds.iter().sum())
}

fn configuration(
    near: SocketAddr,
    far: SocketAddr,
    script: Option<&str>,
    scratch: &Scratch,
) -> anyhow::Result<String> {
    let mut text = format!(
        "[node]\nname = \"edge\"\n[http]\nlisten = []\n[limits]\nmemory = \"1GiB\"\n\
         [[input]]\nmqtt = {{ listen = \"{near}\" }}\n\
         [[output]]\nname = \"worker\"\nmqtt = {{ url = \"mqtt://{far}\" }}\n\
         [[stream]]\ntopics = [\"ad-events\"]\nlatency = \"1s\"\nmemory = \"512MiB\"\n"
    );
    if let Some(script) = script {
        let file = scratch.file("shed.luau", script)?.display().to_string();
        text.push_str(&format!(
            "script = \"shed\"\n[[script]]\nname = \"shed\"\nfile = {file:?}\n"
        ));
    }
    Ok(text)
}

/// The worker: one event after the other, each in its time.
fn query(
    plan: &Plan,
    worker: &Arc<Mutex<Worker>>,
    problem: &Arc<Mutex<Option<String>>>,
) -> broker::Handler {
    let (worker, problem) = (worker.clone(), problem.clone());
    let service = Duration::from_secs_f64(1.0 / (plan.base * CAPACITY));
    let free_at = Mutex::new(Instant::now());
    Arc::new(move |came| {
        let now = Instant::now();
        let mut free_at = free_at.lock().unwrap_or_else(PoisonError::into_inner);
        *free_at = (*free_at).max(now - CATCH_UP) + service;
        let done = (*free_at).max(now);
        let done_ms = unix_ms() + (done - now).as_secs_f64() * 1e3;
        let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = worker.take(&came.payload, done_ms) {
            let mut problem = problem.lock().unwrap_or_else(PoisonError::into_inner);
            problem.get_or_insert(format!("not an event: {error:#}"));
        }
        done
    })
}

/// Makes each event when it is due; answers with how late the latest was, and with the writer: dropped, it says that
/// nothing more comes, and the node would hang up before it has acknowledged everything.
async fn send(
    plan: &Plan,
    events: &Events,
    (start, begin_ms): (Instant, u64),
    mut writer: Writer,
    room: &Semaphore,
) -> anyhow::Result<(Duration, Writer)> {
    let mut latest = Duration::ZERO;
    for (number, (at, _)) in (0..).map_while(|number| Some((number, plan.due(number)?))) {
        let due = start + Duration::from_secs_f64(at);
        if due > Instant::now() + Duration::from_millis(1) {
            sleep_until(due).await;
        }
        // No more without an answer than the node takes.
        room.acquire().await?.forget();
        latest = latest.max(Instant::now().saturating_duration_since(due));
        let payload = events.payload(number, begin_ms + (at * 1e3) as u64);
        writer.publish("ad-events", (number % 65_535) as u16 + 1, &[], &payload).await?;
    }
    Ok((latest, writer))
}

/// Waits until every event is accepted.
async fn hear(plan: &Plan, mut reader: Reader, room: &Semaphore) -> anyhow::Result<()> {
    let mut left = (0..).map_while(|number| plan.due(number)).count();
    while left > 0 {
        match reader.packet().await?.context("the node has gone")? {
            Packet::Acknowledged { reason, .. } => {
                anyhow::ensure!(reason < 0x80, "an event was refused: {reason:#x}");
                room.add_permits(1);
                left -= 1;
            }
            _ => continue,
        }
    }
    Ok(())
}

/// Until nothing came for a while: what still waits counts as late, not as dropped.
async fn wait_for_the_worker(worker: &Mutex<Worker>) {
    let count = || worker.lock().unwrap_or_else(PoisonError::into_inner).taken.len();
    let until = Instant::now() + DRAIN;
    let mut before = usize::MAX;
    while count() != before && Instant::now() < until {
        before = count();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn unix_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3
}
