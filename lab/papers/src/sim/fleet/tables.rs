//! `lab sim janus-tables`: the paper's evaluation with redirection, ours beside its printed numbers.
//! Source: papers/janus.txt, §VII (Fig. 5, 6 and 7, Tables IV and V).
//!
//! One busy node and three idle ones. The paper's loads have no sizes, and no one size fits its tables: so
//! there are two modes, never in one table (`docs/LAB-FIGURES.md`).

mod case;
pub(super) mod measure;
mod oracle;
mod paper;

use std::path::Path;

use tidegate_fleet::MatchingName;
use tidegate_schedule::SchedulerName;

use self::case::{Case, Mode, System, networks};
use self::measure::Measured;
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::sim::parallel;

/// `lt` records/s of the grid.
const RATES: [f64; 3] = [1000.0, 3000.0, 5000.0];
/// The same of the paper's tables.
const TABLE_RATE: f64 = 5000.0;
/// More than all uplinks together carry at 4G.
const FLOOD: f64 = 11_000.0;
/// Recorded uplinks of the busy node, then of the idle ones, each from that second on. What a node does was chosen by looking
/// at the first ones; the others were not looked at before.
const RECORDED: [(&str, [(&str, u64); 4]); 2] = [
    (
        "chosen on",
        [
            ("ATT-LTE-driving.up", 0),
            ("Verizon-LTE-short.up", 0),
            ("TMobile-UMTS-driving.up", 0),
            ("Verizon-LTE-short.up", 0),
        ],
    ),
    (
        "unseen",
        [
            ("TMobile-UMTS-driving.up", 500),
            ("ATT-LTE-driving.up", 500),
            ("Verizon-LTE-short.down", 0),
            ("TMobile-UMTS-driving.down", 300),
        ],
    ),
];

/// All of it; `recorded` is a folder of recorded uplinks.
pub fn run(seed: u64, recorded: &Path) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    for mode in [Mode::Paper, Mode::Link] {
        for network in networks() {
            let rows = play(grid(mode, network), &[seed])?;
            findings.add(told(&rows));
            if network.name == "4G" {
                findings.figures.extend(figures(&rows));
            }
        }
    }
    findings.add(over_recorded(&[seed], recorded)?);
    Ok(findings)
}

/// Its last part by itself: recorded uplinks of that folder, means over these seeds.
pub fn over_recorded(seeds: &[u64], folder: &Path) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    for (name, files) in RECORDED {
        let Some(traces) = case::recorded(folder, files)? else {
            findings.lines.push(format!(
                "recorded uplinks (Fig. 7), {name}: skipped, for {} is not there: give the folder of data by --data",
                folder.display()
            ));
            continue;
        };
        let rows = play(case::over(traces), seeds)?;
        findings.add(told(&rows));
        findings.lines.push(format!("these recordings: {name}, {files:?}"));
        findings.figures.extend(figures_of_recorded(name, &rows));
    }
    Ok(findings)
}

/// A point of the tables, for a comparison with real nodes. Latencies are seconds.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Records/s of all nodes that came to the far end.
    pub all: f64,
    /// p99 of the busy node's `ls`, `nm` and `lt`.
    pub p99: [f64; 3],
    /// Of the idle nodes' own `ls`, the worst node's.
    pub lender_p99: f64,
}

/// Link mode at 4G and 5,000 `lt` records/s, each node alone and as a fleet.
pub fn four_g(seconds: f64, seed: u64) -> anyhow::Result<[Point; 2]> {
    let [_, network, _] = networks();
    let point = |system| {
        let mode = Mode::Link;
        let case = Case { mode, network, rate: TABLE_RATE, system, length: seconds, traces: None };
        let Measured { classes, all, lender_p99, .. } = case.run(seed)?;
        anyhow::Ok(Point { all, p99: classes.map(|class| class.p99), lender_p99 })
    };
    let alone = point(System::Alone(SchedulerName::Tidegate))?;
    Ok([alone, point(System::Fleet(MatchingName::default()))?])
}

