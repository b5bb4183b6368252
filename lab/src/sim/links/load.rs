//! What the link is given to carry.

use std::time::Duration;

use tidegate_types::units::{Rate, Time};

use super::world::{Job, World};
use crate::sim::random::Random;

/// Bytes of a record, each power of two as likely as any other.
const SIZES: (f64, f64) = (1000.0, 64_000.0);
/// Time between two looks whether a bulk load has enough ahead.
const LOOK: Duration = Duration::from_millis(10);
/// Records that it keeps ahead.
const AHEAD: usize = 100;
/// Name of the records of both.
pub(super) const MEDIA: u8 = 0;
/// Name of small records without time beside them.
pub(super) const ALARM: u8 = 1;

/// A load: its numbers, and how its records are.
#[derive(Clone, Debug)]
pub(super) struct Load {
    random: Random,
    /// Streams that records belong to.
    pub(super) streams: u64,
    /// How long each may take.
    pub(super) bound: Duration,
}

impl Load {
    /// Records of 64 streams.
    pub(super) fn new(seed: u64, bound: Duration) -> Self {
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
    pub(super) fn media(&mut self, world: &mut World, megabits: f64, span: Duration) {
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
    pub(super) fn alarms(
        &mut self,
        world: &mut World,
        megabits: f64,
        span: Duration,
        bound: Duration,
    ) {
        const EACH: Duration = Duration::from_millis(20);
        let end = world.now + span;
        while world.now < end {
            world.submit(Job { stream: self.streams, size: 200, bound, kind: ALARM });
            self.media(world, megabits, EACH);
        }
    }

    /// More than the link takes, for so long. Answers the bytes that came in each `part`.
    pub(super) fn bulk(&mut self, world: &mut World, span: Duration, part: Duration) -> Vec<u64> {
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
