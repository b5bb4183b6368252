//! `lab sim fleet-faults-oracle`: fleets in which uplinks stall and refuse, and leaders, lenders and the network are
//! lost, beside an oracle that takes the earliest uplink that is up.
//!
//! The worlds are those of the fleet's own tests (`tidegate_testing::fleets`): whole nodes and orchestrators, in steps
//! of 5 ms. Two kinds: fleets with a few alarms each, which is what standing permits are for, and the mixes of the
//! tests, in which `ls` alone may be more than an uplink carries.

mod oracle;
mod plan;

use tidegate_testing::fleets::{Checks, Seen, Whole, World};

use self::oracle::Takes;
use self::plan::{Mix, TICK};
use crate::progress::Progress;
use crate::report::{Figure, Findings, figure};
use crate::sim::parallel;

/// What a world showed.
struct Shown {
    seed: u64,
    /// Milliseconds from a node to the far end, of each `ls`: as a fleet, by oracles, each node alone.
    fleet: Vec<u64>,
    oracle: Vec<u64>,
    /// By an oracle that leaves lenders what is theirs.
    fair: Vec<u64>,
    alone: Vec<u64>,
    /// Of those that came while their own uplink was down.
    fleet_down: Vec<u64>,
    oracle_down: Vec<u64>,
    /// Thousandths of a cut of anybody's `lt` behind which each borrowed `ls` waited.
    behind: Vec<u64>,
    broken: Vec<String>,
}

fn took(seen: &Seen) -> Option<u64> {
    seen.arrived.map(|(at, _)| (at - seen.came) * TICK)
}

fn is_ls(seen: &Seen) -> bool {
    seen.class == 0
}

fn play(mix: Mix, seed: u64) -> Shown {
    let plan = plan::plan(mix, seed);
    let run = |is_fleet| World::<Whole>::of(plan.clone(), seed, is_fleet).run();
    let with: Checks = run(true);
    let urgent: Vec<Seen> = with.records().filter(is_ls).collect();
    let best = oracle::times(&plan, &urgent, Takes::All);
    let fair = oracle::times(&plan, &urgent, Takes::Spare);
    let mut shown = Shown {
        seed,
        fleet: Vec::new(),
        oracle: Vec::new(),
        fair: Vec::new(),
        alone: run(false).records().filter(is_ls).filter_map(|seen| took(&seen)).collect(),
        fleet_down: Vec::new(),
        oracle_down: Vec::new(),
        behind: with.behind.iter().map(|(bytes, cut)| bytes * 1000 / cut).collect(),
        broken: with
            .broken
            .iter()
            .map(|what| format!("{} world {seed}: {what}", mix.name()))
            .collect(),
    };
    for (seen, (best, fair)) in urgent.iter().zip(best.into_iter().zip(fair)) {
        let Some((took, best)) = took(seen).zip(best) else { continue };
        shown.fair.extend(fair.map(|fair| (fair - seen.came) * TICK));
        let best = (best - seen.came) * TICK;
        shown.fleet.push(took);
        shown.oracle.push(best);
        if plan.uplink(seen.node, seen.came).carries() <= 0.0 {
            shown.fleet_down.push(took);
            shown.oracle_down.push(best);
        }
    }
    shown
}

fn quantile(all: &[u64], part: f64) -> u64 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len() as f64 * part) as usize).or(sorted.last()).copied().unwrap_or_default()
}

/// Plays so many worlds of each kind, from that seed on.
pub fn run(seed: u64, seeds: u64) -> Findings {
    let begun: Vec<u64> = (seed..seed + seeds).collect();
    let mut findings = Findings::default();
    for mix in Mix::ALL {
        let progress = Progress::new(mix.name(), begun.len());
        let shown = parallel::map(&begun, |seed| {
            progress.step(&format!("world {seed}"), None);
            play(mix, *seed)
        });
        findings.broken.extend(shown.iter().flat_map(|one| one.broken.clone()));
        let (lines, figures) = table(mix, &shown);
        findings.lines.extend(lines);
        findings.figures.extend(figures);
    }
    findings
}

