//! Sessions begin, end and are written down; identifiers are taken and released. What somebody waits for is a
//! promise that goes to the log with its entry.

use std::sync::Arc;
use std::time::Duration;

use tidegate_log::{Entry, Released, SegmentId, SessionOwner, SessionState, WallTime};
use tidegate_types::limits::{LOG_PACKETS_MAX, LOG_SESSIONS_MAX};
use tidegate_types::record::{Offered, Owner, SourceId};
use tidegate_types::units::Time;

use super::Durability;
use super::sessions::{Known, PublisherSessions};
use super::unappended::{Promise, SessionKey, Taken, Unappended, Who};
use crate::io::Output;
use crate::node::base::Base;
use crate::node::outbox::ReplyTo;
use crate::node::sources::Sources;

impl Durability {
    /// Takes over the sessions of a log.
    pub(crate) fn restore_sessions(&mut self, sessions: impl IntoIterator<Item = SessionState>) {
        for state in sessions {
            self.sessions.open(state);
        }
    }

    /// The sessions whose clients are away: each with how long it still lasts, and the QoS 2 packet
    /// identifiers that its client has not released. After a start these are the ones of the log.
    pub(crate) fn sessions(&self, now: Time) -> impl Iterator<Item = SessionState> + '_ {
        let present = self.store.wall_at(now);
        let is_away =
            |known: &&Known| !known.is_over && !self.sessions.speakers.contains_key(&known.client);
        self.sessions.known.values().filter(is_away).map(move |known| {
            let state = known.state();
            SessionState { lasts: state.remaining(present), ..state }
        })
    }

    /// From now on this connection speaks for the client of its name, whose session then outlives it by
    /// `lasts`. Where `is_new`, nothing of an earlier session counts.
    pub(crate) fn begin_session(
        &mut self,
        base: &mut Base,
        source: SourceId,
        lasts: Duration,
        is_new: bool,
    ) {
        let Some((who, client)) = who_of(&base.sources, source) else { return };
        if lasts.is_zero() {
            self.sessions.speakers.remove(&client);
        } else {
            self.sessions.speakers.insert(client.clone(), (who, lasts));
        }
        let Some(&key) = self.sessions.names.get(&client) else {
            return base.outbox.push(Output::SessionReady(source));
        };
        let is_over = self.sessions.known[key].is_over;
        if is_new || is_over || lasts.is_zero() {
            return self.end_session(base, key, Some(who));
        }
        let owner = session_owner(&base.sources, source);
        let known = &mut self.sessions.known[key];
        let is_news = known.lasts != lasts || known.is_away_in_log || known.owner != owner;
        (known.owner, known.lasts, known.ends, known.is_away_in_log) = (owner, lasts, None, false);
        let state = known.state();
        if is_news && self.store.takes_entries() {
            self.write_of_session(base, Entry::Session(state), Unappended::Other);
        }
        base.outbox.push(Output::SessionReady(source));
    }

    /// The session of a client that is away is over.
    pub(crate) fn session_over(&mut self, base: &mut Base, client: &Arc<str>) {
        if let Some(&key) = self.sessions.names.get(client)
            && !self.sessions.speakers.contains_key(client)
        {
            self.end_session(base, key, None);
        }
    }

    /// Ends a session in the log, and then tells who waits. While the log fails only those wait whom it
    /// could harm: identifiers of the old session might come back.
    fn end_session(&mut self, base: &mut Base, key: SessionKey, who: Option<Who>) {
        let known = &self.sessions.known[key];
        let is_harmless = known.packets.is_empty() && !known.is_over && !known.is_doubtful;
        let client = known.client.clone();
        self.sessions.clear(key);
        self.store.forget_positions(&client);
        if self.store.takes_entries() {
            let promise = Unappended::Promise(Promise::Over(key, who).into());
            return self.write_of_session(
                base,
                Entry::Session(SessionState::over(client)),
                promise,
            );
        }
        let who = match who {
            Some(Who { source, .. }) if is_harmless => {
                base.outbox.push(Output::SessionReady(source));
                None
            }
            who => who,
        };
        self.sessions.failed([Promise::Over(key, who)]);
    }

    fn write_of_session(&mut self, base: &mut Base, entry: Entry, unappended: Unappended) {
        self.begin_if_due(base);
        self.store.push(entry, unappended);
    }

    /// A connection ended: if it spoke for a client, that one is away.
    pub(crate) fn leave_session(&mut self, base: &Base, source: SourceId) {
        let Some((who, client)) = who_of(&base.sources, source) else { return };
        let Some(&(_, lasts)) =
            self.sessions.speakers.get(&client).filter(|(speaker, _)| *speaker == who)
        else {
            return;
        };
        self.sessions.speakers.remove(&client);
        let wall = self.store.wall_at(base.now);
        if let Some(&key) = self.sessions.names.get(&client) {
            self.sessions.known[key].ends = wall.map(|wall| end_of(wall, lasts));
        }
    }

    /// The time in the world is known now. Sessions whose clients are away end by it.
    pub(crate) fn date_sessions(&mut self, base: &mut Base, wall: WallTime) {
        let mut ended = Vec::new();
        for (key, known) in &mut self.sessions.known {
            if self.sessions.speakers.contains_key(&known.client) || known.is_over {
                continue;
            }
            known.ends.get_or_insert(end_of(wall, known.lasts));
            if known.state().remaining(Some(wall)).is_zero() {
                ended.push(key);
            }
        }
        ended.into_iter().for_each(|key| self.end_session(base, key, None));
    }

    /// Whether an offer brings a packet identifier for which there is no place.
    pub(crate) fn lacks_session(&self, base: &Base, offered: &Offered) -> bool {
        let PublisherSessions { known, packets, names, speakers, .. } = &self.sessions;
        let is_full = *packets >= LOG_PACKETS_MAX || known.len() >= LOG_SESSIONS_MAX;
        if offered.packet.is_none() || !is_full {
            return false;
        }
        let client = base.sources.get(offered.source).map(|state| &state.name);
        client.is_some_and(|client| {
            let is_known = names.contains_key(client) && *packets < LOG_PACKETS_MAX;
            speakers.contains_key(client) && !is_known
        })
    }

    /// Whether an offer is to be taken once: its sender's session outlives its connection, and knows it by a
    /// packet identifier.
    pub(crate) fn is_once(&self, base: &Base, reply: Option<ReplyTo>) -> bool {
        let Some(ReplyTo { source, life, packet: Some(_), .. }) = reply else { return false };
        let Some(state) = base.sources.get(source) else { return false };
        let speaker = self.sessions.speakers.get(&state.name);
        speaker.is_some_and(|(who, _)| *who == Who { source, life })
    }

    /// The packet identifier that goes to the log with a record, if its sender's session outlives its
    /// connection; the log has heard of the session before.
    pub(crate) fn take_packet(&mut self, base: &mut Base, reply: Option<ReplyTo>) -> Option<Taken> {
        let ReplyTo { source, life, packet, .. } = reply?;
        let packet = packet?;
        let client = base.sources.get(source)?.name.clone();
        let who = Who { source, life };
        let &(_, lasts) = self.sessions.speakers.get(&client).filter(|(known, _)| *known == who)?;
        let known = self.sessions.names.get(&client).copied();
        let session = match known {
            Some(key) if !self.sessions.known[key].is_over => key,
            known => {
                let owner = session_owner(&base.sources, source);
                let state = SessionState { owner, lasts, ..SessionState::over(client) };
                self.write_of_session(base, Entry::Session(state.clone()), Unappended::Other);
                match known {
                    // What waits for its end still finds it.
                    Some(key) => {
                        let known = &mut self.sessions.known[key];
                        (known.lasts, known.ends, known.is_over) = (lasts, None, false);
                        known.owner = state.owner;
                        key
                    }
                    None => self.sessions.open(state),
                }
            }
        };
        let known = &mut self.sessions.known[session];
        self.sessions.packets += usize::from(known.packets.insert(packet, false).is_none());
        Some(Taken { session, packet })
    }

    /// A client has released identifiers: it hears of it when the log knows.
    pub(crate) fn release_packets(&mut self, base: &mut Base, source: SourceId, packets: Vec<u16>) {
        let Some((who, client)) = who_of(&base.sources, source) else { return };
        let session = self.sessions.names.get(&client).copied();
        let known = session.and_then(|key| self.sessions.known.get_mut(key));
        let Some((key, known)) = session.zip(known) else {
            return base.outbox.push(Output::Released(source, packets));
        };
        let (packets, unknown): (Vec<u16>, Vec<u16>) =
            packets.into_iter().partition(|packet| known.packets.contains_key(packet));
        for packet in &packets {
            known.packets.insert(*packet, true);
        }
        if !unknown.is_empty() {
            base.outbox.push(Output::Released(source, unknown));
        }
        if packets.is_empty() {
            return;
        }
        let promise = Promise::Released(key, who, packets.clone());
        if !self.store.takes_entries() {
            return self.sessions.failed([promise]);
        }
        let entry = Entry::Released(Released { client, packets });
        self.write_of_session(base, entry, Unappended::Promise(promise.into()));
    }

    /// The log holds what was promised.
    pub(crate) fn keep_promise(&mut self, base: &mut Base, promise: Promise) {
        let (who, output) = match promise {
            Promise::Over(key, who) => {
                if self.sessions.known.get(key).is_some_and(|known| known.is_over) {
                    self.sessions.close(key);
                }
                let Some(who) = who else { return };
                (who, Output::SessionReady(who.source))
            }
            Promise::Released(key, who, packets) => {
                if let Some(known) = self.sessions.known.get_mut(key) {
                    let before = known.packets.len();
                    for packet in &packets {
                        if known.packets.get(packet) == Some(&true) {
                            known.packets.remove(packet);
                        }
                    }
                    self.sessions.packets -= before - known.packets.len();
                }
                (who, Output::Released(who.source, packets))
            }
        };
        if who_of(&base.sources, who.source).is_some_and(|(known, _)| known == who) {
            base.outbox.push(output);
        }
    }
}

