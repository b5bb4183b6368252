//! A channel as what it can carry until each millisecond.

use std::time::Duration;

use crate::link::Service;

/// Bytes that could have left until each millisecond; the last one is the end.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    until: Vec<f64>,
}

impl Channel {
    /// So much of a recording.
    pub(crate) fn new(service: &Service, length: Duration) -> Self {
        let millis = length.as_millis() as u64;
        let room = |at: u64| service.room(Duration::from_millis(at), Duration::from_millis(at + 1));
        let mut sum = 0.0;
        let next = |at| {
            let before = sum;
            sum += room(at);
            before
        };
        Channel { until: (0..=millis).map(next).collect() }
    }

    /// Its length in milliseconds.
    pub(crate) fn millis(&self) -> usize {
        self.until.len() - 1
    }

    /// Bytes that it can carry in a millisecond.
    pub(crate) fn room(&self, milli: usize) -> f64 {
        self.until[milli + 1] - self.until[milli]
    }

    /// Bytes that it can carry from one millisecond to another.
    pub(crate) fn carried(&self, from: usize, to: usize) -> f64 {
        let last = self.millis();
        self.until[to.min(last)] - self.until[from.min(last)]
    }

    /// The millisecond at whose end so many bytes have left that began at `from`; `None` if they never do.
    pub(crate) fn finish(&self, from: usize, bytes: f64) -> Option<usize> {
        let wanted = self.until.get(from)? + bytes;
        let at = self.until.partition_point(|&carried| carried < wanted - 1e-6);
        (at < self.until.len()).then_some(at.max(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Profile;

    #[test]
    fn bytes_leave_at_the_rate() {
        // 8 Mbit/s: 1,000 bytes a millisecond.
        let channel =
            Channel::new(&Service::Rate(Profile::constant(8_000_000)), Duration::from_secs(1));
        assert_eq!(channel.millis(), 1000);
        assert!((channel.room(500) - 1000.0).abs() < 1e-6);
        assert!((channel.carried(10, 20) - 10_000.0).abs() < 1e-6);
        assert_eq!(channel.finish(10, 5000.0), Some(15));
        assert_eq!(channel.finish(10, 5001.0), Some(16));
        assert_eq!(channel.finish(990, 11_000.0), None);
    }
}
