//! `tidegate explain`: a record's life, from the log.

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use tidegate_log::{
    Deed, DeliveryEnd, DeliveryHistory, Entry, Lever, LoggedRecord, ReadPosition, RecordHistory,
    Recovery, Scanned, SegmentId, WallTime,
};
use tidegate_types::record::{Fate, Identity};
use tidegate_types::units::Time;

use super::files::{LogFiles, Segment};
use super::record::{fate_in_words, identity};
use super::{Carried, Told};
use crate::cli::log::{ExplainArguments, LogPlace};
use crate::input::streams::PLACED;
use crate::observe::status::table::{size, span};
use crate::support::time::Moment;

/// Tells the lives of records; the exit code says whether the log knows any.
pub(super) fn explain(arguments: &ExplainArguments) -> anyhow::Result<ExitCode> {
    let log = LogFiles::find(arguments.directory.as_deref(), &arguments.place)?;
    let recovery = log.recover()?;
    let ids: Vec<SegmentId> = log.sizes()?.into_keys().collect();
    let mut book = Book::new(&log, ids);
    let found = match &arguments.identity {
        Some(wanted) => book.by_identity(wanted)?.into_iter().collect(),
        None => {
            let filter = arguments.topic.as_ref();
            let matches = |record: &LoggedRecord| {
                let key = std::str::from_utf8(&record.key).unwrap_or_default();
                filter.is_some_and(|filter| filter.matches(key))
            };
            book.newest(usize::try_from(arguments.last)?, matches)?
        }
    };
    let mut out = io::stdout().lock();
    if found.is_empty() {
        let why = match &arguments.identity {
            Some(wanted) => book.why_not(wanted, &recovery)?,
            None => "no record of such a topic is in this log: they were released with their \
                     segments once they had their fates, or came under a rule that is not durable\n"
                .to_owned(),
        };
        out.write_all(why.as_bytes())?;
        if book.damaged {
            writeln!(out, "  or it stood where the log is damaged: see `tidegate log verify`")?;
        }
        return Ok(ExitCode::FAILURE);
    }
    for (name, mut life) in found {
        book.follow(&mut life)?;
        out.write_all(book.in_words(&name, &life, &recovery).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The life of one record, and who carried it.
pub(super) fn life(
    directory: Option<&Path>,
    place: &LogPlace,
    identity: &Identity,
) -> anyhow::Result<Told> {
    let log = LogFiles::find(directory, place)?;
    let recovery = log.recover()?;
    let ids: Vec<SegmentId> = log.sizes()?.into_keys().collect();
    let mut book = Book::new(&log, ids);
    let Some((name, mut life)) = book.by_identity(identity)? else {
        return Ok(Told { text: book.why_not(identity, &recovery)?, carried: Vec::new() });
    };
    book.follow(&mut life)?;
    let carried = |delivery: &DeliveryHistory| {
        let end = delivery.end.as_ref()?;
        Some(Carried {
            by: end.by.as_deref()?.to_owned(),
            class: life.record.class.to_string(),
            accepted_ns: life.record.wall.map_or(0, |wall| wall.unix_ns),
            ended_ns: end.wall.map(|wall| wall.unix_ns),
        })
    };
    let carried = life.deliveries.iter().filter_map(carried).collect();
    Ok(Told { text: book.in_words(&name, &life, &recovery), carried })
}

/// The segments of a log, to look records up in.
struct Book<'a> {
    log: &'a LogFiles,
    ids: Vec<SegmentId>,
    /// Whether something could not be read where a record may have stood.
    damaged: bool,
    /// Segments whose fates tell what acted on a record.
    telling: BTreeSet<SegmentId>,
}

impl<'a> Book<'a> {
    fn new(log: &'a LogFiles, ids: Vec<SegmentId>) -> Self {
        Book { log, ids, damaged: false, telling: BTreeSet::new() }
    }

    fn by_identity(
        &mut self,
        wanted: &Identity,
    ) -> anyhow::Result<Option<(Identity, RecordHistory)>> {
        for id in self.ids.clone() {
            let Some(segment) = self.log.open(id)? else { continue };
            // Records of other nodes keep their names, which footers do not list.
            let is_own = segment.head().is_some_and(|head| {
                let origin = &wanted.origin;
                (&head.node, head.incarnation) == (&origin.node, origin.incarnation)
            });
            if let Some((_, footer)) = segment.footer()?.filter(|_| is_own) {
                let covers = |part: &tidegate_log::StreamPart| {
                    part.stream == wanted.stream
                        && (part.seqs.0..=part.seqs.1).contains(&wanted.seq)
                };
                if !footer.streams.iter().any(covers) {
                    continue;
                }
            }
            let mut lives = VecDeque::new();
            let is_it = |name: &Identity, _: &LoggedRecord| name == wanted;
            self.collect(&segment, 1, is_it, &mut lives)?;
            if let Some(found) = lives.pop_front() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The last `count` records that match, in the order of the log.
    fn newest(
        &mut self,
        count: usize,
        matches: impl Fn(&LoggedRecord) -> bool,
    ) -> anyhow::Result<Vec<(Identity, RecordHistory)>> {
        let mut found: Vec<(Identity, RecordHistory)> = Vec::new();
        for &id in self.ids.clone().iter().rev() {
            let Some(segment) = self.log.open(id)? else { continue };
            let mut lives = VecDeque::new();
            self.collect(&segment, count - found.len(), |_, record| matches(record), &mut lives)?;
            found.splice(0..0, lives);
            if found.len() >= count {
                break;
            }
        }
        Ok(found)
    }

    /// The last `count` records of a segment that match.
    fn collect(
        &mut self,
        segment: &Segment,
        count: usize,
        matches: impl Fn(&Identity, &LoggedRecord) -> bool,
        lives: &mut VecDeque<(Identity, RecordHistory)>,
    ) -> anyhow::Result<()> {
        let Ok(opened) = &segment.opened else {
            self.damaged = true;
            return Ok(());
        };
        let damaged = &mut self.damaged;
        segment.read_from(ReadPosition::first(opened), |opened, found| {
            let Scanned::Frame(frame) = found else {
                *damaged |= !matches!(found, Scanned::Damage { is_tail: true, .. });
                return ControlFlow::<()>::Continue(());
            };
            if let Some(Entry::Record(record)) = frame.entry(opened) {
                let name = identity(&opened.header, &record);
                if matches(&name, &record) {
                    if lives.len() == count {
                        lives.pop_front();
                    }
                    lives.push_back((
                        name,
                        RecordHistory::new(&opened.header, frame.number(), *record),
                    ));
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok(())
    }

    /// Follows a record through the log behind it. A segment behind which all is still owed is not read.
    fn follow(&mut self, life: &mut RecordHistory) -> anyhow::Result<()> {
        let later: Vec<SegmentId> =
            self.ids.iter().copied().filter(|id| *id >= life.segment).collect();
        for (at, &id) in later.iter().enumerate() {
            let is_tracked = life.deliveries.iter().all(|delivery| delivery.end.is_none());
            if is_tracked
                && let Some(next) = later.get(at + 1)
                && let Some(next) = self.log.open(*next)?
                && let (Some(head), Some(checkpoint)) = (next.head(), next.checkpoint()?)
                && life.is_owed(head, &checkpoint)
            {
                continue;
            }
            let Some(segment) = self.log.open(id)? else { continue };
            let Ok(opened) = &segment.opened else { continue };
            if opened.tells_deeds {
                self.telling.insert(id);
            }
            let (of, sequence) = (life.segment, life.sequence);
            segment.read_from(ReadPosition::first(opened), |opened, found| {
                let Scanned::Frame(frame) = found else { return ControlFlow::Continue(()) };
                if id == of && frame.number() <= sequence {
                    return ControlFlow::Continue(());
                }
                if let Some(entry) = frame.entry(opened) {
                    life.meet(&opened.header, frame.number(), &entry);
                }
                if life.has_ended() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if life.has_ended() {
                break;
            }
        }
        Ok(())
    }

    /// Why the log does not know a record.
    fn why_not(&self, wanted: &Identity, recovery: &Recovery) -> anyhow::Result<String> {
        let mut text = format!("{wanted}: this log has no such record\n");
        let Some((node, incarnation)) = &recovery.owner else {
            text.push_str("  the log is empty\n");
            return Ok(text);
        };
        let origin = &wanted.origin;
        let because = if origin.node != *node {
            format!("it is of the node {:?}, and this log is that of {node:?}", origin.node)
        } else if origin.incarnation != *incarnation && self.is_boot(origin.incarnation)? {
            "its incarnation is the boot of a process of this node: it came under a rule that is not \
             durable, and never was in the log"
                .to_owned()
        } else if origin.incarnation != *incarnation {
            format!(
                "its incarnation is not the log's ({incarnation:016x}): it is of an earlier log of the \
                 node, or came under a rule that is not durable"
            )
        } else if let Some(stream) = recovery.streams.get(&wanted.stream) {
            let (rule, source) = (&stream.name.rule, &stream.name.source);
            let last = stream.last_seq;
            let reason = if last == u64::MAX {
                "it was ended where the log was damaged, and this one may have stood there"
                    .to_owned()
            } else if wanted.seq > last {
                format!(
                    "the last number of it that the log shows is {last}: this one came later or never"
                )
            } else {
                format!(
                    "numbers up to {last} were given: it had its fate and was released with its \
                     segment, or its number was skipped at a start, or its append failed and its \
                     sender was told"
                )
            };
            format!("its stream is that of rule {rule:?} and source {source:?}; {reason}")
        } else {
            "the log knows nothing of its stream now: all its records had their fates, or it never \
             had one in the log"
                .to_owned()
        };
        let _ = writeln!(text, "  {because}");
        Ok(text)
    }

    fn is_boot(&self, number: u64) -> anyhow::Result<bool> {
        for &id in &self.ids {
            let segment = self.log.open(id)?;
            let head = segment.as_ref().and_then(Segment::head);
            if head.is_some_and(|head| head.boot == number) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A record's life.
    fn in_words(&self, name: &Identity, life: &RecordHistory, recovery: &Recovery) -> String {
        let record = &life.record;
        let mut text = format!("{name}\n");
        let mut say = |what: &str, words: String| {
            let _ = writeln!(text, "  {what:<10} {words}");
        };
        let arrived = record.wall.map_or_else(
            || "at a time when the node knew no wall time".to_owned(),
            |wall| format!("{} by the node's clock", with_doubt(wall)),
        );
        say("accepted", format!("{arrived}; boot {:016x}", life.boot));
        let key = String::from_utf8_lossy(&record.key);
        let payload = size(record.payload.len() as u64);
        let count = record.properties.iter().count();
        say("topic", format!("{}; {payload}, {count} properties", key.escape_debug()));
        if let Some(made) = record.source_unix_ns {
            say("made", format!("{} as its source says", Moment(made)));
        }
        let known = recovery.streams.get(&record.stream);
        let stream = known.map_or_else(
            || "whose rule and source the log has forgotten".to_owned(),
            |known| format!("of rule {:?} and source {:?}", known.name.rule, known.name.source),
        );
        say("stream", format!("{} {stream}", record.stream.0));
        let bound = span(record.deadline.since(record.arrived).as_secs_f64());
        say("class", format!("{}, bound {bound}", record.class));
        say("deadline", wall_of(record, record.deadline));
        say("expires", record.expires.map_or("never".into(), |at| wall_of(record, at)));
        if let Some(from) = &record.foreign {
            let from = &from.origin.node;
            let is_placed = known.is_some_and(|known| known.name.source.starts_with(PLACED));
            match is_placed {
                true => say("owner", format!("this node owns its topic; {from} accepted it first")),
                false => say("from", format!("{from} accepted it first, and sent it by a link")),
            }
        }
        say("log", format!("{}, entry {}", life.segment, life.sequence));
        for DeliveryHistory { output, end } in &life.deliveries {
            for deed in end.iter().flat_map(|end| &end.deeds) {
                say(deed.lever.name(), done(record, deed));
            }
            if end.as_ref().is_some_and(|end| self.has_left_in_time(end)) {
                say(Lever::Queue.name(), format!("left class {} within its bound", record.class));
            }
            say(
                output,
                end.as_ref()
                    .map_or_else(|| format!("held: no fate yet, kept in {}", life.segment), ended),
            );
        }
        text
    }

    /// A confirmed delivery of which nothing else is told: then its log would tell, were it not so.
    fn has_left_in_time(&self, end: &DeliveryEnd) -> bool {
        let is_told = end.deeds.iter().any(|deed| deed.lever == Lever::Queue);
        end.fate == Some(Fate::Confirmed) && !is_told && self.telling.contains(&end.segment)
    }
}

/// A point of the record's own clock in wall time.
fn wall_of(record: &LoggedRecord, at: Time) -> String {
    let later = at.since(record.arrived);
    let after = span(later.as_secs_f64());
    match record.wall {
        Some(WallTime { unix_ns, .. }) => {
            let nanos = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
            format!("{}, {after} after its arrival", Moment(unix_ns.saturating_add(nanos)))
        }
        None => format!("{after} after its arrival"),
    }
}

fn with_doubt(wall: WallTime) -> String {
    let doubt = span(wall.uncertainty.as_secs_f64());
    format!("{} (give or take {doubt})", Moment(wall.unix_ns))
}

/// What acted on a record, and when.
fn done(record: &LoggedRecord, Deed { lever, what, after }: &Deed) -> String {
    let Some(after) = *after else { return what.to_string() };
    let when = wall_of(record, record.arrived + after);
    let bound = record.deadline.since(record.arrived);
    match lever {
        Lever::Queue if after > bound => {
            let late = span((after - bound).as_secs_f64());
            format!("left class {what}, {when}: {late} late")
        }
        Lever::Queue => format!("left class {what}, {when}"),
        Lever::Script | Lever::Path => format!("{what}, {when}"),
    }
}

fn ended(end: &DeliveryEnd) -> String {
    let DeliveryEnd { fate, by, segment, sequence, wall, .. } = end;
    let Some(fate) = fate else {
        return format!(
            "ended: the checkpoint of {segment} knows it no more, and no entry tells its fate"
        );
    };
    let at = wall.map_or_else(
        || "at a time when the node knew no wall time".to_owned(),
        |wall| format!("by {}", with_doubt(wall)),
    );
    let by = by.as_ref().map(|by| format!(", carried by {by},")).unwrap_or_default();
    format!("{}{by} {at}; entry {sequence} of {segment}", fate_in_words(*fate))
}
