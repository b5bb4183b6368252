//! `lab sim fleet-faults-oracle`: fleets in which uplinks stall and refuse, and leaders, lenders and the network are
//! lost, beside an oracle that takes the earliest uplink that is up.
//!
//! The worlds are those of the fleet's own tests (`tidegate_testing::fleets`): whole nodes and orchestrators, in steps
//! of 5 ms. Two kinds: fleets with a few alarms each, which is what standing permits are for, and the mixes of the
//! tests, in which `ls` alone may be more than an uplink carries.

mod oracle;
mod plan;

use tidegate_testing::fleets::{Checks, Seen, Whole, World};

use self::plan::{Mix, TICK};
use crate::report::{Figure, Findings, figure};
use crate::sim::parallel;

/// What a world showed.
struct Shown {
    seed: u64,
    /// Milliseconds from a node to the far end, of each `ls`: as a fleet, by the oracle, each node alone.
    fleet: Vec<u64>,
    oracle: Vec<u64>,
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
    let best = oracle::times(&plan, &urgent);
    let mut shown = Shown {
        seed,
        fleet: Vec::new(),
        oracle: Vec::new(),
        alone: run(false).records().filter(is_ls).filter_map(|seen| took(&seen)).collect(),
        fleet_down: Vec::new(),
        oracle_down: Vec::new(),
        behind: with.behind.iter().map(|(bytes, cut)| bytes * 1000 / cut).collect(),
        broken: with.broken.iter().map(|what| format!("{} world {seed}: {what}", mix.name())).collect(),
    };
    for (seen, best) in urgent.iter().zip(best) {
        let Some((took, best)) = took(seen).zip(best) else { continue };
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
        let shown = parallel::map(&begun, |seed| play(mix, *seed));
        findings.broken.extend(shown.iter().flat_map(|one| one.broken.clone()));
        let (lines, figures) = table(mix, &shown);
        findings.lines.extend(lines);
        findings.figures.extend(figures);
    }
    findings
}

fn table(mix: Mix, shown: &[Shown]) -> (Vec<String>, Vec<Figure>) {
    let all = |of: fn(&Shown) -> &Vec<u64>| -> Vec<u64> { shown.iter().flat_map(of).copied().collect() };
    let mut lines = vec![
        String::new(),
        format!("{}, {} worlds: {}", mix.name(), shown.len(), mix.about()),
        format!("{:<42}{:>9}{:>9}{:>9}{:>9}{:>9}", "ls, ms to the far end", "records", "p50", "p99", "p99.9", "worst"),
    ];
    let rows: [(&str, Vec<u64>); 5] = [
        ("fleet", all(|one| &one.fleet)),
        ("oracle", all(|one| &one.oracle)),
        ("each alone", all(|one| &one.alone)),
        ("fleet, own uplink down on arrival", all(|one| &one.fleet_down)),
        ("oracle, the same records", all(|one| &one.oracle_down)),
    ];
    for (name, took) in &rows {
        let at = |part| quantile(took, part);
        lines.push(format!("{name:<42}{:>9}{:>9}{:>9}{:>9}{:>9}", took.len(), at(0.5), at(0.99), at(0.999), at(1.0)));
    }
    let [fleet, best, _, fleet_down, best_down] = rows.map(|(_, took)| quantile(&took, 0.99) as f64);
    let ratio = |one: &Shown| quantile(&one.fleet, 0.99) as f64 / quantile(&one.oracle, 0.99).max(1) as f64;
    let mut over: Vec<(f64, u64)> = shown.iter().map(|one| (ratio(one), one.seed)).collect();
    over.sort_by(|a, b| b.0.total_cmp(&a.0));
    let above = over.iter().filter(|(ratio, _)| *ratio > 1.5).count();
    let worst: Vec<String> = over.iter().take(5).map(|(ratio, seed)| format!("{seed} ({ratio:.1})")).collect();
    lines.push(format!("p99 above 1.5 times the oracle's in {above} worlds; the worst: {}", worst.join(", ")));
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
        figure(&name("ls_p99_down_over_oracle"), fleet_down / best_down.max(1.0), "1"),
        figure(&name("worlds_above"), above as f64, "1"),
        figure(&name("borrowed_behind_more_than_a_cut"), long as f64, "1"),
    ];
    (lines, figures)
}
pub fn trace(heavy: bool, seed: u64) {
    let plan = plan::plan(if heavy { Mix::Heavy } else { Mix::Alarms }, seed);
    for e in &plan.events { println!("{:?} {:.3}..{:.3}", e.fault, (e.from * TICK) as f64 / 1e3, (e.until * TICK) as f64 / 1e3); }
    for (n, l) in plan.levels.iter().enumerate() { println!("node {n} cap {} {:?}", plan.capacity[n], l.iter().map(|(t, r)| ((t * TICK) as f64 / 1e3, r.map(|r| (r * 10.0).round() / 10.0))).collect::<Vec<_>>()); }
    let c = World::<Whole>::of(plan.clone(), seed, true).run();
    if std::env::args().nth(5).is_some() {
        for sec in 0..41 { for node in 0..4 {
            let mut line = format!("{sec} n{node}:");
            for class in 0..3 {
                let v: Vec<_> = c.records().filter(|s| s.class == class && s.node == node && s.came * TICK / 1000 == sec).collect();
                let t: Vec<u64> = v.iter().filter_map(took).collect();
                let lent = v.iter().filter(|s| s.arrived.is_some_and(|a| a.1 != node)).count();
                line += &format!("  {} lent {lent} p50 {} p99 {}", v.len(), quantile(&t, 0.5), quantile(&t, 0.99));
            }
            println!("{line}");
        } }
        return;
    }
    for s in c.records().filter(is_ls) {
        let Some(t) = took(&s) else { continue };
        if t > std::env::args().nth(4).unwrap().parse().unwrap() { println!("node {} came {:.3} took {t} by {} up {:?}", s.node, (s.came * TICK) as f64 / 1e3, s.arrived.unwrap().1, plan.uplink(s.node, s.came)); }
    }
}
