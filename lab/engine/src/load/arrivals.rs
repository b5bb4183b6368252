//! When records are due: evenly, at random, or as they were recorded. Pure; seeded.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

/// Which process the arrivals of a stream follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrivals {
    /// At equal distances; the publishers of a stream take turns.
    #[default]
    Constant,
    /// Independent of each other: gaps of each publisher are exponentially distributed.
    Poisson,
    /// As in a file: a number a line, seconds since the first record, not falling. At another rate the
    /// whole recording is stretched; it is replayed as often as needed, and its records are dealt to the
    /// publishers in turn.
    Recorded(PathBuf),
}

/// One of the publishers that share a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// Records a second of all publishers together.
    pub per_second: f64,
    /// Which of them this is, from 0.
    pub place: u32,
    /// How many there are.
    pub publishers: u32,
    /// Of what is random.
    pub seed: u64,
}

/// Times at which the records of one publisher are due, since the start of the load; without end, but for
/// a rate of 0.
#[derive(Clone, Debug)]
pub struct Schedule {
    kind: Kind,
    share: Share,
    count: u64,
}

#[derive(Clone, Debug)]
enum Kind {
    Constant,
    Poisson { random: oorandom::Rand64, at: f64 },
    Recorded { recording: Recording, stretch: f64 },
}

/// Offsets of a recording, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recording(Vec<f64>);

impl Recording {
    /// Reads a file of offsets.
    ///
    /// # Errors
    /// It cannot be read, has less than two lines, or a line that is none.
    pub(super) fn read(file: &Path) -> anyhow::Result<Recording> {
        let reading = || format!("reading {}", file.display());
        let text = std::fs::read_to_string(file).with_context(reading)?;
        let offsets: Result<Vec<f64>, _> = text.lines().map(str::parse).collect();
        Recording::new(offsets.with_context(reading)?).with_context(reading)
    }

    /// From offsets that start at 0 and do not fall.
    ///
    /// # Errors
    /// They are not so, or no time passes in them.
    pub(super) fn new(offsets: Vec<f64>) -> anyhow::Result<Recording> {
        ensure!(
            offsets.first() == Some(&0.0) && offsets.is_sorted(),
            "times that fall, or do not start at 0"
        );
        ensure!(
            offsets.last().is_some_and(|last| *last > 0.0),
            "a recording in which no time passes"
        );
        Ok(Recording(offsets))
    }

    /// Its length in seconds: up to the last record, and the mean distance after it.
    fn length(&self) -> f64 {
        let last = self.0.last().copied().unwrap_or(0.0);
        last * self.0.len() as f64 / (self.0.len() - 1) as f64
    }

    /// Records a second.
    pub(super) fn rate(&self) -> f64 {
        self.0.len() as f64 / self.length()
    }
}

impl Arrivals {
    /// The schedule of one publisher.
    pub fn schedule(&self, share: Share) -> anyhow::Result<Schedule> {
        let kind = match self {
            Arrivals::Constant => Kind::Constant,
            Arrivals::Poisson => {
                let seed = u128::from(share.seed) << 64 | u128::from(share.place);
                Kind::Poisson { random: oorandom::Rand64::new(seed), at: 0.0 }
            }
            Arrivals::Recorded(file) => {
                let recording = Recording::read(file)?;
                let stretch = recording.rate() / share.per_second;
                Kind::Recorded { recording, stretch }
            }
        };
        Ok(Schedule { kind, share, count: 0 })
    }
}

impl Iterator for Schedule {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let Share { per_second, place, publishers, .. } = self.share;
        if per_second <= 0.0 {
            return None;
        }
        // Which one this is of the records of all publishers together.
        let of_all = self.count * u64::from(publishers) + u64::from(place);
        self.count += 1;
        let seconds = match &mut self.kind {
            Kind::Constant => of_all as f64 / per_second,
            Kind::Poisson { random, at } => {
                // From (0, 1]: its logarithm is finite.
                let uniform = 1.0 - random.rand_float();
                *at -= uniform.ln() * f64::from(publishers) / per_second;
                *at
            }
            Kind::Recorded { recording, stretch } => {
                let count = recording.0.len() as u64;
                let round = (of_all / count) as f64 * recording.length();
                (round + recording.0[(of_all % count) as usize]) * *stretch
            }
        };
        Some(Duration::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::scratch::Scratch;

    fn schedule(arrivals: &Arrivals, per_second: f64, place: u32, publishers: u32) -> Schedule {
        arrivals.schedule(Share { per_second, place, publishers, seed: 7 }).unwrap()
    }

    fn millis(schedule: Schedule, count: usize) -> Vec<u128> {
        schedule.take(count).map(|due| due.as_millis()).collect()
    }

    #[test]
    fn publishers_of_a_constant_stream_take_turns() {
        let of = |place| millis(schedule(&Arrivals::Constant, 10.0, place, 2), 3);
        assert_eq!([of(0), of(1)], [vec![0, 200, 400], vec![100, 300, 500]]);
        assert_eq!(schedule(&Arrivals::Constant, 0.0, 0, 1).next(), None);
    }

    #[test]
    fn random_arrivals_keep_the_rate_and_its_spread_and_repeat() {
        let all: Vec<f64> = (0..50)
            .flat_map(|place| {
                let times = schedule(&Arrivals::Poisson, 500.0, place, 50);
                times
                    .map(|due| due.as_secs_f64())
                    .take_while(|due| *due < 100.0)
                    .collect::<Vec<_>>()
            })
            .collect();
        assert!((all.len() as f64 / 50_000.0 - 1.0).abs() < 0.02, "{}", all.len());
        // Of a Poisson process, counts in equal times have the variance of their mean.
        let mut counts = [0f64; 1000];
        all.iter().for_each(|due| counts[(due * 10.0) as usize] += 1.0);
        let variance = counts.iter().map(|count| (count - 50.0).powi(2)).sum::<f64>() / 1000.0;
        assert!((35.0..65.0).contains(&variance), "{variance}");
        let again = || millis(schedule(&Arrivals::Poisson, 5.0, 3, 9), 20);
        assert_eq!(again(), again());
        assert_ne!(again(), millis(schedule(&Arrivals::Poisson, 5.0, 4, 9), 20));
    }

    #[test]
    fn a_recording_keeps_its_bursts_at_another_rate_and_comes_round() {
        let scratch = Scratch::new().unwrap();
        // Three at once, then one: 4 records in 4/3 s.
        let file = scratch.file("times", "0\n0\n0\n1\n").unwrap();
        let arrivals = Arrivals::Recorded(file);
        let rate = 4.0 / (4.0 / 3.0);
        assert_eq!(millis(schedule(&arrivals, rate, 0, 1), 6), [0, 0, 0, 1000, 1333, 1333]);
        assert_eq!(millis(schedule(&arrivals, 2.0 * rate, 0, 1), 5), [0, 0, 0, 500, 666]);
        assert_eq!(millis(schedule(&arrivals, rate, 1, 2), 3), [0, 1000, 1333]);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        for offsets in [vec![], vec![0.0], vec![0.0, 0.0], vec![1.0, 2.0], vec![0.0, 2.0, 1.0]] {
            assert!(Recording::new(offsets.clone()).is_err(), "{offsets:?}");
        }
    }
}
