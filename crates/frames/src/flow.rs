//! One flow of a camera's frames: the newest goes, at a rung that is chosen when it goes.
//! Source: own, around papers/mez.txt, Algorithm 1.
//! Inputs: frames as they are taken, pieces that arrived or were given up. Outputs: what to encode. O(frames under way).
//! Deviations: none (docs/algorithms-frames.md#flow).
//! Limits: `UNDER_WAY_MAX`.
//!
//! All subscribers of a camera that ask for the same share a flow. Of the frames that wait only the newest is
//! kept. It is looked at when it comes, and again when something of an earlier one was settled: not more often,
//! for each look is one question to the controller.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::channel::ChannelModel;
use super::{
    CameraSubscription, ControllerName, Frame, FrameDecision, FrameTarget, Gains, Infeasible,
    Ladder, SkipReason,
};

/// Frames that may be under way at once: a controller that allows more knows nothing of the channel.
const UNDER_WAY_MAX: usize = 8;
/// Endings that are kept for who asks: more than can come between two looks.
const ENDINGS_MAX: usize = 16;
/// Weight of a new frame in the time that encoding takes.
const GAIN: f64 = 0.2;
/// Where every frame would be late by what encoding and the way took, that is forgotten so long after the last one that
/// went: else one moment in which the machine stood still would end a flow for good, for only frames teach better.
const FORGET: Duration = Duration::from_secs(1);

/// What became of a flow's frames. Each frame is counted once, but for those still waiting or under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Arrived within their bound.
    pub delivered: u64,
    /// Arrived after it.
    pub late: u64,
    /// Given up on their way.
    pub cancelled: u64,
    /// A newer one came before they left.
    pub superseded: u64,
    /// Left out, by reason: too old before they left.
    pub stale: u64,
    /// What was under way took their time.
    pub backlogged: u64,
    /// Only less accuracy than asked for would have fitted.
    pub inaccurate: u64,
    /// Could not be encoded.
    pub unencoded: u64,
    /// Showed what the one before had shown.
    pub unchanged: u64,
    /// Bytes of frames that left.
    pub bytes: u64,
}

tidegate_types::named! {
    /// What became of one frame of a flow.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FrameResult {
        /// It arrived within its bound.
        Delivered = "delivered",
        /// It arrived after it.
        Late = "late",
        /// It was given up on its way.
        Cancelled = "cancelled",
        /// A newer one came before it left.
        Superseded = "superseded",
        /// It was too old before it left.
        Stale = "stale",
        /// What was under way took its time.
        Backlogged = "backlogged",
        /// Only less accuracy than asked for would have fitted.
        Inaccurate = "inaccurate",
        /// It could not be encoded.
        Unencoded = "unencoded",
        /// It showed what the one before had shown.
        Unchanged = "unchanged",
    }
}

/// A frame of a flow that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEnding {
    /// Its number.
    pub frame: u64,
    /// How.
    pub result: FrameResult,
    /// How long after it was taken.
    pub after: Duration,
}

/// A frame that waits.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    frame: u64,
    captured_at: Time,
    /// Why it did not go when it was looked at last.
    skip: Option<SkipReason>,
}

/// A frame under way.
#[derive(Debug)]
struct Sending {
    waiting: Waiting,
    began_at: Time,
    /// Bytes that are not settled; `None` while it is encoded.
    left: Option<u64>,
    /// Whether all that is settled has arrived.
    is_whole: bool,
    /// Whether its controller has heard how it ended.
    is_over: bool,
}

/// The state of a flow.
#[derive(Debug)]
pub struct Flow {
    subscription: CameraSubscription,
    waiting: Option<Waiting>,
    /// Whether something has changed since the last look.
    is_due: bool,
    sending: VecDeque<Sending>,
    /// Time that encoding takes, seconds.
    encoding: f64,
    /// Shortest time from the first byte to the first acknowledgement.
    trip: Option<Duration>,
    /// When a frame was named last.
    named_at: Option<Time>,
    counts: FlowCounts,
    /// Of the newest frames that ended, those that nobody has heard of.
    endings: VecDeque<FrameEnding>,
}

