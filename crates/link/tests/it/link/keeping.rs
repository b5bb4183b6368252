//! Every record once, in order, whatever the paths do.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_capacity::RateControllerName;
use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_link::predict::PredictorName;
use tidegate_link::{LinkOptions, PathHealth, PathOptions, RedundancyName};
use tidegate_testing::support::log_uniform;
use tidegate_testing::{LinkWorld, Way};
use tidegate_types::random::SplitMix;
use tidegate_types::units::{Ratio, Size};

/// Virtual time in which a link comes to its end: the slowest path carries all of it in that.
const END: Duration = Duration::from_secs(600);

fn any_way(seeded: &mut SplitMix) -> Way {
    let mut way = Way::new(
        log_uniform(seeded, 0.3, 60.0),
        log_uniform(seeded, 1.0, 300.0) as u64,
        log_uniform(seeded, 20.0, 1000.0) as u64,
        [0.0, 0.01, 0.1, 0.3][seeded.number() as usize % 4],
    );
    way.burst = [1.0, 1.0, 8.0][seeded.number() as usize % 3];
    way.twice = [0.0, 0.0, 0.2][seeded.number() as usize % 3];
    way.jitter = Duration::from_millis([0, 0, 30][seeded.number() as usize % 3]);
    way
}

fn any_options(seeded: &mut SplitMix) -> LinkOptions {
    let (schedules, predictors) = (PathSchedulerName::ALL, PredictorName::ALL);
    LinkOptions {
        receive_window: Size::from_kib([128, 200, 4096][seeded.number() as usize % 3]),
        memory: Size::from_kib([200, 1024][seeded.number() as usize % 2]),
        unsettled_max: [20, 10_000][seeded.number() as usize % 2],
        packet_max: [600, 1350][seeded.number() as usize % 2],
        controller: [RateControllerName::Tide, RateControllerName::Tide, RateControllerName::Bbr]
            [seeded.number() as usize % 3],
        schedule: schedules[seeded.number() as usize % schedules.len()],
        predictor: predictors[seeded.number() as usize % predictors.len()],
        guard: RedundancyName::ALL[seeded.number() as usize % 3],
        guard_share: Ratio::new([0.1, 0.45, 1.0][seeded.number() as usize % 3]),
        decreases_on_loss: seeded.number().is_multiple_of(2),
        spares_shared: seeded.number().is_multiple_of(2),
        doubles_repeats: seeded.number().is_multiple_of(2),
        ..LinkOptions::new(1, 1)
    }
}

/// A link of any kind, whose paths die, return and are taken away while both ends send.
fn live(seed: u64) -> LinkWorld {
    let seeded = &mut SplitMix(seed);
    let count = 1 + seeded.number() as usize % 4;
    let ways: Vec<[Way; 2]> = (0..count).map(|_| [any_way(seeded), any_way(seeded)]).collect();
    let mut world = LinkWorld::new(&any_options(seeded), &ways, seed);
    for _ in 0..30 {
        let path = seeded.number() as usize % count;
        match seeded.number() % 8 {
            0 => world.kill(path, false),
            1 | 2 => world.kill(path, true),
            3 => {
                let now = world.now;
                world.ends[seeded.number() as usize % 2].path_down(path, now + world.skew);
            }
            4 => world.path_up(path, PathOptions::default()),
            _ => {}
        }
        for _ in 0..seeded.number() % 12 {
            let end = usize::from(seeded.number().is_multiple_of(4));
            let size = log_uniform(seeded, 16.0, 100_000.0) as usize;
            world.bound = Duration::from_millis(log_uniform(seeded, 10.0, 1000.0) as u64);
            world.submit(end, seeded.number() % 5, size);
        }
        world.run_for(Duration::from_secs_f64(log_uniform(seeded, 0.001, 2.0)));
    }
    for path in 0..count {
        world.kill(path, true);
        world.path_up(path, PathOptions::default());
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// That each comes once, whole and in its order, and that no bound is exceeded, the world checks at
    /// every step.
    #[test]
    fn every_record_arrives_once_and_in_order_whatever_the_paths_do(seed in any::<u64>()) {
        let mut world = live(seed);
        let end = world.now + END;
        while world.unsettled() > 0 && world.now < end {
            world.run_for(Duration::from_secs(1));
        }
        prop_assert_eq!((world.missing(), world.unsettled()), (0, 0));
        for end in &world.ends {
            prop_assert_eq!(end.held(), (Size::ZERO, Size::ZERO));
            prop_assert_eq!(end.unsettled(), 0);
        }
    }
}

/// A part that was overdue and waited for its record's hedge went never, for that was not paid for.
#[test]
fn what_may_be_lost_goes_again_although_no_copy_is_paid_for() {
    // In the second, it had failed before.
    for seed in [800_049_976_043_996_431, 15_862_940_801_367_520_802] {
        let mut world = live(seed);
        world.run_for(END);
        assert_eq!((world.missing(), world.unsettled()), (0, 0), "{seed}");
    }
}

fn two_paths() -> Vec<[Way; 2]> {
    vec![[Way::new(20.0, 20, 200, 0.01); 2], [Way::new(20.0, 50, 200, 0.01); 2]]
}

/// A stream of records of 2 KB, one each 4 ms, for so long.
fn steady(world: &mut LinkWorld, span: Duration) {
    let end = world.now + span;
    while world.now < end {
        world.submit(0, 1, 2000);
        world.run_for(Duration::from_millis(4));
    }
}

#[test]
fn a_path_that_dies_loses_nothing_and_returns() {
    let mut world = LinkWorld::new(&LinkOptions::new(1, 2), &two_paths(), 1);
    steady(&mut world, Duration::from_secs(3));
    world.kill(0, false);
    let died = world.now;
    steady(&mut world, Duration::from_secs(3));
    assert!(matches!(world.turns[..], [(_, 0, PathHealth::Dead)]), "{:?}", world.turns);
    assert!(world.turns[0].0.since(died) < Duration::from_millis(300));
    world.kill(0, true);
    steady(&mut world, Duration::from_secs(4));
    assert!(matches!(world.turns[..], [_, (_, 0, PathHealth::Up)]), "{:?}", world.turns);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.missing(), 0);
    // The bound of the whole: one probe time-out, the way by the other path, and what waits before it.
    let longest = world.latency(died, 100.0, None);
    assert!(longest < Duration::from_millis(400), "{longest:?}");
}

#[test]
fn with_all_paths_dead_records_are_kept_and_given_back() {
    let mut world = LinkWorld::new(&LinkOptions::new(1, 2), &two_paths(), 2);
    (0..2).for_each(|path| world.kill(path, false));
    (0..10).for_each(|stream| world.submit(0, stream, 1000));
    world.run_for(Duration::from_secs(60));
    assert_eq!((world.missing(), world.arrived), (10, Size::ZERO));
    let kept = world.ends[0].close();
    assert_eq!(kept.len() + world.ahead[0].len(), 10);
    assert_eq!(world.ends[0].held().0, Size::ZERO);
}
