//! Streams are opened and found, and carry a few marks for other parts of the node.

use std::sync::Arc;

use tidegate_schedule::queue::QueueKey;
use tidegate_types::record::StreamId;

use super::streams::{Payer, Room, Stream, StreamKey, Streams};
use super::{Holdings, queue_spec};
use crate::rules::RuleId;

impl Holdings {
    pub(crate) fn stream(&self, key: StreamKey) -> &Stream {
        self.streams.get(key)
    }

    /// The table of streams, to be looked at.
    pub(crate) fn streams(&self) -> &Streams {
        &self.streams
    }

    /// The stream of this name under this rule, which one more connection feeds; `None` when the table is
    /// full of streams in use, or who pays has its share of it. Where nobody pays, only the table is bounded.
    pub(crate) fn attach(
        &mut self,
        rule: RuleId,
        name: &Arc<str>,
        payer: Option<Payer>,
    ) -> Option<StreamKey> {
        let known = self.streams.find(rule, name);
        let is_one_more = known.is_none_or(|stream| self.streams.was_idle(stream));
        if is_one_more && payer.is_some_and(|payer| !self.streams.has_share(payer)) {
            return None;
        }
        let stream = match known {
            Some(stream) => stream,
            None => self.create_stream(rule, name.clone())?,
        };
        self.streams.attach(stream, payer.map(|payer| payer.owner));
        Some(stream)
    }

    /// A connection that fed it is gone.
    pub(crate) fn detach(&mut self, stream: StreamKey) {
        self.streams.detach(stream);
    }

    /// A new stream that nobody feeds yet; `None` when the table is full of streams in use.
    pub(crate) fn create_stream(&mut self, rule: RuleId, name: Arc<str>) -> Option<StreamKey> {
        for queue in self.streams.make_place()? {
            self.queues.close(queue);
        }
        let queues = self.open_queues(rule);
        Some(self.streams.create(rule, name, &queues))
    }

    pub(super) fn open_queues(&mut self, id: RuleId) -> Vec<QueueKey> {
        let rule = self.options.rules.get(id);
        rule.to.iter().map(|&output| self.queues.open(queue_spec(id, rule, output))).collect()
    }

    /// Continues a stream of a log: its numbers go on there.
    pub(crate) fn continue_stream(
        &mut self,
        stream: StreamKey,
        id: StreamId,
        last_seq: u64,
        is_named: bool,
    ) {
        let stream = self.streams.get_mut(stream);
        (stream.id, stream.seq) = (id, last_seq);
        stream.is_named |= is_named;
    }

    /// Numbers of streams up to this one are not given.
    pub(crate) fn skip_stream_ids(&mut self, last: u64) {
        self.streams.skip_ids(last);
    }

    /// The log knows the stream from now on.
    pub(crate) fn mark_named(&mut self, stream: StreamKey) {
        self.streams.get_mut(stream).is_named = true;
    }

    /// What the stream's records are dropped or refused for from now on; answers with what it was.
    pub(crate) fn set_full(&mut self, stream: StreamKey, room: Option<Room>) -> Option<Room> {
        std::mem::replace(&mut self.streams.get_mut(stream).full_for, room)
    }

    /// Remembers a stream as idle, if it is.
    pub(crate) fn note_idle(&mut self, stream: StreamKey) {
        self.streams.note_idle(stream);
    }
}
