//! What scripts and the console do to waiting records.

use super::Node;
use crate::io::{Edit, Event, QueueId};
use crate::queue::{Delivery, Place, Turn};
use crate::record::{DeliveryId, DropReason, Fate};
use crate::units::Time;

impl Node {
    /// Applies edits in order. Handles of records that left meanwhile, that are under way or in another
    /// queue are harmless: those edits do nothing.
    pub(super) fn edit(&mut self, now: Time, queue: QueueId, operations: Vec<Edit>) {
        for operation in operations {
            match operation {
                Edit::Drop(id) if self.waits_in(queue, id) => {
                    self.finish(now, id.into(), Fate::Dropped(DropReason::Script));
                }
                Edit::MoveFront(id) if self.waits_in(queue, id) => {
                    self.queues.move_to(id.into(), Turn::Next);
                }
                Edit::MoveBack(id) if self.waits_in(queue, id) => {
                    self.queues.move_to(id.into(), Turn::Last);
                }
                Edit::Drop(_) | Edit::MoveFront(_) | Edit::MoveBack(_) => {}
                Edit::Redirect(..) => self.report(Event::Unsupported("a redirection")),
                Edit::Replace(..) => self.report(Event::Unsupported("a replacement")),
                Edit::Insert(..) => self.report(Event::Unsupported("an insertion")),
                Edit::Transform(..) => self.report(Event::Unsupported("a transformation")),
            }
        }
    }

    fn waits_in(&self, queue: QueueId, id: DeliveryId) -> bool {
        let is_there = |delivery: &Delivery| {
            QueueId::from(delivery.queue) == queue && matches!(delivery.place(), Place::Waiting(_))
        };
        self.queues.get(id.into()).is_some_and(is_there)
    }

    /// All queues, for whoever edits them.
    pub fn queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.queues.queues().map(QueueId::from)
    }

    /// What waits in a queue: late records first, each list from its front. Nothing for a stale handle.
    pub fn waiting(&self, queue: QueueId) -> impl Iterator<Item = DeliveryId> + '_ {
        self.queues.waiting(queue.into()).map(DeliveryId::from)
    }
}
