//! The evaluation's tables, and how each scheduler fares against the targets.

use tidegate_schedule::SchedulerName;

use super::{Case, ClassMeasured, Limit, Measured, evaluation, mismatch};
use crate::report::{Figure, Findings, figure};
use crate::sim::parallel;

/// In the order of the tables.
const SCHEDULERS: [SchedulerName; SchedulerName::ALL.len()] = SchedulerName::ALL;
/// The classes of the paper.
const CLASSES: [&str; 3] = ["ls", "nm", "lt"];
/// Means that differ by less, in seconds, are equal: one record's time on the slowest link.
const EQUAL: f64 = 0.002;

/// A case, and what each scheduler made of it.
type Row = (Case, Vec<Measured>);

pub fn node_janus(seed: u64) -> anyhow::Result<Findings> {
    let rows = run(&evaluation(), seed)?;
    let mut lines = vec![
        "mean / p99 in ms from arrival at the node to the far end, of what came within 30 s;"
            .into(),
        "late: records whose residence missed their bound; share of the link from 3 s on".into(),
        heading(),
    ];
    for row in &rows {
        lines.extend(table(row));
    }
    let mut told = table_iv(&rows);
    for (place, scheduler) in SCHEDULERS.into_iter().enumerate() {
        told.extend(figures(&rows, place, scheduler));
    }
    told.extend(against_janus(&rows));
    Ok(with_audit(lines, told, &rows))
}

pub fn fig_2(seed: u64) -> anyhow::Result<Findings> {
    let rows = run(&mismatch(), seed)?;
    let mut lines = vec![heading()];
    for row in &rows {
        lines.extend(table(row));
    }
    let mut told = Vec::new();
    for (case, all) in &rows {
        let came: f64 = case.bulk + super::URGENT.iter().sum::<f64>();
        for (scheduler, measured) in SCHEDULERS.into_iter().zip(all) {
            let left: f64 = measured.classes.iter().map(|class| class.records).sum();
            let name = format!("{}_lt_{}", plain(scheduler), case.bulk);
            told.push(figure(&format!("mismatch_{name}_in_over_out"), came / left, "1"));
            let mean = measured.classes[0].mean * 1e3;
            told.push(figure(&format!("mismatch_{name}_ls_mean"), mean, "ms"));
        }
    }
    Ok(with_audit(lines, told, &rows))
}

/// Runs every case with every scheduler.
fn run(cases: &[Case], seed: u64) -> anyhow::Result<Vec<Row>> {
    let work = |case: &Case| {
        let all = SCHEDULERS.into_iter().map(|scheduler| case.run(scheduler, seed));
        Ok((*case, all.collect::<anyhow::Result<_>>()?))
    };
    parallel::map(cases, work).into_iter().collect()
}

fn with_audit(lines: Vec<String>, mut figures: Vec<Figure>, rows: &[Row]) -> Findings {
    let all = || rows.iter().flat_map(|(case, all)| all.iter().map(move |one| (case, one)));
    let lost: i128 = all().map(|(_, measured)| measured.lost).sum();
    let told = |(case, measured): (&Case, &Measured)| {
        let label = case.label();
        let told = measured.broken.iter().map(move |what| format!("broken in {label}: {what}"));
        told.collect::<Vec<_>>()
    };
    figures.push(figure("lost_accepted", lost as f64, "records"));
    let broken = all().flat_map(told).collect();
    Findings { lines, figures, broken, ..Findings::default() }
}

fn heading() -> String {
    format!(
        "{:<5}{:>5}{:>5}{:>6} {:<12}{:>16}{:>7}{:>16}{:>7}{:>17}{:>7}{:>8}{:>7}",
        "link",
        "lt/s",
        "load",
        "bytes",
        "",
        "ls",
        "late",
        "nm",
        "late",
        "lt",
        "late",
        "rec/s",
        "share"
    )
}

