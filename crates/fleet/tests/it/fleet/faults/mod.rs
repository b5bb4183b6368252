//! Whole fleets in which anything may die, stand still or be cut off, with clocks that agree on nothing.
//!
//! `TIDEGATE_SEEDS=5000 cargo test -p tidegate-fleet --test it fleet::faults` plays more worlds; a seed that fails is
//! printed and gets a test of its own.

mod node;

use tidegate_testing::fleets::{Checks, Member, Whole, World};

use node::Node;

fn play<N: Member>(seed: u64) -> Checks {
    let mut with = World::<N>::new(seed, true).run();
    let alone = World::<N>::new(seed, false).run();
    with.compare(&alone);
    with
}

/// Plays seeds; answers with sums of what happened.
fn play_all<N: Member>(seeds: impl Iterator<Item = u64>) -> [u64; 5] {
    let mut sums = [0; 5];
    let mut failed = Vec::new();
    for seed in seeds {
        let checks = play::<N>(seed);
        if !checks.broken.is_empty() {
            failed.push((seed, checks.broken));
            continue;
        }
        let Checks { redirected, duplicates, elections, refused, overgranted, .. } = checks;
        let seen = [redirected, duplicates, elections, refused, overgranted];
        sums.iter_mut().zip(seen).for_each(|(sum, one)| *sum += one);
    }
    assert!(failed.is_empty(), "{} seeds: {:#?}", failed.len(), &failed[..failed.len().min(5)]);
    sums
}

/// Worlds in a plain `cargo test`; `make test-full` plays 1,000.
const SEEDS: u64 = 200;

fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test's own setting, no part of the room")]
    let wanted = std::env::var("TIDEGATE_SEEDS").ok();
    wanted.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

#[test]
fn promises_hold_whatever_fails() {
    let sums = play_all::<Node>(0..seeds());
    // Worlds in which nothing happens prove nothing.
    assert!(sums.iter().all(|sum| *sum > 0), "{sums:?}");
}

#[test]
fn whole_nodes_keep_their_promises_whatever_fails() {
    // A deposed leader's word comes late in one world of 140; in this one it does.
    let sums = play_all::<Whole>((0..seeds()).chain([206]));
    assert!(sums.iter().all(|sum| *sum > 0), "{sums:?}");
}
