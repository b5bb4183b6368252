//! What the notes of the journal add up to: sessions, what they have subscribed to, which messages wait for whom.
//!
//! The same function takes a note when it is written and when it is read back, so a restart cannot mean anything else.
//! A message is held once, by number; each session that waits for it has an entry of some bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::class::ClassId;
use tidegate_types::ids::SessionId;

use super::journal::{MessageNote, Note, SessionNote, Waiter};
use super::message::{Ids, Message};
use super::subscriptions::SubscribeOptions;

/// Where a message stands in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotePlace {
    /// The segment.
    pub segment: u32,
    /// From which byte on.
    pub offset: u32,
    /// Bytes.
    pub length: u32,
}

/// A message that somebody needs.
#[derive(Clone, Debug)]
struct Held {
    /// None until it is on disk.
    place: Option<NotePlace>,
    /// It itself, while it is young.
    young: Option<Arc<Message>>,
    /// Sessions that wait for it.
    waiters: u32,
    /// The last one of its topic, and its publisher wanted it to be retained.
    is_retained: bool,
    expires: Option<u64>,
    class: ClassId,
    bytes: u32,
}

/// A message that waits for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    qos: u8,
    retain: bool,
    ids: Ids,
    /// Its packet identifier, whether the subscriber has it, and its place among those under way: of QoS 2.
    flight: Option<(u16, bool, u64)>,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What is known of it.
    pub note: SessionNote,
    /// What it has subscribed to.
    pub subscriptions: BTreeMap<Arc<str>, SubscribeOptions>,
    /// Packet identifiers of its own QoS 2 publishes that it has not released.
    pub packets: BTreeSet<u16>,
    waiting: BTreeMap<u64, Waiting>,
    /// Those that its outbox does not have yet, by class, oldest first.
    unread: Vec<VecDeque<u64>>,
    bytes: u64,
}

/// A message that is to go into the outbox of a session.
#[derive(Clone, Debug)]
pub struct Pulled {
    /// Its number.
    pub number: u64,
    /// Its class.
    pub class: ClassId,
    /// How the session gets it.
    pub waiter: Waiter,
    /// From when on nobody wants it, nanoseconds since the Unix epoch.
    pub expires: Option<u64>,
    /// It itself, or where it stands.
    pub source: Result<Arc<Message>, Option<NotePlace>>,
    /// Its packet identifier, and whether the subscriber has it: of QoS 2.
    pub flight: Option<(u16, bool)>,
}

/// Who is to hear of a note.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Sessions that had nothing to read, and have something now.
    pub news: Vec<SessionId>,
    /// Messages of these classes that a session does not get, for want of room.
    pub dropped: Vec<(SessionId, u64, ClassId)>,
}

/// What sessions may make the journal hold.
#[derive(Clone, Copy, Debug)]
pub struct LedgerBounds {
    /// Bytes that wait for one session.
    pub session: u64,
    /// Bytes of all messages, each counted once.
    pub all: u64,
    /// Bytes of young messages that stay in memory.
    pub young: u64,
}

impl Default for LedgerBounds {
    fn default() -> Self {
        LedgerBounds { session: u64::MAX, all: u64::MAX, young: 16 << 20 }
    }
}

/// See the file's header.
#[derive(Clone, Debug, Default)]
pub struct SessionLedger {
    bounds: LedgerBounds,
    sessions: BTreeMap<SessionId, Kept>,
    messages: BTreeMap<u64, Held>,
    retained: BTreeMap<Bytes, u64>,
    /// Those of them that expire, by when.
    expiring: BTreeSet<(u64, Bytes)>,
    /// Numbers of young messages, oldest first, and their bytes.
    young: VecDeque<u64>,
    young_bytes: u64,
    /// Bytes of messages by segment, and how many: of those on disk.
    segments: BTreeMap<u32, (u64, u64)>,
    bytes: u64,
    /// Messages that wait, each counted for each session.
    entries: u64,
    next: u64,
    next_session: u32,
    flights: u64,
    wall: u64,
}

impl SessionLedger {
    /// One that knows nothing.
    pub fn new(bounds: LedgerBounds) -> Self {
        SessionLedger { bounds, next: 1, next_session: 1, ..SessionLedger::default() }
    }

    /// The number of the next message.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The number of the next session.
    pub fn next_session(&self) -> u32 {
        self.next_session
    }

    /// The latest time that a note told, nanoseconds since the Unix epoch.
    pub fn wall(&self) -> u64 {
        self.wall
    }

    /// Sessions.
    pub fn sessions(&self) -> impl Iterator<Item = &Kept> {
        self.sessions.values()
    }

    /// One session.
    pub fn session(&self, session: SessionId) -> Option<&Kept> {
        self.sessions.get(&session)
    }

    /// Messages that are held, and their bytes, each counted once.
    pub fn held(&self) -> (usize, u64) {
        (self.messages.len(), self.bytes)
    }

    /// Retained messages.
    pub fn retained(&self) -> usize {
        self.retained.len()
    }

