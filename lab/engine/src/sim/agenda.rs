//! What is going to happen: one queue of events, ordered by time and then by the order in which they were
//! planned.

use std::collections::BinaryHeap;

use tidegate_types::record::DeliveryId;
use tidegate_types::units::Time;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    Offer(usize),
    /// Something comes out of the uplink.
    Uplink,
    /// Something comes out of the downlink.
    Downlink,
    /// A connection hears acknowledgements.
    Hear(usize, u32),
    /// The far end's confirmation is here.
    Confirm(DeliveryId, usize, u32),
    /// A retransmission timer fires.
    Timeout(usize, u32),
    /// A constant flow sends its next packet.
    Constant(usize),
    /// A competitor begins or ends.
    Compete(usize, bool),
    /// A step of the scenario.
    Step(usize),
    /// The node's own timeout.
    Wake,
}

/// An event with its place in the order.
#[derive(Debug, PartialEq)]
struct Planned {
    at: Time,
    number: u64,
    event: Event,
}

impl Eq for Planned {}

impl Ord for Planned {
    /// The earliest is the greatest, for the heap.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Planned {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The events to come.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    events: BinaryHeap<Planned>,
    planned: u64,
}

impl Agenda {
    pub(super) fn plan(&mut self, at: Time, event: Event) {
        self.planned += 1;
        self.events.push(Planned { at, number: self.planned, event });
    }

    /// When the next event is.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.events.peek().map(|planned| planned.at)
    }

    /// The next event and its time.
    pub(super) fn next(&mut self) -> Option<(Time, Event)> {
        self.events.pop().map(|planned| (planned.at, planned.event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_as_planned() {
        let mut agenda = Agenda::default();
        for (millis, place) in [(2, 0), (1, 1), (2, 2), (1, 3)] {
            agenda.plan(Time::from_millis(millis), Event::Offer(place));
        }
        let places = std::iter::from_fn(|| agenda.next()).map(|(_, event)| match event {
            Event::Offer(place) => place,
            other => panic!("{other:?}"),
        });
        assert_eq!(places.collect::<Vec<_>>(), [1, 3, 0, 2]);
    }
}
