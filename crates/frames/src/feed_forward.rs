//! A frame's bytes from the rate at which earlier ones were delivered and the time that is left.
//! Source: own.
//! Inputs: acknowledged bytes, ends of frames. Outputs: bytes. O(frames of a second).
//! Deviations: none; nothing of papers/mez.txt, whose controller waits for an error (docs/algorithms-frames.md#feed-forward).
//! Limits: `SAMPLES_MAX`, `CAUTION`.
//!
//! Channels fall faster than an error can be integrated, and no gain fits both a ladder of 2 kB and one of 200:
//! bytes, rates and times need none. What does adapt is caution: a frame that came late weighs as much as twenty
//! that did not.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::channel::ChannelModel;
use super::{Controller, ControllerInput, Ladder};

/// Age at which a rate says nothing any more.
const PERIOD: Duration = Duration::from_secs(1);
/// Frames remembered: more than a camera takes in `PERIOD`.
const SAMPLES_MAX: usize = 128;
/// The rate reckoned with: so many of the rates of the last second are lower.
const QUANTILE: f64 = 0.25;
/// And never more than the newest one by this factor: a channel that fell is believed at once.
const NEWEST: f64 = 1.15;
/// Where the lower rates are above the newest by the first factor the channel has fallen: it is believed by the second
/// one, for what the newest frame took had still its beginning at the rate of before, and one that is late again costs more
/// than one a rung lower.
const FELL: (f64, f64) = (1.3, 0.6);
/// Factor on the rate for each frame that finds nothing acknowledged for `PERIOD`.
const SILENT: f64 = 0.7;
/// Bounds of the part of the time that is used.
const CAUTION: (f64, f64) = (0.3, 1.4);
/// Exponents of its change for a late frame and for one in time: at rest where one in twenty is late.
const STEPS: (f64, f64) = (-0.10, 0.005);
/// A frame of less than this part of its budget is no trial: that it was in time says nothing of a larger one. Where all
/// are so, as with the top rung on a fast channel, boldness is forgotten by this exponent a frame.
const TRIAL: (f64, f64) = (0.5, -0.02);
/// Rate before anything is acknowledged, bytes/s: slow for Wi-Fi, fast for a modem.
const RATE_START: f64 = 125_000.0;
/// Shortest time in which a frame is said to have been delivered: what a burst of acknowledgements tells.
const SPAN_MIN: f64 = 0.001;

/// The frames on their way.
#[derive(Clone, Copy, Debug, Default)]
struct Burst {
    /// When its first byte could arrive.
    since: Time,
    /// Bytes acknowledged since.
    bytes: f64,
}

/// The controller's state. Rates are bytes/s.
#[derive(Debug)]
pub(super) struct FeedForward {
    /// When and how fast a frame was delivered, oldest first.
    samples: VecDeque<(Time, f64)>,
    /// What arrived of the present frame.
    burst: Option<Burst>,
    /// Shortest time from sending to the first acknowledgement.
    trip: Option<Duration>,
    sent_at: Option<Time>,
    acked_at: Time,
    rate: f64,
    caution: f64,
    /// What the frame that goes next, or went last, may have.
    budget: f64,
}

impl Default for FeedForward {
    fn default() -> Self {
        FeedForward {
            samples: VecDeque::new(),
            burst: None,
            trip: None,
            sent_at: None,
            acked_at: Time::ZERO,
            rate: RATE_START,
            caution: 1.0,
            budget: 0.0,
        }
    }
}

impl FeedForward {
    /// Rate of the frame in progress; `None` while it says nothing.
    fn present(&self, now: Time) -> Option<f64> {
        let burst = self.burst?;
        let span = now.since(burst.since).as_secs_f64();
        (burst.bytes > 0.0).then(|| burst.bytes / span.max(SPAN_MIN))
    }

