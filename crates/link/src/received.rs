//! What came by one path, and when the peer must hear of it.

use std::time::Duration;

use tidegate_types::ranges::Ranges;
use tidegate_types::units::Time;

use super::packet::{ACK_RUNS_MAX, MarkCount, SelectiveAck};

/// An acknowledgement goes after so many packets that ask for one.
const PACKETS: u32 = 4;
/// Or so long after the first of them. The sender's probe time-out counts with it.
pub(super) const ACK_DELAY: Duration = Duration::from_millis(5);
/// But not so soon after the one before: on fast paths each would tell of a fraction of a millisecond, and cost both
/// ends as much as a packet of data.
const SPACING: Duration = Duration::from_millis(2);

/// Packet numbers of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    runs: Ranges,
    /// Numbers below are forgotten: they came, or nothing is lost by not counting them.
    floor: u64,
    /// The newest packet, and when it came.
    newest: Option<(u64, Time)>,
    /// Packets that came marked, and whether the peer hears of them.
    pub(super) marked: u64,
    pub(super) tells_marks: bool,
    /// Packets since the last acknowledgement that ask for one.
    asking: u32,
    /// When the next acknowledgement goes at the latest.
    due: Option<Time>,
    /// None goes before, unless one is asked for.
    spaced: Time,
}

impl Received {
    /// Whether a packet of this number would be news.
    pub(super) fn is_new(&self, psn: u64) -> bool {
        psn >= self.floor && !self.runs.contains(psn)
    }

    /// A packet came and was taken; `asks` for an acknowledgement if it holds anything but one.
    pub(super) fn push(&mut self, now: Time, psn: u64, asks: bool) {
        self.runs.insert(psn..=psn);
        if self.runs.runs() > ACK_RUNS_MAX
            && let Some(oldest) = self.runs.pop_oldest()
        {
            self.floor = oldest.end() + 1;
        }
        if self.newest.is_none_or(|(newest, _)| psn > newest) {
            self.newest = Some((psn, now));
        }
        if asks {
            self.asking += 1;
            let due = if self.asking >= PACKETS { now.max(self.spaced) } else { now + ACK_DELAY };
            self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
        }
    }

    /// When an acknowledgement is due.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }

    /// What the peer is told of marked packets that came by `path`, before an acknowledgement.
    pub(super) fn marks(&self, path: u8) -> Option<MarkCount> {
        self.tells_marks.then_some(MarkCount { path, packets: self.marked })
    }

    /// The acknowledgement of everything that came by `path`, if it is time for one or `early`.
    pub(super) fn ack(&mut self, now: Time, path: u8, early: bool) -> Option<SelectiveAck> {
        let is_due = self.due.is_some_and(|due| early || due <= now);
        let (_, at) = self.newest.filter(|_| is_due)?;
        (self.due, self.asking, self.spaced) = (None, 0, now + SPACING);
        let runs = self.runs.newest_first().collect();
        let micros = |time: Time| time.as_nanos() / 1000;
        Some(SelectiveAck { path, received_at: micros(at), delay: micros(now) - micros(at), runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_packet_is_acknowledged_at_once_and_the_first_after_five_milliseconds() {
        let mut received = Received::default();
        let at = |millis| Time::from_millis(millis);
        received.push(at(10), 0, true);
        assert_eq!(received.ack(at(14), 0, false), None);
        let ack = received.ack(at(15), 2, false).unwrap();
        assert_eq!((ack.path, ack.received_at, ack.delay), (2, 10_000, 5_000));
        (1..=4).for_each(|psn| received.push(at(20), psn, true));
        assert_eq!(received.due(), Some(at(20)));
        assert_eq!(received.ack(at(20), 0, false).unwrap().runs, vec![0..=4]);
    }

    #[test]
    fn on_a_fast_path_two_milliseconds_are_acknowledged_at_once() {
        let mut received = Received::default();
        let micros = |micros| Time::from_nanos(micros * 1000);
        let mut acks = 0;
        for psn in 0..1000 {
            // Ten packets in a millisecond.
            let now = micros(psn * 100);
            received.push(now, psn, true);
            acks += usize::from(received.ack(now, 0, false).is_some());
        }
        assert_eq!(acks, 50);
    }

    #[test]
    fn acknowledgements_alone_are_not_acknowledged() {
        let mut received = Received::default();
        received.push(Time::ZERO, 0, false);
        assert_eq!((received.due(), received.ack(Time::FAR, 0, true)), (None, None));
    }

    #[test]
    fn of_many_gaps_the_oldest_are_forgotten_and_nothing_counts_twice() {
        let mut received = Received::default();
        (0..100).for_each(|number| received.push(Time::ZERO, number * 2, true));
        let ack = received.ack(Time::ZERO, 0, false).unwrap();
        assert_eq!((ack.runs.len(), ack.largest()), (ACK_RUNS_MAX, 198));
        assert!(!received.is_new(0) && !received.is_new(1) && !received.is_new(198));
        assert!(received.is_new(197) && received.is_new(199));
    }
}
