//! Messages of the journal in an outbox: it has few of them, and says what becomes of each.

use super::{Outbox, REFILL, REFILL_PART, cost};
use crate::in_flight::DeliveryNews;
use crate::message::SubscriberMessage;

impl Outbox {
    /// What waits here and is in the journal waits there only.
    pub(super) fn give_back(&mut self) {
        let (mut bytes, mut count) = (0, 0);
        let returned = &mut self.window.news().returned;
        for queue in &mut self.waiting {
            queue.give_back(|delivery| {
                returned.push(delivery.number);
                (bytes, count) = (bytes + cost(delivery), count + 1);
            });
        }
        (self.bytes, self.count) = (self.bytes - bytes, self.count - count);
    }

    /// A message of the journal is done with.
    pub(super) fn done(&mut self, number: u64) {
        if number > 0 {
            self.window.news().done.push(number);
        }
    }

    /// What the journal is to hear since this was asked last.
    pub fn take_news(&mut self) -> DeliveryNews {
        std::mem::take(self.window.news())
    }

    /// Puts back a QoS 2 delivery that an earlier process had under way; none where the subscriber has it and only its
    /// identifier is to be released.
    pub fn restore(&mut self, id: u16, number: u64, delivery: Option<SubscriberMessage>) {
        self.window.restore(id, number, delivery);
    }

    /// Whether something is to be sent again now.
    pub fn has_again(&self) -> bool {
        self.window.has_again()
    }

    /// Puts a message of the journal behind the others of its class. Who does so asks `has_space` before.
    pub fn put(&mut self, delivery: SubscriberMessage) {
        self.insert(delivery);
    }

    /// Whether the subscriber is here and little waits, so that more may be read from the journal.
    pub fn has_space(&self) -> bool {
        self.is_connected && self.bytes <= REFILL.min(self.bounds.bytes / REFILL_PART)
    }
}
