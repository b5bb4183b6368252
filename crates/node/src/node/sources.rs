//! Connections of inputs: what they feed, and who waits for room.
//!
//! A connection whose next record does not fit *waits*: the driver is told not to read it, and what it
//! had read already stays here in the order of reading. A waiting connection stands in two indices: by
//! the room that it waits for, in the order in which it began, and by the end of its patience.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tidegate_types::class::ClassId;
use tidegate_types::limits::{PENDING_MAX, SOURCES_MAX};
use tidegate_types::record::{Offered, Owner, Quota, SourceId, Token};
use tidegate_types::units::Time;

use super::holdings::{OwnerKey, Payer, Room, StreamKey};
use super::outbox::ReplyTo;
use super::owners::Owners;
use crate::rules::RuleId;

/// A wait for room.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) room: Room,
    /// Its place among those who wait for the same.
    pub(super) ticket: u64,
    /// When its patience ends.
    pub(super) until: Time,
}

/// One connection of an input.
#[derive(Debug)]
pub(super) struct SourceState {
    pub(super) name: Arc<str>,
    /// The class of a neighbour's records, if it brings these.
    pub(super) relays: Option<ClassId>,
    /// The rule of everything that it brings, where its driver said so.
    pub(super) bound: Option<RuleId>,
    /// On whose account it is, where its driver said so.
    owner: Option<OwnerKey>,
    life: u64,
    /// The stream that it fed last, and all that it feeds.
    last: Option<(RuleId, StreamKey)>,
    pub(super) streams: Vec<(RuleId, StreamKey)>,
    /// Set while it waits, which is rare.
    held_up: Option<Box<HeldUp>>,
}

/// A connection that waits.
#[derive(Debug, Default)]
struct HeldUp {
    /// Records in the order of reading; the first is the one that does not fit.
    pending: VecDeque<Offered>,
    wait: Option<Wait>,
}

impl SourceState {
    /// The stream that it feeds under this rule, if it does already.
    pub(super) fn stream(&mut self, rule: RuleId) -> Option<StreamKey> {
        if self.last.is_none_or(|(last, _)| last != rule) {
            self.last = self.streams.iter().copied().find(|(known, _)| *known == rule);
        }
        self.last.map(|(_, stream)| stream)
    }

    /// Which life of its number this is.
    pub(super) fn life(&self) -> u64 {
        self.life
    }

    /// The stream that its next record probably goes to.
    pub(super) fn likely(&self) -> Option<StreamKey> {
        self.last.map(|(_, stream)| stream)
    }

    /// Whether records of it are pending.
    pub(super) fn is_held_up(&self) -> bool {
        self.held_up.is_some()
    }

    /// Keeps a record behind those that wait for room; gives it back where they are too many.
    pub(super) fn keep_pending(&mut self, offered: Offered) -> Option<Offered> {
        let pending = &mut self.held_up.get_or_insert_default().pending;
        if pending.len() >= PENDING_MAX {
            return Some(offered);
        }
        pending.push_back(offered);
        None
    }

    /// Those of them whose sender waits for an answer go; how many they were.
    pub(super) fn forget_asking(&mut self) -> u64 {
        let Some(HeldUp { pending, .. }) = self.held_up.as_deref_mut() else { return 0 };
        let before = pending.len();
        pending.retain(|offered| offered.token.is_none());
        (before - pending.len()) as u64
    }

    /// Whether some are left.
    pub(super) fn has_pending(&self) -> bool {
        self.held_up.as_ref().is_some_and(|held_up| !held_up.pending.is_empty())
    }

    /// The first of those; with the last one it is held up no more.
    pub(super) fn next_pending(&mut self) -> Option<Offered> {
        let next = self.held_up.as_mut()?.pending.pop_front();
        if next.is_none() {
            self.held_up = None;
        }
        next
    }
}

/// All connections of a node.
#[derive(Debug, Default)]
pub(super) struct Sources {
    sources: Vec<Option<SourceState>>,
    pub(super) owners: Owners,
    by_room: BTreeSet<(Room, u64, SourceId)>,
    by_patience: BTreeSet<(Time, SourceId)>,
    last_life: u64,
    last_ticket: u64,
}

impl Sources {
    /// A connection begins; false where its number is beyond the bound.
    pub(super) fn open(
        &mut self,
        source: SourceId,
        name: Arc<str>,
        relays: Option<ClassId>,
    ) -> bool {
        let place = source.0 as usize;
        if place >= SOURCES_MAX {
            return false;
        }
        if self.sources.len() <= place {
            self.sources.resize_with(place + 1, || None);
        }
        self.last_life += 1;
        self.sources[place] = Some(SourceState {
            name,
            relays,
            bound: None,
            owner: None,
            life: self.last_life,
            last: None,
            streams: Vec::new(),
            held_up: None,
        });
        true
    }