impl Flow {
    /// A flow with these bounds.
    pub fn new(target: FrameTarget, name: ControllerName, ladder: &Ladder, gains: Gains) -> Self {
        Flow {
            subscription: CameraSubscription::new(target, name, ladder, gains),
            waiting: None,
            is_due: false,
            sending: VecDeque::new(),
            encoding: 0.0,
            trip: None,
            named_at: None,
            counts: FlowCounts::default(),
            endings: VecDeque::new(),
        }
    }

    /// The same where the channel was measured before.
    pub fn begin_at(mut self, site: &ChannelModel, ladder: &Ladder) -> Self {
        self.subscription.begin_at(site, ladder);
        self
    }

    /// What it keeps to.
    pub fn target(&self) -> &FrameTarget {
        self.subscription.target()
    }

    /// The shortest time on the way, as far as acknowledgements tell.
    pub fn way(&self) -> Duration {
        self.trip.unwrap_or_default() / 2
    }

    /// A frame was taken; frames have rising numbers.
    pub fn arrived(&mut self, frame: u64, captured_at: Time) {
        if let Some(old) = self.waiting.replace(Waiting { frame, captured_at, skip: None }) {
            let result = match old.skip {
                None => FrameResult::Superseded,
                Some(SkipReason::Late) => FrameResult::Stale,
                Some(SkipReason::Backlogged) => FrameResult::Backlogged,
                Some(SkipReason::Inaccurate) => FrameResult::Inaccurate,
            };
            self.count(captured_at, old, result);
        }
        self.is_due = true;
    }

    /// Gives a frame its result.
    fn count(
        &mut self,
        now: Time,
        Waiting { frame, captured_at, .. }: Waiting,
        result: FrameResult,
    ) {
        let counts = &mut self.counts;
        *match result {
            FrameResult::Delivered => &mut counts.delivered,
            FrameResult::Late => &mut counts.late,
            FrameResult::Cancelled => &mut counts.cancelled,
            FrameResult::Superseded => &mut counts.superseded,
            FrameResult::Stale => &mut counts.stale,
            FrameResult::Backlogged => &mut counts.backlogged,
            FrameResult::Inaccurate => &mut counts.inaccurate,
            FrameResult::Unencoded => &mut counts.unencoded,
            FrameResult::Unchanged => &mut counts.unchanged,
        } += 1;
        if self.endings.len() >= ENDINGS_MAX {
            self.endings.pop_front();
        }
        self.endings.push_back(FrameEnding { frame, result, after: now.since(captured_at) });
    }

    /// The next frame that ended, once: of those that nobody asked for the newest ones.
    pub fn poll_ended(&mut self) -> Option<FrameEnding> {
        self.endings.pop_front()
    }

    /// The frame that leaves now, and the rung to encode it to; `encoded` or `failed` must follow.
    pub fn poll(&mut self, now: Time, ladder: &Ladder) -> Option<(u64, usize)> {
        self.give_up(now);
        let is_encoding = self.sending.back().is_some_and(|one| one.left.is_none());
        if !self.is_due || is_encoding || self.sending.len() >= UNDER_WAY_MAX {
            return None;
        }
        self.is_due = false;
        let waiting = self.waiting.as_mut()?;
        let way = self.trip.unwrap_or_default() / 2;
        let overhead = Duration::from_secs_f64(self.encoding) + way;
        let frame = Frame { captured_at: waiting.captured_at, overhead };
        let backlog = Size(self.sending.iter().filter_map(|one| one.left).sum());
        match self.subscription.choose(now, &frame, ladder, backlog) {
            FrameDecision::Skip(why) => {
                waiting.skip = Some(why);
                if why == SkipReason::Late && self.named_at.is_some_and(|at| at + FORGET <= now) {
                    (self.trip, self.encoding) = (None, 0.0);
                }
                None
            }
            FrameDecision::Send(rung) => {
                let waiting = self.waiting.take()?;
                self.send(now, waiting);
                Some((waiting.frame, rung))
            }
        }
    }

