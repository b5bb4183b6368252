//! The memory of an outbox: what it holds is reserved of its account before.

use super::queue::{ClassQueue, MESSAGE, PLACE};
use super::{FREE, Outbox, PLACES, PLACES_FREE};
use crate::message::{MessageReservation, SubscriberMessage};

impl Outbox {
    /// Whether messages that are pushed now, with a footprint of so many bytes, need a reservation of their own.
    #[inline]
    pub fn needs_charge(&self, more: usize) -> bool {
        !self.is_connected || self.footprint() + more > FREE
    }

    /// Whether there is memory for a delivery, which is reserved then.
    pub(super) fn has_memory(&mut self, delivery: &mut SubscriberMessage) -> bool {
        let bytes = delivery.message.footprint();
        if !delivery.charge.is_set() && self.needs_charge(bytes) {
            match MessageReservation::of(bytes, self.held.account()) {
                Ok(charge) => delivery.charge = charge,
                Err(_) => return false,
            }
        }
        self.has_place()
    }

    /// Whether there is memory for one place more.
    pub(super) fn has_place(&mut self) -> bool {
        let places = (self.places() + 1).saturating_sub(PLACES_FREE);
        places * PLACE <= self.held.bytes() || self.held.grow(PLACES * PLACE).is_ok()
    }

    /// Places that are in use.
    pub(super) fn places(&self) -> usize {
        self.waiting.iter().map(ClassQueue::len).sum::<usize>() + self.window.len()
    }

    /// Gives back what is reserved for places that are empty again.
    pub(super) fn tidy(&mut self) {
        if self.held.bytes() == 0 {
            return;
        }
        let places = self.places();
        if places == 0 || 8 * places * PLACE < self.held.bytes() {
            self.held.shrink(self.held.bytes() - 2 * places * PLACE);
            self.waiting.iter_mut().for_each(|queue| queue.shrink_to(2 * places));
        }
    }

    /// Memory that its messages take.
    pub(super) fn footprint(&self) -> usize {
        self.held_bytes() + self.spent + (self.count + self.window.len()) * MESSAGE
    }

    /// Bytes of what waits and of what is not acknowledged.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes + self.window.bytes()
    }
}
