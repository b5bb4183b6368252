//! One subscriber of one camera: its bounds, and what becomes of a frame that is about to leave.
//! Source: papers/mez.txt, Algorithm 1, lines 9 to 15.
//! Inputs: a frame's capture, bytes under way. Outputs: a rung, or why none goes. O(rungs).
//! Deviations: a policy where no rung keeps both bounds; skips what would be late (docs/algorithms-frames.md#subscription).
//! Limits: `TIMES_MAX`.

use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::channel::ChannelModel;
use super::feasibility::{Feasibility, Infeasible};
use super::{Controller, ControllerInput, ControllerName, Gains, Ladder};

/// Bound of the latency that is called feasible, in times that are left: beyond it nobody reckons.
const TIMES_MAX: f64 = 100.0;

/// Bounds of latency after which a frame is given up whose accuracy was asked for in any case.
const FLOOR_PATIENCE: u32 = 10;

/// What a subscriber asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FrameTarget {
    /// From capture to the last byte at the subscriber.
    pub latency: Duration,
    /// Least accuracy of a frame, 0 to 1, by its ladder.
    pub accuracy: f64,
    /// What happens when both cannot be kept.
    pub policy: InfeasiblePolicy,
}

impl FrameTarget {
    /// From capture until a frame is given up: who asked for its accuracy in any case has it late, but not for ever.
    pub fn patience(&self) -> Duration {
        match self.policy {
            InfeasiblePolicy::Floor => self.latency * FLOOR_PATIENCE,
            InfeasiblePolicy::Skip | InfeasiblePolicy::Degrade => self.latency,
        }
    }
}

/// What happens to a frame for which no rung keeps both bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InfeasiblePolicy {
    /// It goes at the least accuracy asked for, and may be late.
    Floor,
    /// It does not go.
    Skip,
    /// It goes at what fits, below the accuracy asked for.
    #[default]
    Degrade,
}

/// A frame that waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// When it was taken, on this node's clock.
    pub captured_at: Time,
    /// Time that its bytes need on an empty path, and its encoding before: taken from the bound.
    pub overhead: Duration,
}

/// What to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameDecision {
    /// Encode it to this rung of the ladder and send it.
    Send(usize),
    /// Leave it.
    Skip(SkipReason),
}

/// Why a frame is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Its bound is over.
    Late,
    /// What is under way takes the time that it has.
    Backlogged,
    /// Only less accuracy than asked for would fit.
    Inaccurate,
}

/// A subscriber's bounds, its controller and whether its bounds can be kept.
#[derive(Debug)]
pub struct CameraSubscription {
    target: FrameTarget,
    controller: Box<dyn Controller>,
    feasibility: Feasibility,
}

impl CameraSubscription {
    /// One with these bounds.
    pub fn new(target: FrameTarget, name: ControllerName, ladder: &Ladder, gains: Gains) -> Self {
        let controller = name.build(target.latency, ladder, gains);
        CameraSubscription { target, controller, feasibility: Feasibility::default() }
    }

    /// What is known of the channel before the first frame.
    pub fn begin_at(&mut self, site: &ChannelModel, ladder: &Ladder) {
        self.controller.begin_at(site, ladder);
    }

    /// What it asks for.
    pub fn target(&self) -> &FrameTarget {
        &self.target
    }

    /// The rung for a frame that would leave now. backlog: bytes of earlier frames not acknowledged.
    pub fn choose(
        &mut self,
        now: Time,
        frame: &Frame,
        ladder: &Ladder,
        backlog: Size,
    ) -> FrameDecision {
        let deadline = frame.captured_at + self.target.latency;
        let left = deadline.since(now + frame.overhead);
        if left.is_zero() {
            return FrameDecision::Skip(SkipReason::Late);
        }
        let budget = self.controller.budget(now, &ControllerInput { left, backlog });
        let fits = ladder.largest_within(budget);
        let reached = fits.map_or(0.0, |rung| ladder.rungs()[rung].accuracy);
        let floor = ladder.least_of(self.target.accuracy).unwrap_or(ladder.rungs().len() - 1);
        let times = (ladder.expected(floor) / budget.max(1.0)).min(TIMES_MAX);
        let latency = self.target.latency.saturating_sub(left) + left.mul_f64(times);
        self.feasibility.push(now, reached >= self.target.accuracy, reached, latency);
        // A small backlog is gone before a frame of the smallest rung would be late by much.
        let smallest = || (backlog.as_f64() <= ladder.expected(0)).then_some(0);
        let Some(rung) = fits.or_else(smallest) else {
            return FrameDecision::Skip(SkipReason::Backlogged);
        };
        match self.target.policy {
            _ if ladder.rungs()[rung].accuracy >= self.target.accuracy => FrameDecision::Send(rung),
            InfeasiblePolicy::Floor => FrameDecision::Send(floor),
            InfeasiblePolicy::Degrade => FrameDecision::Send(rung),
            InfeasiblePolicy::Skip => FrameDecision::Skip(SkipReason::Inaccurate),
        }
    }

