//! What the link carries, in virtual time: `cargo test -p tidegate-core --test link figures -- --nocapture`
//! prints the figures that these tests hold it to.

use std::time::Duration;

use tidegate_core::link::LinkOptions;
use tidegate_core::testing::{LinkWorld, Seeded, Way};
use tidegate_core::units::{Rate, Size, Time};

/// Megabits, milliseconds one way, kilobytes of queue.
const A: (f64, u64, u64) = (40.0, 70, 500);
const B: (f64, u64, u64) = (40.0, 90, 500);
const C: (f64, u64, u64) = (80.0, 130, 1000);

fn path((mbit, delay, queue): (f64, u64, u64), loss: f64) -> [Way; 2] {
    [Way::new(mbit, delay, queue, loss), Way::new(mbit, delay, queue, 0.0)]
}

pub(crate) fn high() -> Vec<[Way; 2]> {
    vec![path(A, 0.1), path(B, 0.1), path(C, 0.05)]
}

pub(crate) fn low() -> Vec<[Way; 2]> {
    vec![path(A, 0.01), path(B, 0.01), path(C, 0.005)]
}

/// What the paths carry after loss, in Mbit/s of packets.
fn sum(ways: &[[Way; 2]]) -> f64 {
    ways.iter().map(|[there, _]| there.rate.as_bits() / 1e6 * (1.0 - there.loss)).sum()
}

/// Log-uniform records of 1 to 64 KB in turn over 64 streams, always more than the link takes.
pub(crate) fn bulk(world: &mut LinkWorld, seeded: &mut Seeded, end: Time) -> Vec<f64> {
    let mut each = Vec::new();
    let step = Duration::from_millis(10);
    let mut before = world.arrived;
    let mut since = world.now;
    while world.now < end {
        while world.ahead[0].len() < 100 {
            let size = seeded.log_uniform(1000.0, 64_000.0) as usize;
            world.submit(0, seeded.number() % 64, size);
        }
        world.run_for(step);
        if world.now.since(since) >= Duration::from_millis(500) {
            let rate = Rate::of(world.arrived - before, world.now.since(since));
            each.push(rate.as_bits() / 1e6);
            (before, since) = (world.arrived, world.now);
        }
    }
    each
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

/// Media at a rate: Poisson arrivals.
fn media(world: &mut LinkWorld, seeded: &mut Seeded, rate: Rate, end: Time) {
    let mean_size = (64_000.0 - 1000.0) / 64.0_f64.ln();
    let mut next = world.now;
    while next < end {
        world.run_until(next);
        let size = seeded.log_uniform(1000.0, 64_000.0);
        world.submit(0, seeded.number() % 64, size as usize);
        let gap = -(1.0 - seeded.share()).ln() * mean_size / rate.as_f64();
        next += Duration::from_secs_f64(gap);
    }
    world.run_until(end);
}

fn show(world: &LinkWorld, paths: usize) {
    for path in 0..paths {
        let status = world.ends[0].path_status(path);
        println!(
            "    path {path}: {} window {} loss {:.3} srtt {:?} queue {:?} {:?}",
            status.rate,
            status.window.0,
            status.loss_rate.as_f64(),
            status.srtt.unwrap_or_default(),
            status.queue_delay,
            status.counts
        );
    }
    let counts = world.ends[0].counts();
    println!(
        "    repeated {} duplicates {} disordered {}",
        counts.repeated,
        world.ends[1].counts().duplicates,
        world.ends[1].disordered()
    );
}

#[test]
fn bulk_uses_the_sum_of_the_paths() {
    for (name, ways) in [("H", high()), ("L", low())] {
        let mut world = LinkWorld::new(&LinkOptions::new(1, 3), &ways, 7);
        let mut seeded = Seeded(7);
        let end = world.now + Duration::from_secs(10);
        let each = bulk(&mut world, &mut seeded, end);
        println!("{name} bulk: sum {:.0}, each half second {each:.0?}", sum(&ways));
        println!("    steady {:.1} Mbit/s", mean(&each[10..]));
        show(&world, 3);
    }
}

#[test]
fn media_latency() {
    for (name, ways) in [("H", high()), ("L", low())] {
        for mbit in [8.0, 40.0] {
            let mut world = LinkWorld::new(&LinkOptions::new(1, 3), &ways, 7);
            let mut seeded = Seeded(7);
            let start = world.now;
            media(
                &mut world,
                &mut seeded,
                Rate::from_bits(mbit * 1e6),
                start + Duration::from_secs(15),
            );
            let since = start + Duration::from_secs(5);
            let at = |percent| world.latency(since, percent).as_millis();
            println!(
                "{name} media {mbit} Mbit/s: p50 {} p90 {} p99 {} max {}",
                at(50.0),
                at(90.0),
                at(99.0),
                at(100.0)
            );
            show(&world, 3);
        }
    }
    let _ = Size::ZERO;
}
