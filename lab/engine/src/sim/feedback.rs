//! When an acknowledgement that reached the sender's side is heard by the sender.

use std::time::Duration;

use tidegate_types::units::Time;

use super::random::Random;
use super::scenario::Feedback;

/// The shape of one connection's acknowledgements.
#[derive(Debug)]
pub(super) struct Shape {
    feedback: Feedback,
    /// When the present batch is heard.
    batch: Time,
    random: Random,
}

impl Shape {
    pub(super) fn new(feedback: Feedback, random: Random) -> Self {
        Shape { feedback, batch: Time::ZERO, random }
    }

    /// A shape of nothing, for the moment in which a connection is rebuilt.
    pub(super) fn idle() -> Self {
        Shape::new(Feedback::Each, Random::new(0, 0))
    }

    /// When what comes at `at` is heard; never before what came earlier.
    pub(super) fn heard(&mut self, at: Time) -> Time {
        match self.feedback {
            Feedback::Each => at,
            Feedback::Batched(from, to) => {
                if at > self.batch {
                    self.batch = at + self.random.span(from.0, to.0);
                }
                self.batch
            }
            Feedback::Held(held, period) => {
                let period = nanos(period.0).max(1);
                let phase = at.as_nanos() % period;
                Time::from_nanos(at.as_nanos() + nanos(held.0).saturating_sub(phase))
            }
            Feedback::Polled(period) => {
                let period = nanos(period.0).max(1);
                Time::from_nanos(at.as_nanos().div_ceil(period) * period)
            }
        }
    }
}

fn nanos(span: Duration) -> u64 {
    span.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::quantity::Span;

    fn heard(feedback: Feedback, millis: &[u64]) -> Vec<u64> {
        let mut shape = Shape::new(feedback, Random::new(1, 0));
        let ask = |&at: &u64| shape.heard(Time::from_millis(at)).as_nanos() / 1_000_000;
        millis.iter().map(ask).collect()
    }

    #[test]
    fn each_shape_by_hand() {
        let (forty, hundred) = (Span::millis(40), Span::millis(100));
        assert_eq!(heard(Feedback::Each, &[1, 2]), [1, 2]);
        assert_eq!(
            heard(Feedback::Held(forty, hundred), &[0, 10, 39, 40, 99, 110]),
            [40, 40, 40, 40, 99, 140]
        );
        assert_eq!(heard(Feedback::Polled(Span::millis(5)), &[1, 5, 6]), [5, 5, 10]);
        let batch = Feedback::Batched(Span::millis(5), Span::millis(5));
        assert_eq!(heard(batch, &[1, 3, 6, 7]), [6, 6, 6, 12]);
    }
}
