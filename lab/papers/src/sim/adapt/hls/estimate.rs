//! What the player thinks that the network carries: the less of a fast and a slow average, weighted by time.

/// Half lives of a live stream, in seconds (hls.js: `abrEwmaFastLive`, `abrEwmaSlowLive`).
const HALF_LIVES: [f64; 2] = [3.0, 9.0];
/// Before anything is known, bits/s (`abrEwmaDefaultEstimate`).
const DEFAULT: f64 = 500e3;
/// A transfer counts as at least so long, in seconds.
const SHORTEST: f64 = 0.05;

#[derive(Clone, Copy, Debug)]
struct Average {
    half_life: f64,
    estimate: f64,
    weight: f64,
}

impl Average {
    fn sample(&mut self, weight: f64, value: f64) {
        let kept = 0.5_f64.powf(weight / self.half_life);
        self.estimate = value * (1.0 - kept) + kept * self.estimate;
        self.weight += weight;
    }

    /// Without what it began with.
    fn value(&self) -> f64 {
        self.estimate / (1.0 - 0.5_f64.powf(self.weight / self.half_life))
    }
}

/// See the file's header.
#[derive(Clone, Debug)]
pub(super) struct Estimate([Average; 2]);

impl Estimate {
    pub(super) fn new() -> Estimate {
        Estimate(HALF_LIVES.map(|half_life| Average { half_life, estimate: 0.0, weight: 0.0 }))
    }

    /// A transfer: seconds, bytes.
    pub(super) fn sample(&mut self, seconds: f64, bytes: f64) {
        let seconds = seconds.max(SHORTEST);
        self.0.iter_mut().for_each(|average| average.sample(seconds, bytes * 8.0 / seconds));
    }

    /// Bits a second.
    pub(super) fn bits(&self) -> f64 {
        match self.0[0].weight > 0.0 {
            true => self.0[0].value().min(self.0[1].value()),
            false => DEFAULT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_falls_fast_and_rises_slowly() {
        let mut estimate = Estimate::new();
        assert_eq!(estimate.bits(), DEFAULT);
        estimate.sample(3.0, 3e6 / 8.0);
        assert!((estimate.bits() - 1e6).abs() < 1.0);
        estimate.sample(3.0, 3e5 / 8.0);
        // Half of its weight is gone after 3 s: (1/4 of 1e6 + 1/2 of 1e5) / (3/4).
        assert!((estimate.bits() - 4e5).abs() < 1.0, "{}", estimate.bits());
        estimate.sample(3.0, 30e6 / 8.0);
        assert!(estimate.bits() < 5e6, "{}", estimate.bits());
    }
}
