//! `tidegate log verify`: reads every byte and names what is damaged or missing.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tidegate_log::{
    Damage, DamageKind, Defect, END, Header, ReadPosition, Scanned, SegmentId, SegmentSummary,
    find_footer,
};
use tidegate_types::limits::FATES_DELAY;

use super::files::{LogFiles, Segment};
use super::ls::held_by_segment;
use crate::cli::log::VerifyArguments;
use crate::observe::status::table::size;

/// What takes longer shows how far it is, where somebody watches.
const PROGRESS_AFTER: Duration = Duration::from_secs(2);
/// How often that is shown.
const PROGRESS_PERIOD: Duration = Duration::from_millis(200);

/// What was found so far.
#[derive(Debug, Default)]
struct Findings {
    bytes: u64,
    records: u64,
    segments: usize,
    damaged: u64,
}

/// Where the entries of a segment end.
struct Last {
    segment: SegmentId,
    boot: u64,
    sequence: u64,
    is_finished: bool,
}

/// Verifies a log; the exit code says what came of it.
pub(super) fn verify(arguments: &VerifyArguments) -> anyhow::Result<ExitCode> {
    let log = || LogFiles::of(&arguments.log);
    let of_sink = arguments.log.folder.as_deref().map_or(Ok(None), super::sink::verify);
    let verdict = of_sink.and_then(|sink| sink.map_or_else(|| read(&log()?), Ok));
    match verdict {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) if super::is_closed(&error) => Err(error),
        Err(error) => {
            writeln!(io::stderr(), "tidegate: {error:#}")?;
            Ok(ExitCode::from(2))
        }
    }
}

/// Whether the log is sound.
fn read(log: &LogFiles) -> anyhow::Result<bool> {
    // Tells first what must not be read at all: another key, a newer version, two logs in one folder.
    log.recover()?;
    let sizes = log.sizes()?;
    let mut progress = Progress::new(sizes.values().map(|size| size.0).sum());
    let (mut findings, mut last) = (Findings::default(), None);
    for &id in sizes.keys() {
        let Some(segment) = log.open(id)? else { continue };
        if let Err(defect) = &segment.opened
            && *defect != Defect::Damaged
        {
            anyhow::bail!("{id}: {defect}");
        }
        let told = one(&segment, &mut findings, &mut last, &mut progress)?;
        progress.clear()?;
        for line in told {
            writeln!(io::stdout(), "{line}")?;
        }
    }
    for (segment, records) in missing(log)? {
        findings.damaged += 1;
        let line = format!("{segment}: missing, and with it records without a fate: {records}");
        writeln!(io::stdout(), "{line}")?;
    }
    let Findings { bytes, records, segments, damaged } = findings;
    let verdict = match damaged {
        0 => "sound".to_owned(),
        1 => "damaged in 1 place".to_owned(),
        places => format!("damaged in {places} places"),
    };
    let bytes = size(bytes);
    writeln!(io::stdout(), "segments {segments}, {bytes}, records {records}: {verdict}")?;
    Ok(damaged == 0)
}

/// Reads a segment; answers with what is to be said of it.
fn one(
    segment: &Segment,
    findings: &mut Findings,
    last: &mut Option<Last>,
    progress: &mut Progress,
) -> anyhow::Result<Vec<String>> {
    let before = findings.bytes;
    findings.segments += 1;
    findings.bytes += segment.size as u64;
    let mut told = Vec::new();
    let Ok(opened) = &segment.opened else {
        findings.damaged += 1;
        told.push(format!("{}: its head is damaged: nothing of it can be read", segment.id));
        return Ok(told);
    };
    let head = segment.read(0, opened.length)?;
    if segment.size > opened.length && !Header::is_whole(opened, &head) {
        findings.damaged += 1;
        let id = segment.id;
        told.push(format!("{id}: one copy of its head is damaged: the other one is read"));
    }
    let mut survey = SegmentSummary::default();
    let mut end = opened.length;
    segment.read_from(ReadPosition::first(opened), |opened, found| {
        if let Scanned::Frame(frame) = found {
            end = frame.end();
        }
        survey.meet(opened, found);
        progress.reach(before + end as u64);
        ControlFlow::<()>::Continue(())
    })?;
    findings.records += survey.records;
    if survey.is_finished {
        let behind = segment.read(end, segment.size)?;
        let (last, room) = behind.split_at(END.min(behind.len()));
        // A crash may leave room that was about to be cut off.
        let is_room = room.iter().all(|&byte| byte == 0);
        if find_footer(opened, last).is_none() || !is_room {
            let (from, to) = (end as u64, segment.size as u64);
            let is_torn = last.len() < END || is_room && last.ends_with(&[0]);
            let verdict = if is_torn { DamageKind::Torn } else { DamageKind::Corrupt };
            survey.note(Damage { segment: segment.id, from, to, verdict });
        }
    }
    let id = segment.id;
    for Damage { from, to, verdict, .. } in &survey.damage {
        let bytes = format!("bytes {from} to {to}");
        match verdict {
            DamageKind::Torn => {
                told.push(format!("{id}: torn end, {bytes}: nothing acknowledged was in it"));
            }
            _ => {
                findings.damaged += 1;
                told.push(format!("{id}: corrupt, {bytes}"));
            }
        }
    }
    if survey.more_damage > 0 {
        findings.damaged += survey.more_damage;
        told.push(format!("{id}: corrupt in {} more places", survey.more_damage));
    }
    if let (Some(before), Some((first, _))) = (&*last, survey.sequences) {
        told.extend(cut_off(before, id, opened.header.boot, first).inspect(|_| {
            findings.damaged += 1;
        }));
    }
    let sequence = survey.sequences.map(|(_, sequence)| sequence);
    if let Some(sequence) = sequence {
        let (boot, is_finished) = (opened.header.boot, survey.is_finished);
        *last = Some(Last { segment: id, boot, sequence, is_finished });
    }
    Ok(told)
}

