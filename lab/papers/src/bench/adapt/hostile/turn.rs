//! One turn: a place with two kinds of traffic, of which a script sees one.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use tidegate_testbed::free_address;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Options;
use crate::bench::adapt::http::{self, Message};
use crate::bench::adapt::{broker, connect};
use crate::load::mqtt::{Hello, Packet, hello};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::rig;
use crate::watch::{Still, Watch};

/// For a process to start, and for what is under way at the end.
const START: Duration = Duration::from_secs(30);
const DRAIN: Duration = Duration::from_secs(20);
/// How often it is looked whether all has come.
const POLL: Duration = Duration::from_millis(10);
/// Records that an output may have unconfirmed.
const UNCONFIRMED: u16 = 256;
/// Connections to the proxy, of each kind.
const CONNECTIONS: u32 = 8;
const CALM: &str = "calm";
const HARM: &str = "harm";

tidegate_types::named! {
    /// Where it is tried.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Place {
        Node = "node",
        Proxy = "proxy",
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    /// Seconds that each record or request of other traffic took, sorted; those aside that lived while a processor of
    /// the machine stood still.
    pub(super) took: Vec<f64>,
    /// How many were left out.
    pub(super) left_out: usize,
    /// Calls of the script that failed.
    pub(super) failed: u64,
    pub(super) problem: Option<String>,
}

impl Turn {
    /// The time within which this part was through, in milliseconds.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let place = (self.took.len() as f64 * part) as usize;
        self.took.get(place.min(self.took.len().saturating_sub(1))).map_or(f64::NAN, |s| s * 1e3)
    }
}

/// When each of other traffic was sent and came.
type Book = Arc<Mutex<Vec<(Instant, Instant)>>>;

pub(super) async fn play(place: Place, script: &str, options: &Options) -> anyhow::Result<Turn> {
    let (scratch, book, mut far) = (Scratch::new()?, Book::default(), JoinSet::new());
    let watch = Watch::start();
    let zero = Instant::now();
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let behind = listener.local_addr()?;
    match place {
        Place::Node => broker::serve(listener, &mut far, UNCONFIRMED, taker(&book, zero))?,
        Place::Proxy => {
            let echo = |request: Message| Message::answer(200, request.body);
            http::serve(listener, &mut far, Arc::new(echo))?;
        }
    }
    let (near, status) = (free_address(), free_address());
    let file = scratch.file("hostile.luau", script)?.display().to_string();
    let text = configuration(place, [near, status, behind], &file);
    let config = scratch.file("config.toml", &text)?;
    let mut command = Command::new(rig::tidegate_program()?);
    let (word, ready) = match place {
        Place::Node => ("run", "output is up"),
        Place::Proxy => ("proxy", "ready"),
    };
    command.args(["--log", "info", word, "-c"]).arg(config);
    let mut process = Process::start("tidegate", command)?;
    process.says(ready, START).await?;
    let _process = process.quietly();
    let mut tasks = JoinSet::new();
    let start = Instant::now() + Duration::from_millis(100);
    let end = start + Duration::from_secs(u64::from(options.seconds));
    let mut sent = 0;
    for (kind, per_second) in [(CALM, options.per_second), (HARM, options.harm)] {
        let book = (kind == CALM).then(|| book.clone());
        if kind == CALM {
            sent = u64::from(per_second) * u64::from(options.seconds);
        }
        let connections = if place == Place::Node { 1 } else { CONNECTIONS };
        for number in 0..connections {
            let dues = dues(start, end, f64::from(per_second), number, connections);
            let book = book.clone();
            tasks.spawn(async move {
                match place {
                    Place::Node => publish(near, kind, dues, zero).await,
                    Place::Proxy => ask(near, kind, dues, book).await,
                }
            });
        }
    }
    let mut problem = None;
    while let Some(done) = tasks.join_next().await {
        if let Err(error) = done? {
            problem.get_or_insert(format!("{error:#}"));
        }
    }
    let failed = match failed_calls(status).await {
        Ok(failed) => failed,
        Err(error) => {
            problem.get_or_insert(format!("it does not live: {error:#}"));
            0
        }
    };
    arrive(&book, sent).await;
    let lives = book.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if (lives.len() as u64) < sent {
        problem.get_or_insert(format!("{} of {sent} came through", lives.len()));
    }
    let took = undisturbed(&lives, &watch.take());
    Ok(Turn { left_out: lives.len() - took.len(), took, failed, problem })
}

/// Waits until so many are through, or no longer.
async fn arrive(book: &Book, sent: u64) {
    let until = Instant::now() + DRAIN;
    let count = || book.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    while count() < sent && Instant::now() < until {
        sleep(POLL).await;
    }
}

/// How long each took that did not live beside a standstill of the machine, sorted.
fn undisturbed(lives: &[(Instant, Instant)], stills: &[Still]) -> Vec<f64> {
    let is_calm = |&(sent, came): &(Instant, Instant)| {
        !stills.iter().any(|still| still.touches(sent.into_std(), came.into_std()))
    };
    let calm = lives.iter().copied().filter(is_calm);
    let mut took: Vec<f64> = calm.map(|(sent, came)| (came - sent).as_secs_f64()).collect();
    took.sort_by(f64::total_cmp);
    took
}

