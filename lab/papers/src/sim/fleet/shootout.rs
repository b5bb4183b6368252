//! `lab sim fleet-shootout`: JANUS as printed, JANUS as meant and ours, each with every matching, where matchings differ.
//! Source: papers/janus.txt, §VII-A (the heuristics), §V-B (the orchestrator).
//!
//! Ten nodes. Four of them are short of every class: `ls` alone is more than their uplink carries. Each reaches some of the
//! six others, whose uplinks together have less to spare than is wanted. Uplinks and records are of mixed sizes.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_fleet::MatchingName;
use tidegate_schedule::SchedulerName;
use tidegate_types::units::{Rate, Time};

use super::member::{CLASSES, Seat, load, options};
use super::nodes::Nodes;
use super::tables::measure::{BOUNDS, arrived, broken, quantile};
use crate::progress::Progress;
use crate::report::{Findings, figure};
use crate::sim::links::statistics::Estimate;
use crate::sim::parallel;
use crate::sim::quantity::{Amount, Span, Speed};
use crate::sim::random::Random;
use crate::sim::scenario::{LinkSpec, LoadSpec, Scenario};
use crate::sim::world::Outcome;

/// Nodes, and those that are short.
const NODES: usize = 10;
const SHORT: usize = 4;
/// How many of the others each of these reaches.
const REACH: usize = 4;
/// What each class wants of a short node's uplink, and of another's: from and to.
const WANTS: [[(f64, f64); 3]; 2] =
    [[(1.1, 1.4), (0.3, 0.8), (0.3, 0.8)], [(0.02, 0.1), (0.05, 0.2), (0.05, 0.2)]];
/// Bytes of a record of each class, from and to.
const SIZES: [(u64, u64); 3] = [(100, 400), (200, 2000), (1000, 8000)];
/// Bytes/s of a short node's uplink; those of the others are as large as the load asks for.
const UPLINKS: (f64, f64) = (50e3, 200e3);
/// All that is short over all that is to spare.
const LOAD: f64 = 1.1;
/// One way of an uplink.
const DELAY: Span = Span::millis(25);
/// Seconds before anything counts, in which it counts, and for what is on its way then.
const SECONDS: [u64; 3] = [10, 40, 2];
/// Who takes part.
const SYSTEMS: [SchedulerName; 3] =
    [SchedulerName::JanusPaper, SchedulerName::Janus, SchedulerName::Tidegate];

type Side = (SchedulerName, MatchingName);

/// Who reaches whom, and what comes to whom.
struct World {
    reach: BTreeSet<(usize, usize)>,
    /// Bytes/s.
    uplinks: Vec<f64>,
    /// Bytes/s of each class.
    wants: Vec<[f64; 3]>,
}

impl World {
    fn new(seed: u64) -> World {
        let random = &mut Random::new(seed, 40);
        let mut range = |(low, high): (f64, f64)| low + (high - low) * random.share();
        let mut uplinks: Vec<f64> = (0..NODES).map(|_| range(UPLINKS)).collect();
        let part = |node: usize| WANTS[usize::from(node >= SHORT)];
        let parts: Vec<[f64; 3]> = (0..NODES).map(|node| part(node).map(&mut range)).collect();
        let over = |node: usize| (parts[node].iter().sum::<f64>() - 1.0) * uplinks[node];
        let short: f64 = (0..SHORT).map(over).sum();
        let spare: f64 = (SHORT..NODES).map(|node| -over(node)).sum();
        uplinks[SHORT..].iter_mut().for_each(|uplink| *uplink *= short / spare / LOAD);
        let wants =
            parts.iter().zip(&uplinks).map(|(parts, uplink)| parts.map(|part| part * uplink));
        let wants = wants.collect();
        let mut reach = BTreeSet::new();
        for node in 0..SHORT {
            let mut others: Vec<usize> = (SHORT..NODES).collect();
            while others.len() > REACH {
                others.swap_remove(random.between(0, others.len() as u64 - 1) as usize);
            }
            reach.extend(others.into_iter().flat_map(|other| [(node, other), (other, node)]));
        }
        World { reach, uplinks, wants }
    }