    /// A connection ended: its state, if it was open.
    pub(super) fn close(&mut self, source: SourceId) -> Option<SourceState> {
        self.end_wait(source);
        let state = self.sources.get_mut(source.0 as usize)?.take()?;
        self.owners.leave(state.owner);
        Some(state)
    }

    /// All that comes by a connection is on this account from now on.
    pub(super) fn charge(&mut self, source: SourceId, owner: Owner, quota: Quota) {
        let place = self.sources.get_mut(source.0 as usize);
        let Some(state) = place.and_then(Option::as_mut) else { return };
        let former = state.owner.replace(self.owners.join(owner, quota));
        self.owners.leave(former);
    }

    /// On whose account a connection is, where its driver said so.
    pub(super) fn owner_of(&self, source: SourceId) -> Option<&Owner> {
        self.owners.get(self.get(source)?.owner?)
    }

    /// The same, and what that owner may have.
    pub(super) fn payer(&self, source: SourceId) -> Option<Payer> {
        let owner = self.get(source)?.owner?;
        Some(Payer { owner, quota: self.owners.quota(owner) })
    }

    pub(super) fn get(&self, source: SourceId) -> Option<&SourceState> {
        self.sources.get(source.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, source: SourceId) -> Option<&mut SourceState> {
        self.sources.get_mut(source.0 as usize)?.as_mut()
    }

    /// All that comes by a connection is of one rule.
    pub(super) fn bind(&mut self, source: SourceId, rule: RuleId) {
        if let Some(state) = self.get_mut(source) {
            state.bound = Some(rule);
        }
    }

    /// Who to answer, for an offer of an open connection that carries a token.
    pub(super) fn reply_to(
        &self,
        source: SourceId,
        token: Option<Token>,
        packet: Option<u16>,
    ) -> Option<ReplyTo> {
        let life = self.get(source)?.life;
        token.map(|token| ReplyTo { source, life, token, packet })
    }

    /// Whether the connection that asked is still there.
    pub(super) fn is_alive(&self, reply: &ReplyTo) -> bool {
        self.get(reply.source).is_some_and(|state| state.life == reply.life)
    }

    /// The next record that a connection kept for later.
    pub(super) fn next_pending(&mut self, source: SourceId) -> Option<Offered> {
        self.get_mut(source)?.next_pending()
    }

    /// A record waits until then, before all others of its connection. A wait that goes on for the same room
    /// as an `old` one keeps its turn.
    pub(super) fn wait(&mut self, offered: Offered, room: Room, until: Time, old: Option<Wait>) {
        let source = offered.source;
        let ticket = match old.filter(|old| old.room == room) {
            Some(old) => old.ticket,
            None => {
                self.last_ticket += 1;
                self.last_ticket
            }
        };
        let Some(state) = self.get_mut(source) else { return };
        let held_up = state.held_up.get_or_insert_default();
        held_up.pending.push_front(offered);
        held_up.wait = Some(Wait { room, ticket, until });
        self.by_room.insert((room, ticket, source));
        self.by_patience.insert((until, source));
    }

    /// The connection waits no more; answers with the wait that it had.
    pub(super) fn end_wait(&mut self, source: SourceId) -> Option<Wait> {
        let wait = self.get_mut(source)?.held_up.as_mut()?.wait.take()?;
        self.by_room.remove(&(wait.room, wait.ticket, source));
        self.by_patience.remove(&(wait.until, source));
        Some(wait)
    }

    /// Whoever waits longest for this room, and its ticket.
    pub(super) fn first_waiting(&self, room: Room) -> Option<(u64, SourceId)> {
        let rest = self.by_room.range((room, 0, SourceId(0))..);
        let first = rest.take_while(|(other, ..)| *other == room).next();
        first.map(|&(_, ticket, source)| (ticket, source))
    }

    /// Owners for whose share of the log somebody waits.
    pub(super) fn owners_waiting(&self) -> Vec<OwnerKey> {
        let after = |room| (room, u64::MAX, SourceId(u32::MAX))..;
        let mut owners = Vec::new();
        // A share is the last kind of room.
        let mut last = Room::Log;
        while let Some(&(room, ..)) = self.by_room.range(after(last)).next() {
            owners.extend(if let Room::Share(owner) = room { Some(owner) } else { None });
            last = room;
        }
        owners
    }

    /// Whether nobody waits.
    pub(super) fn is_idle(&self) -> bool {
        self.by_room.is_empty()
    }

    /// Whose patience ends first, and when.
    pub(super) fn first_patience(&self) -> Option<(Time, SourceId)> {
        self.by_patience.first().copied()
    }
}
