//! `lab sim node-tables`: the paper's figures and tables of one busy node, each run several times, beside
//! its own numbers, in two modes that never share a table.
//! Source: papers/janus.txt, §VII: Fig. 5, Fig. 6, Fig. 7, Tables IV and V.
//!
//! The paper says nothing of record sizes. Its numbers on 4G and `WiFi` are those of a node that forwards
//! about 2,700 records a second whatever the link carries: *paper mode* has that node. *Link mode* has
//! records so large that the link is the limit. Redirection needs more than one node: its rows are the
//! paper's alone.

mod recorded;
mod sweep;

use std::path::Path;

use tidegate_schedule::SchedulerName;

use super::{Case, ClassMeasured, Limit, Measured, NETWORKS, SMALL};
use crate::report::{Figure, Findings, figure};
use crate::sim::parallel;

/// In the order of the tables.
const SCHEDULERS: [SchedulerName; SchedulerName::ALL.len()] = SchedulerName::ALL;
const CLASSES: [&str; 3] = ["ls", "nm", "lt"];
/// Records/s of `lt`.
const BULK: [f64; 5] = [1000.0, 2000.0, 3000.0, 4000.0, 5000.0];
/// Of Tables IV and V.
const MOST: f64 = 5000.0;
/// The paper's Table IV in seconds, by network: native scheme, QM-Only, JANUS with redirection.
const TABLE_IV: [(&str, [[f64; 3]; 3]); 3] = [
    ("WiFi", [[7.26; 3], [0.41, 3.57, 8.72], [1.32, 2.39, 3.06]]),
    ("4G", [[7.52; 3], [0.53, 4.51, 9.69], [1.58, 2.41, 3.53]]),
    ("3G", [[10.86; 3], [1.13, 8.51, 13.22], [4.71, 6.54, 8.04]]),
];
/// Its Table V in percent, 4G: the same schemes.
const TABLE_V: [[f64; 3]; 3] = [[17.5, 4.2, 5.7], [0.0, 9.8, 15.5], [0.0, 6.7, 9.4]];
/// The same schemes, and what they are here.
const SCHEMES: [(&str, Option<SchedulerName>); 3] = [
    ("Native", Some(SchedulerName::Native)),
    ("QM-Only", Some(SchedulerName::Janus)),
    ("JANUS", None),
];

/// What limits the node on each network, and from when on records count.
struct Mode {
    name: &'static str,
    what: &'static str,
    /// As [`NETWORKS`].
    limits: [Limit; 3],
    warm_up: u64,
}

const MODES: [Mode; 2] = [
    Mode {
        name: "paper",
        what: "records of 65 bytes; a node that forwards 2,752 (WiFi) and 2,676 (4G) a second, and the link \
               on 3G; the first 30 s",
        limits: [Limit::Processor(2752.0), Limit::Processor(2676.0), Limit::Size(SMALL)],
        warm_up: 0,
    },
    Mode {
        name: "link",
        what: "records of 9,381 (WiFi), 844 (4G) and 100 bytes (3G), at 5,000 lt twice and more what the link \
               carries; 30 s after 10 s",
        limits: [Limit::Size(9381), Limit::Size(844), Limit::Size(100)],
        warm_up: 10,
    },
];

/// A case under a scheduler, run with several seeds.
#[derive(Debug)]
struct Cell {
    case: Case,
    scheduler: SchedulerName,
    runs: Vec<Measured>,
}

impl Cell {
    /// Mean and standard deviation over the runs.
    fn stat(&self, of: impl Fn(&Measured) -> f64) -> (f64, f64) {
        let count = self.runs.len().max(1) as f64;
        let mean = self.runs.iter().map(&of).sum::<f64>() / count;
        let square = self.runs.iter().map(|run| (of(run) - mean).powi(2)).sum::<f64>();
        (mean, (square / (count - 1.0).max(1.0)).sqrt())
    }

    /// Seconds.
    fn latency(&self, class: usize) -> (f64, f64) {
        self.stat(|run| run.classes[class].mean)
    }

    /// Percent of what was sent.
    fn late(&self, class: usize) -> (f64, f64) {
        let part = |one: &ClassMeasured| 100.0 * one.late as f64 / one.sent.max(1) as f64;
        self.stat(|run| part(&run.classes[class]))
    }

    /// Seconds from the end of a window to its answer.
    fn answer(&self, class: usize) -> (f64, f64) {
        self.stat(|run| run.classes[class].answer)
    }

    /// Percent of the windows that were answered.
    fn answered(&self, class: usize) -> f64 {
        let part = |(asked, answered): (u64, u64)| 100.0 * answered as f64 / asked.max(1) as f64;
        self.stat(|run| part(run.classes[class].windows)).0
    }

