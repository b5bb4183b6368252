//! Cross traffic: packets of others that take their part of the queue and of the wire, and go nowhere.
//!
//! The packet sizes are those of FD-MVQS, section 5.1. The sources are on and off for times of a Pareto
//! distribution; the paper does not print its parameters, so they are those of ns-2: half a second each
//! on average, shape 1.5. This is the part that does not answer to loss (the paper's UDP).

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::sim::random::Random;

/// Sizes and how often each comes, in thousandths.
const MIX: [(u64, u64); 5] = [(44, 490), (576, 12), (628, 21), (1300, 17), (1500, 460)];
/// No span is longer than so many times the mean: with this shape the tail has no variance, and a source
/// would be silent for hours.
const LONGEST: f64 = 100.0;

/// What others send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cross {
    /// On average, all together.
    pub rate: Rate,
    /// Independent sources.
    pub sources: usize,
    /// How long a source sends, on average.
    pub on: Duration,
    /// How long it is silent, on average.
    pub off: Duration,
    /// Of the Pareto distribution of both; > 1.
    pub shape: f64,
}

impl Cross {
    /// Eight sources with the times of ns-2.
    pub fn of(rate: Rate) -> Self {
        let half = Duration::from_millis(500);
        Cross { rate, sources: 8, on: half, off: half, shape: 1.5 }
    }

    /// What one source sends while it is on.
    fn peak(&self) -> Rate {
        let (on, off) = (self.on.as_secs_f64(), self.off.as_secs_f64());
        self.rate.times((on + off) / on.max(1e-9) / self.sources.max(1) as f64)
    }
}

#[derive(Clone, Copy, Debug)]
struct Source {
    next: Time,
    /// When it falls silent.
    until: Time,
}

#[derive(Clone, Debug)]
pub struct Sources {
    cross: Cross,
    sources: Vec<Source>,
    random: Random,
}

impl Sources {
    /// They begin at any point of their silence.
    pub fn new(cross: Cross, now: Time, mut random: Random) -> Self {
        let first = |_| {
            let next = now + random.span(Duration::ZERO, cross.on + cross.off);
            Source { next, until: next + pareto(&mut random, cross.on, cross.shape) }
        };
        let count = if cross.rate.is_zero() { 0 } else { cross.sources };
        let sources = (0..count).map(first).collect();
        Sources { cross, sources, random }
    }

    /// When the next packet comes.
    pub fn next(&self) -> Option<Time> {
        self.sources.iter().map(|source| source.next).min()
    }

    /// The size of the next packet, which comes now.
    pub fn take(&mut self) -> Option<u64> {
        let Sources { cross, sources, random } = self;
        let source = sources.iter_mut().min_by_key(|source| source.next)?;
        let bytes = size(random);
        source.next += cross.peak().time_for(Size(bytes)).max(Duration::from_nanos(1));
        if source.next > source.until {
            source.next = source.until + pareto(random, cross.off, cross.shape);
            source.until = source.next + pareto(random, cross.on, cross.shape);
        }
        Some(bytes)
    }
}

fn size(random: &mut Random) -> u64 {
    let mut place = random.between(0, 999);
    let found = MIX.iter().find(|(_, often)| {
        let is_it = place < *often;
        place = place.saturating_sub(*often);
        is_it
    });
    found.map_or(MIX[0].0, |(bytes, _)| *bytes)
}

/// A span of the Pareto distribution with this mean.
fn pareto(random: &mut Random, mean: Duration, shape: f64) -> Duration {
    let shape = shape.max(1.01);
    let least = (shape - 1.0) / shape;
    mean.mul_f64((least / (1.0 - random.share()).powf(1.0 / shape)).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_the_papers() {
        assert_eq!(MIX.iter().map(|(_, often)| often).sum::<u64>(), 1000);
        let mut random = Random::new(3, 0);
        let sizes: Vec<u64> = (0..100_000).map(|_| size(&mut random)).collect();
        let part = |bytes| sizes.iter().filter(|size| **size == bytes).count() as f64 / 1e5;
        for (bytes, often) in MIX {
            assert!((part(bytes) - often as f64 / 1000.0).abs() < 0.005, "{bytes}");
        }
        let mean = sizes.iter().sum::<u64>() as f64 / 1e5;
        assert!((mean - 753.76).abs() < 5.0, "{mean}");
    }

    #[test]
    fn they_send_their_rate_in_the_long_run_and_in_bursts() {
        let cross = Cross::of(Rate::from_bits(8e6));
        let mut sources = Sources::new(cross, Time::ZERO, Random::new(5, 0));
        let mut seconds = vec![0.0; 600];
        while let Some(at) = sources.next().filter(|at| *at < Time::from_millis(600_000)) {
            seconds[at.as_secs_f64() as usize] += sources.take().unwrap() as f64 * 8.0;
        }
        let mean = seconds.iter().sum::<f64>() / 600.0;
        assert!((mean / 8e6 - 1.0).abs() < 0.1, "{mean}");
        let (low, high) = (seconds.iter().copied().fold(f64::MAX, f64::min), 14e6);
        assert!(low < 4e6 && seconds.iter().any(|bits| *bits > 0.7 * high), "{low}");
    }

    #[test]
    fn nobody_sends_nothing() {
        let none = Sources::new(Cross::of(Rate::ZERO), Time::ZERO, Random::new(5, 0));
        assert_eq!(none.next(), None);
    }
}
