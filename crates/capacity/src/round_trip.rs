//! What the round trips say: the path's own length, the queue that stands on it, and the jitter.

use std::time::Duration;

use tidegate_types::units::Time;

use super::window_filter::{Extreme, WindowFilter};

/// Round trips over which the jitter is averaged.
const JITTER_ROUNDS: f64 = 4.0;
/// Largest deviation that counts, in seconds: a stall is no jitter.
const DEVIATION_MAX: f64 = 0.1;
/// Acknowledgements that lie so many gaps back are recent. A link that serves us now and then answers in
/// lumps: within half a round trip there may be but a late one, which would look like a queue.
const GAPS: f64 = 2.5;
/// Seconds over which gaps are averaged.
const GAP_PERIOD: f64 = 1.0;
/// Longest gap that counts, in seconds: a silence is no lump.
const GAP_MAX: f64 = 0.1;

/// Round trips of one uplink, in seconds.
#[derive(Debug)]
pub(super) struct RoundTrips {
    least: Option<f64>,
    recent: WindowFilter,
    jitter: f64,
    heard_at: Time,
    /// Mean time between two acknowledgements, as one who looks at any instant sees it.
    gap: f64,
}

impl RoundTrips {
    pub(super) fn new() -> Self {
        RoundTrips {
            least: None,
            recent: WindowFilter::new(Extreme::Min),
            jitter: 0.0,
            gap: 0.0,
            heard_at: Time::ZERO,
        }
    }

    /// Takes the round trip of the newest acknowledged byte. `lump`: how long the acknowledgement of the
    /// oldest byte that came with it had been held back, which is jitter as well.
    pub(super) fn push(&mut self, now: Time, rtt: f64, lump: f64) {
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        let silence = now.since(self.heard_at).as_secs_f64();
        let gap = silence.min(GAP_MAX);
        self.gap += (gap - self.gap) * (gap / GAP_PERIOD).min(1.0);
        let window = Duration::from_secs_f64((GAPS * self.gap).clamp(least / 2.0, least * 2.0));
        self.recent.push(now.as_nanos(), window.as_nanos() as u64, rtt);
        let deviation = rtt - self.recent.get().unwrap_or(rtt) + lump;
        // Weighted by time, so that a lump counts the same whether it comes as one or as many.
        let weight = silence / (JITTER_ROUNDS * least.max(1e-4));
        self.jitter += (deviation.min(DEVIATION_MAX) - self.jitter) * weight.min(1.0);
        self.heard_at = now;
    }

    /// The shortest round trip of the present path; `None` before the first.
    pub(super) fn least(&self) -> Option<f64> {
        self.least
    }

    /// What stands on the path at least: shortest round trip of the last half one, or of the last few gaps
    /// between acknowledgements, minus the path.
    pub(super) fn queue(&self) -> f64 {
        self.recent.get().zip(self.least).map_or(0.0, |(recent, least)| (recent - least).max(0.0))
    }

    /// Mean deviation from the recent shortest.
    pub(super) fn jitter(&self) -> f64 {
        self.jitter
    }

    /// The path is so long now.
    pub(super) fn restart(&mut self, least: f64) {
        self.least = Some(least);
    }
}
