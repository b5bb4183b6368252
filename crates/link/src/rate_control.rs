//! How fast one path may send.
//! Source: own, above a rate controller (`crates/capacity/src/`); Eq. 4, 5 and η of Eq. 22 of
//! papers/fd-mvqs.txt.
//! Inputs: packets sent, acknowledged, lost; the queue's delay. Outputs: window and pace. O(1) amortised.
//! Deviations: loss that no queue explains counts as carried (docs/algorithms-link.md#control).
//! Limits: those of the rate controller.

use std::time::Duration;

use tidegate_capacity::pace::Pacer;
use tidegate_capacity::{self as capacity, Ack, RateController, RateControllerName, UplinkOptions};
use tidegate_types::units::{Rate, Size, Time};

use super::startup::{Start, Timed};

/// A queue of this many seconds explains a loss: shorter ones do not overflow, but on links so fast that
/// a loss more or less changes nothing.
const CONGESTED: f64 = 0.030;
/// Part of the round trip above which a queue explains a loss as well.
const CONGESTED_PART: f64 = 0.25;

/// Whether a queue of so many seconds, on a path of this round trip, explains a loss.
pub(super) fn explains_loss(queue: f64, rtt: Duration) -> bool {
    queue > CONGESTED.max(CONGESTED_PART * rtt.as_secs_f64())
}

/// What is remembered of a packet's sending, for the rate controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    at: Time,
    carried: Size,
    reached_at: Time,
    app_limited: bool,
    /// Bytes sent up to and with it.
    sent: Size,
}

/// An acknowledgement, as far as the rate depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feedback {
    /// The newest acknowledged packet.
    pub(super) mark: Mark,
    /// Its round trip.
    pub(super) rtt: Duration,
    /// Bytes newly acknowledged, and newly found lost.
    pub(super) acked: Size,
    /// See `acked`.
    pub(super) lost: Size,
    /// Of the acknowledged bytes those that came marked.
    pub(super) marked: Size,
    /// Bytes sent and neither acknowledged nor lost.
    pub(super) in_flight: Size,
    /// Seconds that packets stand in queues.
    pub(super) queue: f64,
    /// When that packet came, microseconds of the peer's clock; `None` where only its number is known.
    pub(super) received_at: Option<u64>,
}

/// Window and pace of one path.
#[derive(Debug)]
pub(super) struct PathControl {
    controller: Box<dyn RateController>,
    /// While it is not over, it may allow more than the rate controller does.
    start: Start,
    controller_starts: bool,
    /// Whether the controller hears of every loss: its window is what losses leave of it.
    hears_losses: bool,
    pacer: Pacer,
    /// Bytes that were sent.
    sent: Size,
    /// Bytes that the path has carried: acknowledged, or lost with no queue to explain it.
    carried: Size,
    /// When `carried` grew last, or the path was last found empty.
    reached_at: Time,
    last_window: f64,
    /// Number and mean of windows before they fell.
    tops: (f64, f64),
    /// η, if losses of congestion shrink the window beyond the rate controller, and until when they do.
    decrease_factor: Option<f64>,
    decreased_until: Time,
}

impl PathControl {
    /// A path of which nothing is known but perhaps a rate of earlier.
    pub(super) fn new(
        controller: RateControllerName,
        cap: Option<Rate>,
        remembered: Option<Rate>,
        decrease_factor: Option<f64>,
    ) -> Self {
        let options = UplinkOptions {
            name: "path".into(),
            controller,
            cap,
            remembered,
            has_own_start: true,
            ..UplinkOptions::default()
        };
        PathControl {
            controller: capacity::build(&options),
            start: Start::new(remembered),
            controller_starts: !matches!(
                controller,
                RateControllerName::Known
                    | RateControllerName::Unlimited
                    | RateControllerName::Coupled
            ),
            hears_losses: controller == RateControllerName::Coupled,
            pacer: Pacer::default(),
            sent: Size::ZERO,
            carried: Size::ZERO,
            reached_at: Time::ZERO,
            last_window: 0.0,
            tops: (0.0, 0.0),
            decrease_factor,
            decreased_until: Time::ZERO,
        }
    }

