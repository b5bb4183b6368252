//! A loss-based congestion window, for connections that a kernel limits and for competitors.
//! The textbook's Reno (RFC 5681) with SACK-like detection; nothing newer.

/// Payload of a packet.
pub(super) const PACKET: u64 = 1460;

/// The window, in bytes.
#[derive(Debug)]
pub(super) struct Reno {
    window: f64,
    threshold: f64,
    /// Losses of packets sent before this one are of the same round.
    recover: u64,
}

impl Reno {
    pub(super) fn new() -> Self {
        Reno { window: 10.0 * PACKET as f64, threshold: f64::MAX, recover: 0 }
    }

    pub(super) fn window(&self) -> u64 {
        self.window as u64
    }

    /// Bytes were acknowledged while the window was in use.
    pub(super) fn acked(&mut self, bytes: u64) {
        let bytes = bytes as f64;
        self.window += match self.window < self.threshold {
            true => bytes,
            false => bytes * PACKET as f64 / self.window,
        };
    }

    /// The transmission of this place in the order of sending was lost; `newest` is the newest place.
    pub(super) fn lost(&mut self, place: u64, newest: u64) {
        if place >= self.recover {
            self.recover = newest;
            self.threshold = (self.window / 2.0).max(2.0 * PACKET as f64);
            self.window = self.threshold;
        }
    }

    /// Nothing was heard for too long.
    pub(super) fn timed_out(&mut self, newest: u64) {
        self.lost(self.recover, newest);
        self.window = PACKET as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_then_halves_once_a_round_then_adds_a_packet() {
        let mut reno = Reno::new();
        reno.acked(14_600);
        assert_eq!(reno.window(), 29_200);
        reno.lost(3, 20);
        reno.lost(4, 21);
        assert_eq!(reno.window(), 14_600);
        reno.acked(14_600);
        assert_eq!(reno.window(), 14_600 + PACKET);
        reno.lost(20, 30);
        assert_eq!(reno.window(), (14_600 + PACKET) / 2);
    }
}