    fn scenario(&self, at: usize, scheduler: SchedulerName) -> anyhow::Result<Scenario> {
        let uplink = Rate::new(self.uplinks[at]);
        let law = RateControllerName::default();
        let seat = Seat { at, peers: NODES - 1, scheduler, law, cap: Some(uplink) };
        let link = LinkSpec::new(Speed(uplink), DELAY, Amount(1 << 18));
        let [warm_up, length, drain] = SECONDS;
        let loads = (0..CLASSES.len()).map(|class| {
            let (least, most) = SIZES[class];
            let per_second = self.wants[at][class] / ((least + most) as f64 / 2.0);
            let until = Some(Span::seconds(warm_up + length));
            LoadSpec { until, ..load(class, per_second, SIZES[class]) }
        });
        seat.scenario(link, loads.collect(), Duration::from_secs(warm_up + length + drain))
    }

    fn play(&self, (scheduler, matching): Side, seed: u64) -> anyhow::Result<Showed> {
        let nodes: Vec<Scenario> =
            (0..NODES).map(|at| self.scenario(at, scheduler)).collect::<anyhow::Result<_>>()?;
        let options = options(scheduler, matching);
        let reaches = |at, peer| self.reach.contains(&(at, peer));
        let length = Duration::from_secs(SECONDS.iter().sum());
        let outcomes = Nodes::new(&nodes, Some(&options), reaches, seed)?.run(length);
        Ok(Showed::new(&format!("{} {}", scheduler.name(), matching.name()), &outcomes))
    }
}

/// What is told of a run: a name, and a unit.
const TOLD: [(&str, &str); 9] = [
    ("ls_late", "percent"),
    ("ls_p99", "s"),
    ("nm_late", "percent"),
    ("nm_p99", "s"),
    ("lt_late", "percent"),
    ("lenders_late", "percent"),
    ("lenders_ls_p99", "s"),
    ("carried", "Mbit/s"),
    ("redirected", "percent"),
];

/// What a run showed.
struct Showed {
    values: [f64; TOLD.len()],
    broken: Vec<String>,
}

/// Records of a class of some nodes: seconds to the far end, how many came late or not at all, and bytes.
#[derive(Default)]
struct Records {
    took: Vec<f64>,
    late: f64,
    bytes: u64,
}

/// From when on records count.
fn from() -> Time {
    Time::ZERO + Duration::from_secs(SECONDS[0])
}

impl Records {
    fn add(&mut self, outcomes: &[Outcome], node: usize, class: usize) {
        let from = from();
        let (first, _) = arrived(outcomes, node, class);
        let before = first.iter().filter(|one| one.arrived < from).map(|one| one.seq).max();
        let (accepted, ..) = outcomes[node].answers[class];
        let bound = BOUNDS[class] + DELAY.as_secs_f64() + 1e-3;
        let counted = first.iter().filter(|one| one.arrived >= from);
        let came = self.took.len();
        self.took.extend(counted.clone().map(|one| one.took.as_secs_f64()));
        self.bytes += counted.map(|one| one.payload).sum::<u64>();
        self.late += self.took[came..].iter().filter(|took| **took > bound).count() as f64;
        // What has not come by the end is late, and took at least that long.
        let came = self.took.len() - came;
        let missing = (accepted - before.unwrap_or_default()).saturating_sub(came as u64);
        self.late += missing as f64;
        self.took.extend((0..missing).map(|_| SECONDS[1] as f64));
    }

    fn of(outcomes: &[Outcome], nodes: std::ops::Range<usize>, class: usize) -> Records {
        let mut records = Records::default();
        nodes.for_each(|node| records.add(outcomes, node, class));
        records
    }

    fn late(&self) -> f64 {
        self.late / self.took.len().max(1) as f64 * 100.0
    }
}

