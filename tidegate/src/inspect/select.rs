//! Which records are wanted, where in the log they can be, and how they ended.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tidegate_log::{
    Destinations, Entry, Footer, Header, LoggedRecord, OpenedHeader, Outcomes, ReadPosition,
    Recovery, Run, Scanned, SegmentId, StreamName,
};
use tidegate_types::record::StreamId;

use super::files::{LogFiles, Segment};
use crate::cli::log::Select;

/// A record that was found.
pub(super) struct Picked<'a> {
    /// The head of its segment.
    pub(super) header: &'a Header,
    /// The sequence of its entry.
    pub(super) sequence: u64,
    pub(super) record: &'a LoggedRecord,
    /// Rule and source of its stream, where the log still knows them.
    pub(super) name: Option<&'a StreamName>,
    /// How the records of its segment ended.
    pub(super) fates: &'a Outcomes,
}

/// What a reading could not read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Damaged places that were passed.
    pub(super) damaged: u64,
    /// Segments whose head or key is unknown.
    pub(super) segments: Vec<SegmentId>,
    /// Records without a wall time that a filter by time left out.
    pub(super) timeless: u64,
}

/// The records of a log that are wanted, segment by segment.
pub(super) struct Selection<'a> {
    log: &'a LogFiles,
    select: &'a Select,
    /// What is owed; streams and their names.
    recovery: Recovery,
    names: BTreeMap<StreamId, StreamName>,
    /// Whether only records that are owed are wanted.
    held: bool,
    pub(super) unread: Unread,
}

impl<'a> Selection<'a> {
    /// Prepares a reading of `log`.
    pub(super) fn new(log: &'a LogFiles, select: &'a Select, held: bool) -> anyhow::Result<Self> {
        let recovery = log.recover()?;
        let named = recovery.streams.iter().map(|(&id, stream)| (id, stream.name.clone()));
        let names = named.collect();
        Ok(Selection { log, select, recovery, names, held, unread: Unread::default() })
    }

    /// Whether what is owed can be relied on.
    pub(super) fn is_certain(&self) -> bool {
        self.recovery.is_certain || self.recovery.segments.is_empty()
    }

