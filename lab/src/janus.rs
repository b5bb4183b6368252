//! `janus-4g`: the paper's busy node on its 4G link, with the link as the limit, under each scheduler; one
//! file for virtual time and for real processes.
//! Source: papers/janus.txt, §VII, Tables III to V at 5,000 `lt` records/s.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use tidegate_core::schedule::SchedulerName;

use crate::play;
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::sim::{self, Span};
use crate::world::{Delivered, Records, Violated, World};

/// The world.
const FILE: &str = include_str!("../worlds/janus-4g.toml");
/// What stands in its node for the scheduler.
const SCHEDULER: &str = "scheduler = \"tidegate\"";
/// In the order of the table: the paper's baseline first, ours last.
const SCHEDULERS: [SchedulerName; 4] = SchedulerName::ALL;
/// What the paper calls its schemes, and the means of `ls`, `nm` and `lt` in its Table IV, in seconds.
const PAPER: [(SchedulerName, &str, [f64; 3]); 2] = [
    (SchedulerName::Native, "Native", [7.52, 7.52, 7.52]),
    (SchedulerName::Janus, "QM-Only", [0.53, 4.51, 9.69]),
];
/// The classes, which are the sources.
const CLASSES: [&str; 3] = ["ls", "nm", "lt"];
/// Throughputs that differ by less are equal: both fill the link.
const EQUAL: f64 = 0.001;
/// When a node has found the rate: throughput counts from then on, latency from the beginning.
const FOUND: Duration = Duration::from_secs(3);
/// Of the columns of a class: its times, and how many were late.
const WIDTHS: [(usize, usize); 3] = [(14, 6), (14, 6), (16, 8)];
/// The targets: p99 of `ls` beyond propagation in milliseconds, and the least part of the link in use.
const TARGET: (f64, f64) = (100.0, 0.95);

/// What to run with real processes.
#[derive(Clone, Debug, Default, Args)]
pub struct Options {
    /// How long the load is on; 30 s if left out
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Only this scheduler (may be given again): native, janus-paper, janus, tidegate
    #[arg(long)]
    pub only: Vec<SchedulerName>,
}

/// What a node showed.
#[derive(Clone, Debug, Default)]
struct Showed {
    records: Records,
    violated: Violated,
    /// Mbit/s on the link while the sources sent, headers included.
    carried: f64,
}

/// The world with a scheduler, for so many seconds; without them, the file's own.
fn world(scheduler: SchedulerName, seconds: Option<u64>) -> anyhow::Result<World> {
    ensure!(seconds != Some(0), "it takes at least a second");
    let own = format!("scheduler = \"{}\"", scheduler.name());
    let mut world = World::parse(&FILE.replacen(SCHEDULER, &own, 1))?;
    world.length = seconds.map(Span::seconds).or(world.length);
    Ok(world)
}

/// `lab sim janus-4g`: lines to print, and broken promises.
///
/// # Errors
/// None that this world can have.
pub fn virtually(seed: Option<u64>) -> anyhow::Result<Findings> {
    let mut all = Vec::new();
    let mut broken = Vec::new();
    for scheduler in SCHEDULERS {
        let played = sim::play(&world(scheduler, None)?, Path::new(""), seed)?;
        let sim::Played { records, violated, carried: (_, carried), .. } = played;
        all.push((scheduler, Showed { records, violated, carried }));
        let named = |what: String| format!("broken promise under {}: {what}", scheduler.name());
        broken.extend(played.broken.into_iter().map(named));
    }
    Ok(Findings {
        lines: report(&world(SchedulerName::Tidegate, None)?, &all),
        broken,
        ..Findings::default()
    })
}

