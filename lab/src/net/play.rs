//! Plays a world: starts what runs in it, sends its loads, lets its faults happen, and looks at the end.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::{Pin, pin};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::crowd::{self, Crowd};
use super::process::Process;
use super::pump::Way;
use super::senders::Senders;
use super::spinner::Spinners;
use super::stage::Stage;
use crate::bench::{figure, interrupted};
use crate::world::{Fate, Target, World};

/// Time for a process to be ready.
const READY: Duration = Duration::from_secs(60);
/// Lines that may wait to be printed; beyond it a process waits.
const LINES_MAX: usize = 1024;
/// An end that does not come by itself.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// A program in the foreground: where it runs, and its words. The world ends with it.
#[derive(Clone, Debug)]
pub struct Foreground {
    /// The host.
    pub host: String,
    /// The program and its arguments, with addresses as in a world.
    pub words: Vec<String>,
}

/// Plays a world to its end, says what happens meanwhile, and returns the lines to print. Traces are
/// named from `folder` on. A signal ends it early, with all its tables.
///
/// # Errors
/// It cannot be brought up, a check does not hold, the program in the foreground fails, or a signal ended
/// what has an end of its own.
pub async fn play(
    world: &World,
    folder: &Path,
    foreground: Option<Foreground>,
    say: fn(&str),
) -> anyhow::Result<Vec<String>> {
    let has_end = world.length.is_some() || foreground.is_some();
    // One for all the time and asked first, so that no signal is missed.
    let mut stopped = pin!(interrupted());
    let mut set = tokio::select! {
        biased;
        _ = &mut stopped => bail!("interrupted"),
        set = Set::up(world, folder, say) => set?,
    };
    let crowd = Crowd::start(world, &set.stage)?;
    let senders = Senders::start(world, &set.stage)?;
    let start = Instant::now();
    let ended = set.watch(world, foreground, stopped, say).await;
    let drained = Instant::now() + world.drain.0;
    while let Ok(Some(line)) = tokio::time::timeout_at(drained, set.lines.recv()).await {
        say(&line);
    }
    let fates = senders.finish()?;
    let lasted = start.elapsed();
    for (name, bytes) in crowd.finish() {
        let rate = crowd::megabits(bytes, lasted);
        say(&format!("{name}: connections of others carried {rate:.2} Mbit/s"));
    }
    report_links(world, &set.stage, say)?;
    let figures = report_loads(world, &fates, say);
    match ended? {
        End::Program(status) if !status.success() => bail!("the program ended with {status}"),
        End::Signal if has_end => bail!("interrupted"),
        _ => {}
    }
    let broken: Vec<String> = world
        .check
        .iter()
        .flat_map(|check| fates.get(&check.load).map(|fate| check.broken(fate)))
        .flatten()
        .collect();
    if !broken.is_empty() {
        figures.iter().for_each(|line| say(line));
        bail!("does not hold: {}", broken.join("; "));
    }
    Ok(figures)
}

/// Why a world ended.
#[derive(Debug)]
enum End {
    Time,
    Program(std::process::ExitStatus),
    Signal,
}

/// A world that has been brought up.
#[derive(Debug)]
struct Set {
    // In this order: processes end before their hosts.
    cast: Cast,
    lines: mpsc::Receiver<String>,
    faults: Vec<(Duration, String, Target)>,
    stage: Stage,
    _awake: Spinners,
}

impl Set {
    async fn up(world: &World, folder: &Path, say: fn(&str)) -> anyhow::Result<Set> {
        let faults = schedule(world, folder)?;
        let stage = Stage::new(world, folder)?;
        let (cast, lines) = Cast::new();
        let mut set = Set { cast, lines, faults, stage, _awake: Spinners::start()? };
        for host in &world.hosts {
            let namespace = set.stage.host(host)?.namespace();
            say(&format!("{host}: ip netns exec {namespace} COMMAND"));
        }
        for process in &world.process {
            set.cast.start(world, &set.stage, &process.name).await?;
        }
        Ok(set)
    }

    /// Says what is said and lets faults happen, until the end.
    async fn watch(
        &mut self,
        world: &World,
        foreground: Option<Foreground>,
        mut stopped: Pin<&mut impl Future<Output = anyhow::Result<()>>>,
        say: fn(&str),
    ) -> anyhow::Result<End> {
        let start = Instant::now();
        let mut program =
            foreground.map(|program| run_program(&self.stage, &program)).transpose()?;
        let end = start + world.length.map_or(NEVER, |length| length.0);
        let mut faults = std::mem::take(&mut self.faults).into_iter().peekable();
        loop {
            let next = faults.peek().map_or(end, |(at, ..)| start + *at);
            tokio::select! {
                biased;
                // It always ends with an error, which says no more.
                _ = &mut stopped => return Ok(End::Signal),
                () = sleep_until(next), if next < end => {
                    let Some((at, text, target)) = faults.next() else { continue };
                    say(&format!("{:.1} s: {text}", at.as_secs_f64()));
                    self.cast.apply(world, &self.stage, target).await?;
                }
                status = wait(&mut program) => return Ok(End::Program(status?)),
                () = sleep_until(end) => return Ok(End::Time),
                Some(line) = self.lines.recv() => say(&line),
            }
        }
    }
}

