//! What the link carries, in virtual time. `cargo test -p tidegate-link --test it figures -- --nocapture`
//! prints the figures that these tests hold it to.

use std::time::Duration;

use tidegate_link::{LinkOptions, PathHealth, PathOptions};
use tidegate_testing::support::log_uniform;
use tidegate_testing::{LinkWorld, OVERHEAD, Way};
use tidegate_types::random::SplitMix;
use tidegate_types::units::{Rate, Size, Time};

/// Megabits, milliseconds one way, kilobytes of queue: the paper's Table 1 with the queues of our own
/// measurements.
const PATHS: [(f64, u64, u64); 3] = [(40.0, 70, 500), (40.0, 90, 500), (80.0, 130, 1000)];
/// Loss of each path: heavy, light, none.
const HEAVY: [f64; 3] = [0.1, 0.1, 0.05];
const LIGHT: [f64; 3] = [0.01, 0.01, 0.005];
const NONE: [f64; 3] = [0.0; 3];
/// The seed of every run: others differ by a few per cent.
const SEED: u64 = 7;
/// Streams that records belong to.
const STREAMS: u64 = 64;

/// Some of the paths, which lose packets on the way there.
fn ways(places: &[usize], loss: [f64; 3]) -> Vec<[Way; 2]> {
    let way = |place: usize, loss| {
        let (mbit, delay, queue) = PATHS[place];
        Way::new(mbit, delay, queue, loss)
    };
    places.iter().map(|&place| [way(place, loss[place]), way(place, 0.0)]).collect()
}

/// What the paths can carry of records after loss, in Mbit/s: a packet of 1350 bytes has about 20 of its
/// own, and more below it.
fn payload(ways: &[[Way; 2]]) -> f64 {
    let share = 1330.0 / (1350.0 + OVERHEAD as f64);
    ways.iter().map(|[there, _]| there.rate.as_bits() / 1e6 * (1.0 - there.loss) * share).sum()
}

fn world(ways: &[[Way; 2]], seed: u64) -> LinkWorld {
    LinkWorld::new(&LinkOptions::new(1, 1), ways, seed)
}

fn seconds(world: &LinkWorld, seconds: f64) -> Time {
    world.now + Duration::from_secs_f64(seconds)
}

fn size(seeded: &mut SplitMix) -> usize {
    log_uniform(seeded, 1000.0, 64_000.0) as usize
}

