//! `janus-4g`: the paper's busy node on its 4G link, with the link as the limit, under each scheduler; one
//! file for virtual time and for real processes.
//! Source: papers/janus.txt, §VII, Tables III to V at 5,000 `lt` records/s.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use tidegate_schedule::SchedulerName;

use crate::bench::median;
use crate::play;
use crate::progress::Progress;
use crate::query::Judged;
use crate::report::{Figure, Findings, figure};
use crate::sim::{self, Span};
use crate::world::{self, Delivered, Records, Violated, World};

const FILE: &str = include_str!("../../worlds/janus-4g.toml");
/// In the order of the table: the paper's baseline first, ours last.
const SCHEDULERS: [SchedulerName; SchedulerName::ALL.len()] = SchedulerName::ALL;
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
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// How long the load is on; 30 s if left out
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Runs of each scheduler, in turn: the table has medians and the spread
    #[arg(long, default_value_t = 1)]
    pub runs: usize,
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
    let mut world = World::varied(FILE, &[("scheduler", scheduler.name())])?;
    world.length = seconds.map(Span::seconds).or(world.length);
    Ok(world)
}

/// `lab sim janus-4g`: lines to print, and broken promises.
pub fn virtually(seed: u64, runs: u64) -> anyhow::Result<Findings> {
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    for scheduler in SCHEDULERS {
        for seed in seed..seed + runs {
            let world = world(scheduler, None)?;
            let played = sim::play(&world, Path::new(""), Some(seed))?;
            let sim::Played { records, violated, carried: (_, carried), .. } = played;
            let wrong = world::broken(&world, &records);
            rows.push(Row::new(&world, scheduler, &Showed { records, violated, carried }));
            let named = |what: String| format!("broken promise under {}: {what}", scheduler.name());
            broken.extend(played.broken.into_iter().chain(wrong).map(named));
        }
    }
    let found = report(&world(SchedulerName::Tidegate, None)?, &rows);
    Ok(Findings { broken, ..found })
}

/// `lab bench janus-4g`: real nodes in turn, each with a broker of its own.
pub async fn really(options: &Options, say: fn(&str)) -> anyhow::Result<Findings> {
    let Options { seconds, runs, ref only } = *options;
    let is_wanted = |one: &SchedulerName| only.is_empty() || only.contains(one);
    let wanted: Vec<SchedulerName> = SCHEDULERS.into_iter().filter(is_wanted).collect();
    let progress = Progress::new("janus-4g", wanted.len() * runs);
    let mut rows = Vec::new();
    let mut broken = Vec::new();
    for run in 1..=runs {
        for &scheduler in &wanted {
            let world = world(scheduler, seconds)?;
            let name = format!("{}, run {run} of {runs}", scheduler.name());
            progress.step(&name, world.length.map(|length| length.0));
            let played = play::play(&world, Path::new(""), None, say).await?;
            let carried = played.carried.values().next().map_or(0.0, |[up, _]| *up);
            let showed = Showed { records: played.records, violated: played.violated, carried };
            rows.push(Row::new(&world, scheduler, &showed));
            broken.extend(played.broken.into_iter().map(|what| format!("{name}: {what}")));
        }
    }
    drop(progress);
    rows.sort_by_key(|row| SCHEDULERS.iter().position(|one| *one == row.scheduler));
    let found = report(&world(SchedulerName::Tidegate, seconds)?, &rows);
    Ok(Findings { broken, ..found })
}

/// What a class showed in a run.
#[derive(Clone, Debug)]
struct Class {
    /// Of its latency, milliseconds.
    mean: f64,
    p99: f64,
    /// How many were late; `None` where nobody counted.
    late: Option<u64>,
    windows: Judged,
}

/// A run, or the median of several.
#[derive(Clone, Debug)]
struct Row {
    scheduler: SchedulerName,
    classes: [Class; 3],
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
            classes: CLASSES.map(|class| Class {
                mean: ms(of(class).mean()),
                p99: ms(of(class).quantile(0.99)),
                late: showed.violated.get(class).copied(),
                windows: of(class).windows.clone(),
            }),
            throughput,
            share: throughput * bytes * 8e-6 / link,
            bytes,
        }
    }

    /// The median of each number; answers of all runs together.
    fn median(rows: &[Row]) -> Option<Row> {
        let first = rows.first()?;
        let of = |value: &dyn Fn(&Row) -> f64| median(rows.iter().map(value).collect());
        let class = |place: usize| {
            let own = |value: fn(&Class) -> f64| of(&|row| value(&row.classes[place]));
            let late: Option<Vec<u64>> = rows.iter().map(|row| row.classes[place].late).collect();
            let mut windows = Judged::default();
            rows.iter().for_each(|row| windows.merge(&row.classes[place].windows));
            Class {
                mean: own(|class| class.mean),
                p99: own(|class| class.p99),
                // The worst: none is allowed in any run.
                late: late.and_then(|late| late.into_iter().max()),
                windows,
            }
        };
        Some(Row {
            scheduler: first.scheduler,
            classes: [0, 1, 2].map(class),
            throughput: of(&|row| row.throughput),
            share: of(&|row| row.share),
            bytes: of(&|row| row.bytes),
        })
    }

    fn line(&self) -> String {
        let mut line = format!("{:<12}", self.scheduler.name());
        for (Class { mean, p99, late, .. }, (width, narrow)) in self.classes.iter().zip(WIDTHS) {
            let late = late.map_or("?".into(), |late| late.to_string());
            line += &format!("{:>width$}{late:>narrow$}", format!("{mean:.0} / {p99:.0}"));
        }
        line + &format!("{:>9.0}{:>7.3}{:>6.0}", self.throughput, self.share, self.bytes)
    }

    fn figures(&self) -> Vec<Figure> {
        let own = self.scheduler.name().replace('-', "_");
        let name = |what: &str| format!("janus_4g_{own}_{what}");
        let mut figures = Vec::new();
        for (Class { mean, p99, late, windows }, class) in self.classes.iter().zip(CLASSES) {
            let of = |what: &str| name(&format!("{class}_{what}"));
            figures.push(figure(&of("mean"), *mean, "ms"));
            figures.push(figure(&of("p99"), *p99, "ms"));
            figures.extend(late.map(|late| figure(&of("late"), late as f64, "records")));
            figures.push(figure(&of("windows_answered"), windows.after.len() as f64, "windows"));
            figures.push(figure(&of("windows_wrong"), windows.wrong as f64, "windows"));
            let after = windows.quantile(0.5).map(|after| after.as_secs_f64() * 1e3);
            figures.extend(after.map(|after| figure(&of("window_p50"), after, "ms")));
        }
        figures.push(figure(&name("throughput"), self.throughput, "records/s"));
        figures.push(figure(&name("share"), self.share, "1"));
        figures.push(figure(&name("record"), self.bytes, "B"));
        figures
    }
}

