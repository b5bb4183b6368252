//! Whether a subscriber's two bounds can be kept, told once when it changes and not with every frame.
//! Source: papers/mez.txt, Algorithm 1, line 14 ("no feasible solution"), which says neither what nor for how long.
//! Inputs: for each frame whether both fit, and what would. Outputs: the change. O(1).
//! Deviations: hysteresis; what would be feasible is said (docs/algorithms-frames.md#feasibility).
//! Limits: none.

use std::time::Duration;

use tidegate_types::units::Time;

/// Weight of a frame in the part of frames that do not fit: about the last five.
const GAIN: f64 = 0.2;
/// The part above which the bounds are infeasible.
const BEGINS: f64 = 0.5;
/// Time without a frame that does not fit after which they are feasible again: longer than a fade.
const CALM: Duration = Duration::from_secs(3);

/// A change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Infeasible {
    /// Both bounds together cannot be kept any more.
    Began {
        /// What accuracy is reached within the latency, 0 to 1; 0 where no frame fits.
        accuracy: f64,
        /// In what latency the accuracy asked for would be reached.
        latency: Duration,
    },
    /// They can again.
    Over,
}

/// The frames of late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Feasibility {
    /// Part of the frames that did not fit, weighted by age.
    part: f64,
    accuracy: f64,
    /// Seconds.
    latency: f64,
    /// When a frame did not fit last.
    missed_at: Time,
    is_infeasible: bool,
    news: Option<Infeasible>,
}

impl Feasibility {
    /// A frame: whether both bounds fit it, the accuracy within the latency, the latency of the accuracy.
    pub(super) fn push(&mut self, now: Time, fits: bool, accuracy: f64, latency: Duration) {
        let blend = |old: f64, new: f64| old + GAIN * (new - old);
        self.part = blend(self.part, f64::from(u8::from(!fits)));
        if fits {
            if self.is_infeasible && self.missed_at + CALM <= now {
                self.is_infeasible = false;
                self.news = Some(Infeasible::Over);
            }
            return;
        }
        self.missed_at = now;
        let is_first = self.accuracy == 0.0 && self.latency == 0.0;
        let seconds = latency.as_secs_f64();
        self.accuracy = if is_first { accuracy } else { blend(self.accuracy, accuracy) };
        self.latency = if is_first { seconds } else { blend(self.latency, seconds) };
        if !self.is_infeasible && self.part > BEGINS {
            self.is_infeasible = true;
            let latency = Duration::from_secs_f64(self.latency);
            self.news = Some(Infeasible::Began { accuracy: self.accuracy, latency });
        }
    }

    /// What changed, once.
    pub(super) fn poll(&mut self) -> Option<Infeasible> {
        self.news.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn told(frames: &[bool]) -> Vec<(usize, Infeasible)> {
        let mut feasibility = Feasibility::default();
        let mut news = Vec::new();
        for (at, &fits) in frames.iter().enumerate() {
            // Five frames a second.
            let now = Time::from_millis(200 * at as u64);
            feasibility.push(now, fits, 0.8, SECOND);
            news.extend(feasibility.poll().map(|one| (at, one)));
        }
        news
    }

    #[test]
    fn one_bad_frame_is_no_news() {
        let mut frames = [true; 40];
        frames[3] = false;
        frames[10] = false;
        assert_eq!(told(&frames), []);
    }

    #[test]
    fn a_fade_is_told_once_with_what_would_do_and_its_end_once() {
        let mut frames = vec![true; 5];
        frames.extend([false; 10]);
        frames.extend([true; 25]);
        frames[20] = false;
        let news = told(&frames);
        assert_eq!(news.len(), 2, "{news:?}");
        let (at, Infeasible::Began { accuracy, latency }) = news[0] else { panic!("{news:?}") };
        assert!((5..10).contains(&at) && (accuracy - 0.8).abs() < 1e-9, "{at} {accuracy}");
        assert_eq!(latency, SECOND);
        assert_eq!(news[1], (35, Infeasible::Over));
    }
}
