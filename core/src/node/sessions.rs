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

use super::Node;
use super::sources::ReplyTo;
use super::unappended::Unappended;
use crate::io::Output;
use crate::limits::{LOG_PACKETS_MAX, LOG_SESSIONS_MAX};
use crate::log::{Entry, Released, SessionOwner, SessionState, WallTime};
use crate::record::{Offered, SourceId};
use crate::units::Time;

slotmap::new_key_type! {
    /// A session that the log knows, or will know.
    pub(super) struct SessionKey;
}

/// A packet identifier that goes to the log with a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    session: SessionKey,
    pub(super) packet: u16,
}

/// What is done when the log holds what was pushed with it.
#[derive(Debug)]
pub(super) enum Promise {
    /// A session is over; a connection may wait to hear it.
    Over(SessionKey, Option<Who>),
    /// Identifiers may be used again.
    Released(SessionKey, Who, Vec<u16>),
}

/// A connection in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Who {
    source: SourceId,
    life: u64,
}

#[derive(Debug)]
struct Known {
    client: Arc<str>,
    owner: SessionOwner,
    lasts: Duration,
    ends: Option<WallTime>,
    /// Whether the log's last word is that its client is away.
    is_away_in_log: bool,
    /// The log failed to take an identifier of it, and may show it nevertheless.
    is_doubtful: bool,
    /// It ended, and the log may not know yet.
    is_over: bool,
    /// With each, whether it was released: then the log may not know yet.
    packets: BTreeMap<u16, bool>,
}

impl Known {
    fn state(&self) -> SessionState {
        let Known { client, owner, lasts, ends, packets, .. } = self;
        let taken = packets.iter().filter(|(_, is_released)| !**is_released);
        let packets = taken.map(|(&packet, _)| packet).collect();
        let (client, owner) = (client.clone(), owner.clone());
        SessionState { client, owner, lasts: *lasts, ends: *ends, packets }
    }
}

/// Sessions that outlive their connections.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    known: SlotMap<SessionKey, Known>,
    names: BTreeMap<Arc<str>, SessionKey>,
    /// Who speaks for a client now, and how long its session then lasts.
    speakers: BTreeMap<Arc<str>, (Who, Duration)>,
    /// Identifiers of all sessions.
    packets: usize,
    /// What waits for the next checkpoint, for the log fails.
    owed: Vec<Promise>,
}

impl Sessions {
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

    fn open(&mut self, state: SessionState) -> SessionKey {
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
    fn clear(&mut self, key: SessionKey) {
        let known = &mut self.known[key];
        self.packets -= known.packets.len();
        known.packets.clear();
        known.is_over = true;
    }

    fn close(&mut self, key: SessionKey) {
        if let Some(gone) = self.known.remove(key) {
            self.packets -= gone.packets.len();
            self.names.remove(&gone.client);
        }
    }
}

impl Node {
    /// Takes over the sessions of a log.
    pub(super) fn restore_sessions(&mut self, sessions: impl IntoIterator<Item = SessionState>) {
        for state in sessions {
            self.sessions.open(state);
        }
    }

    /// The sessions whose clients are away: each with how long it still lasts, and the QoS 2 packet
    /// identifiers that its client has not released. After a start these are the ones of the log.
    pub fn sessions(&self, now: Time) -> impl Iterator<Item = SessionState> + '_ {
        let present = self.store.as_ref().and_then(|store| store.wall_at(now));
        let is_away =
            |known: &&Known| !known.is_over && !self.sessions.speakers.contains_key(&known.client);
        self.sessions.known.values().filter(is_away).map(move |known| {
            let state = known.state();
            SessionState { lasts: state.remaining(present), ..state }
        })
    }

    fn who(&self, source: SourceId) -> Option<(Who, Arc<str>)> {
        let state = self.sources.get(source)?;
        Some((Who { source, life: state.life() }, state.name.clone()))
    }

    /// From now on this connection speaks for the client of its name, whose session then outlives it by
    /// `lasts`. Where `is_new`, nothing of an earlier session counts.
    pub(super) fn begin_session(&mut self, source: SourceId, lasts: Duration, is_new: bool) {
        let Some((who, client)) = self.who(source) else { return };
        if lasts.is_zero() {
            self.sessions.speakers.remove(&client);
        } else {
            self.sessions.speakers.insert(client.clone(), (who, lasts));
        }
        let Some(&key) = self.sessions.names.get(&client) else {
            return self.outbox.push_back(Output::SessionReady(source));
        };
        let is_over = self.sessions.known[key].is_over;
        if is_new || is_over || lasts.is_zero() {
            return self.end_session(key, Some(who));
        }
        let owner = self.owner_of_session(source);
        let known = &mut self.sessions.known[key];
        let is_news = known.lasts != lasts || known.is_away_in_log || known.owner != owner;
        (known.owner, known.lasts, known.ends, known.is_away_in_log) = (owner, lasts, None, false);
        let state = known.state();
        if is_news && self.takes_entries() {
            self.write_of_session(Entry::Session(state), Unappended::Other);
        }
        self.outbox.push_back(Output::SessionReady(source));
    }

    /// The session of a client that is away is over.
    pub(super) fn session_over(&mut self, client: &Arc<str>) {
        if let Some(&key) = self.sessions.names.get(client)
            && !self.sessions.speakers.contains_key(client)
        {
            self.end_session(key, None);
        }
    }