    fn records(&self) -> (f64, f64) {
        self.stat(|run| run.classes.iter().map(|class| class.records).sum())
    }
}

fn spread((mean, deviation): (f64, f64), digits: usize) -> String {
    // The mean of nothing.
    if mean.is_nan() { "-".into() } else { format!("{mean:.digits$} ± {deviation:.digits$}") }
}

/// `lab sim node-tables`.
///
/// # Errors
/// A case that cannot be built, or a recording that is none.
pub fn tables(data: &Path, seed: u64, runs: u64) -> anyhow::Result<Findings> {
    let (mut lines, mut told) = (Vec::new(), Vec::new());
    let mut all = Vec::new();
    for mode in MODES {
        let cells =
            run(&cases(&mode), |case, scheduler, seed| case.run(scheduler, seed), seed, runs)?;
        lines.push(format!(
            "{} mode: {}; {runs} runs, mean ± standard deviation",
            mode.name, mode.what
        ));
        lines.extend(mode_lines(&cells));
        told.extend(cells.iter().flat_map(|cell| figures(mode.name, cell)));
        all.extend(cells);
    }
    let swept = sweep::sweep(seed, runs)?;
    lines.extend(swept.lines);
    told.extend(swept.figures);
    all.extend(swept.cells);
    let (recorded, cells) = recorded::fig_7(data, seed, runs)?;
    lines.extend(recorded);
    told.extend(cells.iter().flat_map(|cell| figures("recorded", cell)));
    all.extend(cells);
    let measured = || all.iter().flat_map(|cell| cell.runs.iter().map(move |run| (cell, run)));
    let lost: i128 = measured().map(|(_, run)| run.lost).sum();
    let named = |(cell, run): (&Cell, &Measured)| {
        let case = format!("{} under {}", cell.case.label(), cell.scheduler.name());
        run.broken.iter().map(|what| format!("broken in {case}: {what}")).collect::<Vec<_>>()
    };
    let broken = measured().flat_map(named).chain(swept.broken).collect();
    told.push(figure("lost_accepted", lost as f64, "records"));
    Ok(Findings { lines, figures: told, broken, ..Findings::default() })
}

fn cases(mode: &Mode) -> Vec<Case> {
    let warm_up = mode.warm_up;
    let of = |(network, limit)| BULK.map(|bulk| Case { network, bulk, limit, warm_up });
    NETWORKS.into_iter().zip(mode.limits).flat_map(of).collect()
}

/// Runs each case under each scheduler with each seed.
fn run(
    cases: &[Case],
    one: impl Fn(&Case, SchedulerName, u64) -> anyhow::Result<Measured> + Sync,
    seed: u64,
    runs: u64,
) -> anyhow::Result<Vec<Cell>> {
    let pairs = cases.iter().flat_map(|case| SCHEDULERS.map(|scheduler| (*case, scheduler)));
    let cell = |&(case, scheduler): &(Case, SchedulerName)| {
        let all = (seed..seed + runs).map(|seed| one(&case, scheduler, seed));
        Ok(Cell { case, scheduler, runs: all.collect::<anyhow::Result<_>>()? })
    };
    parallel::map(&pairs.collect::<Vec<_>>(), cell).into_iter().collect()
}

fn mode_lines(cells: &[Cell]) -> Vec<String> {
    let mut lines =
        by_rate("Fig. 5: mean latency of ls, s", cells, |cell| spread(cell.latency(0), 3));
    lines.push("  the paper: at 5,000 lt native is about 20 times QM-Only on 4G and WiFi, 10.2 times on 3G".into());
    lines.extend(by_rate("Fig. 6: records/s that came", cells, |cell| spread(cell.records(), 0)));
    lines.push(
        "  the paper: QM-Only falls as lt grows; JANUS with redirection is 1.7 times it on 4G"
            .into(),
    );
    let most = || cells.iter().filter(|cell| cell.case.bulk >= MOST);
    lines.push("Table IV: mean latency at 5,000 lt, s".into());
    for (network, schemes) in TABLE_IV {
        let own = most().filter(|cell| cell.case.network.name == network);
        lines.extend(own.map(|cell| row(network, cell, |class| spread(cell.latency(class), 3))));
        lines.extend(theirs(network, &schemes, 2));
    }
    lines.push("Table V: late at the node on 4G at 5,000 lt, % of what was sent".into());
    let own = most().filter(|cell| cell.case.network.name == "4G");
    lines.extend(own.map(|cell| row("4G", cell, |class| spread(cell.late(class), 1))));
    lines.extend(theirs("4G", &TABLE_V, 1));
    lines.push(
        "Query at 5,000 lt: s from the end of a window of 1 s to its sum and average (windows answered, %)"
            .into(),
    );
    lines.extend(most().map(|cell| {
        let show =
            |class| format!("{} ({:.0})", spread(cell.answer(class), 2), cell.answered(class));
        row(cell.case.network.name, cell, show)
    }));
    lines
}

