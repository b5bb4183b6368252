//! What is read of the ledger: what goes into outboxes, and what stands at the beginning of a segment.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tidegate_types::class::ClassId;
use tidegate_types::ids::SessionId;
use tidegate_types::limits::CLASSES_MAX;

use super::{Held, Kept, NotePlace, Pulled, SessionLedger, Waiting};
use crate::journal::{Flight, MessageNote, Note, Waiter};
use crate::message::Message;
use crate::subscriptions::SubscribeOptions;

impl SessionLedger {
    /// What a session is to have in its outbox next: the most urgent class first, in order, until it is so many bytes.
    pub fn pull(&mut self, session: SessionId, most: usize) -> Vec<Pulled> {
        let SessionLedger { sessions, messages, .. } = self;
        let Some(kept) = sessions.get_mut(&session) else { return Vec::new() };
        let (mut all, mut bytes) = (Vec::new(), 0);
        for unread in &mut kept.unread {
            while bytes < most
                && let Some(number) = unread.pop_front()
            {
                let (Some(held), Some(waiting)) =
                    (messages.get(&number), kept.waiting.get(&number))
                else {
                    continue;
                };
                bytes += held.bytes as usize;
                all.push(pulled(session, number, waiting, held));
            }
            if unread.is_empty() {
                *unread = VecDeque::new();
            }
        }
        all
    }

    /// A session's outbox has these no more: they are to be read again.
    pub fn give_back(&mut self, session: SessionId, numbers: &[u64]) {
        let SessionLedger { sessions, messages, .. } = self;
        let Some(kept) = sessions.get_mut(&session) else { return };
        for number in numbers {
            let Some(held) = messages.get(number).filter(|_| kept.waiting.contains_key(number))
            else {
                continue;
            };
            let class = held.class.index().min(CLASSES_MAX - 1);
            if let Some(unread) = kept.unread.get_mut(class)
                && let Err(place) = unread.binary_search(number)
            {
                unread.insert(place, *number);
            }
        }
    }

    /// What a session had under way with QoS 2, in order: it is not unread any more.
    pub fn pull_flights(&mut self, session: SessionId) -> Vec<Pulled> {
        let SessionLedger { sessions, messages, .. } = self;
        let Some(kept) = sessions.get_mut(&session) else { return Vec::new() };
        let mut all: Vec<(u64, u64)> = kept
            .waiting
            .iter()
            .filter_map(|(number, waiting)| Some((waiting.flight?.2, *number)))
            .collect();
        if all.is_empty() {
            return Vec::new();
        }
        all.sort_unstable();
        let gone: BTreeSet<u64> = all.iter().map(|(_, number)| *number).collect();
        kept.unread.iter_mut().for_each(|unread| unread.retain(|number| !gone.contains(number)));
        let pull = |(_, number): (u64, u64)| {
            Some(pulled(session, number, kept.waiting.get(&number)?, messages.get(&number)?))
        };
        all.into_iter().filter_map(pull).collect()
    }

    /// Whether a session has something to read.
    pub fn has_unread(&self, session: SessionId) -> bool {
        let kept = self.sessions.get(&session);
        kept.is_some_and(|kept| kept.unread.iter().any(|unread| !unread.is_empty()))
    }

    /// Where a message stands, or it itself.
    pub fn find(&self, number: u64) -> Option<Result<Arc<Message>, Option<NotePlace>>> {
        self.messages.get(&number).map(source)
    }

    /// Notes that say all that holds of sessions.
    pub fn snapshot(&self) -> Vec<Note> {
        let mut notes = vec![Note::Clock(self.wall)];
        for (session, kept) in &self.sessions {
            notes.push(Note::Session(Box::new(kept.note.clone())));
            let subscribed = |(text, options): (&Arc<str>, &SubscribeOptions)| {
                Note::Subscribed(*session, text.clone(), *options)
            };
            notes.extend(kept.subscriptions.iter().map(subscribed));
            if !kept.packets.is_empty() {
                notes.push(Note::Packets(*session, kept.packets.iter().copied().collect()));
            }
        }
        notes.push(Note::Whole(self.next, self.next_session));
        notes
    }