    /// Whether a packet may go now, as far as the window is concerned.
    pub(super) fn has_room(&self, now: Time, in_flight: Size, packet: Size) -> bool {
        in_flight == Size::ZERO || in_flight + packet <= self.window(now)
    }

    /// When the pace lets the next packet go.
    pub(super) fn next_free(&self, now: Time) -> Time {
        self.pacer.next_free(now, self.pace(now))
    }

    /// A packet goes; `in_flight` does not count it yet.
    pub(super) fn sent(
        &mut self,
        now: Time,
        packet: Size,
        in_flight: Size,
        app_limited: bool,
    ) -> Mark {
        if in_flight == Size::ZERO {
            self.reached_at = now;
        }
        self.pacer.spend(now, self.pace(now), packet);
        self.controller.sent(now, packet, in_flight + packet);
        self.sent += packet;
        let (carried, reached_at) = (self.carried, self.reached_at);
        Mark { at: now, carried, reached_at, app_limited, sent: self.sent }
    }

    /// Takes an acknowledgement.
    pub(super) fn acked(&mut self, now: Time, feedback: &Feedback) {
        let Feedback { mark, rtt, acked, lost, marked, in_flight, queue, received_at } = *feedback;
        let is_told = self.hears_losses || explains_loss(queue, rtt);
        let (carried, dropped) = if is_told { (acked, lost) } else { (acked + lost, Size::ZERO) };
        self.carried += carried;
        self.reached_at = now;
        let ack = Ack {
            rtt,
            sent_at: mark.at,
            delivered_at_send: mark.carried,
            reached_at: mark.reached_at,
            delivered: self.carried,
            newly: carried,
            in_flight,
            lost: dropped,
            marked,
            is_timeout: false,
            app_limited: mark.app_limited,
        };
        self.controller.acked(now, &ack);
        if dropped > Size::ZERO || marked > Size::ZERO {
            self.start.congested();
        }
        let timed = |received_at| Timed { sent: mark.sent, sent_at: mark.at, received_at };
        let newest = received_at.map(timed);
        self.start.acked(carried, in_flight + acked + lost, newest, rtt, queue);
        if dropped > Size::ZERO && self.decreased_until <= now {
            self.decreased_until = now + rtt;
        }
        let window = self.open();
        if window < self.last_window {
            // Eq. 5, with the window before it fell: what it is afterwards is no top.
            let (count, mean) = self.tops;
            self.tops = (count + 1.0, (mean * count + self.last_window) / (count + 1.0));
        }
        self.last_window = window;
    }

    /// Time passes.
    pub(super) fn tick(&mut self, now: Time) {
        if self.controller.next_timeout().is_some_and(|at| at <= now) {
            self.controller.tick(now);
        }
    }

    /// When `tick` must be called next.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.controller.next_timeout()
    }

    fn factor(&self, now: Time) -> f64 {
        let is_decreased = now < self.decreased_until;
        self.decrease_factor.filter(|_| is_decreased).unwrap_or(1.0)
    }

    /// How its window grows beside those of the other paths.
    pub(super) fn couple(&mut self, factor: f64) {
        self.controller.couple(factor);
    }

    /// The estimated capacity, loss of the path included; zero while nothing is known.
    pub(super) fn rate(&self) -> Rate {
        self.controller.rate()
    }

    /// Bytes that may be unacknowledged, swnd; for a round trip after a loss of congestion η times that.
    pub(super) fn window(&self, now: Time) -> Size {
        Size((self.open() * self.factor(now)) as u64)
    }

    fn open(&self) -> f64 {
        let window = self.controller.window().as_f64();
        if self.is_starting() { window.max(self.start.window()) } else { window }
    }

    /// A fixed window needs no start, and a rate that is told none either.
    fn is_starting(&self) -> bool {
        self.controller_starts && !self.start.is_over()
    }

    /// Bytes/s; zero for none.
    pub(super) fn pace(&self, now: Time) -> Rate {
        // Before anything is known of a path its first window leaves at once: how fast it comes tells the start what the path carries.
        let is_known = self.controller.rate() > Rate::ZERO;
        let pace = if is_known { self.controller.pace() } else { Rate::ZERO };
        let pace = if self.is_starting() { pace.max(self.start.pace()) } else { pace };
        pace.times(self.factor(now))
    }

    /// Mean window before it fell, swnd^top of Eq. 4; infinite before the first fall.
    pub(super) fn window_top(&self) -> f64 {
        if self.tops.0 > 0.0 { self.tops.1 } else { f64::INFINITY }
    }
}

