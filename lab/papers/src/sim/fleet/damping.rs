//! `lab sim fleet-damping`: loads that switch, with noise, and what the fleet makes of them; and a
//! fleet behind one uplink, where redirecting cannot help.

use std::time::Duration;

use tidegate_fleet::{FleetOptions, MatchingName};
use tidegate_types::units::Ratio;

use super::fluid::{Fluid, STEP, Uplinks};
use super::tally::Tally;
use crate::report::{Findings, figure};
use crate::sim::random::Random;

const NODES: usize = 50;
/// Bytes/s of each uplink.
const CAPACITY: f64 = 1e6;
/// Seconds of a run, and between two switches of the loads.
const LENGTH: f64 = 150.0;
const SWITCH: f64 = 15.0;
/// Part of the nodes that are busy; load of a busy and of an idle one, over its capacity.
const BUSY: f64 = 0.35;
const LOADS: [(f64, f64); 2] = [(1.2, 2.0), (0.2, 0.6)];
/// Standard deviation of what comes in 100 ms, over its mean.
const NOISE: f64 = 0.3;
/// What each class has of a load.
const MIX: [f64; 3] = [0.05, 0.2, 0.75];
/// One way between a node and the orchestrator: a decision takes effect after twice that.
const DELAY: Duration = Duration::from_millis(75);

/// What comes: the same for every policy.
struct Loads {
    random: Random,
    levels: Vec<f64>,
    noise: Vec<f64>,
    step: u64,
}

impl Loads {
    fn new(seed: u64) -> Self {
        let random = Random::new(seed, 9);
        Loads { random, levels: vec![0.0; NODES], noise: vec![1.0; NODES], step: 0 }
    }

    /// Bytes of the next step, for each class of each node.
    fn next(&mut self) -> Vec<[f64; 3]> {
        let steps = |seconds: f64| (seconds / STEP.as_secs_f64()) as u64;
        let Loads { random, levels, noise, step } = self;
        if step.is_multiple_of(steps(SWITCH)) {
            for level in levels {
                let (low, high) = LOADS[usize::from(!random.happens(BUSY))];
                *level = low + (high - low) * random.share();
            }
        }
        if step.is_multiple_of(steps(0.1)) {
            for noise in noise.iter_mut() {
                // Twelve even ones have a variance of one.
                let normal = (0..12).map(|_| random.share()).sum::<f64>() - 6.0;
                *noise = (1.0 + NOISE * normal).max(0.0);
            }
        }
        *step += 1;
        let bytes = |(level, noise): (&f64, &f64)| {
            MIX.map(|part| part * level * noise * CAPACITY * STEP.as_secs_f64())
        };
        self.levels.iter().zip(&self.noise).map(bytes).collect()
    }
}

/// A run, and what one uplink of all nodes together would have carried of the same.
struct Outcome {
    tally: Tally,
    ideal: f64,
}

fn run_switching(options: &FleetOptions, is_fleet: bool, seed: u64) -> Outcome {
    let mut loads = Loads::new(seed);
    let capacities = [CAPACITY; NODES];
    let mut world = Fluid::new(&capacities, Uplinks::Apart, options, DELAY, is_fleet);
    let (mut waiting, mut ideal) = (0.0, 0.0);
    for _ in 0..(LENGTH / STEP.as_secs_f64()) as u64 {
        let arrivals = loads.next();
        waiting += arrivals.iter().flatten().sum::<f64>();
        let sent = f64::min(waiting, CAPACITY * NODES as f64 * STEP.as_secs_f64());
        (waiting, ideal) = (waiting - sent, ideal + sent);
        world.step(&arrivals);
    }
    Outcome { tally: world.tally, ideal }
}

/// The policies, each with what it leaves out.
fn policies() -> Vec<(&'static str, FleetOptions)> {
    let with = |change: &dyn Fn(&mut FleetOptions)| {
        let mut options = FleetOptions::default();
        change(&mut options);
        options
    };
    vec![
        ("as it is", with(&|_| {})),
        ("no slack", with(&|options| options.slack = Ratio::ZERO)),
        ("slack of 30 %", with(&|options| options.slack = Ratio::new(0.3))),
        ("no headroom", with(&|options| options.headroom = Ratio::ZERO)),
        ("headroom 10 %", with(&|options| options.headroom = Ratio::new(0.1))),
        ("averages of 0.1 s", with(&|options| options.smoothing = Duration::from_millis(100))),
        ("averages of 2 s", with(&|options| options.smoothing = Duration::from_secs(2))),
        ("credit of 10 s", with(&|options| options.credit = Duration::from_secs(10))),
        ("credit of 0.1 s", with(&|options| options.credit = Duration::from_millis(100))),
        ("flow, sticky", with(&|options| options.matching = MatchingName::Flow)),
        ("pmrfs, sticky", with(&|options| options.matching = MatchingName::Pmrfs)),
    ]
}