/// `lab bench janus-4g`: real nodes in turn, each with a broker of its own.
///
/// # Errors
/// It cannot be brought up.
pub async fn really(options: &Options, say: fn(&str)) -> anyhow::Result<Findings> {
    let Options { seconds, ref only } = *options;
    let is_wanted = |one: &SchedulerName| only.is_empty() || only.contains(one);
    let wanted: Vec<SchedulerName> = SCHEDULERS.into_iter().filter(is_wanted).collect();
    let progress = Progress::new("janus-4g", wanted.len());
    let mut all = Vec::new();
    for scheduler in wanted {
        let world = world(scheduler, seconds)?;
        progress.step(scheduler.name(), world.length.map(|length| length.0));
        let played = play::play(&world, Path::new(""), None, say).await?;
        let carried = played.carried.values().next().map_or(0.0, |[up, _]| *up);
        all.push((
            scheduler,
            Showed { records: played.records, violated: played.violated, carried },
        ));
    }
    drop(progress);
    Ok(report(&world(SchedulerName::Tidegate, seconds)?, &all).into())
}

/// One line of the table.
#[derive(Clone, Debug)]
struct Row {
    scheduler: SchedulerName,
    /// Mean and p99 in milliseconds, and how many were late; `None` where nobody counted.
    classes: [(f64, f64, Option<u64>); 3],
    /// Records a second that came, from [`FOUND`] on while the sources sent.
    throughput: f64,
    /// What they took of the link.
    share: f64,
    /// Bytes of a record on the wire.
    bytes: f64,
}

impl Row {
    fn new(world: &World, scheduler: SchedulerName, showed: &Showed) -> Row {
        let length = world.length.unwrap_or_default().0;
        let link = world.link[0].uplink.rate.map_or(f64::NAN, |rate| rate.0.as_bits() / 1e6);
        let ms = |took: Option<Duration>| took.map_or(f64::NAN, |took| took.as_secs_f64() * 1e3);
        let none = Delivered::default();
        let of = |class| showed.records.get(class).unwrap_or(&none);
        let since = |from| CLASSES.map(|class| of(class).rate(from, length)).iter().sum::<f64>();
        let bytes = showed.carried * 1e6 / 8.0 / since(Duration::ZERO);
        let throughput = since(FOUND.min(length / 2));
        Row {
            scheduler,
            classes: CLASSES.map(|class| {
                let late = showed.violated.get(class).copied();
                (ms(of(class).mean()), ms(of(class).quantile(0.99)), late)
            }),
            throughput,
            share: throughput * bytes * 8e-6 / link,
            bytes,
        }
    }

    fn line(&self) -> String {
        let mut line = format!("{:<12}", self.scheduler.name());
        for ((mean, p99, late), (width, narrow)) in self.classes.iter().zip(WIDTHS) {
            let late = late.map_or("?".into(), |late| late.to_string());
            line += &format!("{:>width$}{late:>narrow$}", format!("{mean:.0} / {p99:.0}"));
        }
        line + &format!("{:>9.0}{:>7.3}{:>6.0}", self.throughput, self.share, self.bytes)
    }

    fn figures(&self) -> Vec<String> {
        let own = self.scheduler.name().replace('-', "_");
        let name = |what: &str| format!("janus_4g_{own}_{what}");
        let mut figures = Vec::new();
        for ((mean, p99, late), class) in self.classes.iter().zip(CLASSES) {
            figures.push(figure(&name(&format!("{class}_mean")), *mean, "ms"));
            figures.push(figure(&name(&format!("{class}_p99")), *p99, "ms"));
            let late =
                late.map(|late| figure(&name(&format!("{class}_late")), late as f64, "records"));
            figures.extend(late);
        }
        figures.push(figure(&name("throughput"), self.throughput, "records/s"));
        figures.push(figure(&name("share"), self.share, "1"));
        figures.push(figure(&name("record"), self.bytes, "B"));
        figures
    }
}

