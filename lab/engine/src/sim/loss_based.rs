//! A loss-based congestion window, for connections that a kernel limits and for competitors.
//! The textbook's Reno (RFC 5681) with SACK-like detection, CUBIC (RFC 9438), or Prague, which marks govern as well.

use std::time::Duration;

use tidegate_capacity::Prague;
use tidegate_types::units::{Size, Time};

use super::cubic::Cubic;

/// Payload of a packet.
pub(super) const PACKET: u64 = 1460;

/// The window.
#[derive(Debug)]
pub(super) struct LossBased {
    law: Law,
    /// Losses of packets sent before this one are of the same round.
    recover: u64,
    /// When its pace lets the next packet go, and whether somebody waits for that.
    free_at: Time,
    is_awaited: bool,
}

#[derive(Debug)]
enum Law {
    /// Window and threshold, bytes.
    Reno(f64, f64),
    /// And bytes acknowledged that are no whole packet.
    Cubic(Cubic, u64),
    Prague(Prague),
}

impl LossBased {
    fn of(law: Law) -> Self {
        LossBased { law, recover: 0, free_at: Time::ZERO, is_awaited: false }
    }

    pub(super) fn reno() -> Self {
        LossBased::of(Law::Reno(10.0 * PACKET as f64, f64::MAX))
    }

    pub(super) fn cubic() -> Self {
        LossBased::of(Law::Cubic(Cubic::new(), 0))
    }

    pub(super) fn prague() -> Self {
        LossBased::of(Law::Prague(Prague::default()))
    }

    /// A fresh one of the same law.
    pub(super) fn anew(&self) -> Self {
        match self.law {
            Law::Reno(..) => LossBased::reno(),
            Law::Cubic(..) => LossBased::cubic(),
            Law::Prague(_) => LossBased::prague(),
        }
    }

    /// Bytes that may be under way.
    pub(super) fn window(&self) -> u64 {
        match &self.law {
            Law::Reno(window, _) => *window as u64,
            Law::Cubic(cubic, _) => (cubic.window() * PACKET as f64) as u64,
            Law::Prague(prague) => prague.window() as u64,
        }
    }

    /// Whether its pace lets a packet go.
    pub(super) fn is_free(&self, now: Time) -> bool {
        self.free_at <= now
    }

    /// A packet goes. Prague's are spread over a round trip on the path, as its draft asks for: answers whether they are.
    pub(super) fn sent(&mut self, now: Time, bytes: u64, trip: Duration) -> bool {
        let Law::Prague(prague) = self.law else { return false };
        self.free_at = now + trip.mul_f64(bytes as f64 / prague.window());
        self.is_awaited = false;
        true
    }

    /// When its pace lets the next packet go, told once.
    pub(super) fn awaited(&mut self, now: Time) -> Option<Time> {
        let is_told = std::mem::replace(&mut self.is_awaited, true);
        Some(self.free_at).filter(|at| *at > now && !is_told)
    }

    /// Bytes were acknowledged while the window was in use; so many of them came marked.
    pub(super) fn acked(&mut self, now: Time, rtt: Duration, bytes: u64, marked: u64) {
        match &mut self.law {
            Law::Reno(window, threshold) => {
                let bytes = bytes as f64;
                let is_slow_start = *window < *threshold;
                *window += if is_slow_start { bytes } else { bytes * PACKET as f64 / *window };
            }
            Law::Cubic(cubic, part) => {
                let whole = *part + bytes;
                (0..whole / PACKET).for_each(|_| cubic.acked(now, rtt));
                *part = whole % PACKET;
            }
            Law::Prague(prague) => prague.acked(now, rtt, Size(bytes), Size(marked)),
        }
    }

    /// The transmission of this place in the order of sending was lost; `newest` is the newest place.
    pub(super) fn lost(&mut self, place: u64, newest: u64) {
        if place < self.recover {
            return;
        }
        self.recover = newest;
        match &mut self.law {
            Law::Reno(window, threshold) => {
                *threshold = (*window / 2.0).max(2.0 * PACKET as f64);
                *window = *threshold;
            }
            Law::Cubic(cubic, _) => cubic.lost(),
            Law::Prague(prague) => prague.lost(),
        }
    }

    /// Nothing was heard for too long.
    pub(super) fn timed_out(&mut self, newest: u64) {
        self.lost(self.recover, newest);
        match &mut self.law {
            Law::Reno(window, _) => *window = PACKET as f64,
            Law::Cubic(cubic, _) => cubic.restarted(),
            Law::Prague(prague) => *prague = Prague::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn it_doubles_then_halves_once_a_round_then_adds_a_packet() {
        let mut reno = LossBased::reno();
        let acked = |reno: &mut LossBased| reno.acked(Time::ZERO, RTT, 14_600, 0);
        acked(&mut reno);
        assert_eq!(reno.window(), 29_200);
        reno.lost(3, 20);
        reno.lost(4, 21);
        assert_eq!(reno.window(), 14_600);
        acked(&mut reno);
        assert_eq!(reno.window(), 14_600 + PACKET);
        reno.lost(20, 30);
        assert_eq!(reno.window(), (14_600 + PACKET) / 2);
        reno.timed_out(40);
        assert_eq!(reno.window(), PACKET);
        assert_eq!(reno.anew().window(), 14_600);
    }

    #[test]
    fn cubic_counts_whole_packets_and_falls_to_seven_tenths_once_a_round() {
        let mut cubic = LossBased::cubic();
        cubic.acked(Time::ZERO, RTT, PACKET / 2, 0);
        assert_eq!(cubic.window(), 14_600);
        cubic.acked(Time::ZERO, RTT, PACKET / 2, 0);
        assert_eq!(cubic.window(), 14_600 + PACKET);
        cubic.lost(3, 20);
        cubic.lost(4, 21);
        assert_eq!(cubic.window(), (11.0 * 0.7 * PACKET as f64) as u64);
        cubic.timed_out(30);
        assert_eq!(cubic.anew().window(), 14_600);
    }
}
