//! Holds another law's window to what marks of congestion say (ECN), and changes nothing of it before the first mark.
//! Source: `prague.rs`; what a sender of ECT(1) owes to others: RFC 9331, section 4.3; the queue that it is for: RFC 9332.
//! Inputs: as the law below it, and the bytes that came marked. Outputs: as the law below it.
//! Deviations: it begins with what the path held at the first mark, not with half of it; where no mark comes for several times
//! as long as a cycle of Prague takes, the law below looks for more by its own means (docs/ALGORITHMS.md#marks).
//! Limits: constant memory, O(1) an acknowledgement.

use std::time::Duration;

use tidegate_types::limits::CUT_MIN;
use tidegate_types::units::{Rate, Size, Time};

use super::controller::{Ack, RateController};
use super::prague::{PACKET, Prague};

/// Pace over what the window is in a round trip.
const PACE_GAIN: f64 = 1.03;
/// What goes at once: a queue that marks is shorter than a cut of other laws. Seconds of the rate.
const CUT: f64 = 0.000_5;
/// Cycles without a mark, and round trips more, after which the law below has its window back.
const UNMARKED: (f64, f64) = (4.0, 8.0);
/// A queue that is never shorter than this in a round trip (seconds, and packets) is marked by a classic rule, where a mark is
/// as much as a loss.
const CLASSIC: (f64, f64) = (0.005, 2.0);

/// The rate controller's state.
#[derive(Debug)]
pub(super) struct Marks {
    law: Box<dyn RateController>,
    /// While marks come.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    prague: Prague,
    marked_at: Time,
    /// The shortest round trip of this round, seconds, and whether marks came in it.
    least: f64,
    is_marked: bool,
    is_lossy: bool,
    round_ends: Time,
}

impl Marks {
    pub(super) fn new(law: Box<dyn RateController>) -> Self {
        Marks { law, held: None }
    }

    fn path(&self) -> Option<f64> {
        self.law.min_rtt().map(|path| path.as_secs_f64()).filter(|path| *path > 0.0)
    }
}

impl Held {
    /// What the path holds by what came since the acknowledged byte was sent; `most` where that measures us and not the path.
    fn begin(now: Time, ack: &Ack, path: f64, most: Size) -> Self {
        let came = ack.ahead().as_f64() * path / ack.rtt.as_secs_f64().max(path);
        let window = if ack.app_limited { most.as_f64() } else { came };
        let round_ends = now + ack.rtt;
        let prague = Prague::of(window);
        let least = f64::MAX;
        Held { prague, marked_at: now, least, is_marked: false, is_lossy: false, round_ends }
    }

    fn acked(&mut self, now: Time, ack: &Ack, path: f64, rate: f64) {
        if ack.app_limited {
            self.prague.marked(now, ack.rtt, ack.newly, ack.marked);
        } else {
            self.prague.acked(now, ack.rtt, ack.newly, ack.marked);
        }
        if ack.marked > Size::ZERO {
            (self.marked_at, self.is_marked) = (now, true);
        }
        self.least = self.least.min(ack.rtt.as_secs_f64());
        self.is_lossy |= ack.lost > Size::ZERO && !ack.is_timeout;
        if self.round_ends > now {
            return;
        }
        let longest = CLASSIC.0 + CLASSIC.1 * PACKET / rate.max(1.0);
        if self.is_lossy || (self.is_marked && self.least - path > longest) {
            self.prague.lost();
        }
        (self.least, self.is_marked, self.is_lossy) = (f64::MAX, false, false);
        self.round_ends = now + ack.rtt;
    }

    /// Round trips in which a flow alone grows from one mark to the next: growth and cut are equal where n packets are cut after
    /// n round trips, with one of them marked, so n² is half of the window.
    fn is_over(&self, now: Time, path: f64) -> bool {
        let cycle = (self.prague.window() / PACKET / 2.0).sqrt();
        let rounds = UNMARKED.0 * cycle + UNMARKED.1;
        now.since(self.marked_at).as_secs_f64() > rounds * path
    }
}

impl RateController for Marks {
    fn acked(&mut self, now: Time, ack: &Ack) {
        self.law.acked(now, ack);
        let Some(path) = self.path().filter(|_| self.held.is_some() || ack.marked > Size::ZERO)
        else {
            return;
        };
        let (rate, most) = (self.law.rate().as_f64(), self.law.window());
        let held = self.held.get_or_insert_with(|| Held::begin(now, ack, path, most));
        held.acked(now, ack, path, rate);
        if held.is_over(now, path) {
            self.held = None;
        }
    }

    fn sent(&mut self, now: Time, bytes: Size, in_flight: Size) {
        self.law.sent(now, bytes, in_flight);
    }

    fn tick(&mut self, now: Time) {
        self.law.tick(now);
    }

    fn patient(&mut self, is_patient: bool) {
        self.law.patient(is_patient);
    }

