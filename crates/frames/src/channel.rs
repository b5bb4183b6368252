//! What a site's channel takes for so many bytes: a line through latencies of probes.
//! Source: papers/mez.txt, Fig. 5 and Algorithm 1, line 1: the nominal size by a regression of the site.
//! Inputs: bytes and seconds of each probe. Outputs: seconds at no bytes, seconds a byte, with intervals. O(probes).
//! Deviations: an interval beside each figure; controllers begin from its cautious end (docs/algorithms-frames.md#site).
//! Limits: `PROBES_MIN`.

use std::time::Duration;

use super::ladder::Ladder;

/// Fewest probes that make a line.
pub const PROBES_MIN: usize = 8;
/// Half of the 95 % interval, in standard errors: for 30 probes and more; fewer are told apart by `PROBES_MIN` only.
const ERRORS: f64 = 2.04;

/// A figure and the ends of its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConfidenceInterval {
    /// The figure.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// `latency = base + bytes * per_byte`, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatencyLine {
    /// Of no bytes at all.
    pub base: ConfidenceInterval,
    /// Of one more.
    pub per_byte: ConfidenceInterval,
}

/// What a controller begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelModel {
    /// Latency of a frame of no bytes.
    pub base: Duration,
    /// What the channel carries, bytes/s: > 0.
    pub rate: f64,
}

impl LatencyLine {
    /// The line of least squares through probes, each bytes and seconds; `None`: there are too few, or all of one size,
    /// or larger ones are not slower.
    pub fn through(probes: &[(f64, f64)]) -> Option<LatencyLine> {
        if probes.len() < PROBES_MIN {
            return None;
        }
        let count = probes.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| probes.iter().map(of).sum::<f64>() / count;
        let (bytes, seconds) = (mean(|probe| probe.0), mean(|probe| probe.1));
        let spread: f64 = probes.iter().map(|probe| (probe.0 - bytes).powi(2)).sum();
        let product: f64 = probes.iter().map(|probe| (probe.0 - bytes) * (probe.1 - seconds)).sum();
        let slope = product / spread;
        // Not a number where all are of one size.
        if spread <= 0.0 || slope <= 0.0 {
            return None;
        }
        let base = seconds - slope * bytes;
        let left: f64 = probes.iter().map(|probe| (probe.1 - base - slope * probe.0).powi(2)).sum();
        let variance = left / (count - 2.0);
        let estimate = |mean: f64, error: f64| {
            let half = ERRORS * error;
            ConfidenceInterval { mean, low: mean - half, high: mean + half }
        };
        let of_base = (variance * (1.0 / count + bytes.powi(2) / spread)).sqrt();
        Some(LatencyLine {
            base: estimate(base, of_base),
            per_byte: estimate(slope, (variance / spread).sqrt()),
        })
    }

    /// The cautious end of it: what the channel surely carries.
    pub fn site(&self) -> ChannelModel {
        let base = Duration::try_from_secs_f64(self.base.high.max(0.0)).unwrap_or_default();
        ChannelModel { base, rate: 1.0 / self.per_byte.high }
    }
}

impl ChannelModel {
    /// The paper's nominal size: what arrives within so long, within a ladder. bytes.
    pub(super) fn nominal(&self, within: Duration, ladder: &Ladder) -> f64 {
        let rungs = ladder.rungs();
        let left = within.saturating_sub(self.base).as_secs_f64();
        (self.rate * left).clamp(rungs[0].bytes, rungs[rungs.len() - 1].bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ladder::tests::four;
    use super::*;

    /// 12 ms and 500 kB/s, with noise of 1 ms to either side by turns.
    fn probes(noise: f64) -> Vec<(f64, f64)> {
        let probe = |at: u32| {
            let bytes = f64::from(1 + at % 8) * 8000.0;
            let side = if at.is_multiple_of(2) { noise } else { -noise };
            (bytes, 0.012 + bytes / 500_000.0 + side)
        };
        (0..41).map(probe).collect()
    }

    #[test]
    fn a_line_is_found_with_its_interval() {
        let exact = LatencyLine::through(&probes(0.0)).unwrap();
        assert!((exact.base.mean - 0.012).abs() < 1e-9);
        assert!((exact.per_byte.high * 500_000.0 - 1.0).abs() < 1e-6);
        let noisy = LatencyLine::through(&probes(0.001)).unwrap();
        let (base, slope) = (noisy.base, noisy.per_byte);
        assert!(base.low < 0.012 && 0.012 < base.high, "{base:?}");
        assert!(slope.low < 2e-6 && 2e-6 < slope.high, "{slope:?}");
        let site = noisy.site();
        assert!(site.rate < 500_000.0 && site.base > Duration::from_millis(12), "{site:?}");
    }

    #[test]
    fn what_makes_no_line_is_none() {
        assert_eq!(LatencyLine::through(&probes(0.0)[..7]), None, "too few");
        assert_eq!(LatencyLine::through(&[(1000.0, 0.01); 20]), None, "of one size");
        let falling: Vec<(f64, f64)> =
            (1..20).map(|at| (f64::from(at), 1.0 / f64::from(at))).collect();
        assert_eq!(LatencyLine::through(&falling), None);
    }

    #[test]
    fn the_nominal_size_is_what_arrives_in_time() {
        let site = ChannelModel { base: Duration::from_millis(20), rate: 500_000.0 };
        let of = |millis| site.nominal(Duration::from_millis(millis), &four());
        let ladder = four();
        let most = ladder.rungs()[3].bytes;
        assert!((of(70) - 25_000.0_f64.min(most)).abs() < 1e-6, "{}", of(70));
        assert!((of(10) - ladder.rungs()[0].bytes).abs() < 1e-9);
        assert!((of(9000) - most).abs() < 1e-9);
    }
}
