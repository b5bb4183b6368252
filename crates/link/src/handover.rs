//! Between a node, which orders records cut by cut, and a link, which wants them whole.
//!
//! A record is offered to the link with its first cut. Its cuts are reported as sent when the link has
//! given as many bytes to its paths: so the node keeps choosing, and holds no more below than its window.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use tidegate_types::class::ClassId;
use tidegate_types::record::DeliveryId;
use tidegate_types::units::{Size, Time};

use super::packet::Custody;

/// What an order means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderEffect {
    /// The record begins: it is to be offered.
    pub is_first: bool,
    /// The record is ordered whole, and the peer had settled it before.
    pub custody: Option<Custody>,
}

/// A record of which some cuts are ordered.
#[derive(Clone, Copy, Debug)]
struct Current {
    id: DeliveryId,
    left: Size,
    custody: Option<Custody>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// Ordered and not reported as sent, in order.
    cuts: VecDeque<(DeliveryId, Size)>,
    current: Option<Current>,
}

/// The orders of one output on a link, for one life of the link.
#[derive(Clone, Debug)]
pub struct Handover {
    /// Latency bound of each class.
    bounds: Vec<Duration>,
    /// The most urgent first.
    lanes: Vec<Lane>,
    unreported: Size,
}

impl Handover {
    /// Nothing is ordered. `bounds` has the latency of each class, the most urgent first.
    pub fn new(bounds: Vec<Duration>, lanes: usize) -> Self {
        Handover { bounds, lanes: vec![Lane::default(); lanes], unreported: Size::ZERO }
    }

    /// When a record of this class that is offered now should be there. A record that is late already
    /// must not overtake those that can still be in time: the node has chosen when it goes, and from here on
    /// each class waits as long as its bound says.
    pub fn deadline(&self, now: Time, class: ClassId) -> Time {
        now + self.bounds.get(class.index()).copied().unwrap_or_default()
    }

    /// The node orders a cut of a record of `size` bytes.
    pub fn ordered(&mut self, lane: u8, id: DeliveryId, cut: Range<u64>, size: u64) -> OrderEffect {
        let Some(lane) = self.lanes.get_mut(usize::from(lane)) else {
            return OrderEffect { is_first: false, custody: None };
        };
        let bytes = Size(cut.end.saturating_sub(cut.start));
        lane.cuts.push_back((id, bytes));
        self.unreported += bytes;
        let is_first = cut.start == 0;
        let left = Size(size.saturating_sub(cut.end));
        let known = lane.current.take_if(|current| current.id == id);
        let custody = known.and_then(|current| current.custody);
        if left > Size::ZERO {
            lane.current = Some(Current { id, left, custody });
            return OrderEffect { is_first, custody: None };
        }
        OrderEffect { is_first, custody }
    }

    /// The peer has settled a record. Answers whether the node may hear of it now: else `ordered` tells,
    /// when it has ordered all of it.
    pub fn settled(&mut self, id: DeliveryId, custody: Custody) -> bool {
        let mut currents = self.lanes.iter_mut().filter_map(|lane| lane.current.as_mut());
        match currents.find(|current| current.id == id) {
            Some(current) => {
                current.custody = Some(custody);
                false
            }
            None => true,
        }
    }

    /// The next cut that is to be reported as sent, where `waiting` bytes of the link wait for a path.
    /// What the node has not ordered of records that have begun is not its own.
    pub fn sent(&mut self, waiting: Size) -> Option<(DeliveryId, Size)> {
        let currents = self.lanes.iter().filter_map(|lane| lane.current);
        let ahead: Size = currents.map(|current| current.left).sum();
        let keep = waiting.saturating_sub(ahead);
        let lane = self.lanes.iter_mut().find(|lane| !lane.cuts.is_empty())?;
        let cut = lane.cuts.pop_front_if(|(_, bytes)| self.unreported >= keep + *bytes)?;
        self.unreported -= cut.1;
        Some(cut)
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::record::Fate;

    use super::*;

    const CONFIRMED: Custody = Custody::Final(Fate::Confirmed);

    fn handover() -> Handover {
        Handover::new(vec![Duration::from_millis(50), Duration::from_secs(10)], 2)
    }

    fn id(number: u64) -> DeliveryId {
        DeliveryId(number)
    }

    #[test]
    fn a_late_record_of_bulk_does_not_overtake_an_alarm() {
        let now = Time::from_millis(1000);
        let all = handover();
        assert_eq!(all.deadline(now, ClassId(0)), Time::from_millis(1050));
        assert_eq!(all.deadline(now, ClassId(1)), Time::from_millis(11_000));
    }

    #[test]
    fn cuts_are_sent_when_paths_have_taken_as_much() {
        let mut all = handover();
        // A record of 10 KB begins, of which the node has ordered 2 KB.
        assert!(all.ordered(1, id(7), 0..1000, 10_000).is_first);
        assert!(!all.ordered(1, id(7), 1000..2000, 10_000).is_first);
        assert_eq!(all.sent(Size(10_000)), None);
        assert_eq!(all.sent(Size(9001)), None);
        assert_eq!(all.sent(Size(9000)), Some((id(7), Size(1000))));
        assert_eq!(all.sent(Size(9000)), None);
        // The link is faster than the orders: all of them are sent.
        assert_eq!(all.sent(Size(3000)), Some((id(7), Size(1000))));
        assert_eq!(all.sent(Size(3000)), None);
        assert!(!all.ordered(1, id(7), 2000..10_000, 10_000).is_first);
        assert_eq!(all.sent(Size(3000)), None, "8000 ordered, 3000 wait");
        assert_eq!(all.sent(Size(0)), Some((id(7), Size(8000))));
    }

    #[test]
    fn urgent_cuts_are_sent_first() {
        let mut all = handover();
        assert!(all.ordered(1, id(7), 0..1000, 1000).is_first);
        assert!(all.ordered(0, id(8), 0..200, 200).is_first);
        assert_eq!(all.sent(Size(1200)), None);
        assert_eq!(all.sent(Size(1000)), Some((id(8), Size(200))));
        assert_eq!(all.sent(Size(1000)), None);
        assert_eq!(all.sent(Size(0)), Some((id(7), Size(1000))));
    }

    #[test]
    fn a_fate_waits_until_the_record_is_ordered_whole() {
        let mut all = handover();
        all.ordered(1, id(7), 0..1000, 3000);
        assert!(!all.settled(id(7), CONFIRMED));
        assert!(all.settled(id(6), CONFIRMED), "another one");
        assert_eq!(all.ordered(1, id(7), 1000..2000, 3000).custody, None);
        assert_eq!(all.ordered(1, id(7), 2000..3000, 3000).custody, Some(CONFIRMED));
        all.ordered(1, id(9), 0..10, 10);
        assert!(all.settled(id(9), CONFIRMED));
    }
}
