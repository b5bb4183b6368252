//! Messages that a ledger holds: who waits for them, and when nobody does any more.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tidegate_types::class::ClassId;
use tidegate_types::ids::SessionId;
use tidegate_types::limits::CLASSES_MAX;

use super::{Applied, Held, Kept, NotePlace, SessionLedger, Waiting};
use crate::journal::{Flight, MessageNote, Waiter};
use crate::message::Message;

/// Bytes that a message counts beside its text.
const COST: u64 = 64;
/// Memory of an entry for a session that waits for a message, and of all of them.
const ENTRY: u64 = 112;
const INDEX: u64 = 128 << 20;
/// Messages that make room at a time.
const AT_ONCE: usize = 256;

impl SessionLedger {
    pub(super) fn hold(
        &mut self,
        note: &MessageNote,
        place: Option<NotePlace>,
        applied: &mut Applied,
    ) {
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
            self.expiring.extend(expires.map(|at| (at, message.topic.clone())));
        }
        if place.is_none() && !waiters.is_empty() {
            self.make_room(applied);
        }
        for waiter in waiters {
            self.wait(*number, waiter, (message.class, bytes, place.is_some()), applied);
        }
        match place {
            Some(_) => self.put(*number, place),
            None => self.keep_young(*number, message, bytes),
        }
        self.drop_if_idle(*number);
    }

    /// Where all is full, those that wait for whoever has most of them make room: the oldest of the least urgent class.
    fn make_room(&mut self, applied: &mut Applied) {
        while self.is_full() {
            let has_unread = |kept: &&mut Kept| kept.unread.iter().any(|unread| !unread.is_empty());
            let most = self.sessions.values_mut().filter(has_unread);
            let Some(kept) = most.max_by_key(|kept| kept.bytes) else { return };
            let session = kept.note.session;
            let too_many = (self.entries * ENTRY).saturating_sub(INDEX).div_ceil(ENTRY) as usize;
            let (too_much, mut freed) = (self.bytes.saturating_sub(self.bounds.all), 0);
            let mut victims = Vec::new();
            while victims.len() < AT_ONCE
                && (freed < too_much || victims.len() < too_many)
                && let Some((number, class)) = kept.evict(0)
            {
                let held = self.messages.get(&number);
                kept.bytes = kept.bytes.saturating_sub(held.map_or(0, |held| held.bytes.into()));
                // One that others need too takes its bytes on.
                freed += held.filter(|held| held.waiters == 1).map_or(0, |held| held.bytes.into());
                victims.push(number);
                applied.dropped.push((session, number, class));
            }
            self.entries -= victims.len() as u64;
            victims.into_iter().for_each(|number| self.release(number));
        }
    }

    /// Whether messages, or entries for who waits for them, take all that they may.
    fn is_full(&self) -> bool {
        self.bytes > self.bounds.all || self.entries * ENTRY > INDEX
    }

    fn wait(
        &mut self,
        number: u64,
        waiter: &Waiter,
        (class, bytes, is_read_back): (ClassId, u64, bool),
        applied: &mut Applied,
    ) {
        let most = self.bounds.session;
        let Some(kept) = self.sessions.get_mut(&waiter.session) else { return };
        // By a subscription of its own and by a group's: one copy.
        if let Some(known) = kept.waiting.get_mut(&number) {
            known.qos = known.qos.max(waiter.qos);
            return;
        }
        // Its oldest of the least urgent class make room, as in an outbox. What is read back had room once.
        let mut victims = Vec::new();
        while !is_read_back && kept.bytes + bytes > most {
            let victim = if bytes > most { None } else { kept.evict(class.index()) };
            let Some((victim, of)) = victim else {
                applied.dropped.push((waiter.session, number, class));
                break;
            };
            let held = self.messages.get(&victim);
            kept.bytes = kept.bytes.saturating_sub(held.map_or(0, |held| held.bytes.into()));
            victims.push(victim);
            applied.dropped.push((waiter.session, victim, of));
        }
        if is_read_back || kept.bytes + bytes <= most {
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
            self.entries += 1;
            self.change(number, |held| held.waiters += 1);
        }
        self.entries -= victims.len() as u64;
        victims.into_iter().for_each(|number| self.release(number));
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut Held)) {
        if let Some(held) = self.messages.get_mut(&number) {
            change(held);
        }
    }

    /// A session less waits for a message.
    pub(super) fn release(&mut self, number: u64) {
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
    pub(super) fn done(&mut self, session: SessionId, number: u64) {
        let Some(kept) = self.sessions.get_mut(&session) else { return };
        if kept.waiting.remove(&number).is_none() {
            return;
        }
        self.entries -= 1;
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

    pub(super) fn fly(&mut self, session: SessionId, flight: Flight) {
        let order = self.flights;
        self.flights += 1;
        let Some(kept) = self.sessions.get_mut(&session) else { return };
        if let Some(waiting) = kept.waiting.get_mut(&flight.number) {
            let order = waiting.flight.map_or(order, |(_, _, order)| order);
            waiting.flight = Some((flight.id, flight.is_received, order));
        }
    }

    pub(super) fn unretain(&mut self, topic: &Bytes) {
        if let Some(number) = self.retained.remove(topic) {
            if let Some(at) = self.messages.get(&number).and_then(|held| held.expires) {
                self.expiring.remove(&(at, topic.clone()));
            }
            self.change(number, |held| held.is_retained = false);
            self.drop_if_idle(number);
        }
    }

    /// Topics whose retained message nobody wants any more.
    pub fn retained_over(&self, now: u64) -> Vec<Bytes> {
        let over = self.expiring.iter().take_while(|(at, _)| *at <= now);
        over.map(|(_, topic)| topic.clone()).collect()
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
            if let Some(held) = self.messages.get_mut(&first) {
                if held.place.is_none() {
                    break;
                }
                if held.young.take().is_some() {
                    self.young_bytes -= u64::from(held.bytes);
                }
            }
            self.young.pop_front();
        }
    }

    /// A message stands here on disk now.
    pub fn placed(&mut self, number: u64, place: NotePlace) {
        self.put(number, Some(place));
        self.tidy_young();
    }

    fn put(&mut self, number: u64, place: Option<NotePlace>) {
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
