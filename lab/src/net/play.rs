//! Plays a world: starts what runs in it, sends its loads, lets its faults happen, and looks at the end.

use std::collections::BTreeMap;
use std::path::Path;
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
use crate::bench::figure;
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
/// named from `folder` on.
///
/// # Errors
/// It cannot be brought up, a check does not hold, or the program in the foreground fails.
pub async fn play(
    world: &World,
    folder: &Path,
    foreground: Option<Foreground>,
    say: fn(&str),
) -> anyhow::Result<Vec<String>> {
    let faults = schedule(world, folder)?;
    let stage = Stage::new(world, folder)?;
    let _awake = Spinners::start()?;
    for host in &world.hosts {
        let namespace = stage.host(host)?.namespace();
        say(&format!("{host}: ip netns exec {namespace} COMMAND"));
    }
    let (mut cast, mut lines) = Cast::new();
    for process in &world.process {
        cast.start(world, &stage, &process.name).await?;
    }
    let crowd = Crowd::start(world, &stage)?;
    let senders = Senders::start(world, &stage)?;
    let start = Instant::now();
    let mut faults = faults.into_iter().peekable();
    let mut end = start + world.length.map_or(NEVER, |length| length.0);
    let mut program = foreground.map(|program| run_program(&stage, &program)).transpose()?;
    let mut failed = None;
    loop {
        let next = faults.peek().map(|(at, ..)| start + *at).unwrap_or(end);
        tokio::select! {
            Some(line) = lines.recv() => say(&line),
            () = sleep_until(next), if next < end => {
                let Some((at, text, target)) = faults.next() else { continue };
                say(&format!("{:.1} s: {text}", at.as_secs_f64()));
                cast.apply(world, &stage, target).await?;
            }
            ended = wait(&mut program), if program.is_some() => {
                let status = ended?;
                failed = (!status.success()).then_some(status);
                program = None;
                end = Instant::now();
            }
            () = sleep_until(end) => break,
        }
    }
    let drained = Instant::now() + world.drain.0;
    while let Ok(Some(line)) = tokio::time::timeout_at(drained, lines.recv()).await {
        say(&line);
    }
    let fates = senders.finish()?;
    let lasted = start.elapsed();
    for (name, bytes) in crowd.finish() {
        let rate = crowd::megabits(bytes, lasted);
        say(&format!("{name}: connections of others carried {rate:.2} Mbit/s"));
    }
    report_links(world, &stage, say)?;
    let figures = report_loads(world, &fates, say);
    if let Some(status) = failed {
        bail!("the program ended with {status}");
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
