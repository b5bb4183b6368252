//! What a full stream does to the connections that feed it: they wait, for a while, and are read again.

use std::sync::Arc;

use super::Node;
use super::admit::{Admission, Misfit};
use super::sources::Room;
use super::streams::StreamKey;
use crate::class::ClassId;
use crate::io::{Event, Output};
use crate::limits::PENDING_MAX;
use crate::record::{Offered, RefuseReason, SourceId};
use crate::units::{Size, Time};

/// A full stream has room again when this part of its bound is free: it must not change with every
/// record that leaves.
fn with_head_room(bound: Size) -> Size {
    Size(bound.0 / 8 * 7)
}

impl Node {
    pub(super) fn open_source(
        &mut self,
        now: Time,
        source: SourceId,
        name: Arc<str>,
        relays: Option<ClassId>,
    ) {
        // A driver that forgot to close it means the same.
        self.close_source(now, source);
        if !self.sources.open(source, name, relays) {
            self.report(Event::Unsupported("a connection with a number beyond the bound"));
        }
    }

    /// The connection ended. Records that it still waited to have accepted are gone with it: their
    /// sender was never told that they were accepted.
    pub(super) fn close_source(&mut self, now: Time, source: SourceId) {
        self.leave_session(now, source);
        let Some(mut state) = self.sources.close(source) else { return };
        // The next connection of this number must not hear what was meant for this one.
        self.outbox.retain(|output| match output {
            Output::Accept { source: other, .. } => *other != source,
            Output::PauseInput(other) | Output::ResumeInput(other) => *other != source,
            Output::SessionReady(other) | Output::Released(other, _) => *other != source,
            _ => true,
        });
        self.owners.leave(state.owner);
        while state.next_pending().is_some() {
            self.tally.refused(None);
        }
        for (_, stream) in state.streams {
            self.streams.detach(stream);
        }
    }

    /// Keeps a record for later: the order of a connection is kept, so behind one that waits all do.
    pub(super) fn keep_pending(&mut self, offered: Offered) {
        let Some(state) = self.sources.get_mut(offered.source) else { return };
        if state.pending().len() < PENDING_MAX {
            state.pending().push_back(offered);
        } else {
            self.refuse(&offered, None, RefuseReason::Full);
        }
    }

    /// A connection's record does not fit: it waits for room.
    pub(super) fn block(&mut self, now: Time, source: SourceId, misfit: Misfit) {
        let Misfit { offered, room, patience, .. } = misfit;
        let Some(state) = self.sources.get_mut(source) else { return };
        state.pending().push_front(offered);
        let until = now + patience;
        self.sources.wait(source, room, until, None);
        self.outbox.push_back(Output::PauseInput(source));
    }

    /// A record left: its stream, or another one, may have room again. One that was dropped to make room
    /// does not end the fullness for which it was.
    pub(super) fn made_room(&mut self, key: StreamKey, is_relief: bool) {
        let stream = self.streams.get(key);
        let rule = self.options.rules.get(stream.rule);
        let is_full = stream.full_for == Some(Room::Stream(key));
        let has_room = stream.bytes <= with_head_room(rule.bound)
            && (rule.can_leave() || stream.in_memory() <= with_head_room(rule.memory));
        if is_relief && is_full && has_room {
            self.no_longer_full(key);
        }
        if is_relief && !self.full_for_memory.is_empty() {
            self.made_memory();
        }
        if !self.sources.is_idle() && self.freed.last() != Some(&key) {
            self.freed.push(key);
        }
    }

    /// Ends the fullness of streams that found too little memory, where there is enough again. The most
    /// urgent class may fill the most: it has room first.
    fn made_memory(&mut self) {
        while let Some(&(class, key)) = self.full_for_memory.first() {
            if self.held_bytes > with_head_room(self.options.memory_for(class)) {
                break;
            }
            self.no_longer_full(key);
        }
    }

    /// The log has room again, if it has: streams that found none, and whoever waits for it, go on.
    pub(super) fn made_log_room(&mut self) {
        if self.store.as_ref().is_none_or(|store| !store.has_much_room()) {
            return;
        }
        while let Some(&key) = self.full_for_log.first() {
            self.no_longer_full(key);
        }
    }

    /// Records of this stream are dropped or refused from now on, for there is no room.
    pub(super) fn now_full(&mut self, key: StreamKey, room: Room) {
        let stream = self.streams.get_mut(key);
        if stream.full_for.is_some() {
            return;
        }
        stream.full_for = Some(room);
        let rule = stream.rule;
        if let Room::Memory(class) = room {
            self.full_for_memory.insert((class, key));
        }
        if room == Room::Log {
            self.full_for_log.insert(key);
        }
        if let Room::Share(owner) = room {
            self.full_for_share.insert((owner, key));
        }
        let full = &mut self.full_streams[usize::from(rule.0)];
        *full += 1;
        if *full == 1 {
            self.report(Event::Full { rule: usize::from(rule.0), full: true });
        }
    }

