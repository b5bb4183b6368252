//! What scripts and the console do to waiting records.

use super::Node;
use crate::io::{Edit, Event, QueueId};
use crate::queue::{DeliveryKey, End, Place};
use crate::record::{DropReason, Fate};
use crate::units::Time;

impl Node {
    /// Applies edits in order. Handles of records that left meanwhile, or that are under way, are
    /// harmless: those edits do nothing.
    pub(super) fn edit(&mut self, now: Time, _queue: QueueId, operations: Vec<Edit>) {
        for operation in operations {
            match operation {
                Edit::Drop(id) => {
                    let key = DeliveryKey::from(id);
                    let waits = self.queues.get(key).map(|delivery| delivery.place());
                    if matches!(waits, Some(Place::Waiting(_))) {
                        self.finish(now, key, Fate::Dropped(DropReason::Script));
                    }
                }
                Edit::MoveFront(id) => {
                    self.queues.move_to(id.into(), End::Front);
                }
                Edit::MoveBack(id) => {
                    self.queues.move_to(id.into(), End::Back);
                }
                Edit::Redirect(..) => self.report(Event::Unsupported("a redirection")),
                Edit::Replace(..) => self.report(Event::Unsupported("a replacement")),
                Edit::Insert(..) => self.report(Event::Unsupported("an insertion")),
                Edit::Transform(..) => self.report(Event::Unsupported("a transformation")),
            }
        }
    }
}
