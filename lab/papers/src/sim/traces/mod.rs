//! `lab sim lte-traces`: recorded LTE and UMTS links, on which nobody knows the rate of the next second.
//!
//! A node with alarms and twice the bulk that the link carries, under each law of capacity; beside it a
//! FIFO over a kernel's connection, a pacer that knows the rate around now, and priority inside the modem,
//! which no sender below can beat. Outages set the p99: there is no absolute bound.

pub mod capacity;
mod over_link;
mod reference;
mod scores;
mod sources;
mod starts;

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde::{Deserialize, Serialize};
use tidegate_capacity::{QueueBelow, RateControllerName};
use tidegate_schedule::SchedulerName;
use tidegate_types::units::Time;

use super::file::SAMPLE;
use super::quantity::{Amount, Span, Speed};
use super::scenario::{
    Arrivals, Change, ConnectionSpec, Feedback, LinkSpec, LoadSpec, NodeSpec, Phase, Scenario,
    Step, Window,
};
use super::world::World;
use super::{parallel, report};
use crate::link::{self, Options, Service, trace};
use crate::report::{Findings, figure};

/// Where the recordings are, inside the folder of data.
pub(crate) const FOLDER: &str = "net/mahimahi";
pub(super) const DELAY: Duration = Duration::from_millis(30);
/// A modem's buffer: deep.
pub(super) const QUEUE: u64 = 4_000_000;
/// No more than this of a recording is played.
const LENGTH_MAX: Duration = Duration::from_secs(300);
/// Time for what waits at the end of a recording; its alarms count as well.
const DRAIN: Span = Span::seconds(120);
/// Alarms a second, and their bytes.
const ALARMS: (f64, u64) = (20.0, 200);
/// Bulk over the mean of the link, and bytes of one.
const BULK: (f64, u64) = (2.2, 5000);
/// An alarm so long before a silence may meet it, and one so long after it what has waited.
const DISTURBED: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// What our share of the link must be of BBR's.
const SHARE_OF_BBR: f64 = 0.9;

#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) service: Service,
    /// How much of it is played.
    pub(crate) length: Duration,
    /// Bytes/s that this much carries on average.
    mean: f64,
    /// From when, and propagation on the way out; empty where it stays [`DELAY`].
    delays: Vec<(Duration, Duration)>,
    /// From when until when it carries nothing, where the recording says so.
    silences: Vec<(Duration, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// Priority inside the modem.
    Oracle,
    /// Keeps below what the link carries in the next so many milliseconds, which nobody knows.
    Ahead(u64),
    /// Paced at what the link carries around now.
    Known,
    /// One FIFO above a kernel's connection, with Reno or with CUBIC.
    Native,
    Cubic,
    /// A node with this law.
    Law(RateControllerName),
    /// A node with the default law and a target queue of so many milliseconds.
    Queue(u64),
    /// A link with this law for its path.
    Link(RateControllerName),
}

/// What one sender made of one recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Score {
    /// Latency of alarms, milliseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// That of alarms that no silence of the link held up.
    pub(super) calm_p99: f64,
    /// Bytes that arrived over what the link could carry.
    pub(super) share: f64,
}

impl Score {
    /// Of alarms by when they were due and how long they took.
    fn of(trace: &Trace, mut alarms: Vec<(Duration, Duration)>, share: f64) -> Score {
        let quantile = |alarms: &[(Duration, Duration)], part: f64| {
            let place = ((part * alarms.len() as f64) as usize).min(alarms.len().saturating_sub(1));
            alarms.get(place).map_or(0.0, |(_, took)| took.as_secs_f64() * 1e3)
        };
        alarms.sort_unstable_by_key(|(_, took)| *took);
        let [p50, p99] = [0.5, 0.99].map(|part| quantile(&alarms, part));
        alarms.retain(|(due, _)| !trace.is_disturbed(*due));
        Score { p50, p99, calm_p99: quantile(&alarms, 0.99), share }
    }
}