/// The lines to print.
pub fn run(seed: u64) -> Findings {
    let mut lines = vec![
        format!("{NODES} nodes, loads switch every {SWITCH} s, {NOISE} noise; served over what"),
        "one uplink of all would carry; waits of redirected bytes at the provider, s".into(),
        format!(
            "{:<18}{:>9}{:>9}{:>9}{:>10}{:>8}{:>8}{:>8}{:>8}",
            "", "new/n/s", "changed", "served", "backlog s", "wait99", "ls p99", "nm p99", "lt p99"
        ),
    ];
    let alone = run_switching(&FleetOptions::default(), false, seed);
    lines.push(row("alone", &alone));
    let mut figures = vec![figure("damping_alone_served", alone.tally.served / alone.ideal, "1")];
    for (place, (name, options)) in policies().into_iter().enumerate() {
        let outcome = run_switching(&options, true, seed);
        lines.push(row(name, &outcome));
        if place == 0 {
            let Outcome { tally, ideal } = &outcome;
            figures.push(figure("damping_changed", tally.change() * 100.0, "percent_a_round"));
            figures.push(figure("damping_served", tally.served / ideal, "of_ideal"));
            figures.push(figure("damping_wait_p99", tally.waits.quantile(0.99), "s"));
            figures.push(figure("damping_new_grants", tally.new_grants(), "per_node_s"));
        }
    }
    let mut found = Findings::from((lines, figures));
    found.add(shared(seed));
    found
}

fn row(name: &str, outcome: &Outcome) -> String {
    let Outcome { tally, ideal } = outcome;
    let backlog = tally.mean_backlog() / CAPACITY / NODES as f64;
    let p99 = |class: usize| tally.latency[class].quantile(0.99);
    format!(
        "{name:<18}{:>9.2}{:>8.1}%{:>9.3}{backlog:>10.2}{:>8.2}{:>8.2}{:>8.2}{:>8.2}",
        tally.new_grants(),
        tally.change() * 100.0,
        tally.served / ideal,
        tally.waits.quantile(0.99),
        p99(0),
        p99(1),
        p99(2)
    )
}

/// Four nodes behind one uplink: one wants twice what it carries, the others a twentieth each.
fn shared(seed: u64) -> Findings {
    let mut random = Random::new(seed, 10);
    let options = FleetOptions::default();
    let capacities = [CAPACITY; 4];
    let mut world = Fluid::new(&capacities, Uplinks::Shared(CAPACITY), &options, DELAY, true);
    let mut redirected = Vec::new();
    for _ in 0..60 {
        let before = world.tally.waits.all();
        for _ in 0..(1.0 / STEP.as_secs_f64()) as u64 {
            let mut noise = |load: f64| {
                let bytes = load * CAPACITY * STEP.as_secs_f64() * (0.7 + 0.6 * random.share());
                MIX.map(|part| part * bytes)
            };
            let arrivals = [noise(2.0), noise(0.05), noise(0.05), noise(0.05)];
            world.step(&arrivals);
        }
        redirected.push((world.tally.waits.all() - before) / CAPACITY);
    }
    let most = redirected.iter().copied().fold(0.0, f64::max);
    let last = redirected.iter().rposition(|part| *part > 0.0).map_or(0, |second| second + 1);
    let end: f64 = redirected[30..].iter().sum::<f64>() / 30.0;
    let lines = vec![
        String::new(),
        "four nodes behind one uplink, one of which wants twice what it carries:".into(),
        format!(
            "{:.0} % of the uplink redirected in the worst second, none after {last} s; granted in \
             the end: {:.0} bytes/s",
            most * 100.0,
            world.granted()
        ),
    ];
    let figures = vec![
        figure("damping_shared_redirected", end * 100.0, "percent_of_the_uplink_from_30_s"),
        figure("damping_shared_last", last as f64, "s"),
    ];
    (lines, figures).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_rest_and_little_is_lost() {
        let outcome = run_switching(&FleetOptions::default(), true, 3);
        let Outcome { tally, ideal } = outcome;
        assert!(tally.change() <= 0.15, "{}", tally.change());
        assert!(tally.served / ideal >= 0.99, "{}", tally.served / ideal);
        assert!(tally.waits.quantile(0.99) <= 0.5, "{}", tally.waits.quantile(0.99));
    }

    #[test]
    fn neighbours_behind_one_uplink_end_without_redirection() {
        for seed in [1, 2, 3] {
            let found = shared(seed);
            assert_eq!(found.value("damping_shared_redirected"), Some(0.0), "{found:?}");
        }
    }
}
