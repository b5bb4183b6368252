//! Links on emulated paths, beside the kernel's MPTCP and single-path TCP on the same paths in the same
//! run.
//!
//! Three paths between an edge host and a cloud host: 40 Mbit/s with 70 ms one way, 40 with 90, 80 with
//! 130. Heavy loss is 10, 10 and 5 %, light a tenth of that, behind the bottleneck of the way there.

mod contestants;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::median;
use crate::link::Change;
use crate::load::records::{Seen, Sent};
use crate::net::pump::Way;
use crate::net::scratch::Scratch;
use crate::net::spinner::Spinners;
use crate::net::stage::Stage;
use crate::report::{Figure, Findings, figure};
use crate::sim::{mean, scene};
use crate::world::World;

pub(crate) use contestants::Contestant;

use self::scene::{HEAVY, LIGHT, NONE};
use contestants::Rig;

/// The paths, the fastest last.
const PATHS: [&str; 3] = ["a", "b", "c"];
const STREAMS: u32 = 64;
const MOST: u32 = 64_000;
/// The figure of processor time.
const COST: &str = "cpu_per_100_mbit";
/// Goodput that a start is timed to, in Mbit/s.
const FAST: f64 = 90.0;
/// How long what is under way may still take.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Heavy loss: bulk, and media at 40 Mbit/s, with time and with a bound of 200 ms.
    Heavy,
    /// Light loss: the same without a bound.
    Light,
    /// Small receive windows: without loss and 64 streams, and with heavy loss and one.
    Buffer,
    /// Light loss, media at 16 Mbit/s: the shortest path dies and returns.
    Death,
    /// What a byte costs: heavy loss, and three paths of the loopback without emulated links, beside bare QUIC.
    Cost,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// How long each load is on
    #[arg(long, default_value_t = 25)]
    pub(crate) seconds: u32,
    /// Runs of each, in turn; figures are medians
    #[arg(long, default_value_t = 1)]
    pub(crate) runs: u32,
    /// tidegate, mptcp-bbr, mptcp-cubic, tcp-bbr, tcp-cubic or quinn (may be given again); all that the bench is about if
    /// left out
    #[arg(long)]
    pub(crate) only: Vec<Contestant>,
}

/// One load on the paths.
#[derive(Clone, Debug)]
struct Load {
    name: String,
    /// Part of the packets that each path loses.
    loss: [f64; 3],
    /// Bits a second; as fast as it goes if `None`.
    rate: Option<f64>,
    streams: u32,
    /// Bytes of the receiver's window.
    buffer: Option<usize>,
    most: u32,
    /// Bound of the records' class, in ms; an hour if `None`: nothing is late then.
    within: Option<u32>,
    seconds: f64,
    /// Whether the first path dies after a third of the time, and returns after two.
    dies: bool,
    /// Whether both ends are one host, and the paths its loopback.
    is_local: bool,
}

