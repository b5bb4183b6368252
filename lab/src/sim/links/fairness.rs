//! `lab sim link-fairness`: several paths through one bottleneck, beside connections of others; and what it costs on paths
//! that have nothing to do with each other.

use std::ops::Range;
use std::time::Duration;

use tidegate_link::LinkOptions;
use tidegate_types::units::Time;

use super::load::Load;
use super::neighbour::Neighbour;
use super::scene::{HEAVY, PATIENT, world};
use super::table::{NONE, Table, Target};
use super::way::Way;
use super::world::{Route, World};
use crate::link::Options;
use crate::progress::Progress;
use crate::report::Findings;
use tidegate_lab_engine::sim::parallel;

/// The bottleneck: Mbit/s, and the round trip of all that goes through it in ms.
const BOTTLENECK: (u64, u64) = (50, 40);
/// Part of a round trip that its queue holds: one, as a home router's.
const QUEUE: f64 = 1.0;
/// Seconds in which all find their share, and that count.
const SPAN: (u64, u64) = (20, 40);
/// What the neighbour should have at least of the share that each of two has.
const LEAST: f64 = 0.8;
/// What a link keeps at least of its goodput on the three paths of `link-h`, and the seconds that are looked at there.
const KEPT: f64 = 0.95;
const DISJOINT: (u64, u64) = (5, 15);

/// How the neighbour is made.
type Kind = fn(Route, Duration, Time) -> Neighbour;

/// One link of so many paths and one neighbour.
fn bottleneck(options: &LinkOptions, paths: usize, kind: Kind, seed: u64) -> World {
    let (megabits, rtt) = BOTTLENECK;
    let half = Duration::from_millis(rtt / 2);
    let queue = (QUEUE * (megabits * rtt * 125) as f64) as u64;
    // Nothing but a queue: what is beyond it belongs to the routes.
    let way = |megabits: u64, seed| {
        let options = Options::new(megabits * 1_000_000, Duration::ZERO, queue);
        Way::emulated(options, seed)
    };
    let ways = vec![way(megabits, seed), way(1000, seed + 1)];
    let route = |way| Route { way, beyond: half };
    let mut world = World::new(options, ways, vec![[route(0), route(1)]; paths]);
    // Half a second later, so that neither has the queue to itself for good.
    let from = world.now + Duration::from_millis(500);
    world.neighbours.push(kind(route(0), half, from));
    world
}

/// Mbit/s of the link and of its neighbour.
fn play(options: &LinkOptions, paths: usize, kind: Kind, seed: u64) -> (f64, f64) {
    let mut world = bottleneck(options, paths, kind, seed);
    let mut load = Load::new(seed, PATIENT);
    let part = Duration::from_secs(1);
    load.bulk(&mut world, Duration::from_secs(SPAN.0), part);
    let (bytes, theirs) = (world.bytes, world.neighbours[0].delivered());
    load.bulk(&mut world, Duration::from_secs(SPAN.1), part);
    let megabits = |bytes: u64| bytes as f64 * 8e-6 / SPAN.1 as f64;
    (megabits(world.bytes - bytes), megabits(world.neighbours[0].delivered() - theirs))
}

/// Mbit/s of a link on three paths that share nothing.
fn disjoint(options: &LinkOptions, seed: u64) -> f64 {
    let mut world = world(options, HEAVY, seed);
    let mut load = Load::new(seed, PATIENT);
    let part = Duration::from_secs(1);
    load.bulk(&mut world, Duration::from_secs(DISJOINT.0), part);
    let bytes = world.bytes;
    load.bulk(&mut world, Duration::from_secs(DISJOINT.1), part);
    (world.bytes - bytes) as f64 * 8e-6 / DISJOINT.1 as f64
}

pub(in crate::sim) fn run(seeds: Range<u64>) -> Findings {
    let mut table = Table::default();
    let fair = BOTTLENECK.0 as f64 / 2.0;
    let seeds: Vec<u64> = seeds.collect();
    let usual = LinkOptions::new(1, 1);
    let with = |decreases_on_loss, spares_shared| {
        let options = LinkOptions { decreases_on_loss, spares_shared, ..usual.clone() };
        let is_usual =
            (usual.decreases_on_loss, usual.spares_shared) == (decreases_on_loss, spares_shared);
        (options, is_usual)
    };
    let progress = Progress::new("link-fairness", 1 + 4 * (2 * 3 + 1));
    progress.step("disjoint paths", None);
    let neither = parallel::map(&seeds, |&seed| disjoint(&with(false, false).0, seed));
    for (decreases, spares) in [(false, false), (false, true), (true, false), (true, true)] {
        let (options, is_usual) = with(decreases, spares);
        let target = |target| if is_usual { target } else { NONE };
        let also = [(decreases, ", backs off"), (spares, ", spares")]
            .map(|(is, word)| if is { word } else { "" });
        let also = also.concat();
        for (kind, name) in [(Neighbour::cubic as Kind, "CUBIC"), (Neighbour::bbr, "BBR")] {
            for paths in 1..=3 {
                progress.step(&format!("{paths} paths beside {name}{also}"), None);
                let played = parallel::map(&seeds, |&seed| play(&options, paths, kind, seed));
                for (ours, theirs) in played {
                    let name = format!("{paths} paths beside {name}{also}");
                    table.add(&format!("{name}: ours"), "Mbit/s", NONE, ours);
                    let least = target(Some(Target::AtLeast(LEAST)));
                    table.add(&format!("{name}: theirs"), "of half", least, theirs / fair);
                }
            }
        }
        progress.step(&format!("disjoint paths{also}"), None);
        let kept = parallel::map(&seeds, |&seed| disjoint(&options, seed));
        for (kept, neither) in kept.into_iter().zip(&neither) {
            let least = target(Some(Target::AtLeast(KEPT)));
            table.add(&format!("3 disjoint paths{also}: of neither"), "1", least, kept / neither);
        }
    }
    table.findings("link_fairness")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_neighbour_alone_fills_the_bottleneck() {
        let options = LinkOptions::new(1, 1);
        for kind in [Neighbour::cubic as Kind, Neighbour::bbr] {
            let mut world = bottleneck(&options, 1, kind, 1);
            world.run_for(Duration::from_secs(10));
            let before = world.neighbours[0].delivered();
            world.run_for(Duration::from_secs(5));
            let megabits = (world.neighbours[0].delivered() - before) as f64 * 8e-6 / 5.0;
            assert!((45.0..=50.1).contains(&megabits), "{megabits}");
        }
    }
}