impl Trace {
    /// So much of a link.
    fn of(name: &str, service: Service, length: Duration) -> Trace {
        let mean = service.room(Duration::ZERO, length) / length.as_secs_f64();
        Trace { name: name.into(), service, length, mean, delays: Vec::new(), silences: Vec::new() }
    }

    /// Whether a silence may hold up an alarm that is due then.
    fn is_disturbed(&self, due: Duration) -> bool {
        let touches = |(from, until): &(Duration, Duration)| {
            (from.saturating_sub(DISTURBED.0)..*until + DISTURBED.1).contains(&due)
        };
        self.silences.iter().any(touches)
    }

    /// A recording in mahimahi's form.
    pub(super) fn new(name: &str, text: &str) -> anyhow::Result<Self> {
        let service = trace::parse(text).with_context(|| format!("trace {name}"))?;
        let last = text.lines().rev().find_map(|line| line.trim().parse::<u64>().ok());
        let length = Duration::from_millis(last.unwrap_or_default()).min(LENGTH_MAX);
        Ok(Trace::of(name, service, length))
    }

    /// Propagation on the way out at a time.
    fn delay(&self, at: Duration) -> Duration {
        let place = self.delays.partition_point(|(from, _)| *from <= at);
        place.checked_sub(1).map_or(DELAY, |last| self.delays[last].1)
    }

    /// Propagation on the way back: that of the way out at its shortest.
    fn back(&self) -> Duration {
        self.delays.iter().map(|(_, delay)| *delay).min().unwrap_or(DELAY)
    }

    fn scenario(&self, law: RateControllerName, scheduler: SchedulerName) -> Scenario {
        let load = |name: &str, latency: u64, size: u64, per_second: f64| LoadSpec {
            name: name.into(),
            key: name.into(),
            latency: Span::millis(latency),
            size: (Amount(size), Amount(size)),
            arrivals: Arrivals::Constant(per_second),
            from: Span::default(),
            until: None,
        };
        let bulk = self.mean * BULK.0 / BULK.1 as f64;
        let delay = self.delay(Duration::ZERO);
        let uplink = Options { service: self.service.clone(), ..Options::new(1, delay, QUEUE) };
        let back = LinkSpec::new(Speed::megabits(1.0), Span(self.back()), Amount(QUEUE)).downlink;
        let step = |&(at, delay): &(Duration, Duration)| {
            let change = link::Change::Delay(delay, Duration::ZERO);
            Step { at: Span(at), change: Change::Link([true, false], change) }
        };
        Scenario {
            name: self.name.clone(),
            length: Span(self.length),
            drain: DRAIN,
            node: NodeSpec { law, scheduler, ..NodeSpec::default() },
            // As the output of a real node hears of what is acknowledged.
            connection: ConnectionSpec {
                feedback: Feedback::Polled(SAMPLE),
                ..ConnectionSpec::default()
            },
            link: LinkSpec { uplink, downlink: back },
            load: vec![
                load(report::ALARM, 50, ALARMS.1, ALARMS.0),
                load("bulk", 1000, BULK.1, bulk),
            ],
            flow: Vec::new(),
            step: self.delays.iter().skip(1).map(step).collect(),
            phase: Vec::new(),
        }
    }