    fn urgent(&mut self, bound: Option<Duration>) {
        self.law.urgent(bound);
    }

    fn rate(&self) -> Rate {
        self.law.rate()
    }

    fn window(&self) -> Size {
        let window = self.law.window();
        self.held.as_ref().map_or(window, |held| window.min(Size(held.prague.window() as u64)))
    }

    fn pace(&self) -> Rate {
        match self.path().filter(|_| self.held.is_some()) {
            Some(path) => Rate::new(PACE_GAIN * self.window().as_f64() / path),
            None => self.law.pace(),
        }
    }

    fn cut(&self) -> Size {
        match self.held {
            Some(_) => Size((self.rate().as_f64() * CUT) as u64).clamp(CUT_MIN, self.law.cut()),
            None => self.law.cut(),
        }
    }

    fn min_rtt(&self) -> Option<Duration> {
        self.law.min_rtt()
    }

    fn next_timeout(&self) -> Option<Time> {
        self.law.next_timeout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RateControllerName, UplinkOptions, build};

    const RTT: Duration = Duration::from_millis(100);
    /// Bytes of a round trip at 1 Mbyte/s.
    const FULL: u64 = 100_000;

    /// A round trip of ten acknowledgements on a link of 1 Mbyte/s, with so many marked, and a queue of so many milliseconds.
    fn round(law: &mut dyn RateController, place: u64, marked: u64, queue: u64) {
        for part in 0..10 {
            let now = Time::from_millis(1000 + 100 * place + 10 * part);
            let rtt = RTT + Duration::from_millis(queue);
            let delivered = Size(FULL * place + FULL / 10 * part);
            let ack = Ack {
                rtt,
                sent_at: now - rtt,
                delivered_at_send: delivered.saturating_sub(Size(FULL)),
                reached_at: now - rtt,
                delivered,
                newly: Size(FULL / 10),
                in_flight: Size(FULL),
                lost: Size::ZERO,
                marked: Size(if part < marked { FULL / 10 } else { 0 }),
                is_timeout: false,
                app_limited: false,
            };
            law.acked(now, &ack);
        }
    }

    fn law() -> Box<dyn RateController> {
        build(&UplinkOptions::default())
    }

    #[test]
    fn without_marks_nothing_changes() {
        let mut heard = law();
        let mut plain = RateControllerName::Tide.entry()(crate::controller::KnownRates {
            cap: None,
            remembered: None,
            queue: crate::QueueBelow::default(),
            has_own_start: false,
        });
        for place in 0..30 {
            round(&mut *heard, place, 0, place % 7);
            round(&mut *plain, place, 0, place % 7);
            let said = |law: &dyn RateController| (law.window(), law.pace(), law.rate(), law.cut());
            assert_eq!(said(&*heard), said(&*plain));
        }
    }

    #[test]
    fn marks_hold_the_window_at_what_the_path_holds_until_long_after_the_last() {
        let mut law = law();
        (0..8).for_each(|place| round(&mut *law, place, 0, 0));
        assert!(law.window().0 > FULL * 5 / 4 && law.cut() > Size(5000), "it looks for more");
        (8..20).for_each(|place| round(&mut *law, place, 1, 0));
        let window = law.window().0;
        assert!((FULL * 3 / 4..FULL).contains(&window), "{window}");
        assert_eq!(law.cut(), CUT_MIN, "and hands it packet by packet");
        assert!((law.pace().as_f64() / window as f64 - 10.3).abs() < 0.1);
        (20..70).for_each(|place| round(&mut *law, place, 0, 0));
        assert!(law.window().0 > FULL * 5 / 4, "{}", law.window().0);
    }

    #[test]
    fn where_the_law_below_holds_less_its_window_is_what_is_paced() {
        let mut law = law();
        (0..8).for_each(|place| round(&mut *law, place, 0, 0));
        (8..12).for_each(|place| round(&mut *law, place, 1, 0));
        let held = law.window().0;
        // Without proof of its rate the law halves it.
        for _ in 0..2 {
            let unproven = law.next_timeout().expect("a rate without proof");
            law.tick(unproven);
        }
        let window = law.window().0;
        assert!(window < held / 2, "{window} {held}");
        assert!((law.pace().as_f64() / window as f64 - 10.3).abs() < 0.1, "{:?}", law.pace());
    }

    #[test]
    fn all_marked_halves_the_window_in_time_and_a_queue_that_stays_long_at_once() {
        let after = |rounds: u64, queue: u64| {
            let mut law = law();
            (0..8).for_each(|place| round(&mut *law, place, 0, 0));
            (8..8 + rounds).for_each(|place| round(&mut *law, place, 10, queue));
            law.window().0
        };
        assert!(after(2, 1) > FULL * 9 / 10, "{}", after(2, 1));
        assert!(after(16, 1) < FULL * 3 / 4, "{}", after(16, 1));
        assert!(after(4, 15) < FULL * 3 / 4, "{}", after(4, 15));
    }
}
