//! A node, its log on a disk in memory, publishers, readers, clocks and far ends, through crashes: what was
//! accepted arrives, nothing else does, nothing is accepted twice, and what arrives twice is counted.
//!
//! `TIDEGATE_SEEDS=5000 cargo test -p tidegate-testing --test it crash::` runs more worlds; a seed that fails is
//! printed and gets a line in `named_seeds`.

mod book;
mod clock;
mod far;
mod life;
mod publisher;
mod reader;
mod world;

use self::life::{Faults, Life, Scope};

/// Worlds of each kind in a plain `cargo test`; `make test-full` plays 1,000.
const SEEDS: u64 = 100;

fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test's own setting, no part of a room")]
    let wanted = std::env::var("TIDEGATE_SEEDS").ok();
    wanted.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

/// Lives a seed's world to its end; what breaks names the seed.
fn live(seed: u64, faults: Faults, scope: Scope, crash_at: Option<usize>) -> Life {
    let outcome = std::panic::catch_unwind(|| {
        let mut life = Life::new(seed, faults, scope);
        life.run(crash_at);
        life.finish();
        life
    });
    outcome.unwrap_or_else(|_| panic!("seed {seed}, {faults:?}, {scope:?}, crash at {crash_at:?}"))
}

#[test]
fn what_was_accepted_arrives_through_any_crashes() {
    let (mut crashes, mut again, mut read_back, mut refused) = (0, 0, 0, 0);
    let (mut expired, mut known_again, mut reloads) = (0, 0, 0);
    for seed in 1..=seeds() {
        let life = live(seed, Faults::Honest, Scope::Wide, None);
        again += life.far.again();
        let tallies = life.tallies;
        crashes += tallies.crashes;
        read_back += tallies.read_back;
        refused += tallies.refused_by_log;
        expired += tallies.expired;
        known_again += tallies.known_again;
        reloads += tallies.reloads;
    }
    assert!(crashes > seeds() && again > 0 && read_back > seeds(), "{crashes} {again} {read_back}");
    assert!(refused > 0, "no world had a full disk");
    let is_wide = expired > seeds() && known_again > seeds() && reloads > seeds();
    assert!(is_wide, "{expired} expired, {known_again} known again, {reloads} reloads");
}

#[test]
fn a_crash_at_every_step_of_some_worlds() {
    for seed in 1..=(seeds() / 100).max(1) {
        for step in 0..life::STEPS {
            live(seed, Faults::Honest, Scope::Wide, Some(step));
        }
    }
}

#[test]
fn sectors_that_a_power_cut_left_out_cost_nothing_that_was_promised() {
    let mut crashes = 0;
    for seed in 1..=seeds() {
        crashes += live(seed, Faults::Holes, Scope::Wide, None).tallies.crashes;
    }
    assert!(crashes > seeds(), "{crashes} crashes");
}

#[test]
fn flipped_bits_lose_at_most_what_is_named() {
    let mut damaged = 0;
    for seed in 1..=seeds() {
        damaged += live(seed, Faults::Flips, Scope::Wide, None).tallies.damaged;
    }
    assert!(damaged > 0, "no bit was flipped");
}

/// Seeds that found something once.
#[test]
fn named_seeds() {
    for seed in [50, 59, 149, 232, 1505, 3988] {
        live(seed, Faults::Honest, Scope::Narrow, None);
        live(seed, Faults::Flips, Scope::Narrow, None);
    }
    for seed in [12, 15, 18, 21, 146, 409] {
        live(seed, Faults::Honest, Scope::Wide, None);
    }
    for (seed, step) in [(1, 0), (3, 175), (4, 63), (8, 81)] {
        live(seed, Faults::Honest, Scope::Wide, Some(step));
    }
    live(1052, Faults::Holes, Scope::Wide, None);
    live(4618, Faults::Flips, Scope::Wide, None);
}
