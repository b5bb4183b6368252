//! The window of CUBIC, as RFC 9438 has it, without HyStart: what a neighbour does to a shared queue.

use std::time::Duration;

use tidegate_types::units::Time;

/// C of the RFC, in packets/s³.
const C: f64 = 0.4;
/// What a loss leaves of the window.
const BETA: f64 = 0.7;
/// RFC 6928.
const START: f64 = 10.0;
const LEAST: f64 = 2.0;

/// The window, in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last loss, since when it grows again, and how long it takes to be there.
    origin: f64,
    epoch: Option<Time>,
    plateau: f64,
    /// What Reno would have.
    friendly: f64,
}

impl Cubic {
    pub(super) fn new() -> Self {
        Cubic {
            window: START,
            threshold: f64::INFINITY,
            origin: 0.0,
            epoch: None,
            plateau: 0.0,
            friendly: START,
        }
    }

    /// Packets that may be under way.
    pub(super) fn window(&self) -> f64 {
        self.window
    }

    /// A packet was acknowledged while the window was in use.
    pub(super) fn acked(&mut self, now: Time, rtt: Duration) {
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let epoch = *self.epoch.get_or_insert(now);
        let since = (now + rtt).since(epoch).as_secs_f64();
        let cubic = C * (since - self.plateau).powi(3) + self.origin;
        self.friendly += 3.0 * (1.0 - BETA) / (1.0 + BETA) / self.window;
        let target = cubic.clamp(self.window, 1.5 * self.window);
        self.window = (self.window + (target - self.window) / self.window).max(self.friendly);
    }

    /// Packets of one round were lost.
    pub(super) fn lost(&mut self) {
        // Fast convergence: who falls before the old plateau leaves room to others.
        let is_lower = self.window < self.origin;
        self.origin = if is_lower { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.plateau = (self.origin * (1.0 - BETA) / C).cbrt();
        self.window = (self.window * BETA).max(LEAST);
        (self.threshold, self.friendly, self.epoch) = (self.window, self.window, None);
    }

    /// Nothing was heard for too long.
    pub(super) fn timed_out(&mut self) {
        self.lost();
        self.restarted();
    }

    /// One packet may go.
    pub(super) fn restarted(&mut self) {
        self.window = 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_then_falls_to_seven_tenths_and_is_back_after_k_seconds() {
        let (rtt, mut now) = (Duration::from_millis(100), Time::ZERO);
        let mut cubic = Cubic::new();
        (0..90).for_each(|_| cubic.acked(now, rtt));
        assert!((cubic.window() - 100.0).abs() < 1e-9);
        cubic.lost();
        assert!((cubic.window() - 70.0).abs() < 1e-9);
        // K = cbrt(100 · 0.3 / 0.4) = 4.217 s.
        assert!((cubic.plateau - 4.217).abs() < 1e-3, "{}", cubic.plateau);
        while now < Time::from_millis(4117) {
            (0..cubic.window() as u32).for_each(|_| cubic.acked(now, rtt));
            now += rtt;
        }
        assert!((95.0..101.0).contains(&cubic.window()), "{}", cubic.window());
        while now < Time::from_millis(9000) {
            (0..cubic.window() as u32).for_each(|_| cubic.acked(now, rtt));
            now += rtt;
        }
        assert!(cubic.window() > 120.0, "{}", cubic.window());
    }

    #[test]
    fn who_falls_before_the_old_plateau_leaves_room() {
        let mut cubic = Cubic::new();
        (0..90).for_each(|_| cubic.acked(Time::ZERO, Duration::from_millis(100)));
        cubic.lost();
        cubic.lost();
        assert!((cubic.origin - 70.0 * 0.85).abs() < 1e-9, "{}", cubic.origin);
    }
}
