//! `lab bench hostile`: strangers push against a node of default limits while one well-behaved client is served.
//!
//! Each attack of [`ATTACKS`] has a process of its own. The bystander is measured before the attack and during it,
//! the status page is asked all the time, memory is watched. Clients are ours, on raw sockets: they share no codec
//! with the product.

mod bystander;
mod h2;
mod memory;
mod speak;
mod table;
mod victim;
mod waiting;
mod web;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use rustls::ClientConfig;
use tokio::task::JoinSet;

use self::bystander::Served;
use self::speak::{Hello, Peer};
use self::table::{ATTACKS, Attack, Row};
use self::victim::{Places, USERS, Victim, get};
use crate::bench::sidecar::load::serve;
use crate::progress::Progress;
use crate::report::Findings;
use crate::report::Verdict;
use crate::rig::{tidegate_program, versions::Program};

/// How long the bystander is measured alone.
const QUIET: Duration = Duration::from_secs(2);
/// Between two questions to the status page.
const HEALTH: Duration = Duration::from_millis(100);

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Attacks by their names; all of them if left out
    pub(crate) attacks: Vec<String>,
    /// A few seconds each, with less of everything
    #[arg(long)]
    pub(crate) short: bool,
    /// Judge bytes, refusals, progress and loss, and no times: for a machine that others use too
    #[arg(long)]
    pub(crate) untimed: bool,
    /// The program that is attacked; the one of this build if left out
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Only tell the attacks and the promises that they are on
    #[arg(long)]
    pub(crate) list: bool,
}

/// What an attack knows and tells.
struct Scene {
    places: Places,
    trust: Option<Arc<ClientConfig>>,
    is_short: bool,
    connections: AtomicU64,
    refused: Mutex<BTreeMap<String, u64>>,
    /// What is owed: its name, how much, how much of it there was.
    balances: Mutex<Vec<(&'static str, u64, u64)>>,
}

impl Scene {
    fn front(&self) -> SocketAddr {
        self.places.front
    }

    fn http(&self) -> SocketAddr {
        self.places.http
    }

    fn group(&self) -> SocketAddr {
        self.places.group
    }

