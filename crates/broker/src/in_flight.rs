//! What a subscriber was sent and has not acknowledged: QoS 1 until its PUBACK, QoS 2 until its PUBCOMP.

use std::collections::VecDeque;

use super::delivery::{AckOutcome, NextMessage, NextSend};
use super::journal::Flight;
use super::message::SubscriberMessage;

/// Packet identifiers that are in use at once, with any receive maximum.
const FLIGHTS_MAX: usize = 32 * 1024;

/// Packet identifiers that there are: they are given in a circle, from 1.
const IDS: u64 = u16::MAX as u64;

/// From so many under way on a subscriber gets no more, once it had [`WINDOW_MAX`], whatever it takes. One that is always
/// behind would else get a message for each that it acknowledges: a packet and a turn each, at several times the cost. A
/// subscriber that takes no more than this gets as many as it takes at any time: it may wait for them.
const WINDOW_LOW: usize = 4096;

/// Publishes under way to one subscriber, whatever it takes.
pub const WINDOW_MAX: u16 = 4096 + 256;

/// Places for flights that stay where there is none.
const FLIGHTS_KEPT: usize = 64;

#[derive(Debug)]
struct InFlight {
    id: u16,
    /// Identifiers that had been looked at when it got its own.
    tried: u64,
    /// `None` once the subscriber has it: then only its identifier is to be released.
    delivery: Option<SubscriberMessage>,
    /// Its number in the journal of sessions; 0 where it is not there.
    number: u64,
}

/// The deliveries of one session that are under way, oldest first.
#[derive(Debug)]
pub(super) struct FlightWindow {
    flights: VecDeque<InFlight>,
    /// The last ones, which were not yet sent on the present connection.
    unsent: usize,
    /// Publishes on the present connection that count against its receive maximum.
    open: usize,
    receive_maximum: usize,
    /// It was full, and has as many as a subscriber may have to wait for since.
    is_full: bool,
    last_id: u16,
    /// Identifiers that were looked at so far.
    tried: u64,
    /// Bytes of the messages.
    bytes: usize,
    /// What the journal is to hear.
    news: DeliveryNews,
}

/// What the journal of sessions is to hear of deliveries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryNews {
    /// Messages that are done with.
    pub done: Vec<u64>,
    /// QoS 2 deliveries that began, or that the subscriber has: it must be safe before the next word to the subscriber.
    pub flights: Vec<Flight>,
    /// Messages that wait in the journal again, for their subscriber is away.
    pub returned: Vec<u64>,
}

impl DeliveryNews {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.done.is_empty() && self.flights.is_empty() && self.returned.is_empty()
    }
}

impl Default for FlightWindow {
    fn default() -> Self {
        FlightWindow {
            flights: VecDeque::new(),
            unsent: 0,
            open: 0,
            receive_maximum: usize::from(u16::MAX),
            is_full: false,
            last_id: 0,
            tried: 0,
            bytes: 0,
            news: DeliveryNews::default(),
        }
    }
}

impl FlightWindow {
    /// A new connection: all that is under way is sent again, in order (MQTT 5, 4.4).
    pub(super) fn connect(&mut self, receive_maximum: u16) {
        self.unsent = self.flights.len();
        self.open = 0;
        self.receive_maximum = usize::from(receive_maximum);
        self.is_full = false;
        self.measure();
    }

    fn max(&self) -> usize {
        self.receive_maximum.min(FLIGHTS_MAX)
    }

    /// Whether it is full, after a change.
    fn measure(&mut self) {
        let (max, count) = (self.max(), self.flights.len());
        self.is_full = count >= max || self.is_full && count >= max.min(WINDOW_LOW);
    }

    /// Whether another publish may begin.
    pub(super) fn has_room(&self) -> bool {
        // What is only to be released counts too: so there is never more under way than this.
        self.unsent == 0 && !self.is_full
    }

    /// Begins a publish; there must be room.
    pub(super) fn begin(&mut self, delivery: SubscriberMessage) -> u16 {
        let mut id = self.last_id;
        loop {
            id = id.checked_add(1).unwrap_or(1);
            self.tried += 1;
            if !self.is_used(id) {
                break;
            }
        }
        self.last_id = id;
        self.bytes += delivery.message.size();
        let (tried, number) = (self.tried, delivery.number);
        if number > 0 && delivery.qos == 2 {
            self.news.flights.push(Flight { number, id, is_received: false });
        }
        self.flights.push_back(InFlight { id, tried, delivery: Some(delivery), number });
        self.open += 1;
        self.measure();
        id
    }

