//! The connections of inputs, as the loop knows them.

use tidegate_types::record::{Offered, SourceId};
use tokio::sync::mpsc;

use super::Drive;
use crate::node::contract::Notice;

/// What is known of a connection of an input.
pub(super) struct Ear {
    /// Where its notices go.
    pub(super) notices: mpsc::UnboundedSender<Notice>,
    /// Whether all that comes by it is a neighbour's.
    pub(super) relays: bool,
}

impl Drive {
    /// Whether a record goes to no output. Then who has subscribed here has got it, and its sender hears
    /// that it is taken.
    pub(super) fn is_for_subscribers_only(&self, record: &Offered) -> bool {
        let ear = self.notices.get(record.source.0 as usize).and_then(Option::as_ref);
        let is_local = ear.is_some_and(|ear| !ear.relays) && self.hub.is_local(&record.key);
        if let Some(token) = record.token.filter(|_| is_local) {
            self.notify(record.source, Notice::Accept(token, Ok(())));
        }
        is_local
    }

    pub(super) fn notify(&self, source: SourceId, notice: Notice) {
        if let Some(Some(ear)) = self.notices.get(source.0 as usize) {
            // The connection may have ended a moment ago.
            let _ = ear.notices.send(notice);
        }
    }
}
