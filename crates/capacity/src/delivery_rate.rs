//! How fast bytes were acknowledged lately: the capacity itself, while a queue stands.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::Ack;

/// Points kept in one span of `rate_over`; acknowledgements between them are merged.
const POINTS: u32 = 128;

/// Points of the curve of acknowledged bytes over time, oldest first.
#[derive(Debug, Default)]
pub(super) struct DeliveryRate {
    points: VecDeque<(Time, Size)>,
}

impl DeliveryRate {
    /// Takes a point; what is older than `span` is forgotten: a rate over more than that is one over what is left.
    pub(super) fn push(&mut self, now: Time, delivered: Size, span: Duration) {
        let step = span / POINTS;
        // The last point may move, as long as it stays within a step of the one before it.
        let before = self.points.iter().rev().nth(1);
        if before.is_some_and(|&(at, _)| now.since(at) < step) {
            self.points.pop_back();
        }
        self.points.push_back((now, delivered));
        while self.points.len() > 2 && self.points[1].0 + span <= now {
            self.points.pop_front();
        }
        if self.points.len() > 2 * POINTS as usize {
            self.points.pop_front();
        }
    }

    /// Bytes/s acknowledged over the last `span`, or over all that is known of it.
    pub(super) fn rate_over(&self, span: Duration) -> Option<f64> {
        let &(newest, delivered) = self.points.back()?;
        let is_before = |&&(at, _): &&(Time, Size)| at + span <= newest;
        let &(oldest, base) = self.points.iter().rev().find(is_before).or(self.points.front())?;
        let elapsed = newest.since(oldest).as_secs_f64();
        (elapsed > 0.0).then(|| delivered.saturating_sub(base).as_f64() / elapsed)
    }
}

impl Ack {
    /// The delivery rate that this acknowledgement shows, in bytes/s: what was acknowledged between the
    /// last acknowledgement before its byte was sent and itself. Lumps do not bias it, for it runs from
    /// the end of one lump to the end of another.
    pub fn delivery_rate(&self, now: Time) -> Option<f64> {
        let span = now.since(self.reached_at.min(self.sent_at)).as_secs_f64();
        let bytes = self.ahead().as_f64();
        (span > 0.0).then_some(bytes / span)
    }

    /// What was under way when this byte was sent, itself included.
    pub(super) fn ahead(&self) -> Size {
        self.delivered.saturating_sub(self.delivered_at_send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(100);

    #[test]
    fn the_rate_of_a_steady_stream_is_exact_and_the_memory_bounded() {
        let mut acked = DeliveryRate::default();
        for micros in 0..1_000_000 {
            acked.push(Time::from_nanos(micros * 1000), Size(micros), SPAN);
        }
        let rate = acked.rate_over(SPAN).unwrap();
        assert!((rate - 1e6).abs() < 1.0, "{rate}");
        assert!(acked.points.len() <= 2 * POINTS as usize + 1, "{}", acked.points.len());
    }

    #[test]
    fn old_bytes_do_not_count() {
        let mut acked = DeliveryRate::default();
        let points = [(0, 0), (1000, 900_000), (1050, 905_000), (1100, 910_000)];
        for (millis, bytes) in points {
            acked.push(Time::from_millis(millis), Size(bytes), SPAN);
        }
        assert_eq!(acked.rate_over(SPAN), Some(100_000.0));
        assert_eq!(DeliveryRate::default().rate_over(SPAN), None);
    }
}
