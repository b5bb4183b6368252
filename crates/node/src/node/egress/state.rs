//! What egress knows of each connection, output and uplink.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_capacity::uplink::Uplink;
use tidegate_schedule::Scheduler;
use tidegate_schedule::estimate::Meter;
use tidegate_schedule::queue::{DeliveryKey, List, Timing};
use tidegate_types::class::ClassId;
use tidegate_types::units::{Size, Time};

use crate::io::{PathSample, TcpState};

/// Shorter than this a far end's refusals are a queue that is full for a moment.
const REFUSING: Duration = Duration::from_secs(1);

/// A cut that is picked and not yet handed over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Picked {
    pub(super) key: DeliveryKey,
    pub(super) class: ClassId,
    pub(super) piece: Size,
    /// Number of the delivery on the connection, for it can be there twice: refused and sent again.
    pub(super) number: u64,
    /// Whether the record is whole with it.
    pub(super) is_last: bool,
}

/// One connection of an output.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    pub(super) is_up: bool,
    /// The delivery of which some cuts are picked and some are not, and the list that it came from.
    pub(super) current: Option<(DeliveryKey, Timing)>,
    /// Cuts picked and not yet handed over, in order.
    pub(super) picked: VecDeque<Picked>,
    /// Deliveries wholly picked and not yet confirmed, in the order of picking.
    pub(super) unconfirmed: List,
    pub(super) last_number: u64,
    pub(super) silence: Silence,
    /// What the kernel said of it last, where it is a TCP connection that is up.
    pub(super) tcp: Option<TcpState>,
}

/// One output.
#[derive(Debug)]
pub(super) struct OutputState {
    pub(super) lanes: Vec<LaneState>,
    /// Index of its uplink.
    pub(super) uplink: usize,
    /// Index of its first lane among the paths of its uplink.
    pub(super) first_path: usize,
    /// How many records may be unconfirmed at once: as configured, or as the far end says, if that is less.
    pub(super) window: usize,
    /// Set by the driver where the whole destination is known to be down.
    pub(super) is_down: bool,
    /// Records and bytes that went by it though their queue is another output's.
    pub(super) redirected: (u64, Size),
    /// When the far end refused for now what it was sent, and since when it has confirmed nothing.
    pub(super) refused_since: Option<Time>,
    /// A connection went down after such a refusal: a new one shows nothing before it confirms something.
    pub(super) is_shut: bool,
}

impl OutputState {
    pub(super) fn new(lanes: usize, window: usize, uplink: usize, first_path: usize) -> Self {
        let mut state = OutputState {
            lanes: Vec::new(),
            uplink,
            first_path,
            window,
            is_down: false,
            redirected: Default::default(),
            refused_since: None,
            is_shut: false,
        };
        state.lanes.resize_with(lanes, LaneState::default);
        state
    }

    /// Whether it takes records, as far as can be seen.
    pub(super) fn is_open(&self) -> bool {
        !self.is_shut && self.lanes.iter().any(|lane| lane.is_up)
    }

    /// Whether the far end has been refusing for so long that somebody should look.
    pub(super) fn is_refusing(&self, now: Time) -> bool {
        self.refused_since.is_some_and(|since| now.since(since) >= REFUSING)
    }

    /// Deliveries sent in part or whole and not confirmed.
    pub(super) fn unconfirmed(&self) -> usize {
        let open = |lane: &LaneState| {
            lane.unconfirmed.records() as usize + usize::from(lane.current.is_some())
        };
        self.lanes.iter().map(open).sum()
    }
}

/// An uplink with what decides on it.
#[derive(Debug)]
pub(super) struct UplinkState {
    pub(super) uplink: Uplink,
    pub(super) scheduler: Box<dyn Scheduler>,
    /// Arrivals and departures of each class.
    pub(super) meters: Vec<(Meter, Meter)>,
    /// When the pacer or a cap lets it go on.
    pub(super) wake: Option<Time>,
    /// What its failures have taught.
    pub(super) trust: Trust,
    /// Bytes of urgent records that went before one that the scheduler had chosen, since it waits.
    pub(super) overtaken: Size,
    /// Whether the most urgent class alone is more than it carries, while neighbours lend.
    pub(super) is_flooded: bool,
}

/// Since when nothing of what a connection was handed has been acknowledged; nothing where nothing waits
/// for it.
#[derive(Debug, Default)]
pub(super) struct Silence {
    pub(super) since: Option<Time>,
    /// When something was acknowledged last.
    pub(super) heard: Time,
    delivered: Size,
    /// Bytes that were handed over and when, the newest ones, as many as have no acknowledgement.
    handed: VecDeque<(Time, Size)>,
    unanswered: Size,
    /// Whether some of them had not left this host at last.
    has_unsent: bool,
}

