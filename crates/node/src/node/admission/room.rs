//! Whether a record fits: into its stream's bounds, the memory and the log.

use tidegate_schedule::queue::RecordKey;
use tidegate_types::record::{AcceptMode, Offered};
use tidegate_types::units::Size;

use crate::io::OutputId;
use crate::node::base::Base;
use crate::node::durability::Durability;
use crate::node::holdings::{Keep, Room, StreamKey};
use crate::rules::{Rule, RuleId};

/// The part of the memory whose bytes may be on their way to the log.
const UNAPPENDED_PART: u64 = 4;

/// What room is measured by. It only looks.
#[derive(Clone, Copy)]
pub(crate) struct Space<'a> {
    pub(crate) base: &'a Base,
    pub(crate) durability: &'a Durability,
}

/// Where a record fits.
pub(crate) enum Fit {
    /// Here.
    Keep(Keep),
    /// In memory, once the oldest record of its stream has left it for the log.
    Leave(RecordKey),
    /// Nowhere: it finds too little of this.
    Lacks(Room),
}

impl<'a> Space<'a> {
    fn rule(&self, stream: StreamKey) -> &'a Rule {
        self.base.rule_of(stream)
    }

    /// Whether a record of a rule would not fit even if nothing else were there.
    pub(crate) fn is_oversize(&self, rule: RuleId, size: Size) -> bool {
        let rule = self.base.options.rules.get(rule);
        let own = rule.bound.min(rule.memory);
        let bounds = [self.base.options.record_max, own, self.base.options.memory_for(rule.class)];
        bounds.into_iter().any(|bound| size > bound)
    }

    /// Whether a stream's records are promised to be in the log.
    pub(crate) fn is_durable(&self, stream: StreamKey) -> bool {
        self.rule(stream).accept == AcceptMode::Durable
    }

    /// Where a record fits once `freed` bytes of its stream are gone. For want of memory a durable one goes to
    /// the log only, or better: an older one of its stream does.
    pub(crate) fn fit(&self, stream: StreamKey, size: Size, freed: Size) -> Fit {
        let rule = self.rule(stream);
        if let Some(room) = self.lacks_in_all(stream, size, freed) {
            return Fit::Lacks(room);
        }
        let is_strict = rule.can_leave() && rule.strict_order;
        if is_strict && self.base.holdings.stream(stream).account.stored() > 0 {
            // What is on disk goes before it.
            return Fit::Keep(Keep::InLog);
        }
        let Some(room) = self.lacks_in_memory(stream, size, freed) else {
            return Fit::Keep(Keep::InMemory);
        };
        if !rule.can_leave() {
            return Fit::Lacks(room);
        }
        match self.may_leave(stream) {
            Some(oldest) if !rule.strict_order => Fit::Leave(oldest),
            _ => Fit::Keep(Keep::InLog),
        }
    }

    /// What a record of this size finds too little of, once `freed` bytes of its stream are gone.
    pub(crate) fn lacks(&self, stream: StreamKey, size: Size, freed: Size) -> Option<Room> {
        let all = self.lacks_in_all(stream, size, freed);
        all.or_else(|| self.lacks_in_memory(stream, size, freed))
    }

    /// The same, of what holds for records in memory and for those in the log.
    fn lacks_in_all(&self, key: StreamKey, size: Size, freed: Size) -> Option<Room> {
        let rule = self.rule(key);
        let is_durable = rule.accept == AcceptMode::Durable;
        let ahead = Size(self.base.options.memory.0 / UNAPPENDED_PART);
        if self.base.holdings.stream(key).account.bytes() + size > rule.bound + freed {
            Some(Room::Stream(key))
        } else if is_durable && !self.durability.log().has_room(size, ahead) {
            Some(Room::Log)
        } else if is_durable {
            self.lacks_share(key, size)
        } else {
            None
        }
    }

    /// The same, of what a stream's owner may have of the log.
    fn lacks_share(&self, key: StreamKey, size: Size) -> Option<Room> {
        let owner = self.base.holdings.stream(key).owner?;
        let quota = self.base.sources.owners.quota(owner).log;
        (!self.durability.log().has_share(owner, quota, size)).then_some(Room::Share(owner))
    }

    /// The same, of what holds for records in memory.
    fn lacks_in_memory(&self, key: StreamKey, size: Size, freed: Size) -> Option<Room> {
        let rule = self.rule(key);
        if self.base.holdings.stream(key).account.in_memory() + size > rule.memory + freed {
            Some(Room::Stream(key))
        } else if self.base.holdings.bytes() + size
            > self.base.options.memory_for(rule.class) + freed
        {
            Some(Room::Memory(rule.class))
        } else {
            None
        }
    }

    /// The oldest waiting record of a stream, if it may leave memory: the log has it, and no part of it is
    /// under way.
    fn may_leave(&self, stream: StreamKey) -> Option<RecordKey> {
        let oldest = self.base.holdings.oldest_waiting(stream)?;
        let record = self.base.holdings.delivery(oldest)?.record;
        let owed = self.base.holdings.record(record)?.owed.as_ref()?;
        let is_on_disk = self.durability.log().is_on_disk(&owed.logged?);
        let waits = owed.legs.iter().all(|leg| self.base.holdings.is_waiting(leg.delivery));
        (is_on_disk && waits).then_some(record)
    }

    /// Whether dropping all that waits of a stream would make room for a record.
    pub(crate) fn would_fit(&self, stream: StreamKey, size: Size) -> bool {
        let account = self.base.holdings.stream(stream).account;
        let droppable = self.waiting_bytes(stream).min(account.bytes());
        self.lacks(stream, size, droppable).is_none()
    }

    /// Bytes that dropping all that waits of a stream would free at most.
    fn waiting_bytes(&self, key: StreamKey) -> Size {
        let bytes = |queue| self.base.holdings.queues().backlog_of(queue).bytes;
        let stream = self.base.holdings.stream(key);
        let elsewhere: Size = stream.side_queues().map(bytes).sum();
        let waiting = stream.queues().map(bytes).max().map(|most| most + elsewhere);
        let is_any_stored = stream.account.stored() > 0;
        let stored = match is_any_stored {
            true => self.durability.backlog().chunks_of(key).map(|(.., bytes)| bytes).sum(),
            false => Size::ZERO,
        };
        waiting.unwrap_or_default() + stored
    }

    /// Bytes that the record free of which this key's next one takes the place (`newest-only`).
    pub(crate) fn superseded_size(&self, stream: StreamKey, record_key: &[u8]) -> Size {
        let Some((old, deliveries)) = self.base.holdings.stream(stream).newest_of(record_key)
        else {
            return Size::ZERO;
        };
        let Some(held) = self.base.holdings.record(*old) else { return Size::ZERO };
        let waiting = deliveries.iter().filter(|&&key| self.base.holdings.is_waiting(key)).count();
        if waiting == held.left as usize { held.size } else { Size::ZERO }
    }

    /// Whether a rule still sends something to an output.
    pub(crate) fn is_destination(&self, stream: StreamKey, output: OutputId) -> bool {
        self.rule(stream).to.contains(&output)
    }
}

/// A record's size as bounds count it: key, properties and payload.
pub(crate) fn size_of(offered: &Offered) -> Size {
    Size(offered.key.len() as u64) + offered.properties.size() + Size(offered.payload.len() as u64)
}