impl Scenario {
    /// As in the names of figures.
    fn name(self) -> &'static str {
        match self {
            Scenario::Heavy => "link_h",
            Scenario::Light => "link_l",
            Scenario::Buffer => "link_buffer",
            Scenario::Death => "link_death",
            Scenario::Cost => "link_cpu",
        }
    }

    fn loads(self, seconds: u32) -> Vec<Load> {
        let load = |name: &str, loss, rate: Option<f64>| Load {
            name: name.into(),
            loss,
            rate: rate.map(|megabits| megabits * 1e6),
            streams: STREAMS,
            buffer: None,
            most: MOST,
            within: None,
            seconds: seconds.into(),
            dies: false,
            is_local: false,
        };
        let both = |loss| vec![load("bulk", loss, None), load("media_40", loss, Some(40.0))];
        match self {
            Scenario::Heavy => {
                let timely =
                    Load { within: Some(200), ..load("media_40_200ms", HEAVY, Some(40.0)) };
                both(HEAVY).into_iter().chain([timely]).collect()
            }
            Scenario::Light => both(LIGHT),
            Scenario::Cost => {
                let local = |name, rate| Load { is_local: true, ..load(name, NONE, rate) };
                let loopback = [local("loopback_120", Some(120.0)), local("loopback", None)];
                both(HEAVY).into_iter().chain(loopback).collect()
            }
            Scenario::Death => {
                vec![Load { dies: true, ..load("media_16", LIGHT, Some(16.0)) }]
            }
            Scenario::Buffer => {
                let sizes = [128, 256, 512];
                let of = |kib: usize, name: &str, loss, streams| Load {
                    buffer: Some(kib * 1024),
                    streams,
                    most: 32_000,
                    ..load(&format!("{name}_{kib}"), loss, None)
                };
                let pairs = sizes.map(|kib| {
                    [of(kib, "clean", NONE, STREAMS), of(kib, "ordered_heavy", HEAVY, 1)]
                });
                pairs.into_iter().flatten().collect()
            }
        }
    }
}

impl Load {
    /// The host of the dialing end.
    fn edge(&self) -> &'static str {
        if self.is_local { "cloud" } else { "edge" }
    }
}

/// What one run gave.
#[derive(Clone, Debug, Default)]
struct Outcome {
    sent: Sent,
    seen: Seen,
    /// Seconds of CPU of the contestant's processes.
    cpu: f64,
    /// Bytes that were sent to the far end, IP's included.
    carried: u64,
    seconds: f64,
}

impl Outcome {
    /// Seconds of CPU for 100 Mbit of payload.
    fn cost(&self) -> f64 {
        self.cpu * 1e8 / (self.seen.bytes as f64 * 8.0).max(1.0)
    }
}

/// Runs the contestants and returns what was found.
///
/// # Errors
/// Links cannot be made here. A contestant that cannot run is left out and says so.
pub(crate) async fn run(scenario: Scenario, options: Options) -> anyhow::Result<Findings> {
    let costs = scenario == Scenario::Cost;
    let all = if costs { Contestant::COST.to_vec() } else { Contestant::RIVALS.to_vec() };
    let contestants = if options.only.is_empty() { all } else { options.only };
    let _awake = Spinners::start()?;
    let mut found = Findings::default();
    let mut outcomes: BTreeMap<(usize, Contestant), Vec<Outcome>> = BTreeMap::new();
    let loads = scenario.loads(options.seconds);
    for _ in 0..options.runs.max(1) {
        for (place, load) in loads.iter().enumerate() {
            for &contestant in &contestants {
                match run_one(contestant, load).await {
                    Ok(outcome) => outcomes.entry((place, contestant)).or_default().push(outcome),
                    Err(error) => found.lines.push(format!(
                        "skipped: {} {}: {error:#}",
                        contestant.name(),
                        load.name
                    )),
                }
            }
        }
    }
    for ((place, contestant), outcomes) in &outcomes {
        let name = format!("{}_{}", scenario.name(), loads[*place].name);
        let all = figures(&name, *contestant, outcomes);
        // Datagrams that nobody repeats are no records: only what they cost counts.
        let counts = |one: &Figure| *contestant != Contestant::Quinn || one.name.ends_with(COST);
        found.figures.extend(all.into_iter().filter(counts));
    }
    for (place, load) in loads.iter().enumerate() {
        let cost = |contestant| {
            let outcomes = outcomes.get(&(place, contestant))?;
            Some(median(outcomes.iter().map(Outcome::cost).collect()))
        };
        if let Some((ours, bare)) = cost(Contestant::Tidegate).zip(cost(Contestant::Quinn)) {
            let name = format!("{}_{}_over_quinn", scenario.name(), load.name);
            found.figures.push(figure(&name, ours / bare, "times"));
        }
    }
    Ok(found)
}

