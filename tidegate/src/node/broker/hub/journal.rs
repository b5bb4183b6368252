//! What a broker has of the journal of sessions: what earlier processes left.

use std::sync::Arc;

use tidegate_broker::{Kept, Message, RetainOutcome, Subscription, footprint};
use tidegate_types::class::ClassId;

use super::Hub;
use crate::node::broker::hub::Payer;
use crate::node::broker::seat::{Seat, Subscriber};
use crate::node::journal::Journal;

/// Retained messages that are put back at a time.
const AT_ONCE: usize = 1024;

impl Hub {
    /// What its sessions outlive the process by, once and for all.
    pub(crate) fn set_journal(&self, journal: Arc<Journal>) {
        self.write().given = journal.read(|ledger| ledger.next_session());
        // A node has one.
        let _ = self.0.journal.set(journal);
    }

    /// What its sessions outlive the process by, where it has a log.
    #[inline]
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.0.journal.get()
    }

    /// The seat of a session of an earlier process, with its subscriptions.
    pub(crate) fn restore(&self, kept: &Kept, payer: &Payer) -> Subscriber {
        let id = kept.note.session;
        let seat = Arc::new(Seat::restored(id, self.0.bounds, payer, kept.note.expiry > 0));
        let mut table = self.change();
        table.seats.insert(id, seat.clone());
        for (text, options) in &kept.subscriptions {
            let Ok(subscription) = Subscription::new(text) else { continue };
            // It was granted before; where there is less room now, it stays nevertheless.
            let _ = seat.holds().grow(footprint(&subscription));
            table.subscriptions.subscribe(id, subscription, *options);
        }
        drop(table);
        Subscriber { seat, hub: self.clone() }
    }

    /// Keeps what earlier processes had retained, where nothing newer is there.
    pub(crate) fn restore_retained(&self, messages: Vec<Arc<Message>>) {
        // Others look at what is retained meanwhile.
        for run in messages.chunks(AT_ONCE) {
            let mut retained = self.retained();
            let is_full = |one: &&Arc<Message>| retained.restore(one) == RetainOutcome::Full;
            let count = run.iter().filter(is_full).count();
            drop(retained);
            (0..count).for_each(|_| self.0.counts.unretained());
        }
    }

    /// The class of a topic, where a rule covers it.
    pub(crate) fn class_of(&self, topic: &[u8]) -> ClassId {
        let table = self.table();
        let scope = std::str::from_utf8(topic).ok().and_then(|topic| table.scopes.find(topic));
        scope.map_or(ClassId(0), |scope| scope.class)
    }
}