    pub(super) fn no_longer_full(&mut self, key: StreamKey) {
        let stream = self.streams.get_mut(key);
        let Some(room) = stream.full_for.take() else { return };
        let rule = stream.rule;
        if let Room::Memory(class) = room {
            self.full_for_memory.remove(&(class, key));
        }
        if room == Room::Log {
            self.full_for_log.remove(&key);
        }
        if let Room::Share(owner) = room {
            self.full_for_share.remove(&(owner, key));
        }
        self.streams.note_idle(key);
        let full = &mut self.full_streams[usize::from(rule.0)];
        *full -= 1;
        if *full == 0 {
            self.report(Event::Full { rule: usize::from(rule.0), full: false });
        }
    }

    /// Tries again for connections that wait: where room was made, and where patience ends.
    pub(super) fn readmit(&mut self, now: Time) {
        while !self.freed.is_empty() {
            for key in std::mem::take(&mut self.freed) {
                self.serve_room(now, Room::Stream(key));
            }
            for class in 0..self.options.classes.len() {
                self.serve_room(now, Room::Memory(ClassId(class as u8)));
            }
        }
        if self.inbound.wait(now).is_none() {
            self.serve_room(now, Room::Inbound);
        }
        let has_log_room = self.store.as_ref().is_some_and(|store| store.has_much_room());
        if has_log_room {
            self.made_log_room();
            self.serve_room(now, Room::Log);
        }
        if self.store.as_mut().is_some_and(|store| store.take_freed()) {
            self.serve_shares(now);
        }
        while let Some((until, source)) = self.sources.first_patience() {
            if until > now {
                break;
            }
            self.retry(now, source, true);
        }
    }

    /// The log holds less: owners that have room in their shares again go on.
    fn serve_shares(&mut self, now: Time) {
        let full: Vec<_> = self.full_for_share.iter().copied().collect();
        for (owner, key) in full {
            if self.has_much_share(owner) {
                self.no_longer_full(key);
            }
        }
        for owner in self.sources.owners_waiting() {
            if self.has_much_share(owner) {
                self.serve_room(now, Room::Share(owner));
            }
        }
    }

    /// First come, first served, until one still finds too little.
    fn serve_room(&mut self, now: Time, room: Room) {
        while let Some((ticket, source)) = self.sources.first_waiting(room) {
            self.retry(now, source, false);
            if self.sources.first_waiting(room) == Some((ticket, source)) {
                break;
            }
        }
    }

    /// Offers a connection's pending records again, in order; where patience `is_over`, the first is
    /// refused if it still does not fit.
    fn retry(&mut self, now: Time, source: SourceId, is_over: bool) {
        let Some(old) = self.sources.end_wait(source) else { return };
        let mut is_first = true;
        while let Some(offered) = self.next_pending(source) {
            match self.admit(now, offered) {
                Admission::Done => {}
                Admission::Wait(misfit) if is_first && is_over && misfit.room != Room::Inbound => {
                    self.now_full(misfit.stream, misfit.room);
                    let rule = self.streams.get(misfit.stream).rule;
                    self.refuse(&misfit.offered, Some(rule), RefuseReason::Full);
                }
                Admission::Wait(misfit) => {
                    let Misfit { offered, room, patience, .. } = *misfit;
                    // The first one's patience goes on; another's begins now, and so does one after a
                    // wait for the inbound limit.
                    let goes_on = is_first && ![room, old.room].contains(&Room::Inbound);
                    let until = if goes_on { old.until } else { now + patience };
                    if let Some(state) = self.sources.get_mut(source) {
                        state.pending().push_front(offered);
                    }
                    self.sources.wait(source, room, until, is_first.then_some(old));
                    return;
                }
            }
            is_first = false;
        }
        self.outbox.push_back(Output::ResumeInput(source));
    }

    fn next_pending(&mut self, source: SourceId) -> Option<Offered> {
        self.sources.get_mut(source)?.next_pending()
    }

    /// Refuses every waiting record: the node stops.
    pub(super) fn refuse_blocked(&mut self) {
        while let Some((_, source)) = self.sources.first_patience() {
            self.sources.end_wait(source);
            while let Some(offered) = self.next_pending(source) {
                self.refuse(&offered, None, RefuseReason::Stopping);
            }
            self.outbox.push_back(Output::ResumeInput(source));
        }
    }
}