    /// Gives every wanted record to `take`, in the order of the log.
    pub(super) fn read(
        &mut self,
        mut take: impl FnMut(&Picked<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let ids: Vec<SegmentId> = self.log.sizes()?.into_keys().collect();
        for (at, &id) in ids.iter().enumerate() {
            let is_owed = || self.recovery.live().any(|(_, segment, _)| segment == id);
            if self.held && !is_owed() {
                continue;
            }
            let Some(segment) = self.log.open(id)? else { continue };
            let Ok(opened) = &segment.opened else {
                self.unread.segments.push(id);
                continue;
            };
            let Some(place) = self.start(opened, segment.footer()?.map(|(_, footer)| footer))
            else {
                continue;
            };
            let (mut fates, any) = self.gather(&segment, place)?;
            if any {
                self.follow(&mut fates, &ids[at + 1..])?;
                self.pick(&segment, place, &fates, &mut take)?;
            }
        }
        Ok(())
    }

    /// Where in a segment wanted records can begin; `None` if its footer rules them out.
    fn start(&self, opened: &OpenedHeader, footer: Option<Footer>) -> Option<ReadPosition> {
        let first = ReadPosition::first(opened);
        let Some(footer) = footer else { return Some(first) };
        let Select { stream, seq, from, to, .. } = self.select;
        let is_there = |part: &tidegate_log::StreamPart| {
            let seqs = seq
                .as_ref()
                .is_none_or(|seqs| *seqs.start() <= part.seqs.1 && part.seqs.0 <= *seqs.end());
            // Names of streams that the log forgot stand in the segment alone.
            let of_name = |wanted: &String| {
                self.names.get(&part.stream).is_none_or(|_| self.is_stream(wanted, part.stream))
            };
            seqs && stream.as_ref().is_none_or(of_name)
        };
        let (earliest, latest) = footer.walls.unwrap_or((u64::MAX, 0));
        let is_early = from.is_some_and(|from| latest < from.0);
        let is_late = to.is_some_and(|to| earliest > to.0);
        if is_early || is_late || !footer.streams.iter().any(is_there) {
            return None;
        }
        let Some(from) = from else { return Some(first) };
        // All before such a point arrived too early.
        let points = footer.points.iter().take_while(|point| point.unix_ns < from.0);
        let known = points.filter(|point| point.unix_ns > 0).last();
        Some(known.map_or(first, |point| ReadPosition::point(point.offset as usize)))
    }

    fn is_stream(&self, wanted: &str, stream: StreamId) -> bool {
        let is_number = wanted.parse() == Ok(stream.0);
        is_number || self.names.get(&stream).is_some_and(|name| *name.rule == *wanted)
    }

    fn wants(&self, segment: SegmentId, record: &LoggedRecord, timeless: &Cell<u64>) -> bool {
        let Select { stream, seq, topic, from, to } = self.select;
        let key = || std::str::from_utf8(&record.key).unwrap_or_default();
        let is_wanted = stream.as_ref().is_none_or(|wanted| self.is_stream(wanted, record.stream))
            && seq.as_ref().is_none_or(|seqs| seqs.contains(&record.seq))
            && topic.as_ref().is_none_or(|filter| filter.matches(key()))
            && (!self.held || self.owed(segment, record.stream, record.seq) != Destinations::NONE);
        if !is_wanted || from.is_none() && to.is_none() {
            return is_wanted;
        }
        let Some(wall) = record.wall else {
            timeless.set(timeless.get() + 1);
            return false;
        };
        from.is_none_or(|from| wall.unix_ns >= from.0) && to.is_none_or(|to| wall.unix_ns <= to.0)
    }

    fn owed(&self, segment: SegmentId, stream: StreamId, seq: u64) -> Destinations {
        let chunk = self.recovery.streams.get(&stream).and_then(|known| known.live.get(&segment));
        chunk.map_or(Destinations::NONE, |chunk| chunk.runs.get(seq))
    }

    /// Notes the wanted records of a segment, and how they end within it.
    fn gather(
        &mut self,
        segment: &Segment,
        place: ReadPosition,
    ) -> anyhow::Result<(Outcomes, bool)> {
        let (mut fates, mut any, mut damaged) = (Outcomes::default(), false, 0);
        let timeless = Cell::new(0);
        let mut names = Vec::new();
        segment.read_from(place, |opened, found| {
            let entry = match found {
                Scanned::Frame(frame) => frame.entry(opened),
                // A torn end holds nothing that was acknowledged.
                Scanned::Damage { is_tail, .. } => {
                    damaged += u64::from(!is_tail);
                    return ControlFlow::<()>::Continue(());
                }
            };
            damaged += u64::from(entry.is_none());
            match entry {
                Some(Entry::Record(record)) if self.wants(segment.id, &record, &timeless) => {
                    any = true;
                    fates.gather(&opened.header, &Entry::Record(record));
                }
                Some(Entry::Stream(name)) => names.push(name),
                Some(Entry::Checkpoint(checkpoint)) => {
                    names.extend(checkpoint.streams.into_iter().map(|state| state.name));
                }
                Some(entry) => fates.follow(&opened.header, &entry),
                None => {}
            }
            ControlFlow::Continue(())
        })?;
        self.unread.damaged += damaged;
        self.unread.timeless += timeless.get();
        let is_news = names.iter().any(|name| !self.names.contains_key(&name.stream));
        for name in names {
            self.names.entry(name.stream).or_insert(name);
        }
        if is_news && self.select.stream.is_some() {
            // A name may have come behind a record of its stream.
            let unread = std::mem::take(&mut self.unread);
            let again = self.gather(segment, place);
            self.unread = unread;
            return again;
        }
        Ok((fates, any))
    }

    /// Follows the records into later segments, until all is told of them that the log tells. A segment
    /// behind which they are all still owed is not read.
    fn follow(&self, fates: &mut Outcomes, later: &[SegmentId]) -> anyhow::Result<()> {
        let held = |stream: StreamId, run: Run| {
            let known = self.recovery.streams.get(&stream);
            let chunks = known.into_iter().flat_map(|known| known.live.values());
            let owed = |chunk: &tidegate_log::Chunk| {
                let runs = chunk.runs.within(run.first, run.last);
                runs.map(|run| run.records()).sum::<u64>()
            };
            chunks.map(owed).sum::<u64>() == run.records()
        };
        for (at, &id) in later.iter().enumerate() {
            if fates.is_settled(held) {
                return Ok(());
            }
            if let Some(next) = later.get(at + 1)
                && let Some(next) = self.log.open(*next)?
                && let (Some(head), Some(checkpoint)) = (next.head(), next.checkpoint()?)
                && fates.is_all_owed(head, &checkpoint)
            {
                continue;
            }
            let Some(segment) = self.log.open(id)? else { continue };
            let Ok(opened) = &segment.opened else { continue };
            segment.read_from(ReadPosition::first(opened), |opened, found| {
                let is_about = matches!(found, Scanned::Frame(frame) if frame.is_about_fates());
                if let Some(entry) = frame_entry(opened, found).filter(|_| is_about) {
                    fates.follow(&opened.header, &entry);
                }
                ControlFlow::<()>::Continue(())
            })?;
        }
        Ok(())
    }

    fn pick(
        &self,
        segment: &Segment,
        place: ReadPosition,
        fates: &Outcomes,
        take: &mut impl FnMut(&Picked<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let uncounted = Cell::new(0);
        let told = segment.read_from(place, |opened, found| {
            let Scanned::Frame(frame) = found else { return ControlFlow::Continue(()) };
            let Some(Entry::Record(record)) = frame.entry(opened) else {
                return ControlFlow::Continue(());
            };
            if !self.wants(segment.id, &record, &uncounted) {
                return ControlFlow::Continue(());
            }
            let name = self.names.get(&record.stream);
            let (header, sequence) = (&opened.header, frame.number());
            let picked = Picked { header, sequence, record: &record, name, fates };
            match take(&picked) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        })?;
        told.map_or(Ok(()), Err)
    }
}

fn frame_entry(opened: &OpenedHeader, found: Scanned<'_>) -> Option<Entry> {
    match found {
        Scanned::Frame(frame) => frame.entry(opened),
        Scanned::Damage { .. } => None,
    }
}
