//! The end of a node: what is held is given up, or left to the log.

use tidegate_schedule::queue::{DeliveryKey, End, Progress, RecordKey};
use tidegate_types::record::{DropReason, Fate};
use tidegate_types::units::{Size, Time};

use super::Node;
use super::durable::Logged;
use crate::io::{Event, Output};

impl Node {
    /// Gives up everything that is held, but for what the log has: that stays there and is sent after the
    /// next start.
    pub(super) fn discard(&mut self, now: Time) {
        self.is_stopping = true;
        self.refuse_blocked();
        for lane in self.outputs.iter_mut().flat_map(|output| &mut output.lanes) {
            lane.current = None;
            while let Some(key) = lane.unconfirmed.at(End::Front) {
                self.queues.take_unconfirmed(&mut lane.unconfirmed, key);
            }
        }
        let keys: Vec<DeliveryKey> = self.queues.keys().collect();
        for key in keys {
            let progress = self.queues.get(key).map(|delivery| delivery.progress);
            let is_begun = |progress: Progress| progress.picked > Size::ZERO;
            if progress.is_some_and(|progress| is_begun(progress) && !progress.is_handed()) {
                self.outbox.push_back(Output::Cancel(key.into()));
            }
            let record = self.queues.get(key).map(|delivery| delivery.record);
            match record.and_then(|record| Some((record, self.logged_of(record)?))) {
                Some((record, logged)) => self.leave(record, logged),
                None => self.finish(now, key, Fate::Dropped(DropReason::Stopped)),
            }
        }
        self.check_drained();
    }

    pub(super) fn logged_of(&self, record: RecordKey) -> Option<Logged> {
        self.held[record].owed.as_ref()?.logged
    }

    /// A node that stops is drained when nothing is in memory and the log knows every fate.
    pub(super) fn check_drained(&mut self) {
        let is_settled = self.store.as_ref().is_none_or(|store| store.is_settled());
        if self.is_stopping && self.held.is_empty() && is_settled && !self.is_drained {
            self.is_drained = true;
            self.report(Event::Drained);
        }
    }
}
