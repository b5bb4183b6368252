//! Link mode with payloads swept: each link offered from half to three times what it carries, by 1,000 to
//! 5,000 `lt` records a second; and whether each cell can be true.

use super::{BULK, Case, Cell, Limit, NETWORKS, SCHEDULERS, SMALL, by_case, run, spread};
use crate::report::{Figure, figure};
use tidegate_schedule::SchedulerName;

/// What comes over what the link carries.
const DEMANDS: [f64; 5] = [0.5, 1.0, 1.5, 2.0, 3.0];
/// When what comes counts, seconds: as in link mode.
const WARM_UP: u64 = 10;
/// A latency may fall by this, in seconds, where demand grows, and by so many standard deviations: 30 `ls` a
/// second are few.
const FALL: (f64, f64) = (0.005, 3.0);
/// A share of the link above this is none: packets are counted by tenths of a second.
const SHARE_MAX: f64 = 1.002;

/// Tables, figures, the cells, and what cannot be true of them.
pub(super) struct Swept {
    pub(super) lines: Vec<String>,
    pub(super) figures: Vec<Figure>,
    pub(super) cells: Vec<Cell>,
    pub(super) broken: Vec<String>,
}

/// Plays all of them.
pub(super) fn sweep(seed: u64, runs: u64) -> anyhow::Result<Swept> {
    let cells = run(&cases(), |case, scheduler, seed| case.run(scheduler, seed), seed, runs)?;
    let mut lines = vec![format!(
        "link mode, payloads swept: demand is what comes over what the link carries; {WARM_UP} s of warm-up; \
         {runs} runs. A record of AMQP has at least about {SMALL} bytes: smaller ones are arithmetic"
    )];
    let name = |case: &Case| {
        let Limit::Link(demand) = case.limit else { return String::new() };
        format!("{:<5}{demand:>4} times{:>6} B", case.network.name, case.size())
    };
    lines
        .extend(by_case("mean latency of ls, s", &cells, &name, |cell| spread(cell.latency(0), 3)));
    lines.extend(by_case("share of the link from 3 s on", &cells, &name, |cell| {
        spread(cell.stat(|run| run.share), 3)
    }));
    lines.extend(by_case("ls late at the node, % of what was sent", &cells, &name, |cell| {
        spread(cell.late(0), 1)
    }));
    let figures = SCHEDULERS.iter().flat_map(|&name| figures(&cells, name)).collect();
    let broken = implausible(&cells);
    lines.insert(1, match &broken[..] {
        [] => format!(
            "all {} cells can be true: no link carries more than it can, no latency falls where demand grows, \
             no ls is late under tidegate",
            cells.len()
        ),
        _ => format!("{} findings say that something is wrong", broken.len()),
    });
    Ok(Swept { lines, figures, cells, broken })
}

fn cases() -> Vec<Case> {
    let case = |network, bulk, demand| Case {
        network,
        bulk,
        limit: Limit::Link(demand),
        warm_up: WARM_UP,
    };
    let of = |network| BULK.map(|bulk| DEMANDS.map(|demand| case(network, bulk, demand)));
    NETWORKS.into_iter().flat_map(of).flatten().collect()
}

fn figures(cells: &[Cell], scheduler: SchedulerName) -> Vec<Figure> {
    let own = || cells.iter().filter(|cell| cell.scheduler == scheduler);
    let name = |what: &str| format!("janus_sweep_{}_{what}", scheduler.name().replace('-', "_"));
    let overloaded = own().filter(|cell| cell.case.is_overload());
    let least = overloaded.map(|cell| cell.stat(|run| run.share).0).fold(1.0, f64::min);
    let runs = own().flat_map(|cell| &cell.runs);
    let late: u64 = runs.map(|run| run.classes[0].violated).sum();
    // What a record waits beyond the way, in the worst case of all.
    let beyond = |cell: &Cell| {
        let p99 = cell.runs.iter().map(|run| run.classes[0].p99).fold(0.0, f64::max);
        p99 - cell.case.network.delay as f64 / 1e3
    };
    vec![
        figure(&name("share_least"), least, "1"),
        figure(&name("ls_late"), late as f64, "records"),
        figure(&name("ls_p99_beyond_the_way"), own().map(beyond).fold(0.0, f64::max) * 1e3, "ms"),
    ]
}

/// What cannot be true, one line each.
fn implausible(cells: &[Cell]) -> Vec<String> {
    let label = |cell: &Cell| format!("{} under {}", cell.case.label(), cell.scheduler.name());
    let mut broken = Vec::new();
    for cell in cells {
        let most = cell.runs.iter().map(|run| run.share).fold(0.0, f64::max);
        if most > SHARE_MAX {
            broken.push(format!("{}: {most:.4} of the link", label(cell)));
        }
        let late: u64 = cell.runs.iter().map(|run| run.classes[0].violated).sum();
        if late > 0 && cell.scheduler == SchedulerName::Tidegate {
            broken.push(format!("{}: {late} ls late", label(cell)));
        }
    }
    let has_more = |one: &Cell, other: &Cell| {
        let is_same = (one.case.network, one.case.bulk, one.scheduler)
            == (other.case.network, other.case.bulk, other.scheduler);
        is_same && one.case.size() < other.case.size()
    };
    for one in cells {
        // Where the next demand is, in the order of the cases.
        let Some(next) = cells.iter().find(|other| has_more(one, other)) else { continue };
        let ((before, some), (after, more)) = (one.latency(0), next.latency(0));
        if after < before - FALL.0 - FALL.1 * (some + more) {
            broken
                .push(format!("{}: ls takes {before:.3} s, and {after:.3} with more", label(one)));
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::super::super::{ClassMeasured, Measured};
    use super::*;

    fn cell(
        demand: f64,
        scheduler: SchedulerName,
        (mean, share, violated): (f64, f64, u64),
    ) -> Cell {
        let of = |case: &Case| case.limit == Limit::Link(demand);
        let case = cases().into_iter().find(of).unwrap();
        let class = ClassMeasured { mean, violated, ..ClassMeasured::default() };
        let run = Measured { classes: [class; 3], share, ..Measured::default() };
        Cell { case, scheduler, runs: vec![run.clone(), run] }
    }

    #[test]
    fn demand_goes_from_half_to_three_times_the_link() {
        let cases = cases();
        assert_eq!(cases.len(), 75);
        let overloaded = cases.iter().filter(|case| case.is_overload()).count();
        assert_eq!(overloaded, 45);
    }

    #[test]
    fn what_cannot_be_true_is_found() {
        let (native, ours) = (SchedulerName::Native, SchedulerName::Tidegate);
        let good = [cell(0.5, native, (0.1, 0.5, 0)), cell(1.0, native, (0.2, 0.99, 9))];
        assert_eq!(implausible(&good), [""; 0]);
        let falls = [cell(1.0, native, (0.5, 1.0, 0)), cell(1.5, native, (0.3, 1.0, 0))];
        assert!(implausible(&falls)[0].contains("ls takes 0.500 s, and 0.300 with more"));
        let late = implausible(&[cell(2.0, ours, (0.1, 1.01, 3))]);
        assert!(
            late[0].ends_with("1.0100 of the link") && late[1].ends_with("6 ls late"),
            "{late:?}"
        );
    }
}