/// The table, the paper's numbers beside it, whether the targets are kept, and the figures.
fn report(world: &World, all: &[(SchedulerName, Showed)]) -> Vec<String> {
    let rows: Vec<Row> = all.iter().map(|(one, showed)| Row::new(world, *one, showed)).collect();
    let delay = world.link[0].uplink.delay.as_secs_f64() * 1e3;
    let [(ls, ls_late), (nm, nm_late), (lt, lt_late)] = WIDTHS;
    let mut lines = vec![
        format!(
            "mean / p99 in ms from when a record was due to the far end, {delay:.0} of them propagation;"
        ),
        "late: sent past its bound at the node (tidegate: or waiting past it); records/s and share from 3 s on"
            .into(),
        format!(
            "{:<12}{:>ls$}{:>ls_late$}{:>nm$}{:>nm_late$}{:>lt$}{:>lt_late$}{:>9}{:>7}{:>6}",
            "", "ls", "late", "nm", "late", "lt", "late", "rec/s", "share", "B"
        ),
    ];
    lines.extend(rows.iter().map(Row::line));
    lines.extend(PAPER.map(|(ours, theirs, [ls, nm, lt])| {
        let ours = ours.name();
        let means = [ls, nm, lt].map(|mean| format!("{:.0}", mean * 1e3)).join(", ");
        format!("the paper's {theirs}, as {ours} here: means {means} ms (Table IV)")
    }));
    lines.extend(verdict(&rows, delay));
    lines.extend(rows.iter().flat_map(Row::figures));
    lines
}

/// Whether ours keeps the targets, one line each.
fn verdict(rows: &[Row], delay: f64) -> Vec<String> {
    let of = |name| rows.iter().find(|row| row.scheduler == name);
    let Some(ours) = of(SchedulerName::Tidegate) else { return Vec::new() };
    let word = |holds| if holds { "keeps" } else { "MISSES" };
    let (_, p99, late) = ours.classes[0];
    let (bound, least) = (delay + TARGET.0, TARGET.1);
    let mut lines = vec![
        format!("tidegate {}: p99 of ls {p99:.0} ms, at most {bound:.0}", word(p99 <= bound)),
        format!(
            "tidegate {}: {:.3} of the link, at least {least}",
            word(ours.share >= least),
            ours.share
        ),
    ];
    if let Some(late) = late {
        lines.push(format!("tidegate {}: {late} late of ls, none allowed", word(late == 0)));
    }
    if let Some(native) = of(SchedulerName::Native) {
        let holds = ours.throughput >= (1.0 - EQUAL) * native.throughput;
        let both = format!("{:.0} records/s, native {:.0}", ours.throughput, native.throughput);
        lines.push(format!("tidegate {}: {both}", word(holds)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scheduler_has_its_world() {
        for scheduler in SCHEDULERS {
            let world = world(scheduler, Some(2)).unwrap();
            let text = format!("{:?}", world.process("gate").unwrap().program());
            assert!(text.contains(&format!("scheduler = \\\"{}\\\"", scheduler.name())), "{text}");
            assert_eq!(world.length, Some(Span::seconds(2)));
        }
        assert!(world(SchedulerName::Native, Some(0)).is_err());
    }

    #[test]
    fn ours_fills_the_link_and_no_ls_is_late() {
        let world = world(SchedulerName::Tidegate, Some(4)).unwrap();
        let played = sim::play(&world, Path::new(""), None).unwrap();
        let sim::Played { records, violated, carried: (_, carried), .. } = played;
        let showed = Showed { records, violated, carried };
        let row = Row::new(&world, SchedulerName::Tidegate, &showed);
        assert_eq!(row.classes[0].2, Some(0), "{row:?}");
        assert!(row.classes[0].1 < 150.0 && row.share > 0.9, "{row:?}");
        assert!((row.bytes - 844.0).abs() < 10.0, "{row:?}");
        let late = Row { classes: [(400.0, 900.0, Some(7)); 3], ..row.clone() };
        let native = Row { scheduler: SchedulerName::Native, throughput: 9e9, ..row };
        let text = verdict(&[late, native], 50.0).join("\n");
        assert_eq!(text.matches("MISSES").count(), 3, "{text}");
    }
}