    /// What a sender makes of it.
    pub(super) fn play(&self, sender: Sender, seed: u64) -> anyhow::Result<Score> {
        let scenario = match sender {
            Sender::Oracle => return Ok(reference::oracle(self)),
            Sender::Ahead(millis) => {
                return Ok(reference::ahead(self, Duration::from_millis(millis)));
            }
            Sender::Known => return Ok(reference::known(self)),
            Sender::Link(law) => return Ok(over_link::play(self, law, seed)),
            Sender::Native | Sender::Cubic => {
                let mut native =
                    self.scenario(RateControllerName::Unlimited, SchedulerName::Native);
                let is_cubic = sender == Sender::Cubic;
                native.connection.window = if is_cubic { Window::Cubic } else { Window::Reno };
                native
            }
            Sender::Law(law) => self.scenario(law, SchedulerName::Tidegate),
            Sender::Queue(millis) => {
                let mut tide = self.scenario(RateControllerName::Tide, SchedulerName::Tidegate);
                tide.node.queue = QueueBelow::Fixed(Duration::from_millis(millis));
                tide
            }
        };
        // Bulk that comes after the end does not count.
        let outcome = World::new(&scenario, seed)?.until(0).run();
        let (lost, broken) = report::audit(&scenario, &outcome);
        anyhow::ensure!(lost == 0 && broken.is_empty(), "{}: {broken:?}", self.name);
        let alarms = outcome.ledger.accounts[0].received.iter();
        let alarms = alarms.map(|one| (one.arrived.since(Time::ZERO), one.took)).collect();
        let whole = Phase {
            name: String::new(),
            from: Span::default(),
            until: Span(self.length),
            rate: None,
        };
        let end = Time::ZERO + self.length;
        let bytes: u64 = outcome.ledger.accounts.iter().map(|one| one.bytes(Time::ZERO, end)).sum();
        let share = bytes as f64 / scenario.link.room(&whole);
        Ok(Score::of(self, alarms, share))
    }
}

impl Sender {
    fn name(self) -> String {
        match self {
            Sender::Oracle => "oracle".into(),
            Sender::Ahead(millis) => format!("ahead-{millis}"),
            Sender::Known => "known".into(),
            Sender::Native => "native".into(),
            Sender::Cubic => "cubic".into(),
            Sender::Law(law) => law.name().into(),
            Sender::Queue(millis) => format!("tide-{millis}"),
            Sender::Link(law) => format!("link-{}", law.name()),
        }
    }
}

/// The recordings of a folder of data, by name; `None` if it is not there.
///
/// # Errors
/// A file that cannot be read, or is no recording.
pub(crate) fn traces(data: &Path) -> anyhow::Result<Option<Vec<Trace>>> {
    begun(data, Duration::ZERO)
}

/// The same, begun so much later.
fn begun(data: &Path, by: Duration) -> anyhow::Result<Option<Vec<Trace>>> {
    let Ok(entries) = data.join(FOLDER).read_dir() else { return Ok(None) };
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    let mut traces = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        traces.push(Trace::new(&name, &without(&text, by))?);
    }
    Ok(Some(traces))
}

/// What a recording in mahimahi's form says from so much on.
fn without(text: &str, by: Duration) -> Cow<'_, str> {
    if by.is_zero() {
        return Cow::Borrowed(text);
    }
    let by = by.as_millis() as u64;
    let millis = text.lines().filter_map(|line| line.trim().parse::<u64>().ok());
    let later = millis.filter_map(|at| at.checked_sub(by));
    Cow::Owned(later.map(|at| format!("{at}\n")).collect())
}

/// Whether a score reaches the target beside BBR's.
fn keeps(score: &Score, bbr: &Score) -> bool {
    let of = |one: &Score| [one.p50, one.p99, one.share];
    keeps_beside_bbr(of(score), of(bbr))
}

/// The same of p50, p99 and share.
pub(crate) fn keeps_beside_bbr(ours: [f64; 3], bbr: [f64; 3]) -> bool {
    ours[2] >= SHARE_OF_BBR * bbr[2] && ours[0] < bbr[0] && ours[1] < bbr[1]
}

/// What is said where there are none.
pub(crate) fn absent(data: &Path) -> String {
    let folder = data.join(FOLDER);
    let what = "recorded LTE and UMTS links: give the folder above net with --data";
    format!("skipped: needs {} ({what}), not found", folder.display())
}