/// The faults in the order of time, each with its words.
fn schedule(world: &World, folder: &Path) -> anyhow::Result<Vec<(Duration, String, Target)>> {
    let mut faults = Vec::new();
    for fault in &world.fault {
        faults.push((fault.at.0, fault.to_string(), fault.target(folder)?));
    }
    faults.sort_by_key(|(at, ..)| *at);
    Ok(faults)
}

fn run_program(stage: &Stage, program: &Foreground) -> anyhow::Result<tokio::process::Child> {
    let mut command = tokio::process::Command::from(stage.command(&program.host, &program.words)?);
    command.kill_on_drop(true).spawn().context("could not start the program")
}

async fn wait(
    program: &mut Option<tokio::process::Child>,
) -> anyhow::Result<std::process::ExitStatus> {
    match program {
        Some(program) => Ok(program.wait().await?),
        None => std::future::pending().await,
    }
}

/// The processes of a world that run.
#[derive(Debug)]
struct Cast {
    running: BTreeMap<String, Running>,
    lines: mpsc::Sender<String>,
}

/// A process and who reads its lines. Dropping it kills the process.
#[derive(Debug)]
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cast {
    fn new() -> (Cast, mpsc::Receiver<String>) {
        let (lines, receiver) = mpsc::channel(LINES_MAX);
        (Cast { running: BTreeMap::new(), lines }, receiver)
    }

    /// Starts a process and waits until it is ready.
    async fn start(&mut self, world: &World, stage: &Stage, name: &str) -> anyhow::Result<()> {
        let process = world.process.iter().find(|process| process.name == name);
        let process = process.with_context(|| format!("no process {name:?}"))?;
        let command = stage.command(&process.host, &process.command)?;
        let mut running = Process::start(name, command)?;
        if let Some(ready) = &process.ready {
            running.says(ready, READY).await?;
        }
        let (lines, name) = (self.lines.clone(), name.to_owned());
        let of_task = name.clone();
        let task = tokio::spawn(async move {
            while let Some(line) = running.line().await {
                // Who listened may be gone; then the process is killed in a moment.
                let _ = lines.send(format!("[{of_task}] {line}")).await;
            }
            let _ = lines.send(format!("[{of_task}] has ended")).await;
        });
        self.running.insert(name, Running(task));
        Ok(())
    }

    async fn apply(&mut self, world: &World, stage: &Stage, target: Target) -> anyhow::Result<()> {
        match target {
            Target::Link(name, met, change) => {
                let wire = stage.wire(&name)?;
                for (way, is_met) in Way::ALL.into_iter().zip(met) {
                    if is_met {
                        wire.change(way, change.clone());
                    }
                }
            }
            Target::Kill(name) => drop(self.running.remove(&name)),
            Target::Restart(name) => {
                if let Some(mut old) = self.running.remove(&name) {
                    old.0.abort();
                    // Its ports are free when it is dropped, which is before the task is over.
                    let _ = (&mut old.0).await;
                }
                self.start(world, stage, &name).await?;
            }
        }
        Ok(())
    }
}

/// What each way has carried. A packet that the emulator could not hand over spoils the run.
fn report_links(world: &World, stage: &Stage, say: fn(&str)) -> anyhow::Result<()> {
    let mut refused = 0;
    say(&format!(
        "{:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>12}",
        "link", "offered", "arrived", "queue", "wire", "down", "late p99"
    ));
    for link in &world.link {
        for way in Way::ALL {
            let report = stage.wire(&link.name)?.report(way);
            let report = report.with_context(|| format!("link {} has ended", link.name))?;
            let [from, to] = match way {
                Way::Uplink => [&link.ends[0], &link.ends[1]],
                Way::Downlink => [&link.ends[1], &link.ends[0]],
            };
            let (counts, name) = (report.counts, format!("{}, {from} to {to}", link.name));
            let late = report.lateness.value_at_quantile(0.99) as f64 / 1e6;
            say(&format!(
                "{name:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {late:>9.3} ms",
                counts.offered,
                counts.arrived,
                counts.lost_queue,
                counts.lost_wire,
                counts.lost_down
            ));
            refused += report.refused;
        }
    }
    ensure!(refused == 0, "the hosts did not take {refused} packets: this run counts for nothing");
    Ok(())
}

/// What became of each load, as a table, and the figures.
fn report_loads(world: &World, fates: &BTreeMap<String, Fate>, say: fn(&str)) -> Vec<String> {
    let mut figures = Vec::new();
    if world.load.is_empty() {
        return figures;
    }
    say(&format!(
        "{:<24} {:>9} {:>9} {:>9} {:>12} {:>12}",
        "load", "sent", "arrived", "lost", "p50", "p99"
    ));
    for load in &world.load {
        let fate = fates.get(&load.name).cloned().unwrap_or_default();
        let ms = |part| fate.quantile(part).map_or(f64::NAN, |span| span.as_secs_f64() * 1e3);
        say(&format!(
            "{:<24} {:>9} {:>9} {:>7.2} % {:>9.3} ms {:>9.3} ms",
            load.name,
            fate.sent,
            fate.latencies.len(),
            fate.lost() * 100.0,
            ms(0.5),
            ms(0.99)
        ));
        let name =
            |what: &str| format!("net_{}_{}_{what}", world.name.replace('-', "_"), load.name);
        figures.push(figure(&name("p50"), ms(0.5), "ms"));
        figures.push(figure(&name("p99"), ms(0.99), "ms"));
        figures.push(figure(&name("lost"), fate.lost() * 100.0, "%"));
    }
    figures
}