/// Bytes that are handed over within this count as handed over together.
const TOGETHER: Duration = Duration::from_millis(2);
/// Bound on such points.
const HANDED_MAX: usize = 1024;

impl Silence {
    /// The connection took bytes.
    pub(super) fn hand(&mut self, now: Time, bytes: Size) {
        self.unanswered += bytes;
        let is_full = self.handed.len() >= HANDED_MAX;
        match self.handed.back_mut().filter(|(at, _)| is_full || *at + TOGETHER > now) {
            Some((_, together)) => *together += bytes,
            None => self.handed.push_back((now, bytes)),
        }
    }

    /// How long the oldest byte on the wire has been waiting for its acknowledgement; where some have not left this host, how
    /// long nothing was acknowledged.
    pub(super) fn waits(&self, now: Time) -> Option<Duration> {
        let oldest = self.handed.front().filter(|_| !self.has_unsent).map(|(at, _)| *at);
        Some(now.since(oldest.or(self.since)?))
    }

    /// Figures of the connection came.
    pub(super) fn note(&mut self, now: Time, sample: &PathSample) {
        self.has_unsent = sample.unsent > Size::ZERO;
        while let Some((_, bytes)) = self.handed.front()
            && self.unanswered >= sample.in_flight + *bytes
        {
            self.unanswered -= *bytes;
            self.handed.pop_front();
        }
        if sample.delivered > self.delivered {
            self.heard = now;
        }
        // What has not left this host says nothing of the way: the far end may not read.
        if sample.in_flight <= sample.unsent {
            self.since = None;
        } else if sample.delivered > self.delivered || self.since.is_none() {
            self.since = Some(now);
        }
        self.delivered = sample.delivered;
    }

    /// Whether it lasts for longer than may be.
    pub(super) fn lasts(&self, now: Time, patience: Duration) -> bool {
        self.since.is_some_and(|since| now.since(since) >= patience)
    }
}

/// How long an uplink that carries again is believed to carry only what it has shown since.
const PROBATION: Duration = Duration::from_secs(2);
/// The same where it fails again and again: it doubles with each failure, up to this.
const PROBATION_MAX: Duration = Duration::from_secs(16);

/// What an uplink's failures have taught.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trust {
    is_dead: bool,
    /// Until when it is believed only what it shows.
    pub(super) proves_until: Time,
    /// The last such time, for the next one to be longer.
    probation: Duration,
}

impl Trust {
    /// Looks at it; answers whether it is believed to carry more than it shows.
    pub(super) fn note(&mut self, now: Time, is_dead: bool) -> bool {
        if is_dead && !self.is_dead {
            let is_again = now < self.proves_until + self.probation;
            let next = if is_again { self.probation * 2 } else { PROBATION };
            self.probation = next.clamp(PROBATION, PROBATION_MAX);
        }
        if is_dead {
            self.proves_until = now + self.probation;
        }
        self.is_dead = is_dead;
        self.proves_until <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_waits_until_it_is_no_more_among_the_newest_that_are_in_flight() {
        let at = |ms: u64| Time::from_millis(1000 + ms);
        let waits = |silence: &Silence| silence.waits(at(100)).map(|age| age.as_millis());
        let sample = |in_flight, unsent| PathSample {
            in_flight: Size(in_flight),
            unsent: Size(unsent),
            ..PathSample::default()
        };
        let mut silence = Silence::default();
        assert_eq!(waits(&silence), None);
        [0, 1, 40].into_iter().for_each(|ms| silence.hand(at(ms), Size(500)));
        assert_eq!(waits(&silence), Some(100));
        silence.note(at(60), &sample(1000, 0));
        assert_eq!(waits(&silence), Some(100), "the first two count as one");
        silence.note(at(60), &sample(500, 0));
        assert_eq!(waits(&silence), Some(60));
        silence.note(at(70), &sample(500, 100));
        assert_eq!(waits(&silence), Some(40), "the far end may not read: only silence counts");
        silence.note(at(80), &sample(0, 0));
        assert_eq!(waits(&silence), None);
    }

    #[test]
    fn an_uplink_that_fails_again_is_believed_later_each_time() {
        let mut trust = Trust::default();
        let second = |at: u64| Time::from_millis(at * 1000);
        assert!(trust.note(second(10), false));
        let mut believed_after = Vec::new();
        let mut now = 10;
        for _ in 0..5 {
            trust.note(second(now), true);
            let back = now;
            while !trust.note(second(now), false) {
                now += 1;
            }
            believed_after.push(now - back);
        }
        assert_eq!(believed_after, [2, 4, 8, 16, 16]);
        trust.note(second(now + 100), true);
        trust.note(second(now + 101), false);
        assert!(trust.note(second(now + 102), false), "an old failure is forgotten");
    }
}