/// The cases of a table: every system at every rate, every matching at the paper's.
fn grid(mode: Mode, network: case::Network) -> Vec<Case> {
    let case = |rate, system| Case { mode, network, rate, system, length: 30.0, traces: None };
    let mut cases = Vec::new();
    for rate in RATES {
        cases.extend(System::MAIN.map(|system| case(rate, system)));
    }
    let all = MatchingName::ALL.into_iter().filter(|name| *name != MatchingName::default());
    cases.extend(all.map(|matching| case(TABLE_RATE, System::Fleet(matching))));
    if mode == Mode::Link && network.name == "4G" {
        cases.push(case(FLOOD, System::Fleet(MatchingName::default())));
        // What the targets are about runs long enough for a p99 of 30 records a second.
        let is_target = |case: &Case| {
            let is_fleet = case.system == System::Fleet(MatchingName::default());
            case.rate == FLOOD || case.rate == TABLE_RATE && (is_fleet || !case.system.is_fleet())
        };
        cases.iter_mut().filter(|case| is_target(case)).for_each(|case| case.length = 120.0);
    }
    cases
}

type Row = (Case, Measured);

/// Runs every case with every seed, as many at once as there are processors, and tells of each as soon as it is there.
fn play(cases: Vec<Case>, seeds: &[u64]) -> anyhow::Result<Vec<Row>> {
    let runs: Vec<(&Case, u64)> =
        cases.iter().flat_map(|case| seeds.iter().map(move |seed| (case, *seed))).collect();
    let name = cases.first().map_or(String::new(), Case::heading);
    let progress = Progress::new(&name, runs.len());
    let measured = parallel::map(&runs, |(case, seed)| {
        let measured = case.run(*seed)?;
        progress.step(&format!("{} (seed {seed})", line(case, &measured)), None);
        anyhow::Ok(measured)
    });
    let measured: Vec<Measured> = measured.into_iter().collect::<anyhow::Result<_>>()?;
    let means = measured.chunks(seeds.len()).map(Measured::mean);
    Ok(cases.iter().cloned().zip(means).collect())
}

/// The table, and what is broken in it.
fn told(rows: &[Row]) -> Findings {
    let broken = rows.iter().flat_map(|(_, measured)| measured.broken.clone()).collect();
    Findings { lines: table(rows), broken, ..Findings::default() }
}

fn table(rows: &[Row]) -> Vec<String> {
    let Some((case, _)) = rows.first() else { return Vec::new() };
    let mut lines = vec![
        String::new(),
        case.heading(),
        format!(
            "{:>6} {:<14}{:>8}{:>22}{:>22}{:>22}{:>9}{:>8}{:>7}  {}",
            "lt/s",
            "",
            "all/s",
            if case.traces.is_some() { "ls p50/p99 s  late%" } else { "ls mean/p99 s  late%" },
            "nm",
            "lt",
            "ls p99*",
            "sent",
            "twice",
            "paper's means"
        ),
    ];
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| a.0.rate.total_cmp(&b.0.rate));
    lines.extend(rows.into_iter().map(|(case, measured)| line(case, measured)));
    lines.push(
        "* of the idle nodes' own ls records, the worst of three; sent: records/s by neighbours; \
         twice: records of anybody that came once more, marked"
            .into(),
    );
    lines
}

/// A case's row.
fn line(case: &Case, measured: &Measured) -> String {
    let mut line = format!("{:>6} {:<14}{:>8.0}", case.rate, case.system.name(), measured.all);
    for class in &measured.classes {
        let typical = if case.traces.is_some() { class.p50 } else { class.mean };
        let times = format!("{typical:.3}/{:.3}", class.p99);
        line += &format!("{times:>15}{:>7.1}", class.late * 100.0);
    }
    let Measured { lender_p99, redirected, twice, .. } = measured;
    line += &format!("{lender_p99:>9.3}{redirected:>8.0}{twice:>7}");
    if case.rate == TABLE_RATE && case.traces.is_none() {
        line += &format!("  {}", paper::means(case.network.name, case.system));
    }
    line
}