/// More records than the link takes, for so long. Answers the goodput of each quarter second, Mbit/s.
fn bulk(world: &mut LinkWorld, seed: u64, span: f64) -> Vec<f64> {
    const PART: Duration = Duration::from_millis(250);
    let (mut seeded, end) = (SplitMix(seed), seconds(world, span));
    let (mut each, mut before, mut since) = (Vec::new(), world.arrived, world.now);
    while world.now < end {
        while world.ahead[0].len() < 100 {
            let size = size(&mut seeded);
            world.submit(0, seeded.number() % STREAMS, size);
        }
        world.run_for(Duration::from_millis(10));
        if world.now.since(since) >= PART {
            each.push(Rate::of(world.arrived - before, PART).as_bits() / 1e6);
            (before, since) = (world.arrived, world.now);
        }
    }
    each
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

/// Records that come as they like (Poisson), at so many Mbit/s on average.
fn media(world: &mut LinkWorld, seeded: &mut SplitMix, mbit: f64, span: f64) {
    let mean_size = 63_000.0 / 64.0_f64.ln();
    let (end, rate) = (seconds(world, span), Rate::from_bits(mbit * 1e6));
    let mut next = world.now;
    while next < end {
        world.run_until(next);
        let size = size(seeded);
        world.submit(0, seeded.number() % STREAMS, size);
        let gap = -(1.0 - seeded.share()).ln() * mean_size / rate.as_f64();
        next += Duration::from_secs_f64(gap);
    }
    world.run_until(end);
}

/// Milliseconds of p50, p90, p99 and the slowest of what arrived from then on.
fn latencies(world: &LinkWorld, since: Time) -> [u128; 4] {
    [50.0, 90.0, 99.0, 100.0].map(|percent| world.latency(since, percent, None).as_millis())
}

#[test]
fn several_paths_carry_nearly_their_sum() {
    for (name, loss) in [("heavy", HEAVY), ("no", NONE)] {
        let ways = ways(&[0, 1, 2], loss);
        let each = bulk(&mut world(&ways, SEED), SEED, 5.0);
        let part = mean(&each[12..]) / payload(&ways);
        println!("{name} loss: {part:.3} of the sum");
        assert!(part > 0.9, "{part}");
    }
}

#[test]
fn the_paths_are_full_within_a_second_and_a_half_and_sooner_where_rates_are_remembered() {
    for (name, loss) in [("heavy", HEAVY), ("light", LIGHT)] {
        let ways = ways(&[0, 1, 2], loss);
        let fresh = bulk(&mut world(&ways, SEED), SEED, 3.0);
        let mut known = world(&ways, SEED);
        for (path, (mbit, ..)) in PATHS.into_iter().enumerate() {
            let remembered = Some(Rate::from_bits(mbit * 1e6));
            known.path_up(path, PathOptions { remembered, ..PathOptions::default() });
        }
        let known = bulk(&mut known, SEED, 3.0);
        println!("{name} loss, quarter seconds: fresh {fresh:.0?}\n    remembered {known:.0?}");
        assert!(mean(&fresh[4..8]) > 90.0, "{fresh:?}");
        assert!(mean(&known[..4]) > mean(&fresh[..4]), "{known:?}");
    }
}

#[test]
fn records_without_time_for_a_repeat_are_in_time_for_half_as_many_bytes_again() {
    let mut world = world(&ways(&[0, 1, 2], HEAVY), SEED);
    bulk(&mut world, SEED, 2.0);
    world.run_for(Duration::from_secs(1));
    world.bound = Duration::from_millis(200);
    let (since, sent, arrived) = (seconds(&world, 1.0), world.sent(0), world.arrived);
    media(&mut world, &mut SplitMix(SEED), 40.0, 4.0);
    let figures = latencies(&world, since);
    let cost = (world.sent(0) - sent).as_f64() / (world.arrived - arrived).as_f64();
    println!("heavy loss, 200 ms: p50/p90/p99/max {figures:?} ms for {cost:.2} of the bytes");
    assert!(figures[0] < 110 && figures[2] < 200 && cost < 1.5, "{figures:?} {cost}");
}

#[test]
fn an_alarm_is_in_time_on_paths_that_are_full_of_records_with_time() {
    const ALARM: u64 = 1000;
    let mut world = world(&ways(&[0, 1, 2], HEAVY), SEED);
    let mut seeded = SplitMix(SEED);
    bulk(&mut world, SEED, 2.0);
    media(&mut world, &mut seeded, 110.0, 2.0);
    let (since, end) = (world.now, seconds(&world, 4.0));
    while world.now < end {
        world.bound = Duration::from_millis(150);
        world.submit(0, ALARM, 200);
        // What is before the link is the node's, which lets the urgent go first.
        if let Some(alarm) = world.ahead[0].pop_back_if(|(_, stream, _)| *stream == ALARM) {
            let before = world.ahead[0].iter().take_while(|(_, stream, _)| *stream == ALARM);
            let place = before.count();
            world.ahead[0].insert(place, alarm);
        }
        world.bound = Duration::from_secs(2);
        media(&mut world, &mut seeded, 110.0, 0.020);
    }
    let alarms = [50.0, 99.0].map(|part| world.latency(since, part, Some(ALARM)).as_millis());
    println!("alarms beside 110 Mbit/s at heavy loss: p50/p99 {alarms:?} ms of 150");
    // One that is lost in all its copies holds up the ten that follow in its stream.
    assert!(alarms[0] < 110 && alarms[1] < 300, "{alarms:?}");
}

/// The first records of a link, when nothing is known of its paths: a packet that was lost waited for a time-out
/// that was a guess, and its record for 0.7 s.
#[test]
fn an_alarm_in_a_cold_start_under_heavy_loss_waits_for_no_time_out() {
    const ALARM: u64 = 1000;
    let mut slowest = Duration::ZERO;
    for seed in 0..60 {
        let mut world = world(&ways(&[0, 1, 2], HEAVY), seed);
        world.bound = Duration::from_millis(150);
        for _ in 0..25 {
            world.submit(0, ALARM, 200);
            world.run_for(Duration::from_millis(20));
        }
        world.run_for(Duration::from_secs(2));
        assert_eq!(world.missing(), 0);
        slowest = slowest.max(world.latency(Time::ZERO, 100.0, None));
    }
    println!("alarms in a cold start at heavy loss: slowest of 60 starts {slowest:?}");
    assert!(slowest < Duration::from_millis(400), "{slowest:?}");
}

#[test]
fn a_death_costs_one_time_out_and_the_way_round() {
    let mut world = world(&ways(&[0, 1, 2], LIGHT), SEED);
    let mut seeded = SplitMix(SEED);
    media(&mut world, &mut seeded, 16.0, 6.0);
    let died = world.now;
    world.kill(0, false);
    media(&mut world, &mut seeded, 16.0, 4.0);
    let back = world.now;
    world.kill(0, true);
    media(&mut world, &mut seeded, 16.0, 4.0);
    world.run_for(Duration::from_secs(2));
    let times = world.came.iter().map(|came| came.at).filter(|&at| at >= died && at < back);
    let mut times: Vec<Time> = times.collect();
    times.insert(0, died);
    let gap = times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap_or_default();
    let turns: Vec<_> =
        world.turns.iter().map(|(at, path, state)| (at.since(died), path, state)).collect();
    let slowest = world.latency(died, 100.0, None);
    println!(
        "a path dies: gap {gap:?}, slowest {slowest:?}, then {:?}, turns {turns:?}",
        latencies(&world, died)
    );
    assert_eq!(world.missing(), 0);
    assert!(matches!(turns[..], [(_, 0, PathHealth::Dead), (_, 0, PathHealth::Up)]), "{turns:?}");
    // A probe time-out of the path that died (140 + 17.5 + 5), 90 ms by the next one, and 50.
    assert!(gap < Duration::from_millis(303), "{gap:?}");
}

#[test]
fn a_small_receive_window_is_used() {
    for kib in [128, 256, 512] {
        let receive_window = Size::from_kib(kib);
        let options = LinkOptions { receive_window, ..LinkOptions::new(1, 1) };
        let each = bulk(&mut LinkWorld::new(&options, &ways(&[0, 1, 2], NONE), SEED), SEED, 8.0);
        let most = receive_window.as_f64() * 8.0 / 0.140 / 1e6;
        let steady = mean(&each[12..]);
        println!("window {kib} KiB: {steady:.1} of {most:.1} Mbit/s");
        assert!(steady > 0.5 * most, "{steady} of {most}");
    }
}

#[test]
fn fifty_kilobits_are_enough() {
    let mut world = world(&[[Way::new(0.05, 300, 20, 0.02); 2]], SEED);
    for _ in 0..120 {
        world.submit(0, 1, 1000);
        world.run_for(Duration::from_millis(250));
    }
    world.run_for(Duration::from_secs(5));
    // The first train takes a second and a half of such a path, and the start fills its queue.
    let started = Time::from_millis(16_000);
    let [whole, later] = [Time::ZERO, started].map(|since| latencies(&world, since));
    println!("32 on a path of 50 kbit/s: p50/p90/p99/max {whole:?} ms, after 15 s {later:?}");
    assert_eq!(world.missing(), 0);
    assert!(whole[0] < 2000 && later[0] < 2000, "{whole:?} {later:?}");
}
