//! What a session knows of its QoS 2 publishes, beyond the connection that brought them.
//!
//! A packet identifier is remembered from its PUBLISH to its PUBREL: while it is, a PUBLISH with it is a
//! duplicate (MQTT 5, 4.3.3). The node's log knows the same of sessions that outlive their connections,
//! so that a crash does not end them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_broker::Message;
use tidegate_types::account::{Account, Kind, Refusal, Reservation};
use tidegate_types::record::{RefuseReason, Token};

use super::subscriber::{Nobody, SessionSubscriber};

/// What became of a PUBREL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseOutcome {
    /// The identifier may be free again.
    Done,
    /// It was released before, and that is not answered yet.
    Again,
    /// It was free before.
    Unknown,
    /// Its publish is not answered yet: the client ran ahead.
    Early,
}

/// Memory of a session that is kept, of a packet identifier in it, and of its place among subscribers.
const KEPT: usize = 1024;
const KEPT_ID: usize = 32;
const KEPT_SEAT: usize = 1024;

/// A QoS 2 publish, and its packet identifier where its session outlives the connection.
pub type Published = (Option<u16>, Arc<Message>);

#[derive(Clone, Copy, Debug, Default)]
struct Id {
    /// The node has the record.
    is_accepted: bool,
    /// A crash came before subscribers got it.
    is_unpublished: bool,
    /// It was published, or published again, on the present connection.
    is_here: bool,
    /// It was released on the present connection, and the node is being told.
    is_released: bool,
}

/// The packet identifiers of a session's QoS 2 publishes. Bounded by their number, 65,535, and by what
/// the session lets in.
#[derive(Debug)]
pub struct Memory<S = Nobody> {
    ids: BTreeMap<u16, Id>,
    /// Publishes of connections that ended before the node's answer came.
    owed: BTreeMap<u64, u16>,
    /// Identifiers that are here.
    here: usize,
    /// QoS 2 publishes that subscribers get once they are accepted, by token.
    held: BTreeMap<u64, Published>,
    /// Those that are accepted.
    accepted: Vec<Published>,
    /// What the session has subscribed to.
    pub subscriber: Option<S>,
    /// Reserved for it while it has no connection that pays for it.
    pub(crate) kept: Option<Reservation>,
    /// The first token that was never used on the session's source.
    pub(crate) next: u64,
}

impl<S> Default for Memory<S> {
    fn default() -> Self {
        Memory {
            ids: BTreeMap::new(),
            owed: BTreeMap::new(),
            here: 0,
            held: BTreeMap::new(),
            accepted: Vec::new(),
            subscriber: None,
            kept: None,
            next: 0,
        }
    }
}

impl<S: SessionSubscriber> Memory<S> {
    /// Identifiers that are remembered.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Whether its client loses nothing with it: no subscription, and no publish that is under way.
    pub fn holds_nothing(&self) -> bool {
        self.ids.is_empty()
            && self.owed.is_empty()
            && self.subscriber.as_ref().is_none_or(S::is_idle)
    }

    /// Reserves what it takes without a connection.
    ///
    /// # Errors
    /// There is no room: it cannot be kept.
    pub fn book(&mut self, account: &Account) -> Result<(), Refusal> {
        let subscriber = self.subscriber.as_ref();
        let bytes = KEPT + self.ids.len() * KEPT_ID + subscriber.map_or(0, |_| KEPT_SEAT);
        self.kept = Some(account.reserve(Kind::Sessions, bytes)?);
        subscriber.map_or(Ok(()), S::keep)
    }

    /// Whether the node has yet to answer publishes of an earlier connection.
    pub fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Books the node's answer to a publish of an earlier connection while no newer one is there. A
    /// refused publish is forgotten: the client sends it again.
    pub fn answer(&mut self, token: Token, result: Result<(), RefuseReason>) {
        self.settle(token, result.is_ok());
        match (self.owed(token), result) {
            (Some(id), Ok(())) => self.accept(id),
            (Some(id), Err(_)) => self.forget(id),
            (None, _) => {}
        }
    }

    /// Forgets the publishes whose answers nobody will hear: they are offered again when they come
    /// again.
    pub fn forgive(&mut self) {
        for (token, id) in std::mem::take(&mut self.owed) {
            self.forget(id);
            self.held.remove(&token);
        }
    }

    /// Subscribers get this message once the publish with this token is accepted.
    pub(crate) fn hold(&mut self, token: Token, published: Published) {
        self.held.insert(token.0, published);
    }

    /// The publish with this token is accepted, or is not.
    pub(crate) fn settle(&mut self, token: Token, is_accepted: bool) {
        if let Some(message) = self.held.remove(&token.0).filter(|_| is_accepted) {
            self.accepted.push(message);
        }
    }

    /// What subscribers are to get now.
    pub fn take_accepted(&mut self) -> Vec<Published> {
        std::mem::take(&mut self.accepted)
    }

    /// The identifier of an owed answer; it is owed no more.
    pub(crate) fn owed(&mut self, token: Token) -> Option<u16> {
        if self.owed.is_empty() {
            return None;
        }
        self.owed.remove(&token.0)
    }

    /// The connection ends before the answer to this publish.
    pub(crate) fn owe(&mut self, token: Token, id: u16) {
        self.owed.insert(token.0, id);
    }