/// Mean and standard deviation of each number over the runs.
fn spread(rows: &[Row]) -> String {
    let of = |value: &dyn Fn(&Row) -> f64, digits: usize| {
        let count = rows.len() as f64;
        let mean = rows.iter().map(value).sum::<f64>() / count;
        let square = rows.iter().map(|row| (value(row) - mean).powi(2)).sum::<f64>();
        format!("{mean:.digits$} ± {:.digits$}", (square / (count - 1.0).max(1.0)).sqrt())
    };
    let mut line = format!("{:<12}", rows[0].scheduler.name());
    for (place, (width, narrow)) in WIDTHS.into_iter().enumerate() {
        let width = width + narrow;
        line += &format!("{:>width$}", of(&|row| row.classes[place].mean, 1));
    }
    line + &format!("{:>14}{:>16}", of(&|row| row.throughput, 0), of(&|row| row.share, 4))
}

/// The table, the paper's numbers beside it, whether the targets are kept, and the figures. `all`: the runs,
/// scheduler by scheduler.
fn report(world: &World, all: &[Row]) -> Findings {
    let groups: Vec<&[Row]> = all.chunk_by(|a, b| a.scheduler == b.scheduler).collect();
    let rows: Vec<Row> = groups.iter().filter_map(|group| Row::median(group)).collect();
    let runs = groups.first().map_or(0, |group| group.len());
    let delay = world.link[0].uplink.delay.as_secs_f64() * 1e3;
    let [(ls, ls_late), (nm, nm_late), (lt, lt_late)] = WIDTHS;
    let mut lines = vec![
        format!(
            "mean / p99 in ms from when a record was due to the far end, {delay:.0} of them propagation; median of \
             {runs} runs;"
        ),
        "late: past its bound at the node, sent or still waiting, most of any run; records/s and \
         share from 3 s on"
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
    if runs > 1 {
        lines.push(format!(
            "mean ± standard deviation over {runs} runs: mean latencies in ms, records/s, share"
        ));
        lines.extend(groups.iter().map(|group| spread(group)));
    }
    lines.push(
        "sum and average at the far end, in windows of 1 s (p50 / p99 of their answers):".into(),
    );
    for row in &rows {
        let line = |(class, own): (&str, &Class)| {
            format!("{:<12}{class}: {}", row.scheduler.name(), own.windows.line())
        };
        lines.extend(CLASSES.into_iter().zip(&row.classes).map(line));
    }
    lines.extend(verdict(&rows, delay));
    let figures: Vec<Figure> = rows.iter().flat_map(Row::figures).collect();
    (lines, figures).into()
}

/// Whether ours keeps the targets, one line each.
fn verdict(rows: &[Row], delay: f64) -> Vec<String> {
    let of = |name| rows.iter().find(|row| row.scheduler == name);
    let Some(ours) = of(SchedulerName::Tidegate) else { return Vec::new() };
    let word = |holds| if holds { "keeps" } else { "MISSES" };
    let Class { p99, late, .. } = ours.classes[0];
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
        assert_eq!(row.classes[0].late, Some(0), "{row:?}");
        assert!(row.classes[0].p99 < 150.0 && row.share > 0.9, "{row:?}");
        assert!((row.bytes - 844.0).abs() < 10.0, "{row:?}");
        let windows = &row.classes[0].windows;
        assert_eq!((windows.asked, windows.after.len(), windows.wrong), (3, 3, 0), "{row:?}");
        let poor = Class { mean: 400.0, p99: 900.0, late: Some(7), windows: Judged::default() };
        let late = Row { classes: [0; 3].map(|_| poor.clone()), ..row.clone() };
        let native = Row { scheduler: SchedulerName::Native, throughput: 9e9, ..row.clone() };
        let text = verdict(&[late.clone(), native], 50.0).join("\n");
        assert_eq!(text.matches("MISSES").count(), 3, "{text}");
        let text = report(&world, &[row.clone(), row, late]).printed().join("\n");
        assert!(text.contains("median of 3 runs") && text.contains("ls: 6 of 6 windows"), "{text}");
        assert!(text.contains("FIGURE janus_4g_tidegate_ls_late 7 records"), "{text}");
    }
}
