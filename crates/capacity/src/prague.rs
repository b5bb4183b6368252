//! The window of a flow that answers each mark a little: Prague's.
//! Source: draft-briscoe-iccrg-prague-congestion-control, section 2; its α is DCTCP's (RFC 8257, section 3.3).
//! Inputs: bytes acknowledged, and those of them that came marked. Outputs: window in bytes. O(1) an acknowledgement.
//! Deviations: after a lost packet it is CUBIC's part of the window that is left (RFC 9438), which the draft leaves to the sender.
//! Limits: `WINDOW_MIN`.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

/// Bytes by which the window grows in a round trip without a mark.
pub(super) const PACKET: f64 = 1460.0;
const WINDOW_START: f64 = 10.0 * PACKET;
const WINDOW_MIN: f64 = 2.0 * PACKET;
/// Weight of a round trip's marked part in α.
const GAIN: f64 = 1.0 / 16.0;
/// What a loss leaves of the window.
const LOSS: f64 = 0.7;
/// Round trips count as at least so long for the growth: else who is near takes it from who is far. Seconds.
const RTT_VIRTUAL: f64 = 0.025;

/// The window.
#[derive(Clone, Copy, Debug)]
pub struct Prague {
    window: f64,
    /// α: the part of the bytes that came marked, a mean. `None` before the first signal: the window doubles in a round trip.
    part: Option<f64>,
    /// Bytes of this round trip: acknowledged, and of them marked.
    heard: (f64, f64),
    round_ends: Time,
    /// No second cut before.
    cut_until: Time,
}

impl Default for Prague {
    /// One that knows nothing of its path.
    fn default() -> Self {
        Prague {
            window: WINDOW_START,
            part: None,
            heard: (0.0, 0.0),
            round_ends: Time::ZERO,
            cut_until: Time::ZERO,
        }
    }
}

impl Prague {
    /// One that knows what the path holds, in bytes: no mark needs to halve that.
    pub fn of(window: f64) -> Self {
        Prague { window: window.max(WINDOW_MIN), part: Some(0.0), ..Prague::default() }
    }

    /// Bytes that may be under way.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// α, the mean part of the bytes that came marked; the first mark counts as if all were.
    pub fn part(&self) -> f64 {
        self.part.unwrap_or(1.0)
    }

    /// Bytes were acknowledged while the window was in use.
    pub fn acked(&mut self, now: Time, rtt: Duration, newly: Size, marked: Size) {
        self.marked(now, rtt, newly, marked);
        let unmarked = newly.saturating_sub(marked).as_f64();
        let slow = (rtt.as_secs_f64() / RTT_VIRTUAL).min(1.0);
        self.window += match self.part {
            None => unmarked,
            Some(_) => unmarked * PACKET / self.window * slow,
        };
    }

    /// The same while it was not in use: marks shrink it, nothing makes it grow.
    pub fn marked(&mut self, now: Time, rtt: Duration, newly: Size, marked: Size) {
        self.heard.0 += newly.as_f64();
        self.heard.1 += marked.as_f64();
        if marked > Size::ZERO && self.cut_until <= now {
            let part = *self.part.get_or_insert(1.0);
            self.window = (self.window * (1.0 - part / 2.0)).max(WINDOW_MIN);
            self.cut_until = now + rtt;
        }
        if self.round_ends <= now {
            if let Some(part) = &mut self.part {
                *part += GAIN * ((self.heard.1 / self.heard.0.max(1.0)).min(1.0) - *part);
            }
            (self.heard, self.round_ends) = ((0.0, 0.0), now + rtt);
        }
    }

    /// A packet was lost; the caller counts those of one round trip as one.
    pub fn lost(&mut self) {
        self.part.get_or_insert(1.0);
        self.window = (self.window * LOSS).max(WINDOW_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn it_doubles_until_the_first_mark_which_halves_it() {
        let mut prague = Prague::default();
        prague.acked(Time::ZERO, RTT, Size(14_600), Size::ZERO);
        assert_eq!(prague.window(), 2.0 * WINDOW_START);
        prague.acked(Time::from_millis(100), RTT, Size(1460), Size(1460));
        prague.acked(Time::from_millis(150), RTT, Size(1460), Size(1460));
        assert_eq!(prague.window(), WINDOW_START, "once a round trip");
    }

    #[test]
    fn the_mean_part_of_marks_moves_by_a_sixteenth_and_cuts_by_half_of_it() {
        let mut prague = Prague::of(100.0 * PACKET);
        let round = |prague: &mut Prague, place: u64, marked: u64| {
            let now = Time::from_millis(1000 + 100 * place);
            prague.acked(now, RTT, Size(99 * 1460 - marked), Size::ZERO);
            prague.acked(now, RTT, Size(marked), Size(marked));
        };
        let mut expected = 0.0;
        for place in 0..40 {
            round(&mut prague, place, 14_600);
            expected +=
                if place == 0 { 0.0 } else { (14_600.0 / (99.0 * PACKET) - expected) / 16.0 };
        }
        assert!((prague.part() - expected).abs() < 0.002, "{} {expected}", prague.part());
        let before = prague.window();
        round(&mut prague, 40, 1460);
        let after = (before + 98.0 * PACKET * PACKET / before) * (1.0 - prague.part() / 2.0);
        assert!((prague.window() - after).abs() < 0.005 * after, "{} {after}", prague.window());
    }

    #[test]
    fn who_is_near_grows_as_one_at_25_milliseconds() {
        let grown = |millis: u64| {
            let mut prague = Prague::of(100.0 * PACKET);
            let rtt = Duration::from_millis(millis);
            prague.acked(Time::ZERO, rtt, Size(146_000), Size::ZERO);
            prague.window() - 100.0 * PACKET
        };
        assert!((grown(5) - PACKET / 5.0).abs() < 1.0 && (grown(80) - PACKET).abs() < 1.0);
        let mut prague = Prague::of(100.0 * PACKET);
        prague.lost();
        assert!((prague.window() - 70.0 * PACKET).abs() < 1.0);
    }
}