    /// A message of an old segment, as it is now, and what follows it there: to be written again. None where nobody
    /// needs it, or where it stands elsewhere.
    pub fn renew(&self, note: &MessageNote, segment: u32) -> Option<Vec<Note>> {
        let held = self.messages.get(&note.number)?;
        held.place.filter(|place| place.segment == segment)?;
        let (mut waiters, mut flights) = (Vec::new(), Vec::new());
        for waiter in &note.waiters {
            let Some(kept) = self.sessions.get(&waiter.session) else { continue };
            let Some(waiting) = kept.waiting.get(&note.number) else { continue };
            waiters.push(waiter.clone());
            if let Some((id, is_received, _)) = waiting.flight {
                let flight = Flight { number: note.number, id, is_received };
                flights.push(Note::Flights(waiter.session, vec![flight]));
            }
        }
        let renewed = MessageNote {
            is_retained: held.is_retained,
            waiters,
            packet: None,
            will_of: None,
            ..note.clone()
        };
        let mut notes = vec![Note::Message(Box::new(renewed))];
        notes.append(&mut flights);
        Some(notes)
    }
}

impl SessionLedger {
    /// Messages that stand in a segment that cannot be read. Those that are in memory are to be written again by the
    /// first notes; the others are given up by the second ones. Of a QoS 2 delivery that is under way the subscriber may
    /// have the identifier: it stays, with a message without content, until it is released.
    pub fn abandon(&self, segment: u32) -> (Vec<Note>, Vec<Note>) {
        let (mut copies, mut lost) = (Vec::new(), Vec::new());
        let stands = |held: &&Held| held.place.is_some_and(|place| place.segment == segment);
        let is_lost = |number: &u64| {
            let held = self.messages.get(number).filter(stands);
            held.is_some_and(|held| held.young.is_none())
        };
        for (number, held) in self.messages.iter().filter(|(_, held)| stands(held)) {
            let Some(message) = held.young.clone() else { continue };
            let waiter = |(session, kept): (&SessionId, &Kept)| {
                let Waiting { qos, retain, ids, .. } = kept.waiting.get(number)?;
                Some(Waiter { session: *session, qos: *qos, retain: *retain, ids: ids.clone() })
            };
            let note = MessageNote {
                number: *number,
                message,
                expires: held.expires,
                is_retained: held.is_retained,
                waiters: self.sessions.iter().filter_map(waiter).collect(),
                packet: None,
                will_of: None,
            };
            copies.extend(self.renew(&note, segment).into_iter().flatten());
        }
        let mut released: BTreeMap<u64, Vec<Waiter>> = BTreeMap::new();
        for (session, kept) in &self.sessions {
            let mut numbers = Vec::new();
            for (number, waiting) in kept.waiting.iter().filter(|(number, _)| is_lost(number)) {
                let Some((id, ..)) = waiting.flight else {
                    numbers.push(*number);
                    continue;
                };
                let waiter = Waiter { session: *session, qos: 2, retain: false, ids: None };
                released.entry(*number).or_default().push(waiter);
                let flight = Flight { number: *number, id, is_received: true };
                lost.push(Note::Flights(*session, vec![flight]));
            }
            if !numbers.is_empty() {
                lost.push(Note::Done(*session, numbers));
            }
        }
        for (number, waiters) in released {
            let class = self.messages.get(&number).map_or(ClassId(0), |held| held.class);
            let message = Arc::new(Message::empty(class));
            copies.push(Note::Message(Box::new(MessageNote {
                number,
                message,
                expires: None,
                is_retained: false,
                waiters,
                packet: None,
                will_of: None,
            })));
        }
        let retained = self.retained.iter().filter(|(_, number)| is_lost(number));
        lost.extend(retained.map(|(topic, _)| Note::Unretained(topic.clone())));
        (copies, lost)
    }
}

fn source(held: &Held) -> Result<Arc<Message>, Option<NotePlace>> {
    held.young.clone().ok_or(held.place)
}

fn pulled(session: SessionId, number: u64, waiting: &Waiting, held: &Held) -> Pulled {
    let Waiting { qos, retain, ids, flight } = waiting;
    let waiter = Waiter { session, qos: *qos, retain: *retain, ids: ids.clone() };
    let flight = flight.map(|(id, is_received, _)| (id, is_received));
    let (class, expires) = (held.class, held.expires);
    Pulled { number, class, waiter, expires, source: source(held), flight }
}
