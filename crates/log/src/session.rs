//! What a log keeps of sessions, so that a crash makes nothing come twice: which publishes of a client it
//! has and the client has not released, and how far a reader has got.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::limits::LOG_SESSIONS_MAX;
use tidegate_types::record::StreamId;

use super::WallTime;

/// Whose a session is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionOwner {
    /// Nothing says it: whoever comes first has it.
    #[default]
    Unknown,
    /// A client without a name of its own.
    Anonymous,
    /// The user who logged in.
    User(Arc<str>),
}

impl SessionOwner {
    /// That of who logged in by this name, if by any.
    pub fn new(user: Option<&str>) -> Self {
        user.map_or(SessionOwner::Anonymous, |user| SessionOwner::User(user.into()))
    }
}

/// A publisher's session, by the name of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// Name of the client, which is that of its streams' source.
    pub client: Arc<str>,
    /// Whose it is.
    pub owner: SessionOwner,
    /// How long it outlives its connection, in whole seconds; zero: it is over.
    pub lasts: Duration,
    /// When it ends, if its client is away and stays so.
    pub ends: Option<WallTime>,
    /// QoS 2 packet identifiers that were received and not released.
    pub packets: BTreeSet<u16>,
}

impl SessionState {
    /// The entry that ends a session.
    pub fn over(client: Arc<str>) -> Self {
        let (owner, lasts, ends) = (SessionOwner::Unknown, Duration::ZERO, None);
        SessionState { client, owner, lasts, ends, packets: BTreeSet::new() }
    }

    /// How long it still lasts while its client stays away: zero only when it has surely ended. Without a
    /// clock that is set on both sides nothing is sure.
    pub fn remaining(&self, present: Option<WallTime>) -> Duration {
        let Some((ends, present)) = self.ends.zip(present) else { return self.lasts };
        let end = Duration::from_nanos(ends.unix_ns) + ends.uncertainty + present.uncertainty;
        end.saturating_sub(Duration::from_nanos(present.unix_ns)).min(self.lasts)
    }
}

/// Packet identifiers that a client has released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Released {
    /// The client.
    pub client: Arc<str>,
    /// Which ones.
    pub packets: Vec<u16>,
}

/// How far a session has got in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPosition {
    /// The session's name.
    pub session: Arc<str>,
    /// The stream.
    pub stream: StreamId,
    /// The last sequence number that it has.
    pub seq: u64,
}

/// All sessions of a log, entry by entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sessions {
    /// Those of publishers, by client.
    pub clients: BTreeMap<Arc<str>, SessionState>,
    /// How far sessions have got.
    pub positions: BTreeMap<(Arc<str>, StreamId), u64>,
}

impl Sessions {
    /// A session as it is from here on.
    pub(super) fn set(&mut self, state: SessionState) {
        if state.lasts.is_zero() {
            self.clients.remove(&state.client);
            let SessionState { client, .. } = state;
            self.positions.retain(|(session, _), _| *session != client);
        } else if has_place(&self.clients, &state.client) {
            self.clients.insert(state.client.clone(), state);
        }
    }

    /// A record of this client was received under a packet identifier.
    pub(super) fn take(&mut self, client: &str, packet: u16) {
        if let Some(state) = self.clients.get_mut(client) {
            state.ends = None;
            state.packets.insert(packet);
        }
    }

    /// A client has released some.
    pub(super) fn release(&mut self, released: &Released) {
        if let Some(state) = self.clients.get_mut(&released.client) {
            state.ends = None;
            released.packets.iter().for_each(|packet| _ = state.packets.remove(packet));
        }
    }

    /// A session has got so far.
    pub(super) fn reach(&mut self, position: SessionPosition) {
        let key = (position.session, position.stream);
        if has_place(&self.positions, &key) {
            self.positions.insert(key, position.seq);
        }
    }

    /// What was read may not be the last word: an identifier that was released, and that the log does not
    /// show as such, would swallow a new publish. So all of them are forgotten, and what a client sends
    /// again is taken again.
    pub(super) fn doubt(&mut self) {
        self.clients.values_mut().for_each(|state| state.packets.clear());
    }
}

fn has_place<K: Ord, V>(map: &BTreeMap<K, V>, key: &K) -> bool {
    map.len() < LOG_SESSIONS_MAX || map.contains_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn wall(seconds: u64) -> Option<WallTime> {
        let unix_ns = seconds * 1_000_000_000;
        Some(WallTime { unix_ns, uncertainty: Duration::from_secs(1) })
    }

    fn session(client: &str) -> SessionState {
        SessionState { lasts: HOUR, ..SessionState::over(client.into()) }
    }

    #[test]
    fn a_session_ends_only_when_it_surely_has() {
        let state = SessionState { ends: wall(10_000), ..session("plc") };
        assert_eq!(state.remaining(wall(9_000)), Duration::from_secs(1_002));
        assert_eq!(state.remaining(wall(10_001)), Duration::from_secs(1));
        assert_eq!(state.remaining(wall(10_002)), Duration::ZERO);
        // A clock that went back does not make it longer than it was.
        assert_eq!(state.remaining(wall(10)), HOUR);
        assert_eq!(state.remaining(None), HOUR);
        assert_eq!(session("plc").remaining(wall(99_999)), HOUR);
    }

    #[test]
    fn entries_change_what_is_known() {
        let mut sessions = Sessions::default();
        sessions.take("plc", 7);
        assert_eq!(sessions, Sessions::default(), "a session is begun before its packets");
        sessions.set(SessionState { ends: wall(5), ..session("plc") });
        sessions.take("plc", 7);
        sessions.take("plc", 8);
        sessions.release(&Released { client: "plc".into(), packets: vec![7, 9] });
        let state = &sessions.clients["plc"];
        assert_eq!((&state.packets, state.ends), (&BTreeSet::from([8]), None));
        sessions.reach(SessionPosition { session: "plc".into(), stream: StreamId(1), seq: 5 });
        sessions.reach(SessionPosition { session: "hall".into(), stream: StreamId(1), seq: 6 });
        sessions.doubt();
        assert!(sessions.clients["plc"].packets.is_empty());
        sessions.set(SessionState::over("plc".into()));
        assert!(sessions.clients.is_empty());
        assert_eq!(sessions.positions.into_values().collect::<Vec<_>>(), [6]);
    }
}