    fn trust(&self) -> io::Result<Arc<ClientConfig>> {
        self.trust.clone().ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// The first for a short run.
    fn pick<T>(&self, short: T, full: T) -> T {
        if self.is_short { short } else { full }
    }

    fn rest(&self, time: Duration) {
        thread::sleep(time);
    }

    /// So many connections more are opened.
    fn connects(&self, count: u64) {
        self.connections.fetch_add(count, Ordering::Relaxed);
    }

    /// Something was refused, in the protocol's word.
    fn refused(&self, word: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(word).or_default() += 1;
    }

    /// An attack's own connection ended, or not: no failure of the run.
    fn told(&self, done: io::Result<u64>) {
        if let Err(error) = done {
            self.refused(format!("closed ({})", error.kind()));
        }
    }

    /// Of what is owed so much was there.
    fn balance(&self, what: &'static str, owed: u64, there: u64) {
        let mut balances = self.balances.lock().unwrap_or_else(PoisonError::into_inner);
        balances.push((what, owed, there));
    }

    fn log_in(&self, id: &str, stays: bool) -> io::Result<Peer> {
        self.log_in_as(Hello { id, stays, ..Hello::default() })
    }

    /// Logs in; a refusal is counted, and an error.
    fn log_in_as(&self, hello: Hello<'_>) -> io::Result<Peer> {
        self.connects(1);
        let (peer, code, _) = Peer::log_in(self.front(), hello)
            .inspect_err(|error| self.refused(format!("no CONNACK ({})", error.kind())))?;
        if code != 0 {
            self.refused(format!("CONNACK {code:#04x}"));
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(peer)
    }

    /// Reads for so many seconds and forgets it, but for refusals.
    fn hear_out(&self, peer: &mut Peer, seconds: u64) {
        let end = Instant::now() + Duration::from_secs(seconds);
        let _ = peer.stream.set_read_timeout(Some(Duration::from_secs(1)));
        while Instant::now() < end {
            match peer.hear() {
                Ok((first, body)) => {
                    speak::refusals(first, &body).for_each(|word| self.refused(word));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return self.refused(format!("closed ({})", error.kind())),
            }
        }
    }
}

/// Asks for the health until it is told to stop; answers with milliseconds, infinite where none came.
fn ask_health(to: SocketAddr, stop: Arc<AtomicBool>) -> JoinHandle<Vec<f64>> {
    thread::spawn(move || {
        let mut took = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let answer = get(to, "/healthz", Duration::from_secs(3));
            let millis = begin.elapsed().as_secs_f64() * 1e3;
            took.push(if matches!(answer, Ok((200, _))) { millis } else { f64::INFINITY });
            thread::sleep(HEALTH);
        }
        took
    })
}

fn play(
    attack: &Attack,
    program: &Path,
    upstream: SocketAddr,
    (is_short, is_timed): (bool, bool),
) -> anyhow::Result<Row> {
    let victim = Victim::start(program, attack.setup, upstream)?;
    let trust = victim.keys.as_ref().map(|keys| keys.trust()).transpose()?;
    let front = victim.places.front;
    let before = attack.bystander.watch(front, trust.clone(), 0);
    thread::sleep(if is_timed { QUIET } else { HEALTH });
    let quiet = before.end();
    let done = (quiet.took.len() as u64 + quiet.failed) as usize;
    let scene = Scene {
        places: victim.places,
        trust: trust.clone(),
        is_short,
        connections: AtomicU64::new(16),
        refused: Mutex::default(),
        balances: Mutex::default(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let health = ask_health(victim.places.http, stop.clone());
    let during = attack.bystander.watch(front, trust, done.min(USERS));
    let begin = Instant::now();
    let ended = (attack.act)(&scene);
    let lasted = begin.elapsed();
    let attacked: Served = during.end();
    stop.store(true, Ordering::Relaxed);
    let health = health.join().expect("it does not panic");
    Ok(Row {
        lives: victim.lives(),
        peak: victim.peak(),
        connections: scene.connections.into_inner(),
        quiet,
        attacked,
        health,
        lasted,
        lost: victim.metric("tidegate_node_lost_deliveries"),
        accepted: victim.metric("tidegate_stream_accepted_deliveries_total"),
        refused: scene.refused.into_inner().unwrap_or_else(PoisonError::into_inner),
        balances: scene.balances.into_inner().unwrap_or_else(PoisonError::into_inner),
        ended: ended.err().map(|error| error.to_string()),
    })
}

/// Runs them all and returns what was found.
///
/// # Errors
/// The program does not start, or no attack has this name.
pub(crate) async fn run(options: Options) -> anyhow::Result<Findings> {
    for name in &options.attacks {
        let is_known = ATTACKS.iter().any(|attack| attack.name == name);
        ensure!(is_known, "no attack is called {name}: see `lab bench hostile --list`");
    }
    let wanted = |attack: &&Attack| {
        options.attacks.is_empty() || options.attacks.iter().any(|name| name == attack.name)
    };
    let attacks: Vec<&'static Attack> = ATTACKS.iter().filter(wanted).collect();
    let mut verdict = Verdict::new("hostile");
    if options.list {
        for attack in attacks {
            verdict.say(format!("{:<20}{}", attack.name, attack.promise));
        }
        return Ok(verdict.findings(&[]));
    }
    let program = match &options.program {
        Some(program) => program.canonicalize()?,
        None => tidegate_program()?,
    };
    let mut tasks = JoinSet::new();
    let upstream = serve(&mut tasks).await?;
    let progress = Progress::new("hostile", attacks.len());
    verdict.say(table::head());
    for attack in attacks {
        progress.step(attack.name, None);
        let (program, how) = (program.clone(), (options.short, !options.untimed));
        let work = move || play(attack, &program, upstream, how);
        match tokio::task::spawn_blocking(work).await? {
            Ok(row) => row.tell(attack, !options.untimed, &mut verdict),
            Err(error) => verdict.breaks(format!("{}: {error:#}", attack.name)),
        }
    }
    // Of another program than this build's nothing is known but where it is.
    let own = [Program::Tidegate];
    Ok(verdict.findings(if options.program.is_none() { &own } else { &[] }))
}
