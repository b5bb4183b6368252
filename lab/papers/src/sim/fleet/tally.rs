//! What a fluid world counts.

use std::time::Duration;

use tidegate_fleet::MatchingRound;
use tidegate_types::units::Time;

use super::fluid::{Chunk, STEP};

/// Milliseconds up to which waits are told apart.
const WAIT_MAX: usize = 60_000;

/// Bytes by how many milliseconds they waited.
#[derive(Clone, Debug)]
pub(super) struct Waits {
    bytes: Vec<f64>,
    all: f64,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { bytes: vec![0.0; WAIT_MAX + 1], all: 0.0 }
    }
}

impl Waits {
    fn add(&mut self, waited: Duration, bytes: f64) {
        self.bytes[(waited.as_millis() as usize).min(WAIT_MAX)] += bytes;
        self.all += bytes;
    }

    /// Seconds below which a part of all bytes waited.
    pub(super) fn quantile(&self, part: f64) -> f64 {
        let mut left = self.all * part;
        for (millis, bytes) in self.bytes.iter().enumerate() {
            left -= bytes;
            if left < 0.0 {
                return millis as f64 / 1e3;
            }
        }
        0.0
    }

    pub(super) fn all(&self) -> f64 {
        self.all
    }
}

/// Sums over a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    nodes: usize,
    pub(super) came: f64,
    /// Bytes that reached the far end, own and redirected.
    pub(super) served: f64,
    /// From arrival at the receiver to the far end, by class, without one-way delays of uplinks.
    pub(super) latency: [Waits; 3],
    /// In a provider's queue.
    pub(super) waits: Waits,
    steps: u64,
    backlog: f64,
    rounds: u64,
    changed: f64,
    granted: f64,
    new: u64,
}

impl Tally {
    pub(super) fn new(nodes: usize) -> Self {
        Tally { nodes, ..Tally::default() }
    }

    pub(super) fn own(&mut self, class: usize, now: Time, chunk: Chunk) {
        self.served += chunk.bytes;
        self.latency[class].add(now.since(chunk.born), chunk.bytes);
    }

    pub(super) fn redirected(&mut self, class: usize, now: Time, chunk: Chunk) {
        self.served += chunk.bytes;
        self.latency[class].add(now.since(chunk.born), chunk.bytes);
        self.waits.add(now.since(chunk.came), chunk.bytes);
    }

    pub(super) fn backlog(&mut self, bytes: f64) {
        self.backlog += bytes;
        self.steps += 1;
    }

    pub(super) fn round(&mut self, round: MatchingRound) {
        self.rounds += 1;
        self.changed += round.changed.0 as f64;
        self.granted += round.granted.0 as f64;
        self.new += round.new as u64;
    }

    fn seconds(&self) -> f64 {
        self.steps as f64 * STEP.as_secs_f64()
    }

    /// Mean bytes that waited at their own node.
    pub(super) fn mean_backlog(&self) -> f64 {
        self.backlog / self.steps.max(1) as f64
    }

    /// Part of what is granted that changes in a decision.
    pub(super) fn change(&self) -> f64 {
        if self.granted > 0.0 { self.changed / self.granted } else { 0.0 }
    }

    /// New grants of a node in a second.
    pub(super) fn new_grants(&self) -> f64 {
        self.new as f64 / self.nodes as f64 / self.seconds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_of_bytes_not_of_chunks() {
        let mut waits = Waits::default();
        waits.add(Duration::from_millis(10), 98.0);
        waits.add(Duration::from_millis(500), 2.0);
        waits.add(Duration::from_secs(100), 0.5);
        assert_eq!((waits.quantile(0.5), waits.quantile(0.99), waits.all()), (0.01, 0.5, 100.5));
        assert_eq!(waits.quantile(0.999), 60.0);
    }
}
