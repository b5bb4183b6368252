//! The table of streams: one for each (rule, source name), bounded, with numbers that never repeat.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use slotmap::{SlotMap, new_key_type};

use super::owners::OwnerKey;
use super::sources::Room;
use crate::io::OutputId;
use crate::limits::STREAMS_MAX;
use crate::queue::{DeliveryKey, QueueKey, RecordKey};
use crate::record::StreamId;
use crate::rules::RuleId;
use crate::shares::Shares;
use crate::units::Size;

new_key_type! {
    /// Handle of a stream.
    pub(super) struct StreamKey;
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: StreamId,
    pub(super) rule: RuleId,
    pub(super) name: Arc<str>,
    /// Number of the last accepted record.
    pub(super) seq: u64,
    /// One queue a destination, in the order of the rule's `to`: the first of them, and the others.
    queue: QueueKey,
    other_queues: Box<[QueueKey]>,
    /// Queues of records that scripts sent elsewhere, by their own output and the one that they go by.
    pub(super) side_queues: BTreeMap<(OutputId, OutputId), QueueKey>,
    /// Queues of earlier rules: records that were under way then may come back to them.
    former_queues: Vec<QueueKey>,
    /// Deliveries held, in memory or only in the log.
    pub(super) held: u64,
    /// Those of them that only the log holds.
    pub(super) left: u64,
    /// Whether the log knows it.
    pub(super) is_named: bool,
    /// Bytes of the records held, wherever they are.
    pub(super) bytes: Size,
    /// Those of them that only the log holds.
    pub(super) left_bytes: Size,
    /// Its records are dropped or refused at once until this has room again.
    pub(super) full_for: Option<Room>,
    /// For `newest-only`: the newest record of each key, and its deliveries.
    pub(super) newest: Option<Box<Newest>>,
    /// On whose account it is, while it is not idle.
    pub(super) owner: Option<OwnerKey>,
    /// Connections that feed it.
    pub(super) opens: u32,
    /// Its place among the idle ones, if it is idle.
    idle_since: Option<u64>,
}

/// The newest record of each key, and its deliveries.
pub(super) type Newest = BTreeMap<Bytes, (RecordKey, Vec<DeliveryKey>)>;

impl Stream {
    /// One queue a destination, in the order of the rule's `to`.
    pub(super) fn queues(&self) -> impl Iterator<Item = QueueKey> + '_ {
        std::iter::once(self.queue).chain(self.other_queues.iter().copied())
    }

    /// Those, and the ones of records that scripts sent elsewhere.
    pub(super) fn all_queues(&self) -> impl Iterator<Item = QueueKey> + '_ {
        self.queues().chain(self.side_queues.values().copied())
    }

    /// Bytes of the records held in memory.
    pub(super) fn in_memory(&self) -> Size {
        self.bytes - self.left_bytes
    }

    /// Other queues, at least one, in place of these.
    pub(super) fn set_queues(&mut self, queues: &[QueueKey]) {
        let former: Vec<QueueKey> = self.queues().collect();
        self.former_queues.extend(former);
        self.former_queues.extend(std::mem::take(&mut self.side_queues).into_values());
        (self.queue, self.other_queues) = (queues[0], queues[1..].into());
    }

    /// Takes out the former queues to which nothing can come back any more.
    pub(super) fn take_unused(&mut self, used: &BTreeSet<QueueKey>) -> Vec<QueueKey> {
        self.former_queues.extract_if(.., |queue| !used.contains(queue)).collect()
    }

    /// The newest record of a key and its deliveries, where the stream keeps no others.
    pub(super) fn newest_of(&self, key: &[u8]) -> Option<&(RecordKey, Vec<DeliveryKey>)> {
        self.newest.as_ref()?.get(key)
    }
}

/// All streams of a node.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: SlotMap<StreamKey, Stream>,
    names: BTreeMap<(RuleId, Arc<str>), StreamKey>,
    /// What may make place for others: nobody feeds it and it holds nothing. Longest idle first.
    idle: BTreeMap<u64, StreamKey>,
    last_idle: u64,
    last_id: u64,
    shares: Shares<OwnerKey>,
}

