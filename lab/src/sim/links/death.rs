//! `lab sim link-death`: each path dies under media and returns.

use std::ops::Range;
use std::time::Duration;

use tidegate_link::{LinkOptions, PathHealth};

use super::load::Load;
use super::loaded::longest_gap;
use super::scene::{LIGHT, PATHS, PATIENT, world};
use super::table::{NONE, Table, Target};
use super::world::World;
use crate::link::Change;
use crate::report::Findings;

/// Media, in Mbit/s.
const MEDIA: f64 = 16.0;
/// What a gap may be beyond a probe time-out and a way, in ms.
const ALLOWANCE: f64 = 50.0;

/// A probe time-out of a path that takes so many milliseconds one way and does not vary: an eighth of the round trip
/// beyond it, and 5 ms for an acknowledgement that is held.
fn probe_timeout(delay: f64) -> f64 {
    2.0 * delay * 9.0 / 8.0 + 5.0
}

/// Both ways of a path change.
fn change(world: &mut World, path: usize, what: Change) {
    let now = world.now;
    world.ways[2 * path..][..2].iter_mut().for_each(|way| way.change(now, what.clone()));
}

pub(in crate::sim) fn run(seeds: Range<u64>) -> Findings {
    let mut table = Table::default();
    for (path, name) in ["A", "B", "C"].into_iter().enumerate() {
        let others = PATHS.iter().enumerate().filter(|(other, _)| *other != path);
        let way = others.map(|(_, (_, delay, _))| *delay).min().unwrap_or_default() as f64;
        let most = probe_timeout(PATHS[path].1 as f64) + way + ALLOWANCE;
        for seed in seeds.clone() {
            let mut world = world(&LinkOptions::new(1, 1), LIGHT, seed);
            let mut load = Load::new(seed, PATIENT);
            load.media(&mut world, MEDIA, Duration::from_secs(6));
            let died = world.now;
            change(&mut world, path, Change::Up(false));
            load.media(&mut world, MEDIA, Duration::from_secs(4));
            let back = world.now;
            change(&mut world, path, Change::Up(true));
            load.media(&mut world, MEDIA, Duration::from_secs(4));
            world.run_for(Duration::from_secs(3));
            let mut add = |what: &str, unit, target: Option<Target>, value| {
                table.add(&format!("{name} dies: {what}"), unit, target, value);
            };
            add(
                "longest gap",
                "ms",
                Some(Target::AtMost(most)),
                longest_gap(&world, died, back) * 1e3,
            );
            let slowest = world.came.iter().filter(|came| came.at >= died).map(|came| came.latency);
            let slowest = slowest.max().unwrap_or_default().as_secs_f64() * 1e3;
            add("slowest record", "ms", NONE, slowest);
            let turn = |state| {
                let turn = world.turns.iter().find(|(_, on, is)| *on == path && *is == state);
                turn.map_or(f64::INFINITY, |(at, ..)| at.since(died).as_secs_f64() * 1e3)
            };
            add("known to be dead after", "ms", NONE, turn(PathHealth::Dead));
            let again = turn(PathHealth::Up) - back.since(died).as_secs_f64() * 1e3;
            add("in use after its return", "ms", NONE, again);
            // That none came twice is checked by the world at every step.
            add("records lost", "1", Some(Target::AtMost(0.0)), world.missing() as f64);
        }
    }
    table.findings("link_death")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_may_die_and_return_and_nothing_is_lost() {
        let lines = run(7..8).lines;
        let met = |what: &str| {
            let rows = lines.iter().filter(|line| line.contains(what));
            rows.filter(|line| line.ends_with(": met")).count()
        };
        assert_eq!([met("records lost"), met("longest gap")], [3, 3], "{lines:#?}");
    }
}
