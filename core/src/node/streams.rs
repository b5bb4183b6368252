//! The table of streams: one for each (rule, source name), bounded, with numbers that never repeat.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use slotmap::{SlotMap, new_key_type};

use crate::limits::STREAMS_MAX;
use crate::queue::{QueueKey, RecordKey};
use crate::record::{SourceId, StreamId};
use crate::rules::RuleId;
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
    name: Arc<str>,
    /// Number of the last accepted record.
    pub(super) seq: u64,
    /// One queue a destination, in the order of the rule's `to`.
    pub(super) queues: Vec<QueueKey>,
    /// Records held and their bytes.
    pub(super) held: u64,
    pub(super) bytes: Size,
    /// A blocked record timed out: refuse at once until there is room again.
    pub(super) is_refusing: bool,
    /// The connection that waits for room in this stream.
    pub(super) waiter: Option<SourceId>,
    /// For `newest-only`: the newest record of each key.
    pub(super) newest: BTreeMap<Bytes, RecordKey>,
    /// Connections that feed it.
    opens: u32,
}

/// All streams of a node.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: SlotMap<StreamKey, Stream>,
    names: BTreeMap<(RuleId, Arc<str>), StreamKey>,
    /// Candidates for eviction: nobody feeds them and they held nothing when they were put here.
    idle: VecDeque<StreamKey>,
    last_id: u64,
}

impl Streams {
    /// The stream of this name under this rule, if it is known; its feeder count goes up.
    pub(super) fn attach(&mut self, rule: RuleId, name: &Arc<str>) -> Option<StreamKey> {
        let key = *self.names.get(&(rule, name.clone()))?;
        self.streams[key].opens += 1;
        Some(key)
    }

    /// A new stream with one feeder. `None` when the table is full of streams in use; otherwise also
    /// the queues of a stream that made room.
    pub(super) fn create(
        &mut self,
        rule: RuleId,
        name: &Arc<str>,
        queues: Vec<QueueKey>,
    ) -> Option<(StreamKey, Vec<QueueKey>)> {
        let evicted = if self.streams.len() >= STREAMS_MAX { self.evict()? } else { Vec::new() };
        self.last_id += 1;
        let key = self.streams.insert(Stream {
            id: StreamId(self.last_id),
            rule,
            name: name.clone(),
            seq: 0,
            queues,
            held: 0,
            bytes: Size::ZERO,
            is_refusing: false,
            waiter: None,
            newest: BTreeMap::new(),
            opens: 1,
        });
        self.names.insert((rule, name.clone()), key);
        Some((key, evicted))
    }

    fn evict(&mut self) -> Option<Vec<QueueKey>> {
        while let Some(key) = self.idle.pop_front() {
            if self.streams.get(key).is_some_and(|stream| stream.opens == 0 && stream.held == 0) {
                let gone = self.streams.remove(key).expect("it was just found");
                self.names.remove(&(gone.rule, gone.name));
                return Some(gone.queues);
            }
        }
        None
    }

    /// A feeder is gone.
    pub(super) fn detach(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.opens -= 1;
            self.note_idle(key);
        }
    }

    /// Remembers the stream for eviction, if it is idle.
    pub(super) fn note_idle(&mut self, key: StreamKey) {
        let stream = &self.streams[key];
        if stream.opens == 0 && stream.held == 0 && self.idle.len() < STREAMS_MAX {
            self.idle.push_back(key);
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