impl Streams {
    /// A stream is fed by one more. Where it was on nobody's account, it is on the feeder's until it is idle.
    pub(super) fn attach(&mut self, key: StreamKey, owner: Option<OwnerKey>) {
        let stream = &mut self.streams[key];
        stream.opens += 1;
        if let Some(place) = stream.idle_since.take() {
            self.idle.remove(&place);
        }
        if let (None, Some(owner)) = (stream.owner, owner) {
            stream.owner = Some(owner);
            self.shares.add(&owner, 1);
        }
    }

    /// Whether a stream may make place for another.
    pub(super) fn is_idle(&self, key: StreamKey) -> bool {
        self.streams[key].idle_since.is_some()
    }

    /// Streams that may not.
    pub(super) fn in_use(&self) -> usize {
        self.streams.len() - self.idle.len()
    }

    /// Which of them are on whose account.
    pub(super) fn shares(&self) -> &Shares<OwnerKey> {
        &self.shares
    }

    /// The stream of this name under this rule, if it is known.
    pub(super) fn find(&self, rule: RuleId, name: &Arc<str>) -> Option<StreamKey> {
        self.names.get(&(rule, name.clone())).copied()
    }

    /// Numbers up to this one are not given.
    pub(super) fn skip_ids(&mut self, last: u64) {
        self.last_id = self.last_id.max(last);
    }

    /// The last number that was given, or is not to be given.
    pub(super) fn last_id(&self) -> StreamId {
        StreamId(self.last_id)
    }

    /// Every stream of the table.
    pub(super) fn all(&self) -> impl Iterator<Item = (StreamKey, &Stream)> {
        self.streams.iter()
    }

    /// Makes place for one more stream; `None` when the table is full of streams in use. Answers with
    /// the queues of the one that had to go.
    pub(super) fn make_place(&mut self) -> Option<Vec<QueueKey>> {
        if self.streams.len() < STREAMS_MAX {
            return Some(Vec::new());
        }
        let (_, key) = self.idle.pop_first()?;
        let gone = self.streams.remove(key)?;
        let others = gone.side_queues.values().chain(&gone.former_queues);
        let queues = gone.queues().chain(others.copied()).collect();
        self.names.remove(&(gone.rule, gone.name));
        Some(queues)
    }

    /// A new stream with no feeder and at least one queue.
    pub(super) fn create(
        &mut self,
        rule: RuleId,
        name: Arc<str>,
        queues: &[QueueKey],
    ) -> StreamKey {
        self.last_id += 1;
        let key = self.streams.insert(Stream {
            id: StreamId(self.last_id),
            rule,
            name: name.clone(),
            seq: 0,
            queue: queues[0],
            other_queues: queues[1..].into(),
            side_queues: BTreeMap::new(),
            former_queues: Vec::new(),
            held: 0,
            left: 0,
            left_bytes: Size::ZERO,
            is_named: false,
            bytes: Size::ZERO,
            full_for: None,
            newest: None,
            owner: None,
            opens: 0,
            idle_since: None,
        });
        self.names.insert((rule, name), key);
        key
    }

    /// A feeder is gone.
    pub(super) fn detach(&mut self, key: StreamKey) {
        self.streams[key].opens -= 1;
        self.note_idle(key);
    }

    /// Remembers the stream as idle, if it is.
    pub(super) fn note_idle(&mut self, key: StreamKey) {
        let stream = &mut self.streams[key];
        let is_idle = stream.opens == 0 && stream.held == 0 && stream.full_for.is_none();
        if is_idle && stream.idle_since.is_none() {
            self.last_idle += 1;
            stream.idle_since = Some(self.last_idle);
            self.idle.insert(self.last_idle, key);
            if let Some(owner) = stream.owner.take() {
                self.shares.subtract(&owner, 1);
            }
        }
    }

    pub(super) fn get(&self, key: StreamKey) -> &Stream {
        &self.streams[key]
    }

    pub(super) fn get_mut(&mut self, key: StreamKey) -> &mut Stream {
        &mut self.streams[key]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.streams.values().filter(|stream| stream.opens > 0 || stream.held > 0)
    }
}