fn table((case, all): &Row) -> Vec<String> {
    let mut label = case.label();
    let mut lines = Vec::new();
    for (scheduler, measured) in SCHEDULERS.into_iter().zip(all) {
        let mut line = format!("{label} {:<12}", scheduler.name());
        for (place, class) in measured.classes.iter().enumerate() {
            let (mean, p99) = (class.mean * 1e3, class.p99 * 1e3);
            let times = format!("{mean:.0} / {p99:.0}");
            let width = if place == 2 { 17 } else { 16 };
            line += &format!("{times:>width$}{:>7}", class.violated);
        }
        let records: f64 = measured.classes.iter().map(|class| class.records).sum();
        lines.push(format!("{line}{records:>8.0}{:>7.3}", measured.share));
        label = " ".repeat(label.chars().count());
    }
    lines
}

/// The paper's Table IV has 5,000 `lt` records/s; on its links C/D was about a half.
fn table_iv(rows: &[Row]) -> Vec<Figure> {
    let is_of_table = |case: &Case| case.bulk == 5000.0 && case.limit == Limit::Link(2.0);
    let mut lines = Vec::new();
    for (case, all) in rows.iter().filter(|(case, _)| is_of_table(case)) {
        for (scheduler, measured) in SCHEDULERS.into_iter().zip(all) {
            for (class, measured) in CLASSES.into_iter().zip(&measured.classes) {
                let network = case.network.name.to_lowercase();
                let name = format!("table_iv_{network}_{}_{class}_mean", plain(scheduler));
                lines.push(figure(&name, measured.mean * 1e3, "ms"));
            }
        }
    }
    lines
}

fn plain(scheduler: SchedulerName) -> String {
    scheduler.name().replace('-', "_")
}

/// Over all cases: late `ls` records, and the smallest part of the link that was in use in an overload of
/// the link.
fn figures(rows: &[Row], place: usize, scheduler: SchedulerName) -> Vec<Figure> {
    let late: u64 = rows.iter().map(|(_, all)| all[place].classes[0].violated).sum();
    let overloaded = rows
        .iter()
        .filter(|(case, _)| case.is_overload() && !matches!(case.limit, Limit::Processor(_)));
    let share = overloaded.map(|(_, all)| all[place].share).fold(1.0, f64::min);
    let name = plain(scheduler);
    vec![
        figure(&format!("node_janus_{name}_ls_violations"), late as f64, "records"),
        figure(&format!("node_janus_{name}_share_least"), share, "1"),
    ]
}

/// The largest ratio of our mean latency to that of `janus` over all cases; means that are within
/// [`EQUAL`] count as equal. Beside it the smallest ratio of records that came: a mean over what came
/// must not look good because much did not.
fn against_janus(rows: &[Row]) -> Vec<Figure> {
    let at = |name| SCHEDULERS.iter().position(|one| *one == name).expect("it is in the table");
    let (ours, theirs) = (at(SchedulerName::Tidegate), at(SchedulerName::Janus));
    let mut lines = Vec::new();
    for (class, name) in CLASSES.into_iter().enumerate() {
        let pairs =
            || rows.iter().map(|(_, all)| (all[ours].classes[class], all[theirs].classes[class]));
        let ratio = |(ours, theirs): (ClassMeasured, ClassMeasured)| {
            if ours.mean <= theirs.mean + EQUAL {
                (ours.mean / theirs.mean).min(1.0)
            } else {
                ours.mean / theirs.mean
            }
        };
        let worst = pairs().map(ratio).fold(0.0, f64::max);
        let came =
            pairs().map(|(ours, theirs)| ours.records / theirs.records).fold(f64::MAX, f64::min);
        lines.push(figure(&format!("node_janus_{name}_mean_worst_ratio_to_janus"), worst, "1"));
        lines.push(figure(&format!("node_janus_{name}_came_least_ratio_to_janus"), came, "1"));
    }
    lines
}