fn world(load: &Load) -> anyhow::Result<World> {
    let mut text = "name = \"paths\"\nhosts = [\"edge\", \"cloud\"]\nseed = 7\n".to_owned();
    for (place, name) in PATHS.iter().enumerate() {
        let ((megabits, delay, queue), loss) = (scene::PATHS[place], load.loss[place]);
        let way =
            format!("rate = \"{megabits}mbit\", delay = \"{delay}ms\", queue = \"{queue}KB\"");
        text += &format!(
            "[[link]]\nname = \"{name}\"\nends = [\"edge\", \"cloud\"]\n\
             uplink = {{ {way}, loss = {loss} }}\ndownlink = {{ {way} }}\n"
        );
    }
    World::parse(&text)
}

async fn run_one(contestant: Contestant, load: &Load) -> anyhow::Result<Outcome> {
    let stage = Stage::new(&world(load)?, Path::new("."))?;
    contestants::prepare(&stage)?;
    let scratch = Scratch::new()?;
    let mut rig = contestants::start(contestant, &stage, &scratch, load).await?;
    let begin = rig.begin;
    sleep_until(begin).await;
    let before: f64 = rig.workers.iter().map(|&id| cpu(id)).sum();
    let length = Duration::from_secs_f64(load.seconds);
    let seen = tokio::select! {
        seen = watch(&mut rig, begin + length) => seen,
        never = faults(load, &stage, begin) => never,
    }?;
    let after: f64 = rig.workers.iter().map(|&id| cpu(id)).sum();
    let (sent, seen) = seen;
    let mut carried = 0;
    for path in PATHS {
        let report = stage.wire(path)?.report(Way::Uplink);
        carried += report.context("a link of the lab has ended")?.counts.offered_bytes;
    }
    Ok(Outcome { sent, seen, cpu: after - before, carried, seconds: load.seconds })
}

/// Lets the first path die and return.
async fn faults<T>(load: &Load, stage: &Stage, begin: Instant) -> anyhow::Result<T> {
    if load.dies {
        let wire = stage.wire(PATHS[0])?;
        for (part, change) in [(1.0, Change::Up(false)), (2.0, Change::Up(true))] {
            sleep_until(begin + Duration::from_secs_f64(load.seconds * part / 3.0)).await;
            Way::ALL.into_iter().for_each(|way| wire.change(way, change.clone()));
        }
    }
    std::future::pending().await
}

/// Reads both ends until all that was sent has come, or the time to drain is over.
async fn watch(rig: &mut Rig, end: Instant) -> anyhow::Result<(Sent, Seen)> {
    let (mut sent, mut seen) = (None, Seen::default());
    let book = async {
        loop {
            tokio::select! {
                line = rig.sender.line(), if sent.is_none() => {
                    let line = line.context("the sender ended without a word")?;
                    sent = Some(serde_json::from_str::<Sent>(&line).with_context(|| line)?);
                }
                line = rig.receiver.line() => {
                    let line = line.context("the receiver ended")?;
                    seen = serde_json::from_str(&line).with_context(|| line)?;
                }
            }
            if sent.as_ref().is_some_and(|sent| seen.records >= sent.records) {
                return Ok(());
            }
        }
    };
    // The end of the time to drain is a result, not a failure.
    timeout_at(end + DRAIN, book).await.unwrap_or(anyhow::Ok(()))?;
    Ok((sent.unwrap_or_default(), seen))
}

/// Seconds of CPU that a process has used, its threads' and the kernel's for it.
fn cpu(process: u32) -> f64 {
    /// Ticks of a second in `/proc`, on every Linux.
    const TICKS: f64 = 100.0;
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may hold spaces; it ends with the last parenthesis.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks =
        fields.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS
}

/// Mbit/s of each tenth of a second while the load was on.
fn megabits(outcome: &Outcome) -> Vec<f64> {
    let bins = (outcome.seconds * 10.0) as usize;
    let of = |place| outcome.seen.bins.get(place).map_or(0.0, |&bytes| bytes as f64 * 80.0 / 1e6);
    (0..bins).map(of).collect()
}

