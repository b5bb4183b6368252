//! Where the `for` loops of a run are, from one turn to the next: what they stood at may be gone by then.

use tidegate_node::io::QueueId;
use tidegate_types::record::DeliveryId;

/// Loops of one run that are followed; of more, the newest.
const CURSORS_MAX: usize = 8;

/// A loop over a queue: the record that it was given last, and what came behind that when its turn ended.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    queue: QueueId,
    last: DeliveryId,
    next: Option<DeliveryId>,
}

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct Cursors {
    /// Of this turn, the newest one last.
    now: Vec<Cursor>,
    /// Of the turn before.
    before: Vec<Cursor>,
}

impl Cursors {
    /// A loop that stood at `before`, or begins, is given another record.
    pub(super) fn step(&mut self, queue: QueueId, before: Option<DeliveryId>, last: DeliveryId) {
        let moved = Cursor { queue, last, next: None };
        let is_it = |cursor: &&mut Cursor| cursor.queue == queue && Some(cursor.last) == before;
        match self.now.iter_mut().rev().find(is_it) {
            Some(cursor) => *cursor = moved,
            None => {
                if self.now.len() >= CURSORS_MAX {
                    self.now.remove(0);
                }
                self.now.push(moved);
            }
        }
    }

    /// A turn ends: `next` finds what stands behind a record.
    pub(super) fn end_turn(&mut self, next: impl Fn(QueueId, DeliveryId) -> Option<DeliveryId>) {
        // What has not moved in this turn stands where it did.
        let stood = std::mem::take(&mut self.before).into_iter();
        let moved = std::mem::take(&mut self.now).into_iter();
        let moved = moved.map(|cursor| Cursor { next: next(cursor.queue, cursor.last), ..cursor });
        self.before = stood.chain(moved).collect();
        let too_many = self.before.len().saturating_sub(CURSORS_MAX);
        self.before.drain(..too_many);
    }

    /// What stood behind `last` when the turn before ended; `None` if no loop stood there.
    pub(super) fn resume(
        &mut self,
        queue: QueueId,
        last: DeliveryId,
    ) -> Option<Option<DeliveryId>> {
        if self.before.is_empty() {
            return None;
        }
        let is_it = |cursor: &Cursor| cursor.queue == queue && cursor.last == last;
        let place = self.before.iter().position(is_it)?;
        Some(self.before.remove(place).next)
    }

    /// The run has ended.
    pub(super) fn clear(&mut self) {
        self.now.clear();
        self.before.clear();
    }
}