impl Mark {
    /// When the packet was sent.
    pub(super) fn at(&self) -> Time {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Size = Size(1000);
    const RTT: Duration = Duration::from_millis(100);

    /// Rounds of ten packets a round trip, of which so many are lost while packets stand in a queue for so
    /// many seconds.
    fn rounds(control: &mut PathControl, count: u64, lost: u64, queue: f64) -> Time {
        marked_rounds(control, count, [lost, 0], queue)
    }

    /// The same, and so many come marked.
    fn marked_rounds(
        control: &mut PathControl,
        count: u64,
        [lost, marked]: [u64; 2],
        queue: f64,
    ) -> Time {
        let mut now = Time::from_millis(1000);
        for _ in 0..count {
            let mut in_flight = Size::ZERO;
            let mut last = None;
            for _ in 0..10 {
                last = Some(control.sent(now, PACKET, in_flight, false));
                in_flight += PACKET;
            }
            now += RTT;
            let Some(mark) = last else { continue };
            let lost = Size(lost * PACKET.0);
            let (acked, rtt) = (in_flight - lost, RTT + Duration::from_secs_f64(queue));
            let in_flight = Size::ZERO;
            let (received_at, marked) = (None, Size(marked * PACKET.0));
            let feedback =
                Feedback { mark, rtt, acked, lost, marked, in_flight, queue, received_at };
            control.acked(now, &feedback);
        }
        now
    }

    fn control(decrease_factor: Option<f64>) -> PathControl {
        PathControl::new(RateControllerName::Tide, None, None, decrease_factor)
    }

    #[test]
    fn loss_without_a_queue_costs_no_rate() {
        let rate = |lost| {
            let mut control = control(None);
            rounds(&mut control, 20, lost, 0.0);
            control.rate().as_f64()
        };
        assert!((rate(0) - 1e5).abs() < 1e3, "{}", rate(0));
        assert!((rate(3) - rate(0)).abs() < 1e3, "{}", rate(3));
    }

    #[test]
    fn a_loss_that_a_queue_explains_ends_the_start_and_shrinks_the_window_if_asked() {
        let [mut alone, mut coupled] = [control(None), control(Some(0.5))];
        let now = rounds(&mut alone, 20, 1, 0.2);
        rounds(&mut coupled, 20, 1, 0.2);
        assert!(alone.start.is_over());
        let whole = alone.window(now).as_f64();
        assert!((coupled.window(now).as_f64() / whole - 0.5).abs() < 0.01);
        assert!((coupled.pace(now).as_f64() / alone.pace(now).as_f64() - 0.5).abs() < 0.01);
        let later = now + RTT * 4;
        assert!((coupled.window(later).as_f64() / whole - 1.0).abs() < 0.01);
    }

    #[test]
    fn marks_end_the_start_and_hold_the_window_without_a_loss() {
        let mut control = control(None);
        let now = rounds(&mut control, 6, 0, 0.0);
        let free = control.window(now).as_f64();
        let now = marked_rounds(&mut control, 2, [0, 1], 0.0);
        assert!(control.start.is_over());
        let held = control.window(now).as_f64();
        assert!(held < 0.7 * free, "{held} {free}");
    }

    #[test]
    fn equation_5_is_the_mean_of_windows_before_they_fell() {
        let mut control = control(None);
        assert!(control.window_top().is_infinite());
        rounds(&mut control, 10, 0, 0.0);
        rounds(&mut control, 10, 1, 0.2);
        assert!(control.window_top().is_finite() && control.window_top() > 14_600.0);
    }

    #[test]
    fn a_queue_explains_a_loss_from_30_ms_or_a_quarter_of_the_round_trip_on() {
        assert!(!explains_loss(0.029, RTT) && explains_loss(0.031, RTT));
        let long = RTT * 2;
        assert!(!explains_loss(0.049, long) && explains_loss(0.051, long));
    }
}