/// The first half second with so much goodput; the whole time if there is none.
fn time_to(outcome: &Outcome, wanted: f64) -> f64 {
    let all = megabits(outcome);
    let found = all.windows(5).position(|half| mean(half) >= wanted);
    found.map_or(outcome.seconds, |place| place as f64 / 10.0)
}

/// Every figure of a contestant: the median of its runs.
fn figures(name: &str, contestant: Contestant, outcomes: &[Outcome]) -> Vec<Figure> {
    let name = format!("{name}_{}", contestant.name().replace('-', "_"));
    let mut lines = Vec::new();
    let mut add = |what: &str, unit: &str, value: &dyn Fn(&Outcome) -> f64| {
        let value = median(outcomes.iter().map(value).collect());
        lines.push(figure(&format!("{name}_{what}"), value, unit));
    };
    add("goodput", "Mbit/s", &|outcome| mean(&megabits(outcome)));
    add("steady_goodput", "Mbit/s", &|outcome| {
        let all = megabits(outcome);
        mean(&all[all.len() / 5..])
    });
    add("time_to_90", "s", &|outcome| time_to(outcome, FAST));
    add("p50", "ms", &|outcome| outcome.seen.latency_ms[0]);
    add("p99", "ms", &|outcome| outcome.seen.latency_ms[1]);
    add("slowest", "ms", &|outcome| outcome.seen.latency_ms[2]);
    add("longest_gap", "ms", &|outcome| outcome.seen.gap_ms);
    add("missing", "records", &|outcome| {
        outcome.sent.records.saturating_sub(outcome.seen.records) as f64
    });
    add("duplicates", "records", &|outcome| outcome.seen.duplicates as f64);
    add("out_of_order", "records", &|outcome| outcome.seen.disordered as f64);
    add("bytes_per_byte", "", &|outcome| {
        outcome.carried as f64 / (outcome.seen.bytes as f64).max(1.0)
    });
    add(COST, "s", &Outcome::cost);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_of_all_loads_are_right() {
        for scenario in
            [Scenario::Heavy, Scenario::Light, Scenario::Buffer, Scenario::Death, Scenario::Cost]
        {
            for load in scenario.loads(12) {
                assert_eq!(world(&load).unwrap().link.len(), PATHS.len(), "{}", load.name);
            }
        }
    }

    #[test]
    fn a_start_ends_with_the_first_fast_half_second() {
        let mut outcome = Outcome { seconds: 3.0, ..Outcome::default() };
        assert!((time_to(&outcome, FAST) - 3.0).abs() < 1e-9);
        // 100 Mbit/s from 0.8 s on.
        outcome.seen.bins = (0..30).map(|bin| if bin < 8 { 0 } else { 1_250_000 }).collect();
        assert!((time_to(&outcome, FAST) - 0.8).abs() < 1e-9);
        outcome.seen.bytes = 12_500_000;
        outcome.cpu = 0.5;
        let lines = figures("link_h_bulk", Contestant::MptcpBbr, &[outcome]);
        let has = |line: &str| {
            assert!(lines.iter().any(|other| other.to_string() == line), "{lines:#?}");
        };
        has("FIGURE link_h_bulk_mptcp_bbr_cpu_per_100_mbit 0.5 s");
        has("FIGURE link_h_bulk_mptcp_bbr_time_to_90 0.8 s");
        has("FIGURE link_h_bulk_mptcp_bbr_steady_goodput 91.667 Mbit/s");
    }

    #[test]
    fn our_own_cpu_is_known() {
        let end = std::time::Instant::now() + Duration::from_millis(50);
        while std::time::Instant::now() < end {}
        assert!(cpu(std::process::id()) > 0.0);
    }
}
