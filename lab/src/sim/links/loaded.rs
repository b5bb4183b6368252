//! `lab sim link-h` and `link-l`: everything that three paths carry, and media on them in time.

use std::ops::Range;
use std::time::Duration;

use tidegate_link::{LinkOptions, RedundancyName};
use tidegate_types::units::Time;

use super::load::{ALARM, Load, latency, media_on};
use super::scene::{PATIENT, URGENT, payload, world};
use super::statistics::mean;
use super::table::{NONE, Table, Target};
use super::world::World;
use crate::report::Findings;

/// How goodput is looked at.
const PART: Duration = Duration::from_millis(250);
/// Virtual time of a bulk load, and of its start.
const BULK: (f64, f64) = (15.0, 5.0);
/// Media beside alarms, in Mbit/s: about eight tenths of what heavy loss leaves.
const FULL: f64 = 110.0;
/// Time of an alarm in ms: less than any repeat takes.
const ALARM_BOUND: f64 = 150.0;
/// What counts as fast, in Mbit/s.
const FAST: f64 = 90.0;

/// What one of the two scenarios promises.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) loss: [f64; 3],
    pub(super) goodput: f64,
    /// Seconds to `FAST`.
    pub(super) start: Option<Target>,
    /// Longest time without a delivery, seconds.
    pub(super) stall: Option<Target>,
    /// p50 and p99 of media, ms.
    pub(super) media: (f64, f64),
    /// p99 of media that is guarded, ms, and bytes on the wire for each of a record.
    pub(super) guarded: (Option<Target>, Option<Target>),
}

/// Seconds since the start of the longest time without a delivery between then and the end.
pub(super) fn longest_gap(world: &World, since: Time, until: Time) -> f64 {
    let times = world.came.iter().map(|came| came.at).filter(|at| (since..until).contains(at));
    let mut last = since;
    let mut longest = Duration::ZERO;
    for at in times.chain([until]) {
        longest = longest.max(at.since(last));
        last = at;
    }
    longest.as_secs_f64()
}

pub(super) fn run(prefix: &str, promise: &Promise, seeds: Range<u64>) -> Findings {
    let mut table = Table::default();
    for seed in seeds {
        bulk(&mut table, promise, seed);
        let patient = LinkOptions::new(1, 1);
        let (p50, p99) = (Target::AtMost(promise.media.0), Target::AtMost(promise.media.1));
        for (name, megabits) in [("8 Mbit/s", 8.0), ("40 Mbit/s", 40.0)] {
            let (world, since, cost) =
                media_on(world(&patient, promise.loss, seed), megabits, PATIENT, seed);
            let (p50, p99) = if megabits < 40.0 { (NONE, NONE) } else { (Some(p50), Some(p99)) };
            table.add(&format!("media {name} p50"), "ms", p50, latency(&world, since, 50.0));
            table.add(&format!("media {name} p99"), "ms", p99, latency(&world, since, 99.0));
            table.add(&format!("media {name} bytes"), "1", NONE, cost);
        }
        for guard in RedundancyName::ALL {
            let options = LinkOptions { guard, ..LinkOptions::new(1, 1) };
            let (world, since, cost) =
                media_on(world(&options, promise.loss, seed), 40.0, URGENT, seed);
            let is_meant = guard == RedundancyName::Code;
            let target = |target| if is_meant { target } else { NONE };
            let name = format!("media 40 Mbit/s bound 200 ms guard {}", guard.name());
            table.add(&format!("{name} p50"), "ms", NONE, latency(&world, since, 50.0));
            let p99 = latency(&world, since, 99.0);
            table.add(&format!("{name} p99"), "ms", target(promise.guarded.0), p99);
            table.add(&format!("{name} bytes"), "1", target(promise.guarded.1), cost);
        }
        let (p50, p99) = alarms(promise.loss, seed);
        table.add("alarms beside 110 Mbit/s p50", "ms", NONE, p50);
        table.add("alarms beside 110 Mbit/s p99", "ms", Target::AtMost(ALARM_BOUND), p99);
    }
    table.findings(prefix)
}

/// p50 and p99 of alarms on paths that are full of records with time.
fn alarms(loss: [f64; 3], seed: u64) -> (f64, f64) {
    let mut world = world(&LinkOptions::new(1, 1), loss, seed);
    let mut load = Load::new(seed, PATIENT);
    load.media(&mut world, FULL, Duration::from_secs(4));
    world.came.clear();
    let bound = Duration::from_secs_f64(ALARM_BOUND / 1e3);
    load.alarms(&mut world, FULL, Duration::from_secs(8), bound);
    world.came.retain(|came| came.kind == ALARM);
    let p50 = latency(&world, Time::ZERO, 50.0);
    (p50, latency(&world, Time::ZERO, 99.0))
}

fn bulk(table: &mut Table, promise: &Promise, seed: u64) {
    let mut world = world(&LinkOptions::new(1, 1), promise.loss, seed);
    let from = world.now;
    let parts = Load::new(seed, PATIENT).bulk(&mut world, Duration::from_secs_f64(BULK.0), PART);
    let rates = parts.iter().map(|&bytes| bytes as f64 * 8e-6 / PART.as_secs_f64());
    let rates: Vec<f64> = rates.collect();
    let steady = mean(&rates[(BULK.1 / PART.as_secs_f64()) as usize..]);
    // Half a second at that rate, which is reached when it begins.
    let fast = rates.windows(2).position(|pair| mean(pair) >= FAST);
    let fast = fast.map_or(f64::INFINITY, |place| place as f64 * PART.as_secs_f64());
    let settled = from + Duration::from_secs(1);
    table.add("goodput after 5 s", "Mbit/s", Target::AtLeast(promise.goodput), steady);
    table.add("goodput part of the sum", "1", NONE, steady / payload(promise.loss));
    table.add("90 Mbit/s after", "s", promise.start, fast);
    table.add("longest stall", "s", promise.stall, longest_gap(&world, settled, world.now));
}
