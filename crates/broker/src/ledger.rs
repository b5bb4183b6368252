//! What the notes of the journal add up to: sessions, what they have subscribed to, which messages wait for whom.
//!
//! The same function takes a note when it is written and when it is read back, so a restart cannot mean anything else.
//! A message is held once, by number; each session that waits for it has an entry of some bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::class::ClassId;
use tidegate_types::ids::SessionId;
use tidegate_types::limits::CLASSES_MAX;

use super::journal::{Flight, MessageNote, Note, SessionNote, Waiter};
use super::message::{Ids, Message};
use super::subscriptions::SubscribeOptions;

/// Where a message stands in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
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
    place: Option<Place>,
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
    /// How the session gets it.
    pub waiter: Waiter,
    /// From when on nobody wants it, nanoseconds since the Unix epoch.
    pub expires: Option<u64>,
    /// It itself, or where it stands.
    pub source: Result<Arc<Message>, Option<Place>>,
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
pub struct Ledger {
    bounds: LedgerBounds,
    sessions: BTreeMap<SessionId, Kept>,
    messages: BTreeMap<u64, Held>,
    retained: BTreeMap<Bytes, u64>,
    /// Numbers of young messages, oldest first, and their bytes.
    young: VecDeque<u64>,
    young_bytes: u64,
    /// Bytes of messages by segment, and how many: of those on disk.
    segments: BTreeMap<u32, (u64, u64)>,
    bytes: u64,
    next: u64,
    next_session: u32,
    flights: u64,
    wall: u64,
}

