//! A node, its log, its spool and its sink, all of them the shipped code, on a disk that may fail in every way that
//! disks do. One thread steps them, so a seed repeats.
//!
//! What must hold: a record that was acknowledged is in the sink at the end, safe against one more power cut, unless
//! the disk destroyed the only copy; and then its segment was named, if anything that is left could tell.
//!
//! `TIDEGATE_SEEDS=100000 cargo test --workspace --lib spool::trial::` plays more worlds, as `make lab` does; a seed that
//! fails is printed with its story and gets a line in `named_seeds`.

mod account;
mod harm;
mod machine;
mod world;

use self::account::Tallies;
use self::harm::Harm;
use self::world::World;

/// Worlds of each kind in a plain `cargo test`.
const SEEDS: u64 = 100;

fn seeds() -> u64 {
    let wanted = std::env::var("TIDEGATE_SEEDS").ok();
    wanted.and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS)
}

/// Lives a seed's world to its end; what breaks names the seed.
fn live(seed: u64, harm: Harm) -> Tallies {
    let outcome = std::panic::catch_unwind(|| {
        let mut world = World::new(seed, harm);
        world.run();
        world.finish()
    });
    outcome.unwrap_or_else(|_| panic!("seed {seed}, {harm:?}"))
}

fn live_all(harm: Harm) -> Tallies {
    (1..=seeds()).map(|seed| live(seed, harm)).sum()
}

#[test]
fn what_was_acknowledged_is_in_the_sink_through_power_cuts_failed_syncs_and_full_disks() {
    let all = live_all(Harm::None);
    assert!(all.cuts > seeds() && all.kills > seeds() / 4, "{all:?}");
    assert!(all.accepted > 20 * seeds() && all.failed > 0 && all.refused > 0, "{all:?}");
    assert_eq!((all.destroyed, all.lost), (0, 0), "{all:?}");
}

#[test]
fn sectors_that_rot_cost_at_most_what_stood_in_them_and_it_is_named() {
    let all = live_all(Harm::Sectors);
    assert!(all.destroyed > 0 && all.lost > 0 && all.named > 0, "{all:?}");
}

#[test]
fn files_that_are_exchanged_shortened_stale_or_gone_take_no_other_with_them() {
    let all = live_all(Harm::Files);
    assert!(all.destroyed > 0 && all.lost > 0 && all.named > 0, "{all:?}");
}

/// Seeds that found something once.
#[test]
fn named_seeds() {
    for seed in [0x0a1a_7fe8_b7ad_705e, 0x91ba_62d7_954e_6f27, 1096] {
        live(seed, Harm::Files);
    }
}