    fn estimate(&mut self, now: Time) {
        while self.samples.front().is_some_and(|&(at, _)| at + PERIOD < now) {
            self.samples.pop_front();
        }
        let present = self.present(now);
        let newest = present.or(self.samples.back().map(|&(_, rate)| rate));
        let Some(newest) = newest else {
            self.rate *= SILENT;
            return;
        };
        let mut rates: Vec<f64> = self.samples.iter().map(|&(_, rate)| rate).collect();
        rates.extend(present);
        rates.sort_by(f64::total_cmp);
        let low = rates[((rates.len() - 1) as f64 * QUANTILE) as usize];
        let factor = if low > FELL.0 * newest { FELL.1 } else { NEWEST };
        self.rate = low.min(factor * newest);
    }
}

impl Controller for FeedForward {
    fn begin_at(&mut self, site: &ChannelModel, _ladder: &Ladder) {
        // The first look finds nothing acknowledged.
        self.rate = site.rate / SILENT;
    }

    fn budget(&mut self, now: Time, moment: &ControllerInput) -> f64 {
        self.estimate(now);
        let budget = self.rate * self.caution * moment.left.as_secs_f64() - moment.backlog.as_f64();
        self.budget = budget;
        budget
    }

    fn sent(&mut self, now: Time) {
        self.sent_at.get_or_insert(now);
        if self.burst.is_none() {
            let trip = self.trip.unwrap_or_default();
            self.burst = Some(Burst { since: (now + trip).max(self.acked_at), bytes: 0.0 });
        }
    }

    fn acked(&mut self, now: Time, newly: Size) {
        if let Some(sent_at) = self.sent_at.take() {
            let trip = now.since(sent_at);
            self.trip = Some(self.trip.map_or(trip, |least| least.min(trip)));
        }
        self.acked_at = now;
        // What came before the present frame's first byte can have is of an earlier one.
        if let Some(burst) = self.burst.as_mut().filter(|burst| burst.since <= now) {
            burst.bytes += newly.as_f64();
        }
    }

