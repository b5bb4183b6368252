//! A node, its log on a disk in memory, publishers and far ends, through crashes: what was accepted
//! arrives, nothing else does, and what arrives twice is counted.
//!
//! `TIDEGATE_SEEDS=5000 cargo test -p tidegate-core --test crash` runs more worlds; a seed that fails is
//! printed and gets a line in `named_seeds`.

mod far;
mod life;
mod world;

use life::{Faults, Life};

/// Worlds in a plain `cargo test`.
const SEEDS: u64 = 400;

fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test's own setting, no part of core")]
    let wanted = std::env::var("TIDEGATE_SEEDS").ok();
    wanted.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

/// Lives a seed's world to its end; what breaks names the seed.
fn live(seed: u64, faults: Faults, crash_at: Option<usize>) -> Life {
    let outcome = std::panic::catch_unwind(|| {
        let mut life = Life::new(seed, faults);
        life.run(crash_at);
        life.finish();
        life
    });
    outcome.unwrap_or_else(|_| panic!("seed {seed}, {faults:?}, crash at {crash_at:?}"))
}

#[test]
fn what_was_accepted_arrives_through_any_crashes() {
    let (mut crashes, mut again, mut read_back, mut refused) = (0, 0, 0, 0);
    for seed in 1..=seeds() {
        let life = live(seed, Faults::Honest, None);
        crashes += life.crashes;
        again += life.far.again();
        read_back += life.read_back;
        refused += life.refused_by_log;
    }
    assert!(crashes > seeds() && again > 0 && read_back > seeds(), "{crashes} {again} {read_back}");
    assert!(refused > 0, "no world had a full disk");
}

#[test]
fn a_crash_at_every_step_of_some_worlds() {
    for seed in 1..=(seeds() / 80).max(1) {
        for step in 0..life::STEPS {
            live(seed, Faults::Honest, Some(step));
        }
    }
}

#[test]
fn flipped_bits_lose_at_most_what_is_named() {
    let mut damaged = 0;
    for seed in 1..=seeds() {
        damaged += live(seed, Faults::Flips, None).damaged;
    }
    assert!(damaged > 0, "no bit was flipped");
}

/// Seeds that found something once.
#[test]
fn named_seeds() {
    for seed in [50, 59, 149, 232, 1505, 3988] {
        live(seed, Faults::Honest, None);
        live(seed, Faults::Flips, None);
    }
}