fn configuration(place: Place, [near, status, behind]: [SocketAddr; 3], file: &str) -> String {
    let script = format!("[[script]]\nname = \"hostile\"\nfile = {file:?}\n");
    match place {
        Place::Node => format!(
            "[node]\nname = \"edge\"\n[http]\nlisten = \"{status}\"\n[[input]]\nmqtt = {{ listen = \"{near}\" }}\n\
             [[output]]\nname = \"far\"\nmqtt = {{ url = \"mqtt://{behind}\" }}\n\
             [[stream]]\ntopics = [\"{CALM}\"]\n[[stream]]\ntopics = [\"{HARM}\"]\nscript = \"hostile\"\n{script}"
        ),
        Place::Proxy => format!(
            "[http]\nlisten = \"{status}\"\n[[proxy.listener]]\nlisten = \"{near}\"\n\
             [[proxy.upstream]]\nname = \"app\"\nto = [\"{behind}\"]\n\
             [[proxy.route]]\nname = \"{CALM}\"\npath = \"/{CALM}\"\n\
             [[proxy.route]]\nname = \"{HARM}\"\nscript = \"hostile\"\n{script}"
        ),
    }
}

/// When one of so many connections sends: together they send so often.
fn dues(
    start: Instant,
    end: Instant,
    per_second: f64,
    number: u32,
    connections: u32,
) -> impl Iterator<Item = Instant> + Send + 'static {
    let at = move |place: u32| {
        start + Duration::from_secs_f64(f64::from(place * connections + number) / per_second)
    };
    (0..).map(at).take_while(move |due| *due < end)
}

/// Notes when a record of other traffic comes: its payload says when it was sent.
fn taker(book: &Book, zero: Instant) -> broker::Handler {
    let book = book.clone();
    Arc::new(move |came| {
        let now = Instant::now();
        if let (CALM, Ok(sent)) = (&*came.topic, <[u8; 8]>::try_from(&came.payload[..])) {
            let sent = zero + Duration::from_nanos(u64::from_be_bytes(sent));
            book.lock().unwrap_or_else(PoisonError::into_inner).push((sent, now.max(sent)));
        }
        now
    })
}

/// Publishes, each when it is due, and hears that all are accepted.
async fn publish(
    near: SocketAddr,
    kind: &'static str,
    dues: impl Iterator<Item = Instant>,
    zero: Instant,
) -> anyhow::Result<()> {
    let (mut reader, mut writer, _) = hello(connect(near, START).await?, Hello::new(kind)).await?;
    let dues: Vec<Instant> = dues.collect();
    let mut left = dues.len();
    let sending = async {
        for (number, due) in dues.into_iter().enumerate() {
            sleep_until(due).await;
            let sent = Instant::now().saturating_duration_since(zero).as_nanos() as u64;
            let id = (number % 65_535) as u16 + 1;
            writer.publish(kind, id, &[], &sent.to_be_bytes()).await?;
        }
        anyhow::Ok(writer)
    };
    let hearing = async {
        while left > 0 {
            match reader.packet().await?.context("the node has gone")? {
                Packet::Acknowledged { reason, .. } => {
                    ensure!(reason < 0x80, "a record is refused: {reason:#x}");
                    left -= 1;
                }
                _ => continue,
            }
        }
        anyhow::Ok(())
    };
    // The writer stays until all is acknowledged: dropped, it says that nothing more comes.
    let (writer, heard) = tokio::join!(sending, hearing);
    heard?;
    drop(writer?);
    // What is accepted is on its way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}

/// Asks, each when it is due.
async fn ask(
    near: SocketAddr,
    kind: &'static str,
    dues: impl Iterator<Item = Instant>,
    book: Option<Book>,
) -> anyhow::Result<()> {
    let mut stream = connect(near, START).await?;
    let request = Message::post(&format!("/{kind}"), &[], Bytes::from_static(b"12345678"));
    for due in dues {
        let is_busy = Instant::now() > due;
        sleep_until(due).await;
        // The clock of timers has whole milliseconds: what it is late by says nothing.
        let from = if is_busy { due } else { Instant::now() };
        let answer = timeout(DRAIN, http::ask(&mut stream, &request)).await??;
        ensure!(answer.second() == "200", "answered {}", answer.second());
        if let Some(book) = &book {
            book.lock().unwrap_or_else(PoisonError::into_inner).push((from, Instant::now()));
        }
    }
    Ok(())
}

/// Calls of the script that failed, as its metrics say.
async fn failed_calls(status: SocketAddr) -> anyhow::Result<u64> {
    let mut stream = TcpStream::connect(status).await?;
    let answer = timeout(DRAIN, http::ask(&mut stream, &Message::get("/metrics"))).await??;
    let text = answer.text();
    let lines = text.lines().filter(|line| line.starts_with("tidegate_script_failed_runs_total{"));
    let counts = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    let is_off =
        text.lines().any(|line| line.starts_with("tidegate_script_on{") && line.ends_with(" 0"));
    ensure!(!is_off, "the script was switched off");
    Ok(counts.sum::<f64>() as u64)
}
