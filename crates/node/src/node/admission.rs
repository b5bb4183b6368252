//! Whether there is room for a record, and what happens where there is none: its stream is *full* and drops or
//! refuses at once, until there is room again.
//!
//! | file | what it has |
//! |---|---|
//! | `admission/room.rs` | whether a record fits |
//! | this file | fullness begins and ends; the inbound limit |

mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_schedule::estimate::ProcessingDelay;
use tidegate_types::class::ClassId;
use tidegate_types::record::Offered;
use tidegate_types::units::Size;

pub(super) use self::room::{Fit, Space, size_of};
use super::base::Base;
use super::durability::Durability;
use super::holdings::{Holdings, OwnerKey, Room, StreamKey};
use crate::inbound::Inbound;
use crate::io::Event;
use crate::options::NodeOptions;

/// A record that must wait for room.
#[derive(Debug)]
pub(super) struct Blocked {
    pub(super) offered: Offered,
    pub(super) stream: StreamKey,
    /// What it finds too little of.
    pub(super) room: Room,
    /// How long it may wait.
    pub(super) patience: Duration,
}

/// Which streams are full, and what may come in.
#[derive(Debug)]
pub(super) struct Admission {
    /// Streams that lost a record since somebody waits.
    freed: Vec<StreamKey>,
    /// Streams that are full for want of memory, the most urgent class first.
    full_for_memory: BTreeSet<(ClassId, StreamKey)>,
    /// Streams that are full for want of room in the log.
    full_for_log: BTreeSet<StreamKey>,
    /// Streams that are full because their owner has its share of the log.
    full_for_share: BTreeMap<OwnerKey, BTreeSet<StreamKey>>,
    /// How many streams of each rule are full.
    full_streams: Vec<u64>,
    pub(super) inbound: Inbound,
    pub(super) processing: ProcessingDelay,
}

/// A full stream has room again when this part of its bound is free: it must not change with every
/// record that leaves.
fn with_head_room(bound: Size) -> Size {
    Size(bound.0 / 8 * 7)
}

/// Fullness.
impl Admission {
    pub(super) fn new(options: &NodeOptions) -> Self {
        Admission {
            freed: Vec::new(),
            full_for_memory: BTreeSet::new(),
            full_for_log: BTreeSet::new(),
            full_for_share: BTreeMap::new(),
            full_streams: vec![0; options.rules.len()],
            inbound: Inbound::new(options.inbound),
            processing: ProcessingDelay::default(),
        }
    }

    /// There are more rules now.
    pub(super) fn extend(&mut self, rules: usize) {
        self.full_streams.resize(rules, 0);
    }

    /// A record left: its stream, or another one, may have room again. One that was dropped to make room
    /// does not end the fullness for which it was.
    pub(super) fn made_room(&mut self, base: &mut Base, key: StreamKey, is_relief: bool) {
        if is_relief {
            let stream = base.holdings.stream(key);
            if stream.full_for == Some(Room::Stream(key)) {
                let (rule, account) = (base.rule_of(key), stream.account);
                let has_room = account.bytes() <= with_head_room(rule.bound)
                    && (rule.can_leave() || account.in_memory() <= with_head_room(rule.memory));
                if has_room {
                    self.no_longer_full(base, key);
                }
            }
            self.made_memory(base);
        }
        if !base.sources.is_idle() && self.freed.last() != Some(&key) {
            self.freed.push(key);
        }
    }

    /// Ends the fullness of streams that found too little memory, where there is enough again. The most
    /// urgent class may fill the most: it has room first.
    fn made_memory(&mut self, base: &mut Base) {
        while let Some(&(class, key)) = self.full_for_memory.first() {
            if base.holdings.bytes() > with_head_room(base.options.memory_for(class)) {
                break;
            }
            self.no_longer_full(base, key);
        }
    }

    /// The log has room again: streams that found none go on.
    pub(super) fn made_log_room(&mut self, base: &mut Base) {
        while let Some(&key) = self.full_for_log.first() {
            self.no_longer_full(base, key);
        }
    }

    /// The log holds less: streams whose owners have much of their shares again go on. Answers with the owners
    /// for whose share connections wait that may be tried again.
    pub(super) fn made_shares(
        &mut self,
        base: &mut Base,
        durability: &Durability,
    ) -> Vec<OwnerKey> {
        let has_much = |base: &Base, owner: OwnerKey| {
            durability.log().has_much_share(owner, base.sources.owners.quota(owner).log)
        };
        let full = self.full_for_share.keys().copied();
        for owner in full.filter(|&owner| has_much(base, owner)).collect::<Vec<_>>() {
            let streams = self.full_for_share.get(&owner).cloned().unwrap_or_default();
            streams.into_iter().for_each(|key| self.no_longer_full(base, key));
        }
        let waiting = base.sources.owners_waiting().into_iter();
        waiting.filter(|&owner| has_much(base, owner)).collect()
    }

    /// Records of this stream are dropped or refused from now on, for there is no room.
    pub(super) fn now_full(&mut self, base: &mut Base, key: StreamKey, room: Room) {
        if base.holdings.stream(key).full_for.is_some() {
            return;
        }
        base.holdings.set_full(key, Some(room));
        if let Room::Memory(class) = room {
            self.full_for_memory.insert((class, key));
        }
        if room == Room::Log {
            self.full_for_log.insert(key);
        }
        if let Room::Share(owner) = room {
            self.full_for_share.entry(owner).or_default().insert(key);
        }
        let rule = usize::from(base.holdings.stream(key).rule.0);
        self.full_streams[rule] += 1;
        if self.full_streams[rule] == 1 {
            base.outbox.report(Event::Full { rule, full: true });
        }
    }

    /// Records of this stream may fit again.
    pub(super) fn no_longer_full(&mut self, base: &mut Base, key: StreamKey) {
        let Some(room) = base.holdings.set_full(key, None) else { return };
        if let Room::Memory(class) = room {
            self.full_for_memory.remove(&(class, key));
        }
        if room == Room::Log {
            self.full_for_log.remove(&key);
        }
        if let Room::Share(owner) = room
            && let Some(streams) = self.full_for_share.get_mut(&owner)
        {
            streams.remove(&key);
            if streams.is_empty() {
                self.full_for_share.remove(&owner);
            }
        }
        base.holdings.note_idle(key);
        let rule = usize::from(base.holdings.stream(key).rule.0);
        self.full_streams[rule] -= 1;
        if self.full_streams[rule] == 0 {
            base.outbox.report(Event::Full { rule, full: false });
        }
    }

    /// Streams that lost a record since the last call, to be tried again.
    pub(super) fn take_freed(&mut self) -> Vec<StreamKey> {
        std::mem::take(&mut self.freed)
    }

    /// Any stream may have room now.
    pub(super) fn free_all(&mut self, holdings: &Holdings) {
        self.freed.extend(holdings.streams().all().map(|(key, _)| key));
    }
}
