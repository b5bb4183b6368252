//! Retained messages that a subscriber asked for and that are still to be read: how far each of its
//! subscriptions has come, and nothing else.
//!
//! Limits: one for each subscription of a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_types::topic::Filter;
use tidegate_types::units::Time;

use super::message::{Ids, Message, MessageReservation, SubscriberMessage};
use super::retained::{Cursor, Retained, RetainedItem};

/// What one subscription still reads.
#[derive(Debug)]
struct Reading {
    cursor: Cursor,
    qos: u8,
    ids: Ids,
}

/// All that a session still reads, filter by filter.
#[derive(Debug, Default)]
pub struct PendingRetained(BTreeMap<Filter, Reading>);

impl PendingRetained {
    /// A subscription wants what is retained; one that reads already begins again.
    pub fn ask(&mut self, filter: Filter, qos: u8, id: Option<u32>) {
        let reading = Reading { cursor: Cursor::default(), qos, ids: id.map(|id| [id].into()) };
        self.0.insert(filter, reading);
    }

    /// Reads for no subscription any more but those that are wanted.
    pub fn retain(&mut self, is_wanted: impl Fn(&Filter) -> bool) {
        self.0.retain(|filter, _| is_wanted(filter));
    }

    /// Ends what a subscription reads.
    pub fn end(&mut self, filter: &Filter) {
        self.0.remove(filter);
    }

    /// Whether nothing is to be read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What comes next.
    pub(super) fn next(
        &mut self,
        now: Time,
        retained: &mut Retained,
        steps: &mut usize,
    ) -> RetainedItem {
        while let Some(mut entry) = self.0.first_entry() {
            let filter = entry.key().clone();
            match retained.next(&filter, &mut entry.get_mut().cursor, now, steps) {
                RetainedItem::End => drop(entry.remove()),
                found => return found,
            }
        }
        RetainedItem::End
    }

    /// A message that came for the subscription that is read.
    pub(super) fn delivery(&self, message: Arc<Message>) -> SubscriberMessage {
        let reading = self.0.first_key_value().map(|(_, reading)| reading);
        let qos = message.qos.min(reading.map_or(0, |reading| reading.qos));
        let ids = reading.and_then(|reading| reading.ids.clone());
        let charge = MessageReservation::default();
        SubscriberMessage { message, qos, retain: true, ids, charge, number: 0 }
    }
}