/// What is missing between two segments that follow each other. Within a boot a disk that failed leaves
/// such gaps, of entries that nobody was told of; a new boot goes on exactly where the log ended.
fn cut_off(before: &Last, id: SegmentId, boot: u64, first: u64) -> Option<String> {
    let follows = before.segment.0 + 1 == id.0;
    let is_gap = first > before.sequence + 1 && (before.boot != boot || before.is_finished);
    let missing = first.saturating_sub(before.sequence + 1);
    (follows && is_gap).then(|| {
        format!("{}: its end is cut off: {missing} entries before {id} are missing", before.segment)
    })
}

/// Segments that are gone, and how many records of them are owed.
fn missing(log: &LogFiles) -> anyhow::Result<BTreeMap<SegmentId, u64>> {
    let look = || -> anyhow::Result<BTreeMap<SegmentId, u64>> {
        let (sizes, recovery) = (log.sizes()?, log.recover()?);
        let mut held = held_by_segment(&recovery);
        held.retain(|segment, _| !sizes.contains_key(segment));
        Ok(held)
    };
    let first = look()?;
    if first.is_empty() {
        return Ok(first);
    }
    // A running node deletes a segment a little before it writes the last fates of its records.
    std::thread::sleep(2 * FATES_DELAY);
    let mut second = look()?;
    second.retain(|segment, _| first.contains_key(segment));
    Ok(second)
}

/// How far the reading is, on a terminal.
struct Progress {
    total: u64,
    begun: Instant,
    /// When it was shown last, since the beginning.
    shown: Option<Duration>,
    is_watched: bool,
}

impl Progress {
    fn new(total: u64) -> Self {
        let is_watched = io::stderr().is_terminal();
        Progress { total, begun: Instant::now(), shown: None, is_watched }
    }

    fn reach(&mut self, bytes: u64) {
        if self.is_watched && self.is_due(self.begun.elapsed()) {
            let (done, total) = (size(bytes), size(self.total));
            // A terminal that is gone need not be told.
            let _ = write!(io::stderr(), "\r{done} of {total} read   ");
        }
    }

    /// Whether it is to be shown, so long after the beginning.
    fn is_due(&mut self, since: Duration) -> bool {
        let next = self.shown.map_or(PROGRESS_AFTER, |shown| shown + PROGRESS_PERIOD);
        let is_due = since >= next;
        self.shown = if is_due { Some(since) } else { self.shown };
        is_due
    }

    /// Makes room for other words.
    fn clear(&mut self) -> io::Result<()> {
        if self.shown.is_some() {
            write!(io::stderr(), "\r{:40}\r", "")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_takes_long_shows_how_far_it_is() {
        let mut progress = Progress::new(100);
        let due = [1999, 2000, 2100, 2199, 2200, 9000, 9100]
            .map(|millis| progress.is_due(Duration::from_millis(millis)));
        assert_eq!(due, [false, true, false, false, true, true, false]);
    }

    #[test]
    fn a_gap_before_another_boot_is_a_cut() {
        let before =
            |is_finished| Last { segment: SegmentId(3), boot: 7, sequence: 9, is_finished };
        assert_eq!(cut_off(&before(false), SegmentId(4), 8, 10), None);
        assert_eq!(cut_off(&before(false), SegmentId(4), 7, 12), None);
        assert_eq!(cut_off(&before(false), SegmentId(5), 8, 12), None);
        let told = cut_off(&before(false), SegmentId(4), 8, 12).unwrap();
        assert_eq!(told, "segment 3: its end is cut off: 2 entries before segment 4 are missing");
        assert!(cut_off(&before(true), SegmentId(4), 7, 12).is_some());
    }
}