/// What the issue asks for, at 4G.
fn figures(rows: &[Row]) -> Vec<Figure> {
    let find = |rate: f64, system: System| {
        let found = rows.iter().find(|(case, _)| case.rate == rate && case.system == system);
        found.map(|(case, measured)| (case, measured))
    };
    let ours = System::Fleet(MatchingName::default());
    let Some((case, fleet)) = find(TABLE_RATE, ours) else { return Vec::new() };
    let mode = case.mode.name();
    let mut lines = Vec::new();
    let mut tell = |name: &str, value: f64, unit: &str| {
        lines.push(figure(&format!("janus_tables_4g_{mode}_{name}"), value, unit));
    };
    for (name, alone) in [
        ("qm_only", System::Alone(SchedulerName::Tidegate)),
        ("qm_only_printed", System::Alone(SchedulerName::JanusPaper)),
        ("native", System::Alone(SchedulerName::Native)),
    ] {
        let Some((_, alone)) = find(TABLE_RATE, alone) else { continue };
        tell(&format!("all_over_{name}"), fleet.all / alone.all, "1");
        if name == "native" {
            for (place, class) in ["ls", "nm", "lt"].into_iter().enumerate() {
                let ratio = fleet.classes[place].mean / alone.classes[place].mean;
                tell(&format!("{class}_mean_over_native"), ratio, "1");
            }
        }
    }
    tell("ls_late", fleet.classes[0].late * 100.0, "percent");
    let delay = case.network.delay();
    tell("ls_p99_over_delay", (fleet.classes[0].p99 - delay) * 1e3, "ms");
    tell("ls_p99_over_delay_at_lenders", (fleet.lender_p99 - delay) * 1e3, "ms");
    if let Some((case, flood)) = find(FLOOD, ours) {
        tell("flood_all_over_uplinks", flood.all / (4.0 * case.carries()), "1");
        tell("flood_ls_late", flood.classes[0].late * 100.0, "percent");
        tell("flood_ls_p99_over_delay", (flood.classes[0].p99 - delay) * 1e3, "ms");
        tell("flood_ls_p99_over_delay_at_lenders", (flood.lender_p99 - delay) * 1e3, "ms");
    }
    lines
}

/// What the fleet makes of recorded uplinks, beside who knows them and a node alone.
fn figures_of_recorded(recordings: &str, rows: &[Row]) -> Vec<Figure> {
    let find = |system: System| rows.iter().find(|(case, _)| case.system == system);
    let ours = System::Fleet(MatchingName::default());
    let alone = System::Alone(SchedulerName::Tidegate);
    let mut told = Vec::new();
    for (name, system) in
        [("oracle", System::Oracle), ("alone", alone), ("fleet", ours), ("janus", System::Janus)]
    {
        let Some((_, measured)) = find(system) else { continue };
        let mut tell = |what: &str, value: f64, unit: &str| {
            let name = format!("janus_tables_{recordings}_{name}_{what}").replace(' ', "_");
            told.push(figure(&name, value, unit));
        };
        tell("all", measured.all, "a_second");
        for (class, of) in ["ls", "nm", "lt"].into_iter().zip(&measured.classes) {
            tell(&format!("{class}_p50"), of.p50 * 1e3, "ms");
            tell(&format!("{class}_p99"), of.p99 * 1e3, "ms");
            tell(&format!("{class}_late"), of.late * 100.0, "percent");
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A short run of the table's main row: redirecting serves more, and costs `ls` nothing.
    #[test]
    fn redirecting_carries_more_and_costs_the_urgent_nothing() {
        let network = networks()[1];
        let case = |system| Case {
            mode: Mode::Link,
            network,
            rate: TABLE_RATE,
            system,
            length: 6.0,
            traces: None,
        };
        let fleet = case(System::Fleet(MatchingName::default())).run(1).unwrap();
        let alone = case(System::Alone(SchedulerName::Tidegate)).run(1).unwrap();
        assert_eq!((&*fleet.broken, &*alone.broken), (&[][..], &[][..]));
        assert!(fleet.all >= 1.85 * alone.all, "{} of {}", fleet.all, alone.all);
        assert!(fleet.classes[0].late <= 0.0, "{:?}", fleet.classes[0]);
        assert!(fleet.classes[0].p99 <= network.delay() + 0.02, "{:?}", fleet.classes[0]);
        assert!(fleet.lender_p99 <= network.delay() + 0.02, "{}", fleet.lender_p99);
        assert!(alone.redirected <= 0.0 && fleet.redirected > 1000.0);
    }
}
