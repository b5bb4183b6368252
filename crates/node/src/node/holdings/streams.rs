//! The table of streams: one for each (rule, source name), bounded, with numbers that never repeat.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use slotmap::{SlotMap, new_key_type};
use tidegate_schedule::queue::{DeliveryKey, QueueKey, RecordKey};
use tidegate_types::class::ClassId;
use tidegate_types::limits::STREAMS_MAX;
use tidegate_types::record::{Quota, StreamId};
use tidegate_types::shares::{Shares, limit};

use super::account::DeliveryAccount;
use crate::io::OutputId;
use crate::rules::RuleId;

new_key_type! {
    /// Handle of a stream.
    pub(crate) struct StreamKey;
    /// Handle of an owner, while anything of it is here.
    pub(crate) struct OwnerKey;
}

/// On whose account something comes, and what that owner may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payer {
    pub(crate) owner: OwnerKey,
    pub(crate) quota: Quota,
}

/// What a record finds too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// The node's memory, as far as this class may fill it.
    Memory(ClassId),
    /// One of the bounds of its stream.
    Stream(StreamKey),
    /// The node's inbound limit: time gives it, and patience has no part in it.
    Inbound,
    /// The log.
    Log,
    /// What its owner may have of the log.
    Share(OwnerKey),
}

/// One stream. It is lent to be looked at: only the holdings change it.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) rule: RuleId,
    pub(crate) name: Arc<str>,
    /// Number of the last accepted record.
    pub(crate) seq: u64,
    /// One queue a destination, in the order of the rule's `to`: the first of them, and the others.
    queue: QueueKey,
    other_queues: Box<[QueueKey]>,
    /// Queues of records that scripts sent elsewhere, by their own output and the one that they go by.
    pub(super) side_queues: BTreeMap<(OutputId, OutputId), QueueKey>,
    /// Queues of earlier rules: records that were under way then may come back to them.
    former_queues: Vec<QueueKey>,
    /// What it holds.
    pub(crate) account: DeliveryAccount,
    /// Whether the log knows it.
    pub(crate) is_named: bool,
    /// Its records are dropped or refused at once until this has room again.
    pub(crate) full_for: Option<Room>,
    /// For `newest-only`: the newest record of each key, and its deliveries.
    pub(super) newest: Option<Box<Newest>>,
    /// On whose account it is, until it is found idle.
    pub(crate) owner: Option<OwnerKey>,
    /// Connections that feed it.
    pub(super) opens: u32,
    /// Its place among the idle ones, if it was found idle.
    idle_since: Option<u64>,
}

/// The newest record of each key, and its deliveries.
pub(super) type Newest = BTreeMap<Bytes, (RecordKey, Vec<DeliveryKey>)>;

impl Stream {
    /// One queue a destination, in the order of the rule's `to`.
    pub(crate) fn queues(&self) -> impl Iterator<Item = QueueKey> + '_ {
        std::iter::once(self.queue).chain(self.other_queues.iter().copied())
    }

    /// Queues of records that scripts sent elsewhere.
    pub(crate) fn side_queues(&self) -> impl Iterator<Item = QueueKey> + '_ {
        self.side_queues.values().copied()
    }

    /// All queues that new records of it can stand in.
    pub(crate) fn all_queues(&self) -> impl Iterator<Item = QueueKey> + '_ {
        self.queues().chain(self.side_queues())
    }

    /// The newest record of a key and its deliveries, where the stream keeps no others.
    #[inline]
    pub(crate) fn newest_of(&self, key: &[u8]) -> Option<&(RecordKey, Vec<DeliveryKey>)> {
        self.newest.as_ref()?.get(key)
    }

    /// A record is the newest of its key no more, if it was.
    #[inline]
    pub(super) fn forget_newest(&mut self, key: &[u8], record: RecordKey) {
        if let Some(newest) = &mut self.newest
            && newest.get(key).is_some_and(|(newest, _)| *newest == record)
        {
            newest.remove(key);
        }
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

    /// Whether nobody feeds it and it holds nothing.
    fn is_idle(&self) -> bool {
        self.opens == 0 && self.account.deliveries() == 0 && self.full_for.is_none()
    }
}

/// All streams of a node.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: SlotMap<StreamKey, Stream>,
    names: BTreeMap<(RuleId, Arc<str>), StreamKey>,
    /// What was found idle, the longest idle first. A record may have come since.
    idle: BTreeMap<u64, StreamKey>,
    last_idle: u64,
    last_id: u64,
    /// How many streams in use are on whose account.
    shares: Shares<OwnerKey>,
}

impl Streams {
    /// One more connection feeds a stream. Where it was on nobody's account, it is on the feeder's until it is
    /// found idle.
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

    /// Whether a stream was found idle and may make place for another.
    pub(super) fn was_idle(&self, key: StreamKey) -> bool {
        self.streams[key].idle_since.is_some()
    }

    /// Streams on an owner's account.
    pub(crate) fn of_owner(&self, owner: OwnerKey) -> u64 {
        self.shares.of(&owner)
    }

    /// Whether one more stream may be on this account.
    pub(super) fn has_share(&self, payer: Payer) -> bool {
        let in_use = self.streams.len() - self.idle.len();
        let ceiling = payer.quota.streams.map(u64::from);
        self.of_owner(payer.owner) < limit(in_use as u64, STREAMS_MAX as u64, ceiling)
    }

    /// The stream of this name under this rule, if it is known.
    pub(crate) fn find(&self, rule: RuleId, name: &Arc<str>) -> Option<StreamKey> {
        self.names.get(&(rule, name.clone())).copied()
    }

    /// Numbers up to this one are not given.
    pub(super) fn skip_ids(&mut self, last: u64) {
        self.last_id = self.last_id.max(last);
    }

    /// The last number that was given, or is not to be given.
    pub(crate) fn last_id(&self) -> StreamId {
        StreamId(self.last_id)
    }

    /// Every stream of the table.
    pub(crate) fn all(&self) -> impl Iterator<Item = (StreamKey, &Stream)> {
        self.streams.iter()
    }

    /// Makes a place for one more stream; `None` when the table is full of streams in use. Answers with
    /// the queues of the one that had to go.
    pub(super) fn make_place(&mut self) -> Option<Vec<QueueKey>> {
        if self.streams.len() < STREAMS_MAX {
            return Some(Vec::new());
        }
        loop {
            let (_, key) = self.idle.pop_first()?;
            let stream = &mut self.streams[key];
            stream.idle_since = None;
            if stream.is_idle() {
                let gone = self.streams.remove(key)?;
                let queues = gone.all_queues().chain(gone.former_queues.iter().copied()).collect();
                self.names.remove(&(gone.rule, gone.name));
                return Some(queues);
            }
        }
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
            account: DeliveryAccount::default(),
            is_named: false,
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
        if stream.is_idle() && stream.idle_since.is_none() {
            self.last_idle += 1;
            stream.idle_since = Some(self.last_idle);
            self.idle.insert(self.last_idle, key);
            if let Some(owner) = stream.owner.take() {
                self.shares.subtract(&owner, 1);
            }
        }
    }

    pub(crate) fn get(&self, key: StreamKey) -> &Stream {
        &self.streams[key]
    }

    pub(super) fn get_mut(&mut self, key: StreamKey) -> &mut Stream {
        &mut self.streams[key]
    }

    /// The streams that somebody feeds or that hold something.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = &Stream> {
        self.streams.values().filter(|stream| stream.opens > 0 || stream.account.deliveries() > 0)
    }
}