    /// Messages of a segment that somebody needs, and their bytes.
    pub fn held_of(&self, segment: u32) -> (u64, u64) {
        self.segments.get(&segment).copied().unwrap_or_default()
    }

    /// Bytes on disk of messages that somebody needs.
    pub fn on_disk(&self) -> u64 {
        self.segments.values().map(|(bytes, _)| bytes).sum()
    }

    /// Whether a message of this number is the retained one of its topic.
    pub fn is_retained(&self, number: u64) -> bool {
        self.messages.get(&number).is_some_and(|held| held.is_retained)
    }

    /// Takes a note that is written now. Messages have no place yet.
    pub fn apply(&mut self, note: &Note) -> Applied {
        self.apply_session(note);
        self.apply_message(note, None)
    }

    /// Takes what a note says of messages; `place`: where one stands, if it is read back.
    pub fn apply_message(&mut self, note: &Note, place: Option<NotePlace>) -> Applied {
        let mut applied = Applied::default();
        match note {
            Note::Message(message) => self.hold(message, place, &mut applied),
            Note::Done(session, numbers) => {
                numbers.iter().for_each(|number| self.done(*session, *number));
            }
            Note::Flights(session, flights) => {
                flights.iter().for_each(|flight| self.fly(*session, *flight));
            }
            Note::Unretained(topic) => self.unretain(topic),
            _ => {}
        }
        applied
    }

    /// All notes were read back. What was copied to later segments goes to its place in the order.
    pub fn loaded(&mut self) {
        for Kept { waiting, unread, .. } in self.sessions.values_mut() {
            for unread in unread {
                // What is under way is put back when the client comes, and is not dropped before.
                unread.retain(|number| waiting.get(number).is_some_and(|one| one.flight.is_none()));
                unread.make_contiguous().sort_unstable();
            }
        }
    }

    /// Takes what a note says of sessions, and leaves messages out: a start reads these later.
    pub fn apply_session(&mut self, note: &Note) {
        match note {
            Note::Session(note) => {
                self.next_session = self.next_session.max(note.session.0.saturating_add(1));
                match self.sessions.get_mut(&note.session) {
                    Some(kept) => kept.note = (**note).clone(),
                    None => {
                        let kept = Kept {
                            note: (**note).clone(),
                            subscriptions: BTreeMap::new(),
                            packets: BTreeSet::new(),
                            waiting: BTreeMap::new(),
                            unread: Vec::new(),
                            bytes: 0,
                        };
                        self.sessions.insert(note.session, kept);
                    }
                }
            }
            Note::Over(session) => {
                if let Some(kept) = self.sessions.remove(session) {
                    self.entries -= kept.waiting.len() as u64;
                    kept.waiting.keys().for_each(|number| self.release(*number));
                }
            }
            Note::Subscribed(session, text, options) => {
                if let Some(kept) = self.sessions.get_mut(session) {
                    kept.subscriptions.insert(text.clone(), *options);
                }
            }
            Note::Unsubscribed(session, text) => {
                if let Some(kept) = self.sessions.get_mut(session) {
                    kept.subscriptions.remove(text);
                }
            }
            Note::Packets(session, packets) => {
                if let Some(kept) = self.sessions.get_mut(session) {
                    kept.packets.extend(packets);
                }
            }
            Note::Released(session, packets) => {
                if let Some(kept) = self.sessions.get_mut(session) {
                    packets.iter().for_each(|packet| _ = kept.packets.remove(packet));
                }
            }
            Note::WillOver(session) => self.will_over(*session),
            Note::Clock(wall) => self.wall = self.wall.max(*wall),
            Note::Whole(next, session) => {
                self.next = self.next.max(*next);
                self.next_session = self.next_session.max(*session);
            }
            Note::Message(message) => {
                self.next = self.next.max(message.number + 1);
                self.apply_sender(message);
            }
            Note::Done(..) | Note::Flights(..) | Note::Unretained(_) => {}
        }
    }

    /// What a message says of who published it.
    fn apply_sender(&mut self, note: &MessageNote) {
        if let Some((session, packet)) = note.packet
            && let Some(kept) = self.sessions.get_mut(&session)
        {
            kept.packets.insert(packet);
        }
        if let Some(session) = note.will_of {
            self.will_over(session);
        }
    }

    fn will_over(&mut self, session: SessionId) {
        if let Some(kept) = self.sessions.get_mut(&session) {
            kept.note.will = None;
        }
    }
}

impl Kept {
    /// Gives up the oldest one that it has not read, of the last class that is not more urgent than this one.
    fn evict(&mut self, class: usize) -> Option<(u64, ClassId)> {
        for place in (class..self.unread.len()).rev() {
            while let Some(number) = self.unread[place].pop_front() {
                let waits = self.waiting.get(&number).is_some_and(|one| one.flight.is_none());
                if waits {
                    self.waiting.remove(&number);
                    return Some((number, ClassId(place as u8)));
                }
            }
        }
        None
    }

    /// Messages that wait for it, those that its outbox has among them.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a message of this number does.
    pub fn waits_for(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

mod messages;
mod read;

#[cfg(test)]
mod tests;