impl Showed {
    fn new(system: &str, outcomes: &[Outcome]) -> Showed {
        let mut short = [0, 1, 2].map(|class| Records::of(outcomes, 0..SHORT, class));
        let mut others = [0, 1, 2].map(|class| Records::of(outcomes, SHORT..NODES, class));
        let relayed = outcomes.iter().flat_map(|outcome| outcome.ledger.relayed());
        let relayed = relayed.flat_map(|one| &one.received).filter(|one| one.arrived >= from());
        let relayed: u64 = relayed.map(|one| one.payload).sum();
        let bytes: u64 = short.iter().chain(&others).map(|one| one.bytes).sum();
        let late: f64 = others.iter().map(|one| one.late).sum();
        let all: usize = others.iter().map(|one| one.took.len()).sum();
        let values = [
            short[0].late(),
            quantile(&mut short[0].took, 0.99),
            short[1].late(),
            quantile(&mut short[1].took, 0.99),
            short[2].late(),
            late / all.max(1) as f64 * 100.0,
            quantile(&mut others[0].took, 0.99),
            bytes as f64 * 8e-6 / SECONDS[1] as f64,
            relayed as f64 / bytes.max(1) as f64 * 100.0,
        ];
        Showed { values, broken: broken(system, outcomes) }
    }
}

/// The lines to print: every system with every matching in the same worlds, of so many seeds from that on.
pub fn run(seed: u64, seeds: u64) -> anyhow::Result<Findings> {
    let seeds: Vec<u64> = (seed..seed + seeds).collect();
    let worlds: Vec<World> = seeds.iter().map(|seed| World::new(*seed)).collect();
    let sides: Vec<Side> = SYSTEMS
        .into_iter()
        .flat_map(|system| MatchingName::ALL.map(|matching| (system, matching)))
        .collect();
    let runs: Vec<(Side, usize)> =
        sides.iter().flat_map(|side| (0..seeds.len()).map(move |at| (*side, at))).collect();
    let progress = Progress::new("fleet-shootout", runs.len());
    let showed = parallel::map(&runs, |(side, at)| {
        progress.step(&format!("{} {}, seed {}", side.0.name(), side.1.name(), seeds[*at]), None);
        worlds[*at].play(*side, seeds[*at])
    });
    let showed = showed.into_iter().collect::<anyhow::Result<Vec<Showed>>>()?;
    let mut found = Findings {
        lines: vec![
            format!(
                "{NODES} nodes, {SHORT} of them short of every class, of what comes in {} s; mean of {} seeds and",
                SECONDS[1],
                seeds.len()
            ),
            "half of its 95 % interval. late: % past its bound, or not there at the end; p99 and lenders' in s".into(),
        ],
        ..Findings::default()
    };
    let head = TOLD.map(|(name, _)| format!("{name:>15}")).join("");
    found.lines.push(format!("{:<25}{head}", ""));
    for ((scheduler, matching), of_side) in sides.iter().zip(showed.chunks(seeds.len())) {
        let name = format!("{} {}", scheduler.name(), matching.name());
        let mut line = format!("{name:<25}");
        for (at, (what, unit)) in TOLD.into_iter().enumerate() {
            let values: Vec<f64> = of_side.iter().map(|one| one.values[at]).collect();
            let Estimate { mean, half } = Estimate::of(&values);
            let digits = if unit == "s" { 3 } else { 2 };
            line += &format!("{:>15}", format!("{mean:.digits$} ±{half:.digits$}"));
            let name = format!("shootout_{name}_{what}").replace(['-', ' '], "_");
            found.figures.push(figure(&name, mean, unit));
        }
        found.lines.push(line);
        found.broken.extend(of_side.iter().flat_map(|one| one.broken.clone()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_nodes_are_short_of_every_class_and_the_others_cannot_carry_it_all() {
        for seed in 1..6 {
            let World { reach, uplinks, wants } = World::new(seed);
            let over = |node: usize| wants[node].iter().sum::<f64>() - uplinks[node];
            assert!((0..SHORT).all(|node| wants[node][0] > uplinks[node]));
            assert!((SHORT..NODES).all(|node| over(node) < 0.0));
            let [short, spare] = [0..SHORT, SHORT..NODES].map(|all| all.map(over).sum::<f64>());
            assert!((short / -spare - LOAD).abs() < 1e-9, "{short} {spare}");
            assert_eq!(reach.len(), 2 * SHORT * REACH);
        }
    }
}