fn table(mix: Mix, shown: &[Shown]) -> (Vec<String>, Vec<Figure>) {
    let all =
        |of: fn(&Shown) -> &Vec<u64>| -> Vec<u64> { shown.iter().flat_map(of).copied().collect() };
    let mut lines = vec![
        String::new(),
        format!("{}, {} worlds: {}", mix.name(), shown.len(), mix.about()),
        format!(
            "{:<42}{:>9}{:>9}{:>9}{:>9}{:>9}",
            "ls, ms to the far end", "records", "p50", "p99", "p99.9", "worst"
        ),
    ];
    let rows: [(&str, Vec<u64>); 6] = [
        ("fleet", all(|one| &one.fleet)),
        ("oracle", all(|one| &one.oracle)),
        ("oracle that leaves lenders what is theirs", all(|one| &one.fair)),
        ("each alone", all(|one| &one.alone)),
        ("fleet, own uplink down on arrival", all(|one| &one.fleet_down)),
        ("oracle, the same records", all(|one| &one.oracle_down)),
    ];
    for (name, took) in &rows {
        let at = |part| quantile(took, part);
        lines.push(format!(
            "{name:<42}{:>9}{:>9}{:>9}{:>9}{:>9}",
            took.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        ));
    }
    let [fleet, best, fair, _, fleet_down, best_down] =
        rows.map(|(_, took)| quantile(&took, 0.99) as f64);
    let ratio =
        |one: &Shown| quantile(&one.fleet, 0.99) as f64 / quantile(&one.oracle, 0.99).max(1) as f64;
    let mut over: Vec<(f64, u64)> = shown.iter().map(|one| (ratio(one), one.seed)).collect();
    over.sort_by(|a, b| b.0.total_cmp(&a.0));
    let above = over.iter().filter(|(ratio, _)| *ratio > 1.5).count();
    let worst: Vec<String> =
        over.iter().take(5).map(|(ratio, seed)| format!("{seed} ({ratio:.1})")).collect();
    lines.push(format!(
        "p99 above 1.5 times the oracle's in {above} worlds; the worst: {}",
        worst.join(", ")
    ));
    let behind = all(|one| &one.behind);
    let cuts = |part| quantile(&behind, part) as f64 / 1e3;
    let long = behind.iter().filter(|cuts| **cuts > 1000).count();
    lines.push(format!(
        "{} borrowed ls; behind lt at the lender: p50 {:.2} cuts, p99 {:.2}, worst {:.2}; {long} behind more than one",
        behind.len(),
        cuts(0.5),
        cuts(0.99),
        cuts(1.0)
    ));
    let name = |what: &str| format!("fleet_faults_{}_{what}", mix.name());
    let figures = vec![
        figure(&name("ls_p99"), fleet, "ms"),
        figure(&name("ls_p99_over_oracle"), fleet / best.max(1.0), "1"),
        figure(&name("ls_p99_over_fair_oracle"), fleet / fair.max(1.0), "1"),
        figure(&name("ls_p99_down_over_oracle"), fleet_down / best_down.max(1.0), "1"),
        figure(&name("worlds_above"), above as f64, "1"),
        figure(&name("borrowed_behind_more_than_a_cut"), long as f64, "1"),
    ];
    (lines, figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One world of alarms: the fleet is nowhere worse than the oracle, no alarm is borrowed behind bulk, and what a node
    /// alone has to wait for is seconds.
    #[test]
    fn a_fleet_stands_between_the_oracle_and_each_node_alone() {
        let shown = play(Mix::Alarms, 1);
        assert_eq!(shown.broken, Vec::<String>::new());
        let p99 = |took: &[u64]| quantile(took, 0.99);
        let [best, fleet, alone] =
            [&shown.oracle, &shown.fleet, &shown.alone].map(|took| p99(took));
        assert!(best <= fleet && fleet * 2 <= best * 3 && alone > 1000, "{best} {fleet} {alone}");
        assert!(!shown.behind.is_empty() && shown.behind.iter().all(|cuts| *cuts <= 1000));
        assert!(!shown.fleet_down.is_empty());
    }
}
