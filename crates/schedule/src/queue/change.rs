//! Changes of deliveries that wait: their turn, their queue, their size.

use tidegate_types::ids::OutputId;
use tidegate_types::units::{Size, Time};

use super::{Delivery, DeliveryKey, DeliveryState, ListEnd, MoveTarget, QueueKey, Queues, Timing};

impl Queues {
    /// Makes a waiting delivery the next of its list, or the last; false if it does not wait.
    pub fn move_to(&mut self, key: DeliveryKey, turn: MoveTarget) -> bool {
        let Some(delivery) = self.deliveries.get(key) else { return false };
        let DeliveryState::Waiting(timing) = delivery.place else { return false };
        let end = match (turn, self.queues[delivery.queue].next_end()) {
            (MoveTarget::Next, end) => end,
            (MoveTarget::Last, ListEnd::Front) => ListEnd::Back,
            (MoveTarget::Last, ListEnd::Back) => ListEnd::Front,
        };
        self.unlink(key, timing);
        self.link(key, timing, end);
        true
    }

    /// Makes a waiting delivery the one that goes right after another one of its queue; false if one of them
    /// does not wait there.
    pub fn move_after(&mut self, key: DeliveryKey, before: DeliveryKey) -> bool {
        let place = |key| self.deliveries.get(key).map(|delivery| (delivery.queue, delivery.place));
        let (
            Some((queue, DeliveryState::Waiting(own))),
            Some((other, DeliveryState::Waiting(timing))),
        ) = (place(key), place(before))
        else {
            return false;
        };
        if queue != other || key == before {
            return false;
        }
        self.unlink(key, own);
        // Where the newest goes first, what goes after it stands towards the front.
        let neighbour = match self.queues[queue].next_end() {
            ListEnd::Front => Some(before),
            ListEnd::Back => self.deliveries[before].previous,
        };
        self.link_after(key, timing, neighbour);
        true
    }

    /// Puts a waiting delivery in another queue, as its newest, with another deadline; false if it does not
    /// wait.
    pub fn reseat(&mut self, key: DeliveryKey, queue: QueueKey, deadline: Time, now: Time) -> bool {
        let place = self.deliveries.get(key).map(Delivery::place);
        let Some(DeliveryState::Waiting(timing)) = place else { return false };
        self.unlink(key, timing);
        let spec = self.queues[queue].spec;
        let is_late = self.is_past(deadline, now) && !spec.strict_order;
        let delivery = &mut self.deliveries[key];
        (delivery.queue, delivery.spec, delivery.deadline) = (queue, spec, deadline);
        self.link(key, if is_late { Timing::Late } else { Timing::Live }, ListEnd::Back);
        true
    }

    /// A taken delivery goes by another output than that of its queue, until it is put back.
    pub fn divert(&mut self, key: DeliveryKey, output: OutputId) {
        let delivery = &mut self.deliveries[key];
        assert_eq!(delivery.place, DeliveryState::Taken, "only a taken delivery can be diverted");
        delivery.spec.output = output;
    }

    /// A waiting delivery is not ready until it is resized.
    pub fn hold(&mut self, key: DeliveryKey) {
        let Some(delivery) = self.deliveries.get_mut(key) else { return };
        delivery.ready = false;
        let queue = delivery.queue;
        self.rank(queue);
    }

    /// Changes the size of a waiting delivery and marks it ready.
    pub fn resize(&mut self, key: DeliveryKey, size: Size) {
        let Some(delivery) = self.deliveries.get_mut(key) else { return };
        delivery.ready = true;
        let (queue, place, old) = (delivery.queue, delivery.place, delivery.size);
        delivery.size = size;
        if let DeliveryState::Waiting(timing) = place {
            let state = &mut self.queues[queue];
            let list = &mut state.lists[timing as usize];
            list.bytes = list.bytes + size - old;
            let spec = state.spec;
            let place = self.group_at(spec.class, spec.output);
            let group = &mut self.groups[place];
            group.bytes = group.bytes + size - old;
            self.rank(queue);
        }
    }
}
