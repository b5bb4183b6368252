//! The log is read back, a little ahead of its turn; a logged record comes to this process's clock.

use std::sync::Arc;
use std::time::Duration;

use tidegate_log::{Destinations, LoggedRecord, Run, SegmentId, WallTime};
use tidegate_types::class::ClassId;
use tidegate_types::limits::FETCH_BYTES;
use tidegate_types::record::{Identity, Record, StreamId};
use tidegate_types::units::{Size, Time};

use super::{Durability, Next, StoredRun};
use crate::io::{Fetch, Output};
use crate::node::base::Base;
use crate::node::holdings::{Room, StreamKey};

/// The part of the memory that may hold records that are read back, all classes together.
const AHEAD_PART: u64 = 8;

impl Durability {
    /// The next part of the log to read, for the most urgent class that has room ahead.
    pub(crate) fn next_fetch(&mut self, base: &Base) -> Option<Output> {
        let order = self.store.options.backlog;
        if self.backlog.asked.is_some() || base.holdings.stored() == 0 {
            return None;
        }
        let memory = base.options.memory.0;
        let budget = (memory / AHEAD_PART / base.options.classes.len() as u64).max(1);
        for class in (0..base.options.classes.len()).map(|class| ClassId(class as u8)) {
            let ahead = self.backlog.ahead.get(&class).map_or(0, |size| size.0);
            let most = Size((budget - ahead.min(budget)).min(FETCH_BYTES.0));
            let has_room =
                ahead <= budget / 2 && base.holdings.bytes().0 + most.0 <= memory / 8 * 7;
            if !has_room {
                continue;
            }
            let Some(pass) = self.backlog.pass(class, order) else { continue };
            let streams = Arc::new(self.backlog.wanted(pass));
            self.backlog.asked = Some(class);
            let (segment, from) = (pass.segment, pass.from);
            return Some(Output::Fetch(Fetch { segment, from, streams, most }));
        }
        None
    }

    /// The class that was read for, if an answer is expected.
    pub(crate) fn take_asked(&mut self) -> Option<ClassId> {
        self.backlog.asked.take()
    }

    /// A class has read up to `next`, or to the end of the segment.
    pub(crate) fn was_read(&mut self, class: ClassId, next: u32, is_end: bool) -> Next {
        self.backlog.read(class, next, is_end)
    }

    /// Takes a record that was read out of the stored ones, if it still is one and memory has room for it.
    pub(crate) fn take_up(
        &mut self,
        segment: SegmentId,
        logged: &LoggedRecord,
        has_room: bool,
    ) -> Option<StoredRun> {
        let (id, seq) = (logged.stream, logged.seq);
        let stored = self.backlog.get_mut(id)?;
        let (stream, class) = (stored.stream, stored.class);
        let chunk = stored.chunks.get_mut(&segment)?;
        if chunk.runs.get(seq) == Destinations::NONE {
            return None;
        }
        if !has_room {
            // To be read once more.
            self.backlog.put_back(id, stream, class, segment);
            return None;
        }
        let (destinations, bytes) = chunk.take(seq, logged.size());
        let may_be_there = stored.unmark(seq);
        self.backlog.tidy(id, segment);
        let run = Run { first: seq, last: seq, destinations };
        Some(StoredRun { stream, id, segment, run, bytes, class, may_be_there })
    }

    /// Takes out the first records of a chunk, at most so many and one run of them.
    pub(crate) fn take_first(
        &mut self,
        id: StreamId,
        segment: SegmentId,
        records: u64,
    ) -> Option<StoredRun> {
        let stored = self.backlog.get_mut(id)?;
        let (stream, class) = (stored.stream, stored.class);
        let taken = stored.chunks.get_mut(&segment).and_then(|chunk| chunk.take_first(records));
        if let Some((run, _)) = taken {
            stored.unmark_all(run);
        }
        self.backlog.tidy(id, segment);
        let (run, bytes) = taken?;
        let may_be_there = Destinations::NONE;
        Some(StoredRun { stream, id, segment, run, bytes, class, may_be_there })
    }

    /// Chunks of a stream whose segments would go with them, the oldest first, and how many bytes each
    /// segment has. Nothing where all of them are less than `wanted`.
    pub(crate) fn droppable(
        &self,
        stream: StreamKey,
        wanted: Size,
        room: Room,
    ) -> Vec<(SegmentId, StreamId, Size)> {
        let chunks = self.backlog.chunks_of(stream);
        let alone = chunks.filter_map(|(id, segment, records, _)| {
            let segments = self.store.segments();
            let bytes = match room {
                Room::Share(_) => segments.parts().goes_with(segment, id, records)?,
                _ => segments.goes_with(segment, records)?,
            };
            Some((segment, id, bytes))
        });
        let mut alone: Vec<_> = alone.collect();
        alone.sort();
        let all: Size = alone.iter().map(|(.., bytes)| *bytes).sum();
        if all < wanted { Vec::new() } else { alone }
    }

    /// The record as it was accepted, on this process's clock.
    pub(crate) fn record_of(
        &self,
        now: Time,
        segment: SegmentId,
        logged: LoggedRecord,
        expires: Option<Time>,
    ) -> Record {
        let store = &self.store;
        let (arrived, deadline) = if segment >= store.own_since {
            (logged.arrived, logged.deadline)
        } else {
            let known = store.wall_at(now).zip(logged.wall);
            let age = known.map(|(now, then)| now.unix_ns.saturating_sub(then.unix_ns));
            let arrived = now.as_nanos().saturating_sub(age.unwrap_or(0));
            (Time::from_nanos(arrived), Time::ZERO)
        };
        let origin = self.origin.clone();
        let own = Identity { origin, stream: logged.stream, seq: logged.seq };
        Record {
            identity: logged.foreign.unwrap_or(own),
            key: logged.key,
            properties: logged.properties,
            payload: logged.payload,
            arrived,
            deadline,
            expires,
            source_unix_ns: logged.source_unix_ns,
        }
    }

    /// When a logged record expires on this process's clock. A record of an earlier process expires by
    /// wall time, and only when it surely has: without a wall clock never.
    pub(crate) fn expiry_of(
        &self,
        now: Time,
        segment: SegmentId,
        logged: &LoggedRecord,
    ) -> Option<Time> {
        let store = &self.store;
        let expires = logged.expires?;
        if segment >= store.own_since {
            return Some(expires);
        }
        let WallTime { unix_ns, uncertainty } = logged.wall?;
        let present = store.wall_at(now)?;
        let doubt = uncertainty + present.uncertainty;
        let end = Duration::from_nanos(unix_ns) + expires.since(logged.arrived) + doubt;
        Some(now + end.saturating_sub(Duration::from_nanos(present.unix_ns)))
    }
}