    /// Publishes of this connection that are not released.
    pub(crate) fn here(&self) -> usize {
        self.here
    }

    /// Whether the publish is known, and if so, whether it is of this connection and accepted.
    pub(crate) fn find(&self, id: u16) -> Option<(bool, bool)> {
        self.ids.get(&id).map(|id| (id.is_here, id.is_accepted))
    }

    /// A new publish.
    pub fn begin(&mut self, id: u16) {
        let old = self.ids.insert(id, Id { is_here: true, ..Id::default() });
        self.here += usize::from(old.is_none_or(|old| !old.is_here));
    }

    /// A publish of an earlier connection came again.
    pub(crate) fn here_again(&mut self, id: u16) {
        if let Some(id) = self.ids.get_mut(&id).filter(|id| !id.is_here) {
            id.is_here = true;
            self.here += 1;
        }
    }

    /// The node has the record.
    pub(crate) fn accept(&mut self, id: u16) {
        if let Some(id) = self.ids.get_mut(&id) {
            id.is_accepted = true;
        }
    }

    /// The identifier is free: it was released, or its record was refused.
    pub(crate) fn forget(&mut self, id: u16) {
        if let Some(id) = self.ids.remove(&id) {
            self.here -= usize::from(id.is_here);
        }
    }

    /// The client has the PUBREC. The identifier is free once it is forgotten.
    pub(crate) fn release(&mut self, id: u16) -> ReleaseOutcome {
        match self.ids.get_mut(&id) {
            None => ReleaseOutcome::Unknown,
            Some(Id { is_accepted: false, .. }) => ReleaseOutcome::Early,
            Some(Id { is_released: true, .. }) => ReleaseOutcome::Again,
            Some(id) => {
                id.is_released = true;
                ReleaseOutcome::Done
            }
        }
    }

    /// The node knows of a release: the identifier is free. False where the present connection released no such
    /// one: the answer is to an earlier connection, and the identifier may be in use again.
    pub(crate) fn released(&mut self, id: u16) -> bool {
        let is_released = self.ids.get(&id).is_some_and(|id| id.is_released);
        if is_released {
            self.forget(id);
        }
        is_released
    }

    /// What an earlier process knew: publishes that it accepted and that were not released.
    pub fn restored(packets: impl IntoIterator<Item = u16>) -> Self {
        let accepted = |packet| (packet, Id { is_accepted: true, ..Id::default() });
        Memory { ids: packets.into_iter().map(accepted).collect(), ..Memory::default() }
    }

    /// What the journal of sessions knows: publishes that subscribers got. Those that only the log knows are published
    /// when they come again.
    pub fn published(&mut self, packets: impl IntoIterator<Item = u16>) {
        self.ids.values_mut().for_each(|id| id.is_unpublished = true);
        for packet in packets {
            self.ids.insert(packet, Id { is_accepted: true, ..Id::default() });
        }
    }

    /// Whether subscribers have yet to get a publish that came again; from now on they have it.
    pub(crate) fn take_unpublished(&mut self, id: u16) -> bool {
        self.ids.get_mut(&id).is_some_and(|id| std::mem::take(&mut id.is_unpublished))
    }

    /// Whether subscribers have yet to get a publish, when it comes again.
    pub(crate) fn is_unpublished(&self, id: u16) -> bool {
        self.ids.get(&id).is_some_and(|id| id.is_unpublished)
    }

    /// Subscribers did not get a publish that came again.
    pub(crate) fn is_not_published(&mut self, id: u16) {
        if let Some(id) = self.ids.get_mut(&id) {
            id.is_unpublished = true;
        }
    }

    /// The far end has forgotten the session: nothing of it is a duplicate. Answers that are still to
    /// come wait for nobody.
    pub(crate) fn clear(&mut self) {
        self.ids.clear();
        self.owed.clear();
        self.held.clear();
        self.here = 0;
    }

    /// The connection ended: none of the identifiers is here.
    pub(crate) fn leave(&mut self) {
        self.here = 0;
        self.ids.values_mut().for_each(|id| (id.is_here, id.is_released) = (false, false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_remembered_from_publish_to_release() {
        let mut memory: Memory = Memory::default();
        memory.begin(7);
        assert_eq!((memory.find(7), memory.here()), (Some((true, false)), 1));
        assert_eq!(memory.release(7), ReleaseOutcome::Early);
        memory.accept(7);
        assert_eq!(memory.release(7), ReleaseOutcome::Done);
        assert_eq!(memory.release(7), ReleaseOutcome::Again);
        memory.forget(7);
        assert_eq!(memory.release(7), ReleaseOutcome::Unknown);
        assert_eq!((memory.len(), memory.here()), (0, 0));
    }

    #[test]
    fn answers_come_after_the_end_of_a_connection() {
        let mut memory: Memory = Memory::default();
        for id in 1..=3 {
            memory.begin(id);
            memory.owe(Token(id.into()), id);
        }
        memory.leave();
        memory.answer(Token(1), Ok(()));
        memory.answer(Token(2), Err(RefuseReason::Full));
        assert_eq!((memory.find(1), memory.find(2)), (Some((false, true)), None));
        assert!(memory.owes() && memory.here() == 0);
        memory.forgive();
        assert!(!memory.owes() && memory.find(3).is_none());
    }
}
