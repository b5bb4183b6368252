//! A doubly linked list whose links live in the deliveries themselves: insert, move and drop in O(1).

use slotmap::SlotMap;
use tidegate_types::units::{Size, Time};

use super::{Delivery, DeliveryKey, QueueKey, Timing};

/// The deliveries of one list, in order of arrival unless they were moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct List {
    pub(super) front: Option<DeliveryKey>,
    pub(super) back: Option<DeliveryKey>,
    pub(super) records: u64,
    pub(super) bytes: Size,
}

/// A list's entry in the index of deadlines: that of its oldest record which was not counted as late yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) deadline: Time,
    pub(super) queue: QueueKey,
    pub(super) timing: Timing,
    pub(super) key: DeliveryKey,
}

/// Which end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListEnd {
    /// The oldest.
    Front,
    /// The newest.
    Back,
}

impl List {
    pub(super) fn push(
        &mut self,
        all: &mut SlotMap<DeliveryKey, Delivery>,
        key: DeliveryKey,
        end: ListEnd,
    ) {
        let neighbour = match end {
            ListEnd::Front => self.front.replace(key),
            ListEnd::Back => self.back.replace(key),
        };
        let (previous, next) = match end {
            ListEnd::Front => (None, neighbour),
            ListEnd::Back => (neighbour, None),
        };
        let delivery = &mut all[key];
        (delivery.previous, delivery.next) = (previous, next);
        self.records += 1;
        self.bytes += delivery.size;
        match (neighbour, end) {
            (Some(neighbour), ListEnd::Front) => all[neighbour].previous = Some(key),
            (Some(neighbour), ListEnd::Back) => all[neighbour].next = Some(key),
            (None, ListEnd::Front) => self.back = Some(key),
            (None, ListEnd::Back) => self.front = Some(key),
        }
    }

    /// Adds one next to one of its own, towards the back.
    pub(super) fn push_after(
        &mut self,
        all: &mut SlotMap<DeliveryKey, Delivery>,
        key: DeliveryKey,
        before: DeliveryKey,
    ) {
        let Some(next) = all[before].next else { return self.push(all, key, ListEnd::Back) };
        let delivery = &mut all[key];
        (delivery.previous, delivery.next) = (Some(before), Some(next));
        self.records += 1;
        self.bytes += delivery.size;
        all[before].next = Some(key);
        all[next].previous = Some(key);
    }

    pub(super) fn unlink(&mut self, all: &mut SlotMap<DeliveryKey, Delivery>, key: DeliveryKey) {
        let delivery = &mut all[key];
        let (previous, next) = (delivery.previous.take(), delivery.next.take());
        self.records -= 1;
        self.bytes -= delivery.size;
        match previous {
            Some(previous) => all[previous].next = next,
            None => self.front = next,
        }
        match next {
            Some(next) => all[next].previous = previous,
            None => self.back = previous,
        }
    }

    /// How many there are.
    #[inline]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The one at an end.
    #[inline]
    pub fn at(&self, end: ListEnd) -> Option<DeliveryKey> {
        match end {
            ListEnd::Front => self.front,
            ListEnd::Back => self.back,
        }
    }
}