/// Who speaks on a connection now, and in whose name.
fn who_of(sources: &Sources, source: SourceId) -> Option<(Who, Arc<str>)> {
    let state = sources.get(source)?;
    Some((Who { source, life: state.life() }, state.name.clone()))
}

/// Whose the session of this connection's client is, as the log says it.
fn session_owner(sources: &Sources, source: SourceId) -> SessionOwner {
    match sources.owner_of(source) {
        None => SessionOwner::Unknown,
        // The address of a client changes.
        Some(Owner::Address(_)) => SessionOwner::Anonymous,
        Some(Owner::User(user)) => SessionOwner::User(user.clone()),
    }
}

/// When a session ends whose client goes away now.
fn end_of(wall: WallTime, lasts: Duration) -> WallTime {
    let nanos = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
    WallTime { unix_ns: wall.unix_ns.saturating_add(nanos), ..wall }
}

/// What the log's word makes of promises and identifiers.
impl Durability {
    /// A checkpoint is in the log: what failed before it counts no more.
    pub(crate) fn checkpointed(&mut self, segment: SegmentId) {
        self.store.begun(segment);
        self.sessions.settled();
    }

    /// The log does not hold these promises: the next checkpoint will.
    pub(crate) fn owe_promises(&mut self, promises: impl IntoIterator<Item = Promise>) {
        self.sessions.failed(promises);
    }

    /// The record of this identifier did not get into the log.
    pub(crate) fn untake(&mut self, taken: Option<Taken>) {
        self.sessions.untake(taken);
    }
}