    /// Whether the identifier that is tried belongs to a flight: not before the circle has come round to the oldest.
    fn is_used(&self, id: u16) -> bool {
        self.flights.front().is_some_and(|oldest| self.tried - oldest.tried >= IDS)
            && self.flights.iter().any(|flight| flight.id == id)
    }

    /// The delivery that was begun last.
    pub(super) fn newest(&self) -> Option<&SubscriberMessage> {
        self.flights.back()?.delivery.as_ref()
    }

    /// Whether something is to be sent again now.
    pub(super) fn has_again(&self) -> bool {
        let next = self.flights.get(self.flights.len() - self.unsent);
        next.is_some_and(|next| next.delivery.is_none() || self.open < self.receive_maximum)
    }

    /// What is to be sent again next.
    pub(super) fn again(&mut self) -> Option<NextSend<'_>> {
        if !self.has_again() {
            return None;
        }
        let place = self.flights.len() - self.unsent;
        self.unsent -= 1;
        let InFlight { id, delivery, .. } = self.flights.get(place)?;
        Some(match delivery {
            None => NextSend::Release(*id),
            Some(delivery) => {
                self.open += 1;
                let delivery = NextMessage::Kept(delivery);
                NextSend::Publish { delivery, id: Some(*id), again: true }
            }
        })
    }

    /// Ends a publish whose QoS is `qos`.
    pub(super) fn acknowledged(&mut self, id: u16, qos: u8) -> AckOutcome {
        let is_it = |delivery: &Option<SubscriberMessage>| {
            delivery.as_ref().is_some_and(|delivery| delivery.qos == qos)
        };
        self.remove(id, is_it)
    }

    /// The subscriber has a QoS 2 publish.
    pub(super) fn received(&mut self, id: u16) -> AckOutcome {
        let Some(flight) = self.flights.iter_mut().find(|flight| flight.id == id) else {
            return AckOutcome::Unknown;
        };
        if flight.delivery.as_ref().is_some_and(|delivery| delivery.qos != 2) {
            return AckOutcome::Wrong;
        }
        // Its identifier counts until it is released, as the publish did.
        if let Some(delivery) = flight.delivery.take() {
            self.bytes -= delivery.message.size();
            if flight.number > 0 {
                self.news.flights.push(Flight { number: flight.number, id, is_received: true });
            }
        }
        AckOutcome::Expected
    }

    /// Puts back what an earlier process had under way: before anything else.
    pub(super) fn restore(&mut self, id: u16, number: u64, delivery: Option<SubscriberMessage>) {
        // Identifiers are looked for as if the circle had come round to it.
        self.tried = self.tried.max(IDS);
        self.last_id = id;
        self.bytes += delivery.as_ref().map_or(0, |delivery| delivery.message.size());
        self.flights.push_back(InFlight { id, tried: 0, delivery, number });
        self.unsent += 1;
        self.measure();
    }

    /// What the journal is to hear.
    pub(super) fn news(&mut self) -> &mut DeliveryNews {
        &mut self.news
    }

    /// Ends a QoS 2 publish.
    pub(super) fn completed(&mut self, id: u16) -> AckOutcome {
        self.remove(id, Option::is_none)
    }

    fn remove(
        &mut self,
        id: u16,
        is_it: impl Fn(&Option<SubscriberMessage>) -> bool,
    ) -> AckOutcome {
        let Some(place) = self.flights.iter().position(|flight| flight.id == id) else {
            return AckOutcome::Unknown;
        };
        if !is_it(&self.flights[place].delivery) {
            return AckOutcome::Wrong;
        }
        if place >= self.flights.len() - self.unsent {
            self.unsent -= 1;
        } else {
            self.open = self.open.saturating_sub(1);
        }
        if let Some(InFlight { delivery, number, .. }) = self.flights.remove(place) {
            self.bytes -= delivery.map_or(0, |delivery| delivery.message.size());
            if number > 0 {
                self.news.done.push(number);
            }
        }
        self.measure();
        if self.flights.is_empty() {
            self.flights.shrink_to(FLIGHTS_KEPT);
        }
        AckOutcome::Expected
    }

    /// The deliveries under way that a subscriber has yet to acknowledge.
    pub(super) fn deliveries(&mut self) -> impl Iterator<Item = &mut SubscriberMessage> {
        self.flights.iter_mut().filter_map(|flight| flight.delivery.as_mut())
    }

    /// Bytes of their messages.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Deliveries under way.
    pub(super) fn len(&self) -> usize {
        self.flights.len()
    }
}