    /// The frame that leaves now as it is, where nothing is between here and its subscribers: when the one
    /// before has arrived. `encoded` or `failed` must follow.
    pub fn poll_whole(&mut self, now: Time) -> Option<u64> {
        if !self.sending.is_empty() {
            return None;
        }
        let waiting = self.waiting.take()?;
        self.send(now, waiting);
        Some(waiting.frame)
    }

    fn send(&mut self, began_at: Time, waiting: Waiting) {
        self.named_at = Some(began_at);
        let sending = Sending { waiting, began_at, left: None, is_whole: true, is_over: false };
        self.sending.push_back(sending);
    }

    /// The frame named last has so many bytes and leaves.
    ///
    /// # Panics
    /// None was named.
    pub fn encoded(&mut self, now: Time, bytes: u64) {
        let sending = self.sending.back_mut().expect("a frame was named");
        let took = now.since(sending.began_at).as_secs_f64();
        self.encoding += GAIN * (took - self.encoding);
        (sending.left, sending.began_at) = (Some(bytes), now);
        self.counts.bytes += bytes;
        self.subscription.sent(now);
    }

    /// The frame named last cannot be encoded.
    pub fn failed(&mut self) {
        self.drop_named(FrameResult::Unencoded);
    }

    /// The frame named last shows what the one before has shown: it does not leave.
    pub fn unchanged(&mut self) {
        self.drop_named(FrameResult::Unchanged);
    }

    fn drop_named(&mut self, result: FrameResult) {
        if let Some(sending) = self.sending.pop_back() {
            self.count(sending.began_at, sending.waiting, result);
        }
        self.is_due = true;
    }

    /// So many bytes of a frame have arrived, or were given up.
    pub fn settled(&mut self, now: Time, frame: u64, bytes: u64, has_arrived: bool) {
        let Some(at) = self.sending.iter().position(|one| one.waiting.frame == frame) else {
            return;
        };
        self.is_due = true;
        let sending = &mut self.sending[at];
        let Some(left) = &mut sending.left else { return };
        *left = left.saturating_sub(bytes);
        let is_complete = *left == 0;
        sending.is_whole &= has_arrived;
        if has_arrived {
            let trip = now.since(sending.began_at);
            self.trip = Some(self.trip.map_or(trip, |least| least.min(trip)));
            self.subscription.acked(now, Size(bytes));
        }
        if is_complete && let Some(sending) = self.sending.remove(at) {
            self.end(now, &sending);
        }
    }

    fn end(&mut self, now: Time, sending: &Sending) {
        let latency = now.since(sending.waiting.captured_at);
        let is_in_time = sending.is_whole && latency <= self.target().latency;
        let result = match (sending.is_whole, is_in_time) {
            (false, _) => FrameResult::Cancelled,
            (true, true) => FrameResult::Delivered,
            (true, false) => FrameResult::Late,
        };
        self.count(now, sending.waiting, result);
        if !sending.is_over {
            self.subscription.ended(now, is_in_time.then_some(latency));
        }
    }

    /// Frames whose bound is over are misses, whatever becomes of their bytes.
    fn give_up(&mut self, now: Time) {
        let latency = self.target().latency;
        for sending in &mut self.sending {
            let is_late = sending.waiting.captured_at + latency < now;
            if is_late && !sending.is_over && sending.left.is_some() {
                sending.is_over = true;
                self.subscription.ended(now, None);
            }
        }
    }

    /// What changed about whether the bounds can be kept, once.
    pub fn poll_infeasible(&mut self) -> Option<Infeasible> {
        self.subscription.poll()
    }

    /// What became of its frames.
    pub fn counts(&self) -> FlowCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::InfeasiblePolicy;
    use super::super::ladder::tests::four;
    use super::*;

    const LATENCY: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Time {
        Time::from_millis(1000 + millis)
    }

    fn flow() -> Flow {
        let target =
            FrameTarget { latency: LATENCY, accuracy: 0.0, policy: InfeasiblePolicy::Degrade };
        Flow::new(target, ControllerName::FeedForward, &four(), Gains::default())
    }