impl Ledger {
    /// One that knows nothing.
    pub fn new(bounds: LedgerBounds) -> Self {
        Ledger { bounds, next: 1, next_session: 1, ..Ledger::default() }
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

    /// Messages of a segment that somebody needs, and their bytes.
    pub fn held_of(&self, segment: u32) -> (u64, u64) {
        self.segments.get(&segment).copied().unwrap_or_default()
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
    pub fn apply_message(&mut self, note: &Note, place: Option<Place>) -> Applied {
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
        for kept in self.sessions.values_mut() {
            kept.unread.iter_mut().for_each(|unread| unread.make_contiguous().sort_unstable());
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

    fn hold(&mut self, note: &MessageNote, place: Option<Place>, applied: &mut Applied) {
        let MessageNote { number, message, expires, is_retained, waiters, .. } = note;
        if self.messages.contains_key(number) {
            // It was copied to a later segment, as it was then: that is its place now.
            if place.is_some() {
                self.put(*number, place);
            }
            return;
        }
        let bytes = message.size() as u64 + COST;
        let held = Held {
            place: None,
            young: None,
            waiters: 0,
            is_retained: false,
            expires: *expires,
            class: message.class,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        };
        // Somebody may have published to the topic before this was read back.
        let is_retained =
            *is_retained && self.retained.get(&message.topic).is_none_or(|newer| newer <= number);
        if is_retained {
            self.unretain(&message.topic);
        }
        self.bytes += u64::from(held.bytes);
        self.messages.insert(*number, held);
        if is_retained {
            self.retained.insert(message.topic.clone(), *number);
            self.change(*number, |held| held.is_retained = true);
        }
        for waiter in waiters {
            self.wait(*number, waiter, message.class, bytes, applied);
        }
        match place {
            Some(_) => self.put(*number, place),
            None => self.keep_young(*number, message, bytes),
        }
        self.drop_if_idle(*number);
    }

    fn wait(
        &mut self,
        number: u64,
        waiter: &Waiter,
        class: ClassId,
        bytes: u64,
        applied: &mut Applied,
    ) {
        let is_full = self.bytes > self.bounds.all;
        let Some(kept) = self.sessions.get_mut(&waiter.session) else { return };
        // Its oldest of the least urgent class make room, as in an outbox.
        let mut victims = Vec::new();
        while kept.bytes + bytes > self.bounds.session || is_full && victims.is_empty() {
            let last = (class.index()..kept.unread.len()).rev();
            let Some(victim) = last.into_iter().find_map(|place| {
                let number = kept.unread[place].pop_front()?;
                Some((number, ClassId(place as u8)))
            }) else {
                applied.dropped.push((waiter.session, number, class));
                break;
            };
            kept.bytes -= self.messages.get(&victim.0).map_or(0, |held| u64::from(held.bytes));
            kept.waiting.remove(&victim.0);
            victims.push(victim.0);
            applied.dropped.push((waiter.session, victim.0, victim.1));
        }
        let has_room = applied
            .dropped
            .last()
            .is_none_or(|(of, last, _)| (*of, *last) != (waiter.session, number));
        if has_room {
            let Waiter { qos, retain, ids, session } = waiter;
            let waiting = Waiting { qos: *qos, retain: *retain, ids: ids.clone(), flight: None };
            if kept.unread.iter().all(VecDeque::is_empty) {
                applied.news.push(*session);
            }
            kept.waiting.insert(number, waiting);
            kept.bytes += bytes;
            let class = class.index().min(CLASSES_MAX - 1);
            if kept.unread.len() <= class {
                kept.unread.resize_with(class + 1, VecDeque::new);
            }
            kept.unread[class].push_back(number);
            self.change(number, |held| held.waiters += 1);
        }
        victims.into_iter().for_each(|number| self.release(number));
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.messages.get_mut(&number) {
            change(held);
        }
    }

    /// A session less waits for a message.
    fn release(&mut self, number: u64) {
        self.change(number, |held| held.waiters = held.waiters.saturating_sub(1));
        self.drop_if_idle(number);
    }

    fn drop_if_idle(&mut self, number: u64) {
        let Some(held) = self.messages.get(&number) else { return };
        if held.waiters > 0 || held.is_retained {
            return;
        }
        self.put(number, None);
        if let Some(held) = self.messages.remove(&number) {
            self.bytes -= u64::from(held.bytes);
            if held.young.is_some() {
                self.young_bytes -= u64::from(held.bytes);
            }
        }
    }

    /// A session waits for a message no more.
    fn done(&mut self, session: SessionId, number: u64) {
        let Some(kept) = self.sessions.get_mut(&session) else { return };
        if kept.waiting.remove(&number).is_none() {
            return;
        }
        let held = self.messages.get(&number);
        kept.bytes = kept.bytes.saturating_sub(held.map_or(0, |held| u64::from(held.bytes)));
        let class = held.map_or(0, |held| held.class.index().min(CLASSES_MAX - 1));
        // Nearly always it was read, and is the first one where it was not.
        if let Some(unread) = kept.unread.get_mut(class)
            && unread.front().is_some_and(|first| *first <= number)
            && let Ok(place) = unread.binary_search(&number)
        {
            unread.remove(place);
        }
        self.release(number);
    }

    fn fly(&mut self, session: SessionId, flight: Flight) {
        let order = self.flights;
        self.flights += 1;
        let Some(kept) = self.sessions.get_mut(&session) else { return };
        if let Some(waiting) = kept.waiting.get_mut(&flight.number) {
            let order = waiting.flight.map_or(order, |(_, _, order)| order);
            waiting.flight = Some((flight.id, flight.is_received, order));
        }
    }

    fn unretain(&mut self, topic: &Bytes) {
        if let Some(number) = self.retained.remove(topic) {
            self.change(number, |held| held.is_retained = false);
            self.drop_if_idle(number);
        }
    }

    /// Keeps a message in memory while it is young.
    fn keep_young(&mut self, number: u64, message: &Arc<Message>, bytes: u64) {
        self.change(number, |held| held.young = Some(message.clone()));
        self.young.push_back(number);
        self.young_bytes += bytes;
        self.tidy_young();
    }

    /// Old ones are read back. What is not on disk yet stays.
    fn tidy_young(&mut self) {
        while self.young_bytes > self.bounds.young
            || self.young.len() > 4 * self.messages.len() + 64
        {
            let Some(&first) = self.young.front() else { break };
            match self.messages.get_mut(&first) {
                Some(held) if held.place.is_none() => break,
                Some(held) => {
                    if held.young.take().is_some() {
                        self.young_bytes -= u64::from(held.bytes);
                    }
                }
                None => {}
            }
            self.young.pop_front();
        }
    }

    /// A message stands here on disk now.
    pub fn placed(&mut self, number: u64, place: Place) {
        self.put(number, Some(place));
        self.tidy_young();
    }

    fn put(&mut self, number: u64, place: Option<Place>) {
        let Some(held) = self.messages.get_mut(&number) else { return };
        if let Some(old) = std::mem::replace(&mut held.place, place)
            && let Some((bytes, count)) = self.segments.get_mut(&old.segment)
        {
            *bytes -= u64::from(old.length);
            *count -= 1;
            if *count == 0 {
                self.segments.remove(&old.segment);
            }
        }
        if let Some(place) = place {
            let (bytes, count) = self.segments.entry(place.segment).or_default();
            *bytes += u64::from(place.length);
            *count += 1;
        }
    }
}

impl Kept {
    /// Messages that wait for it, those that its outbox has among them.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Bytes that a message counts beside its text.
const COST: u64 = 64;

mod read;
