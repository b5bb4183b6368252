//! Sessions of publishers: which of their QoS 2 publishes the log has and they have not released, so that
//! one that comes again after a crash is known.
//!
//! Such a record is not sent before the log has it: a crash in between would let it come twice, for its
//! client sends it again, and the next process gives it another name.
//!
//! A packet identifier goes to the log with its record and leaves it by an entry of its own, before the
//! client may use it again. A session is written down before its first such record, and ended in the log
//! before a client that wants a new one is let in: else a crash would bring back identifiers that mean
//! something else by then, and swallow new publishes. All of it is in each checkpoint, so that no segment
//! is kept for its sake.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use slotmap::SlotMap;
use tidegate_log::{SessionOwner, SessionState, WallTime};

use super::unappended::{Promise, SessionKey, Taken, Who};

/// A session that outlives its connection.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) client: Arc<str>,
    pub(super) owner: SessionOwner,
    pub(super) lasts: Duration,
    pub(super) ends: Option<WallTime>,
    /// Whether the log's last word is that its client is away.
    pub(super) is_away_in_log: bool,
    /// The log failed to take an identifier of it, and may show it nevertheless.
    pub(super) is_doubtful: bool,
    /// It ended, and the log may not know yet.
    pub(super) is_over: bool,
    /// With each, whether it was released: then the log may not know yet.
    pub(super) packets: BTreeMap<u16, bool>,
}

impl Known {
    /// What the log says of it.
    pub(super) fn state(&self) -> SessionState {
        let Known { client, owner, lasts, ends, packets, .. } = self;
        let taken = packets.iter().filter(|(_, is_released)| !**is_released);
        let packets = taken.map(|(&packet, _)| packet).collect();
        let (client, owner) = (client.clone(), owner.clone());
        SessionState { client, owner, lasts: *lasts, ends: *ends, packets }
    }
}

/// Sessions that outlive their connections.
#[derive(Debug, Default)]
pub(super) struct PublisherSessions {
    pub(super) known: SlotMap<SessionKey, Known>,
    pub(super) names: BTreeMap<Arc<str>, SessionKey>,
    /// Who speaks for a client now, and how long its session then lasts.
    pub(super) speakers: BTreeMap<Arc<str>, (Who, Duration)>,
    /// Identifiers of all sessions.
    pub(super) packets: usize,
    /// What waits for the next checkpoint, for the log fails.
    pub(super) owed: Vec<Promise>,
}

impl PublisherSessions {
    /// What a checkpoint says of them.
    pub(super) fn states(&self) -> Vec<SessionState> {
        self.known.values().filter(|known| !known.is_over).map(Known::state).collect()
    }

    /// A checkpoint says it: what it is to fulfil.
    pub(super) fn written(&mut self) -> Vec<Promise> {
        for known in self.known.values_mut() {
            known.is_away_in_log = known.ends.is_some();
        }
        std::mem::take(&mut self.owed)
    }

    /// The log holds a checkpoint: what failed before it counts no more.
    pub(super) fn settled(&mut self) {
        self.known.values_mut().for_each(|known| known.is_doubtful = false);
    }

    /// The log does not hold it: the next checkpoint will.
    pub(super) fn failed(&mut self, promises: impl IntoIterator<Item = Promise>) {
        self.owed.extend(promises);
    }

    /// The record of this identifier did not get into the log.
    pub(super) fn untake(&mut self, taken: Option<Taken>) {
        let Some(Taken { session, packet }) = taken else { return };
        if let Some(known) = self.known.get_mut(session) {
            known.is_doubtful = true;
            self.packets -= usize::from(known.packets.remove(&packet).is_some());
        }
    }

    /// A session of its own.
    pub(super) fn open(&mut self, state: SessionState) -> SessionKey {
        let SessionState { client, owner, lasts, ends, packets } = state;
        self.packets += packets.len();
        let is_away_in_log = ends.is_some();
        let packets = packets.into_iter().map(|packet| (packet, false)).collect();
        let name = client.clone();
        let (is_doubtful, is_over) = (false, false);
        let known =
            Known { client, owner, lasts, ends, is_away_in_log, is_doubtful, is_over, packets };
        let key = self.known.insert(known);
        self.names.insert(name, key);
        key
    }

    /// Forgets what a session remembers. It keeps its place until the log knows.
    pub(super) fn clear(&mut self, key: SessionKey) {
        let known = &mut self.known[key];
        self.packets -= known.packets.len();
        known.packets.clear();
        known.is_over = true;
    }

    /// Forgets a session.
    pub(super) fn close(&mut self, key: SessionKey) {
        if let Some(gone) = self.known.remove(key) {
            self.packets -= gone.packets.len();
            self.names.remove(&gone.client);
        }
    }
}