    fn ended(&mut self, now: Time, latency: Option<Duration>) {
        if let Some(rate) = self.present(now) {
            self.samples.push_back((now, rate));
            if self.samples.len() > SAMPLES_MAX {
                self.samples.pop_front();
            }
        }
        let bytes = self.burst.take().map_or(0.0, |burst| burst.bytes);
        self.sent_at = None;
        let is_trial = bytes >= TRIAL.0 * self.budget;
        let (step, bounds) = match latency {
            None => (STEPS.0, CAUTION),
            Some(_) if is_trial => (STEPS.1, CAUTION),
            Some(_) if self.caution > 1.0 => (TRIAL.1, (1.0, CAUTION.1)),
            Some(_) => (STEPS.1, (CAUTION.0, 1.0)),
        };
        self.caution = (self.caution * step.exp()).clamp(bounds.0, bounds.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_millis(50);

    /// Delivers frames of so many bytes, ten a second, each in so many milliseconds.
    fn delivered(frames: &[(u64, u64)]) -> (FeedForward, Time) {
        let mut control = FeedForward::default();
        let mut now = Time::ZERO;
        for &(bytes, millis) in frames {
            control.sent(now);
            // The first acknowledgement, of one byte, tells the trip.
            let trip = Duration::from_millis(10);
            control.acked(now + trip, Size(1));
            control.acked(now + trip + Duration::from_millis(millis), Size(bytes - 1));
            control.ended(now + trip + Duration::from_millis(millis), Some(LEFT));
            now += Duration::from_millis(100);
        }
        (control, now)
    }

    fn budget((mut control, now): (FeedForward, Time), backlog: u64) -> f64 {
        control.caution = 1.0;
        control.budget(now, &ControllerInput { left: LEFT, backlog: Size(backlog) })
    }

    #[test]
    fn a_steady_rate_times_the_time_left_less_what_is_under_way() {
        // 20 kB in 20 ms are 1 MB/s; 50 ms of that are 50 kB. The first frame counts its trip as well.
        let frames = [(20_000, 20); 8];
        assert!((budget(delivered(&frames), 0) - 50_000.0).abs() < 500.0);
        assert!((budget(delivered(&frames), 60_000) + 10_000.0).abs() < 500.0);
    }

    #[test]
    fn a_channel_that_fell_is_believed_at_once_and_one_that_rose_later() {
        let mut fell = vec![(20_000, 20); 8];
        fell.push((20_000, 80));
        let after_fall = budget(delivered(&fell), 0);
        assert!((after_fall - 0.6 * 12_500.0).abs() < 200.0, "{after_fall}");
        let mut rose = vec![(20_000, 80); 8];
        rose.push((20_000, 20));
        let after_rise = budget(delivered(&rose), 0);
        assert!((after_rise - 12_500.0).abs() < 200.0, "{after_rise}");
    }

    #[test]
    fn a_frame_that_is_stuck_counts_before_it_ends() {
        let (mut control, now) = delivered(&[(20_000, 20); 8]);
        control.caution = 1.0;
        control.sent(now);
        control.acked(now + Duration::from_millis(10), Size(1000));
        let moment = ControllerInput { left: LEFT, backlog: Size(19_000) };
        let stuck = control.budget(now + Duration::from_millis(110), &moment);
        assert!(stuck < 0.0, "10 kB/s at most: {stuck}");
    }

    #[test]
    fn silence_lowers_the_rate_frame_by_frame() {
        let (mut control, now) = delivered(&[(20_000, 20); 3]);
        control.caution = 1.0;
        let moment = ControllerInput { left: LEFT, backlog: Size::ZERO };
        let mut budgets = (0..4)
            .map(|frame| control.budget(now + Duration::from_millis(1500 + 100 * frame), &moment));
        let first = budgets.next().unwrap();
        let last = budgets.last().unwrap();
        assert!((last / first - SILENT.powi(3)).abs() < 1e-9, "{last} of {first}");
    }

    #[test]
    fn caution_rests_where_one_in_twenty_is_late() {
        let mut control = FeedForward::default();
        for frame in 0..2000 {
            // Each of them has all that it may have.
            control.budget = 0.0;
            control.ended(Time::ZERO, (frame % 21 != 0).then_some(LEFT));
        }
        assert!((0.9..1.05).contains(&control.caution), "{}", control.caution);
        for _ in 0..100 {
            control.ended(Time::ZERO, None);
        }
        assert_eq!(control.caution, CAUTION.0);
    }

    #[test]
    fn a_site_that_was_measured_is_where_it_begins() {
        let mut control = FeedForward::default();
        let site = ChannelModel { base: Duration::from_millis(10), rate: 500_000.0 };
        control.begin_at(&site, &super::super::ladder::tests::four());
        let moment = ControllerInput { left: LEFT, backlog: Size::ZERO };
        let first = control.budget(Time::from_millis(5), &moment);
        assert!((first - 25_000.0).abs() < 1e-6, "{first}");
    }

    #[test]
    fn frames_that_are_no_trial_make_nobody_bold() {
        let (mut control, now) = delivered(&[(20_000, 20); 400]);
        assert!(control.caution > 1.2, "{}", control.caution);
        // Ten times what the frames take: the top rung has no more.
        for _ in 0..40 {
            control.budget = 200_000.0;
            control.ended(now, Some(LEFT));
        }
        assert!((control.caution - 1.0).abs() < 1e-9, "{}", control.caution);
    }

    #[test]
    fn what_comes_of_an_earlier_frame_is_not_the_next_ones() {
        let (mut control, now) = delivered(&[(20_000, 20); 8]);
        // The next one is sent while 10 kB of an earlier one arrive, before anything of it can.
        control.sent(now);
        control.acked(now + Duration::from_millis(5), Size(10_000));
        assert_eq!(control.present(now + Duration::from_millis(12)), None);
    }
}