    /// Ends a session in the log, and then tells who waits. While the log fails only those wait whom it
    /// could harm: identifiers of the old session might come back.
    fn end_session(&mut self, key: SessionKey, who: Option<Who>) {
        let known = &self.sessions.known[key];
        let is_harmless = known.packets.is_empty() && !known.is_over && !known.is_doubtful;
        let client = known.client.clone();
        self.sessions.clear(key);
        if let Some(store) = &mut self.store {
            store.forget_positions(&client);
        }
        if self.takes_entries() {
            let promise = Unappended::Promise(Promise::Over(key, who).into());
            return self.write_of_session(Entry::Session(SessionState::over(client)), promise);
        }
        let who = match who {
            Some(Who { source, .. }) if is_harmless => {
                self.outbox.push_back(Output::SessionReady(source));
                None
            }
            who => who,
        };
        self.sessions.failed([Promise::Over(key, who)]);
    }

    /// Whether an entry can be written now: the log works, or is being tried with a checkpoint, behind which it
    /// stands.
    fn takes_entries(&self) -> bool {
        self.store.as_ref().is_none_or(|store| !store.must_begin() || !store.is_failing())
    }

    fn write_of_session(&mut self, entry: Entry, unappended: Unappended) {
        self.begin_if_due();
        if let Some(store) = &mut self.store {
            store.push(entry, unappended);
        }
    }

    /// A connection ended: if it spoke for a client, that one is away.
    pub(super) fn leave_session(&mut self, now: Time, source: SourceId) {
        let Some((who, client)) = self.who(source) else { return };
        let Some(&(_, lasts)) =
            self.sessions.speakers.get(&client).filter(|(speaker, _)| *speaker == who)
        else {
            return;
        };
        self.sessions.speakers.remove(&client);
        let wall = self.store.as_ref().and_then(|store| store.wall_at(now));
        if let Some(&key) = self.sessions.names.get(&client) {
            self.sessions.known[key].ends = wall.map(|wall| end_of(wall, lasts));
        }
    }

    /// The time in the world is known now. Sessions whose clients are away end by it.
    pub(super) fn date_sessions(&mut self, wall: WallTime) {
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
        ended.into_iter().for_each(|key| self.end_session(key, None));
    }

    /// Whether an offer brings a packet identifier for which there is no place.
    pub(super) fn lacks_session(&self, offered: &Offered) -> bool {
        let Sessions { known, packets, names, speakers, .. } = &self.sessions;
        let is_full = *packets >= LOG_PACKETS_MAX || known.len() >= LOG_SESSIONS_MAX;
        if offered.packet.is_none() || !is_full {
            return false;
        }
        let client = self.sources.get(offered.source).map(|state| &state.name);
        client.is_some_and(|client| {
            let is_known = names.contains_key(client) && *packets < LOG_PACKETS_MAX;
            speakers.contains_key(client) && !is_known
        })
    }

    /// Whether an offer is to be taken once: its sender's session outlives its connection, and knows it by a
    /// packet identifier.
    pub(super) fn is_once(&self, reply: Option<ReplyTo>) -> bool {
        let Some(ReplyTo { source, life, packet: Some(_), .. }) = reply else { return false };
        let Some(state) = self.sources.get(source) else { return false };
        let speaker = self.sessions.speakers.get(&state.name);
        speaker.is_some_and(|(who, _)| *who == Who { source, life })
    }

    /// The packet identifier that goes to the log with a record, if its sender's session outlives its
    /// connection; the log has heard of the session before.
    pub(super) fn take_packet(&mut self, reply: Option<ReplyTo>) -> Option<Taken> {
        let ReplyTo { source, life, packet, .. } = reply?;
        let packet = packet?;
        let client = self.sources.get(source)?.name.clone();
        let who = Who { source, life };
        let &(_, lasts) = self.sessions.speakers.get(&client).filter(|(known, _)| *known == who)?;
        let known = self.sessions.names.get(&client).copied();
        let session = match known {
            Some(key) if !self.sessions.known[key].is_over => key,
            known => {
                let owner = self.owner_of_session(source);
                let state = SessionState { owner, lasts, ..SessionState::over(client) };
                self.write_of_session(Entry::Session(state.clone()), Unappended::Other);
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
    pub(super) fn release_packets(&mut self, source: SourceId, packets: Vec<u16>) {
        let Some((who, client)) = self.who(source) else { return };
        let session = self.sessions.names.get(&client).copied();
        let known = session.and_then(|key| self.sessions.known.get_mut(key));
        let Some((key, known)) = session.zip(known) else {
            return self.outbox.push_back(Output::Released(source, packets));
        };
        let (packets, unknown): (Vec<u16>, Vec<u16>) =
            packets.into_iter().partition(|packet| known.packets.contains_key(packet));
        for packet in &packets {
            known.packets.insert(*packet, true);
        }
        if !unknown.is_empty() {
            self.outbox.push_back(Output::Released(source, unknown));
        }
        if packets.is_empty() {
            return;
        }
        let promise = Promise::Released(key, who, packets.clone());
        if !self.takes_entries() {
            return self.sessions.failed([promise]);
        }
        let entry = Entry::Released(Released { client, packets });
        self.write_of_session(entry, Unappended::Promise(promise.into()));
    }

    /// The log holds what was promised.
    pub(super) fn keep_promise(&mut self, promise: Promise) {
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
        if self.who(who.source).is_some_and(|(known, _)| known == who) {
            self.outbox.push_back(output);
        }
    }
}

fn end_of(wall: WallTime, lasts: Duration) -> WallTime {
    let nanos = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
    WallTime { unix_ns: wall.unix_ns.saturating_add(nanos), ..wall }
}