    #[test]
    fn one_frame_is_encoded_at_a_time_and_the_newest_goes_next() {
        let (mut flow, ladder) = (flow(), four());
        flow.arrived(1, at(0));
        assert_eq!(flow.poll(at(0), &ladder), Some((1, 0)));
        flow.arrived(2, at(5));
        flow.arrived(3, at(6));
        assert_eq!(flow.poll(at(6), &ladder), None, "the first is being encoded");
        flow.encoded(at(7), 1000);
        flow.settled(at(20), 1, 1000, true);
        assert_eq!(flow.poll(at(20), &ladder).map(|(frame, _)| frame), Some(3));
        let counts = flow.counts();
        assert_eq!((counts.delivered, counts.superseded), (1, 1));
    }

    #[test]
    fn a_backlog_skips_until_it_is_gone() {
        let (mut flow, ladder) = (flow(), four());
        flow.arrived(1, at(0));
        assert!(flow.poll(at(0), &ladder).is_some());
        flow.encoded(at(1), 60_000);
        flow.settled(at(20), 1, 10_000, true);
        flow.arrived(2, at(21));
        assert_eq!(flow.poll(at(21), &ladder), None, "50 kB are under way");
        assert_eq!(flow.poll(at(22), &ladder), None, "nothing has changed");
        flow.settled(at(40), 1, 50_000, true);
        assert_eq!(flow.poll(at(40), &ladder).map(|(frame, _)| frame), Some(2));
    }

    #[test]
    fn a_frame_whose_pieces_are_given_up_is_cancelled_and_a_miss() {
        let (mut flow, ladder) = (flow(), four());
        flow.arrived(1, at(0));
        flow.poll(at(0), &ladder);
        flow.encoded(at(1), 3000);
        flow.settled(at(30), 1, 1000, true);
        assert_eq!(flow.poll(at(101), &ladder), None);
        flow.settled(at(110), 1, 2000, false);
        assert_eq!(flow.counts().cancelled, 1);
        assert!(flow.sending.is_empty());
        // What comes twice, or of no frame, is nothing.
        flow.settled(at(111), 1, 2000, true);
        flow.settled(at(111), 9, 2000, true);
        assert_eq!(flow.counts().delivered, 0);
    }

    #[test]
    fn what_arrives_after_its_bound_is_late() {
        let (mut flow, ladder) = (flow(), four());
        flow.arrived(1, at(0));
        flow.poll(at(0), &ladder);
        flow.encoded(at(1), 1000);
        flow.settled(at(150), 1, 1000, true);
        assert_eq!((flow.counts().late, flow.counts().delivered), (1, 0));
    }

    #[test]
    fn one_bad_moment_does_not_end_a_flow() {
        let (mut flow, ladder) = (flow(), four());
        flow.arrived(1, at(0));
        flow.poll(at(0), &ladder);
        // A machine that stood still while it encoded, and then while the first bytes were on their way.
        flow.encoded(at(700), 1000);
        flow.settled(at(1400), 1, 1000, true);
        let sent = |millis: u64, flow: &mut Flow| {
            flow.arrived(millis, at(millis));
            flow.poll(at(millis), &ladder).is_some()
        };
        assert!(!sent(1500, &mut flow), "it would be late, by what is known");
        assert!(sent(1700, &mut flow), "which is too long ago");
    }

    #[test]
    fn where_there_is_no_channel_the_newest_goes_when_the_last_has_arrived() {
        let mut flow = flow();
        flow.arrived(1, at(0));
        assert_eq!(flow.poll_whole(at(0)), Some(1));
        flow.encoded(at(0), 500_000);
        flow.arrived(2, at(1));
        flow.arrived(3, at(2));
        assert_eq!(flow.poll_whole(at(2)), None);
        flow.settled(at(3), 1, 500_000, true);
        assert_eq!(flow.poll_whole(at(3)), Some(3));
    }

    #[test]
    fn a_frame_that_cannot_be_encoded_makes_room_for_the_next() {
        let (mut flow, ladder) = (flow(), four());
        flow.arrived(1, at(0));
        assert!(flow.poll(at(0), &ladder).is_some());
        flow.arrived(2, at(1));
        flow.failed();
        assert_eq!(flow.poll(at(2), &ladder).map(|(frame, _)| frame), Some(2));
        assert_eq!(flow.counts().unencoded, 1);
    }
}