/// Plays all recordings with all senders, under several seeds also from later starts with the laws alone; answers with the lines
/// to print.
///
/// # Errors
/// A file that cannot be read, or is no recording.
pub fn run(
    data: &Path,
    seeds: Range<u64>,
    laws: &[RateControllerName],
) -> anyhow::Result<Findings> {
    let seed = seeds.start;
    let Some(traces) = traces(data)? else {
        return Ok(vec![absent(data)].into());
    };
    let others =
        [Sender::Oracle, Sender::Known, Sender::Native, Sender::Law(RateControllerName::Bbr)];
    let is_own = |law: &&RateControllerName| {
        !matches!(law, RateControllerName::Bbr | RateControllerName::Known)
    };
    let own: Vec<RateControllerName> = laws.iter().filter(is_own).copied().collect();
    let senders: Vec<Sender> =
        others.into_iter().chain(own.iter().copied().map(Sender::Law)).collect();
    let mut lines = vec![format!(
        "{:<26} {:<8} {:>10} {:>10} {:>7} {:>8}",
        "recording", "sender", "p50 ms", "p99 ms", "share", "of bbr"
    )];
    let mut figures = Vec::new();
    for trace in &traces {
        let play = |sender: &Sender| trace.play(*sender, seed);
        let scores = parallel::map(&senders, play);
        let scores = scores.into_iter().collect::<anyhow::Result<Vec<Score>>>()?;
        let bbr = scores[3];
        let mut name = format!("{} ({:.0} s)", trace.name, trace.length.as_secs_f64());
        for (sender, score) in senders.iter().zip(&scores) {
            let Score { p50, p99, share, .. } = *score;
            lines.push(format!(
                "{name:<26} {:<8} {p50:>10.0} {p99:>10.0} {share:>7.3} {:>8.3}",
                sender.name(),
                share / bbr.share
            ));
            name.clear();
            let plain = trace.name.to_lowercase().replace(['-', '.'], "_");
            let of = |what: &str| format!("lte_{plain}_{}_{what}", sender.name());
            figures.push(figure(&of("p50"), p50, "ms"));
            figures.push(figure(&of("p99"), p99, "ms"));
            figures.push(figure(&of("share"), share, "1"));
        }
        for (sender, score) in senders.iter().zip(&scores).skip(others.len()) {
            let verdict = if keeps(score, &bbr) { "keeps" } else { "MISSES" };
            lines.push(format!(
                "{:<26} {} {verdict} {SHARE_OF_BBR} of bbr's share at lower p50 and p99",
                "",
                sender.name()
            ));
        }
    }
    if seeds.end - seeds.start > 1 {
        let (later, of_starts) = starts::run(data, seeds, &own)?;
        lines.extend(later);
        figures.extend(of_starts);
    }
    Ok((lines, figures).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link that fades and returns, and once falls silent for a second.
    fn fading() -> Trace {
        let mut text = String::new();
        for milli in 0..20_000_u64 {
            let is_silent = (8_000..9_000).contains(&milli);
            let every = 2 + (milli / 1000 % 5) * 2;
            if !is_silent && milli % every == 0 {
                text += &format!("{milli}\n");
            }
        }
        Trace::new("fading", &text).unwrap()
    }

    #[test]
    fn nobody_beats_the_modem_and_ours_beats_a_fifo() {
        let trace = fading();
        let play = |sender| trace.play(sender, 1).unwrap();
        let [oracle, known] = [Sender::Oracle, Sender::Known].map(play);
        let [native, tide] = [Sender::Native, Sender::Law(RateControllerName::Tide)].map(play);
        assert!(oracle.share > 0.98 && oracle.p50 < 45.0, "{oracle:?}");
        assert!(known.p50 > oracle.p50 && known.share < oracle.share, "{known:?}");
        assert!(tide.p50 >= oracle.p50 && tide.p99 >= oracle.p99, "{tide:?} {oracle:?}");
        assert!(native.p50 > 10.0 * tide.p50, "{native:?} {tide:?}");
        assert!(tide.share > 0.7, "{tide:?}");
        let link = play(Sender::Link(RateControllerName::Tide));
        assert!(link.p50 >= oracle.p50 && link.p99 >= oracle.p99, "{link:?} {oracle:?}");
        assert!(native.p50 > 10.0 * link.p50 && link.share > 0.7, "{native:?} {link:?}");
    }

    #[test]
    fn absent_recordings_are_told() {
        let lines =
            run(Path::new("no/such/folder"), 1..2, &[RateControllerName::Tide]).unwrap().lines;
        assert!(lines[0].starts_with("skipped: needs no/such/folder/net/mahimahi"), "{lines:?}");
    }
}
