//! Plays a world: starts what runs in it, sends its loads, lets its faults happen, and looks at the end.

mod cast;
mod records;

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::{Pin, pin};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::cast::Cast;
use self::records::Book;
use crate::interrupted;
use crate::net::crowd::{self, Crowd};
use crate::net::pump::Way;
use crate::net::senders::Senders;
use crate::net::spinner::Spinners;
use crate::net::stage::Stage;
use crate::report::{Figure, figure};
use crate::world::{self, Fate, Program, Records, Target, Violated, World};

/// Publishers begin somewhat after their world, and so they end: what they offered is heard within this.
const LAST_WORDS: Duration = Duration::from_secs(10);
/// An end that does not come by itself.
const NEVER: Duration = Duration::from_secs(1 << 30);

/// A program in the foreground: where it runs, and its words. The world ends with it.
#[derive(Clone, Debug)]
pub struct Foreground {
    pub host: String,
    /// The program and its arguments, with addresses as in a world.
    pub words: Vec<String>,
}

/// What a world showed.
#[derive(Debug, Default)]
pub struct Played {
    /// Figures of its loads.
    pub figures: Vec<Figure>,
    /// What became of the records of its sources.
    pub records: Records,
    /// How many missed their bound at their node, by `[[stream]]`.
    pub violated: Violated,
    /// How late the emulator was by its own clock, the worst p99 of all ways.
    pub late: Duration,
    /// Mbit/s that each link carried on each way (uplink, downlink) until the world's end, before what
    /// was still under way; headers included.
    pub carried: BTreeMap<String, [f64; 2]>,
    /// Packets that the queues of its links refused.
    pub refused: u64,
    /// Segments that TCP sent on all hosts, and how many of them again.
    pub segments: (u64, u64),
    /// What processes said while it was watched, and when: the first lines of many.
    pub said: Vec<(Duration, String)>,
    /// What does not hold.
    pub broken: Vec<String>,
}

/// Lines of processes that are kept.
const SAID_MAX: usize = 10_000;

/// Plays a world to its end, says what happens meanwhile, and what it showed. Traces are named from
/// `folder` on. A signal ends it early, with all its tables.
///
/// # Errors
/// It cannot be brought up, the program in the foreground fails, or a signal ended what has an end of its
/// own.
pub async fn play(
    world: &World,
    folder: &Path,
    foreground: Option<Foreground>,
    say: fn(&str),
) -> anyhow::Result<Played> {
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
    set.book.begin(world, &set.stage)?;
    set.stage.begin(world, folder)?;
    let start = Instant::now();
    let ended = set.watch(world, foreground, stopped.as_mut(), say).await;
    let carried = carried(world, &set.stage, start.elapsed());
    if !matches!(ended, Ok(End::Signal)) {
        set.drain(world, stopped, say).await?;
    }
    let mut violated = Violated::new();
    for process in &world.process {
        if matches!(process.program(), Program::Tidegate(_)) && !world.source.is_empty() {
            let own = records::violated(&set.stage, &process.host).await?;
            violated.extend(own.unwrap_or_default());
        }
    }
    let fates = senders.finish()?;
    let lasted = start.elapsed();
    for (name, bytes) in crowd.finish() {
        let rate = crowd::megabits(bytes, lasted);
        say(&format!("{name}: connections of others carried {rate:.2} Mbit/s"));
    }
    let records = set.book.close(world);
    let said = std::mem::take(&mut set.said);
    let mut played = Played { records, violated, carried, said, ..Played::default() };
    report_links(world, &set.stage, &mut played, say)?;
    for host in &world.hosts {
        let (sent, again) = set.stage.host(host)?.segments()?;
        played.segments = (played.segments.0 + sent, played.segments.1 + again);
    }
    played.figures = report_loads(world, &fates, say);
    match ended? {
        End::Program(status) if !status.success() => bail!("the program ended with {status}"),
        End::Signal if has_end => bail!("interrupted"),
        _ => {}
    }
    let loads = world.check.iter().filter(|check| check.load.is_some());
    let of_loads =
        loads.flat_map(|check| fates.get(check.subject()).map(|fate| check.broken(fate)));
    played.broken = of_loads.flatten().chain(world::broken(world, &played.records)).collect();
    if !world.source.is_empty() {
        world::table(world, &played.records).iter().for_each(|line| say(line));
    }
    Ok(played)
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
    book: Book,
    cast: Cast,
    lines: mpsc::Receiver<String>,
    faults: Vec<(Duration, String, Target)>,
    said: Vec<(Duration, String)>,
    stage: Stage,
    _awake: Spinners,
}

impl Set {
    async fn up(world: &World, folder: &Path, say: fn(&str)) -> anyhow::Result<Set> {
        let faults = schedule(world, folder)?;
        let stage = Stage::new(world, folder)?;
        let (cast, lines) = Cast::new()?;
        let book = Book::default();
        let (said, _awake) = (Vec::new(), Spinners::start()?);
        let mut set = Set { book, cast, lines, faults, said, stage, _awake };
        for host in &world.hosts {
            let namespace = set.stage.host(host)?.namespace();
            say(&format!("{host}: ip netns exec {namespace} COMMAND"));
        }
        for process in &world.process {
            set.cast.start(world, &set.stage, &process.name).await?;
            set.book.read(world, &set.stage, process).await?;
        }
        Ok(set)
    }

    /// Says what is said until all that was accepted has come, or the time to drain is over.
    async fn drain(
        &mut self,
        world: &World,
        mut stopped: Pin<&mut impl Future<Output = anyhow::Result<()>>>,
        say: fn(&str),
    ) -> anyhow::Result<()> {
        let drained = Instant::now() + world.drain.0;
        let has_sources = !world.source.is_empty();
        let end = if has_sources { drained + LAST_WORDS } else { drained };
        loop {
            tokio::select! {
                biased;
                _ = &mut stopped => bail!("interrupted"),
                () = sleep_until(end) => return Ok(()),
                done = self.book.complete(drained), if has_sources => return done,
                Some(line) = self.lines.recv() => say(&line),
            }
        }
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
                Some(line) = self.lines.recv() => {
                    say(&line);
                    if self.said.len() < SAID_MAX {
                        self.said.push((start.elapsed(), line));
                    }
                }
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

/// Mbit/s of each link and way so far.
fn carried(world: &World, stage: &Stage, lasted: Duration) -> BTreeMap<String, [f64; 2]> {
    let of = |link: &world::LinkSpec| {
        let wire = stage.wire(&link.name).ok()?;
        let bytes = |way| wire.report(way).map_or(0, |report| report.counts.arrived_bytes);
        Some((link.name.clone(), Way::ALL.map(|way| crowd::megabits(bytes(way), lasted))))
    };
    world.link.iter().filter_map(of).collect()
}

/// What each way has carried. A packet that the emulator could not hand over spoils the run.
fn report_links(
    world: &World,
    stage: &Stage,
    played: &mut Played,
    say: fn(&str),
) -> anyhow::Result<()> {
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
            played.late = played.late.max(Duration::from_secs_f64(late / 1e3));
            played.refused += counts.lost_queue;
        }
    }
    ensure!(refused == 0, "the hosts did not take {refused} packets: this run counts for nothing");
    Ok(())
}

/// What became of each load, as a table, and the figures.
fn report_loads(world: &World, fates: &BTreeMap<String, Fate>, say: fn(&str)) -> Vec<Figure> {
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
