//! A frame's bytes by the error of the latest latency and its integral.
//! Source: papers/mez.txt, §IV-B, Algorithm 1.
//! Inputs: latency of each frame, bound. Outputs: bytes. O(1).
//! Deviations: the error has a sign that shrinks late frames, acts both ways, and is clamped, like its integral; the
//! nominal size is fixed; late and lost frames count (docs/algorithms-frames.md#pi).
//! Limits: `ERROR`, the ladder's bytes.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::channel::ChannelModel;
use super::{Controller, ControllerInput, Ladder};

/// Bounds of one error in bounds of latency: a frame that took a minute says no more than one of four.
const ERROR: (f64, f64) = (-3.0, 1.0);

/// The paper's K1 and K2, in bytes a millisecond of error (and of error a frame). They fit one ladder and one
/// kind of channel: others must be tuned again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gains {
    /// K1.
    pub gain_p: f64,
    /// K2.
    pub gain_i: f64,
    /// The latency that is steered to, as a part of the bound: what is left are the next frame's surprises.
    pub aim: f64,
}

impl Default for Gains {
    fn default() -> Self {
        Gains { gain_p: 50.0, gain_i: 10.0, aim: 0.8 }
    }
}

/// The controller's state.
#[derive(Debug)]
pub(super) struct Pi {
    gains: Gains,
    bound_ms: f64,
    /// The size before anything is known, bytes.
    nominal: f64,
    /// Smallest and largest frame of the ladder, bytes.
    range: (f64, f64),
    error_ms: f64,
    /// Sum of errors times K2, bytes: clamped, so that it never stands where no frame is.
    integral: f64,
}

impl Pi {
    /// One that begins in the middle of a ladder.
    pub(super) fn new(bound: Duration, ladder: &Ladder, gains: Gains) -> Self {
        let rungs = ladder.rungs();
        Pi {
            gains,
            bound_ms: bound.as_secs_f64() * 1e3,
            nominal: rungs[rungs.len() / 2].bytes,
            range: (rungs[0].bytes, rungs[rungs.len() - 1].bytes),
            error_ms: 0.0,
            integral: 0.0,
        }
    }
}

impl Controller for Pi {
    fn begin_at(&mut self, site: &ChannelModel, ladder: &Ladder) {
        let aim = Duration::from_secs_f64(self.gains.aim * self.bound_ms / 1e3);
        self.nominal = site.nominal(aim, ladder);
    }

    /// `nominal + K1 error + K2 sum(error)`, within the ladder.
    fn budget(&mut self, _now: Time, _moment: &ControllerInput) -> f64 {
        let size = self.nominal + self.gains.gain_p * self.error_ms + self.integral;
        size.clamp(self.range.0, self.range.1)
    }

    fn sent(&mut self, _now: Time) {}

    fn acked(&mut self, _now: Time, _newly: Size) {}

    fn ended(&mut self, _now: Time, latency: Option<Duration>) {
        // A frame that was given up took its bound at least; how much longer nobody knows.
        let took = latency.map_or(2.0 * self.bound_ms, |latency| latency.as_secs_f64() * 1e3);
        let error = self.gains.aim * self.bound_ms - took;
        self.error_ms = error.clamp(ERROR.0 * self.bound_ms, ERROR.1 * self.bound_ms);
        let (least, most) = (self.range.0 - self.nominal, self.range.1 - self.nominal);
        self.integral = (self.integral + self.gains.gain_i * self.error_ms).clamp(least, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ladder::tests::four;

    const BOUND: Duration = Duration::from_millis(100);
    const MOMENT: ControllerInput = ControllerInput { left: BOUND, backlog: Size::ZERO };

    fn after(latencies: &[Option<u64>]) -> f64 {
        let mut pi = Pi::new(BOUND, &four(), Gains::default());
        for latency in latencies {
            pi.ended(Time::ZERO, latency.map(Duration::from_millis));
        }
        pi.budget(Time::ZERO, &MOMENT)
    }

    #[test]
    fn numbers_by_hand() {
        // The middle of four rungs is 40 kB; 60 ms are 20 ms below the aim of 80.
        assert_eq!(after(&[]), 40_000.0);
        assert_eq!(after(&[Some(60)]), 40_000.0 + 50.0 * 20.0 + 10.0 * 20.0);
        assert_eq!(after(&[Some(60), Some(90)]), 40_000.0 - 50.0 * 10.0 + 10.0 * (20.0 - 10.0));
    }

    #[test]
    fn late_frames_shrink_and_early_ones_grow_within_the_ladder() {
        assert_eq!(after(&[Some(60_000); 30]), 10_000.0);
        assert_eq!(after(&[None; 60]), 10_000.0);
        assert_eq!(after(&[Some(1); 200]), 80_000.0);
    }

    #[test]
    fn it_comes_back_from_an_outage() {
        let mut latencies = vec![None; 200];
        latencies.extend([Some(20); 60]);
        assert!(after(&latencies) > 40_000.0, "the integral is clamped: {}", after(&latencies));
    }
}
