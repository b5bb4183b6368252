//! What the link is given to carry.

use std::time::Duration;

use tidegate_types::units::{Rate, Time};

use super::statistics::percentile;
use super::world::{Job, World};
use crate::sim::random::Random;

/// Bytes of a record, each power of two as likely as any other.
const SIZES: (f64, f64) = (1000.0, 64_000.0);
/// Time between two looks whether a bulk load has enough ahead.
const LOOK: Duration = Duration::from_millis(10);
/// Records that it keeps ahead.
const AHEAD: usize = 100;
/// Virtual time of media, of which the last two thirds count.
const MEDIA_SECONDS: f64 = 12.0;
/// Name of the records of both.
pub const MEDIA: u8 = 0;
/// Name of small records without time beside them.
pub const ALARM: u8 = 1;

/// A load: its numbers, and how its records are.
#[derive(Clone, Debug)]
pub struct Load {
    random: Random,
    /// Streams that records belong to.
    pub streams: u64,
    /// How long each may take.
    pub bound: Duration,
}

impl Load {
    /// Records of 64 streams.
    pub fn new(seed: u64, bound: Duration) -> Self {
        Load { random: Random::new(seed, 40), streams: 64, bound }
    }

    fn size(&mut self) -> usize {
        (SIZES.0 * (SIZES.1 / SIZES.0).powf(self.random.share())) as usize
    }

    fn job(&mut self) -> Job {
        let (size, stream) = (self.size(), self.random.between(0, self.streams - 1));
        Job { stream, size, bound: self.bound, kind: MEDIA }
    }

    /// Records that come as they like (Poisson), at so many Mbit/s on average, for so long.
    pub fn media(&mut self, world: &mut World, megabits: f64, span: Duration) {
        let mean = (SIZES.1 - SIZES.0) / (SIZES.1 / SIZES.0).ln();
        let per_second = Rate::from_bits(megabits * 1e6).as_f64() / mean;
        let end = world.now + span;
        let mut next = world.now;
        while next < end {
            world.run_until(next);
            let job = self.job();
            world.submit(job);
            next += self.random.interval(per_second);
        }
        world.run_until(end);
    }

    /// Media, and an alarm of 200 bytes each 20 ms that may take so long.
    pub fn alarms(&mut self, world: &mut World, megabits: f64, span: Duration, bound: Duration) {
        const EACH: Duration = Duration::from_millis(20);
        let end = world.now + span;
        while world.now < end {
            world.submit(Job { stream: self.streams, size: 200, bound, kind: ALARM });
            self.media(world, megabits, EACH);
        }
    }

    /// More than the link takes, for so long. Answers the bytes that came in each `part`.
    pub fn bulk(&mut self, world: &mut World, span: Duration, part: Duration) -> Vec<u64> {
        let (end, mut parts) = (world.now + span, Vec::new());
        let (mut since, mut before): (Time, u64) = (world.now, world.bytes);
        while world.now < end {
            while world.waiting() < AHEAD {
                let job = self.job();
                world.submit(job);
            }
            world.run_for(LOOK);
            if world.now.since(since) >= part {
                parts.push(world.bytes - before);
                (since, before) = (world.now, world.bytes);
            }
        }
        parts
    }
}

/// Percentile of the latencies of what came from then on, in ms.
pub fn latency(world: &World, since: Time, percent: f64) -> f64 {
    let came = world.came.iter().filter(|came| came.at >= since);
    let all: Vec<f64> = came.map(|came| came.latency.as_secs_f64() * 1e3).collect();
    percentile(&all, percent)
}

/// Media from nothing. Answers the world, since when it counts, and bytes on the wire for each of a record.
pub fn media_on(mut world: World, megabits: f64, bound: Duration, seed: u64) -> (World, Time, f64) {
    let mut load = Load::new(seed, bound);
    load.media(&mut world, megabits, Duration::from_secs_f64(MEDIA_SECONDS / 3.0));
    let (since, sent, bytes) = (world.now, world.sent, world.bytes);
    load.media(&mut world, megabits, Duration::from_secs_f64(MEDIA_SECONDS * 2.0 / 3.0));
    let cost = (world.sent - sent) as f64 / (world.bytes - bytes) as f64;
    (world, since, cost)
}