    /// A frame begins to leave.
    pub fn sent(&mut self, now: Time) {
        self.controller.sent(now);
    }

    /// So many more bytes of what was sent have arrived.
    pub fn acked(&mut self, now: Time, newly: Size) {
        self.controller.acked(now, newly);
    }

    /// A frame arrived after so long since its capture, or was given up at its deadline.
    pub fn ended(&mut self, now: Time, latency: Option<Duration>) {
        self.controller.ended(now, latency.filter(|latency| *latency <= self.target.latency));
    }

    /// What changed about whether the bounds can be kept, once; both are told to the subscriber.
    pub fn poll(&mut self) -> Option<Infeasible> {
        self.feasibility.poll()
    }
}

#[cfg(test)]
mod tests {
    use super::super::ladder::tests::four;
    use super::*;

    const LATENCY: Duration = Duration::from_millis(100);
    const FRAME: Frame = Frame { captured_at: Time::ZERO, overhead: Duration::from_millis(20) };

    /// One that has 125 kB/s to begin with: 10 kB fit in the 80 ms that are left, more do not.
    fn subscription(accuracy: f64, policy: InfeasiblePolicy) -> CameraSubscription {
        let target = FrameTarget { latency: LATENCY, accuracy, policy };
        CameraSubscription::new(target, ControllerName::FeedForward, &four(), Gains::default())
    }

    fn choose(accuracy: f64, policy: InfeasiblePolicy, millis: u64, backlog: u64) -> FrameDecision {
        let mut one = subscription(accuracy, policy);
        // The first question halves nothing but what silence takes: an acknowledgement comes first.
        one.sent(Time::ZERO);
        one.acked(Time::from_millis(10), Size(1));
        one.acked(Time::from_millis(90), Size(10_000));
        one.ended(Time::from_millis(90), Some(LATENCY));
        let frame = Frame { captured_at: Time::from_millis(100), ..FRAME };
        one.choose(Time::from_millis(100 + millis), &frame, &four(), Size(backlog))
    }

    #[test]
    fn the_best_rung_that_fits_goes() {
        assert_eq!(choose(0.0, InfeasiblePolicy::Degrade, 0, 0), FrameDecision::Send(0));
        assert_eq!(
            choose(0.0, InfeasiblePolicy::Degrade, 0, 9_000),
            FrameDecision::Send(0),
            "a small backlog"
        );
        assert_eq!(
            choose(0.0, InfeasiblePolicy::Degrade, 0, 11_000),
            FrameDecision::Skip(SkipReason::Backlogged)
        );
        assert_eq!(
            choose(0.0, InfeasiblePolicy::Degrade, 80, 0),
            FrameDecision::Skip(SkipReason::Late)
        );
    }

    #[test]
    fn below_the_floor_the_policy_decides() {
        assert_eq!(choose(0.95, InfeasiblePolicy::Degrade, 0, 0), FrameDecision::Send(0));
        assert_eq!(choose(0.95, InfeasiblePolicy::Floor, 0, 0), FrameDecision::Send(2));
        assert_eq!(
            choose(0.95, InfeasiblePolicy::Skip, 0, 0),
            FrameDecision::Skip(SkipReason::Inaccurate)
        );
        assert_eq!(
            choose(0.999, InfeasiblePolicy::Floor, 0, 0),
            FrameDecision::Send(3),
            "the best there is"
        );
    }

    #[test]
    fn only_who_asked_for_the_floor_waits_beyond_the_bound() {
        let patience = |policy| FrameTarget { latency: LATENCY, accuracy: 0.9, policy }.patience();
        assert_eq!(patience(InfeasiblePolicy::Degrade), LATENCY);
        assert_eq!(patience(InfeasiblePolicy::Skip), LATENCY);
        assert_eq!(patience(InfeasiblePolicy::Floor), LATENCY * 10);
    }

    #[test]
    fn bounds_that_cannot_be_kept_are_told() {
        let mut one = subscription(0.95, InfeasiblePolicy::Degrade);
        let mut news = Vec::new();
        for frame in 0..10 {
            let now = Time::from_millis(200 * frame);
            let frame = Frame { captured_at: now, ..FRAME };
            one.choose(now, &frame, &four(), Size::ZERO);
            news.extend(one.poll());
        }
        let [Infeasible::Began { accuracy, latency }] = news[..] else { panic!("{news:?}") };
        assert!(accuracy < 0.95 && latency > LATENCY, "{accuracy} {latency:?}");
    }

    #[test]
    fn an_early_frame_is_a_hit_and_a_late_one_is_none() {
        let mut one = subscription(0.0, InfeasiblePolicy::Degrade);
        let budget = |one: &mut CameraSubscription| {
            let moment = ControllerInput { left: LATENCY, backlog: Size::ZERO };
            one.controller.budget(Time::ZERO, &moment)
        };
        one.sent(Time::ZERO);
        one.acked(Time::ZERO, Size(1000));
        one.ended(Time::ZERO, Some(LATENCY));
        let before = budget(&mut one);
        one.ended(Time::ZERO, Some(LATENCY * 2));
        assert!(budget(&mut one) < before);
    }
}