/// A row for each case, a column for each scheduler; cases differ by link and rate.
fn by_rate(title: &str, cells: &[Cell], show: impl Fn(&Cell) -> String) -> Vec<String> {
    by_case(title, cells, &|case| case.network.name.into(), show)
}

/// The same, of cases with names of their own.
fn by_case(
    title: &str,
    cells: &[Cell],
    name: &dyn Fn(&Case) -> String,
    show: impl Fn(&Cell) -> String,
) -> Vec<String> {
    let heads = SCHEDULERS.map(|scheduler| format!("{:>20}", scheduler.name())).concat();
    let mut lines = vec![title.to_owned(), format!("  {:<24}{:>6}{heads}", "", "lt/s")];
    for row in cells.chunks(SCHEDULERS.len()) {
        let columns = row.iter().map(|cell| format!("{:>20}", show(cell))).collect::<String>();
        let case = row[0].case;
        lines.push(format!("  {:<24}{:>6}{columns}", name(&case), case.bulk));
    }
    lines
}

fn row(network: &str, cell: &Cell, show: impl Fn(usize) -> String) -> String {
    let columns = [0, 1, 2].map(|class| format!("{:>20}", show(class))).concat();
    format!("  {network:<6}{:<26}{columns}", cell.scheduler.name())
}

fn theirs(network: &str, schemes: &[[f64; 3]; 3], digits: usize) -> Vec<String> {
    let line = |((name, ours), values): (&(&str, Option<SchedulerName>), &[f64; 3])| {
        let is = ours.map_or("redirecting".into(), |ours| format!("here {}", ours.name()));
        let columns = values.map(|value| format!("{value:>20.digits$}")).concat();
        format!("  {network:<6}{:<26}{columns}", format!("paper: {name} ({is})"))
    };
    SCHEMES.iter().zip(schemes).map(line).collect()
}

fn figures(mode: &str, cell: &Cell) -> Vec<Figure> {
    let Case { network, bulk, .. } = cell.case;
    let plain = network.name.to_lowercase().replace(['-', '.'], "_");
    let scheduler = cell.scheduler.name().replace('-', "_");
    let name = |what: &str| format!("janus_{mode}_{plain}_{bulk}_{scheduler}_{what}");
    let mut lines = Vec::new();
    for (place, class) in CLASSES.into_iter().enumerate() {
        lines.push(figure(&name(&format!("{class}_mean")), cell.latency(place).0, "s"));
        lines.push(figure(&name(&format!("{class}_late")), cell.late(place).0, "%"));
        lines.push(figure(&name(&format!("{class}_answered")), cell.answered(place), "%"));
    }
    lines.push(figure(&name("records"), cell.records().0, "records/s"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(mean: f64, late: u64) -> Measured {
        let class =
            ClassMeasured { mean, late, sent: 200, records: 10.0, ..ClassMeasured::default() };
        Measured { classes: [class; 3], share: 1.0, ..Measured::default() }
    }

    #[test]
    fn a_cell_is_mean_and_spread_of_its_runs() {
        let case = cases(&MODES[0])[0];
        let runs = vec![measured(1.0, 10), measured(3.0, 30)];
        let cell = Cell { case, scheduler: SchedulerName::Janus, runs };
        assert_eq!(spread(cell.latency(0), 2), "2.00 ± 1.41");
        assert_eq!(cell.late(1).0, 10.0);
        assert_eq!(cell.records(), (30.0, 0.0));
    }

    #[test]
    fn the_node_of_paper_mode_has_the_latency_of_the_papers_native_scheme() {
        // T / 2 (1 - C / D) and the way, after 30 s without an end: 10.86, 7.52, 7.26 s.
        for (network, schemes) in TABLE_IV {
            let mut all = cases(&MODES[0]).into_iter();
            let is_it = |case: &Case| case.bulk >= MOST && case.network.name == network;
            let case = all.find(is_it).unwrap();
            let native = case.run(SchedulerName::Native, 1).unwrap().classes[2].mean;
            assert!((native / schemes[0][0] - 1.0).abs() < 0.05, "{network}: {native}");
        }
    }
}
