//! What a disk does to files that were safe, and which records have no copy any more.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tidegate_log::{
    Checkpoint, Entry, Header, Keys, Scanned, Scanner, SegmentId, begins_with_checkpoint,
};
use tidegate_types::random::SplitMix;
use tidegate_types::record::StreamId;

use super::account::name_of;
use super::machine::LOG;
use crate::disk::model::{Memory, SECTOR};
use crate::spool::folder::{number_of, segment_path};

/// What goes wrong beside power cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// Nothing.
    None,
    /// Sectors: flipped, zeroed, stale, written to another place.
    Sectors,
    /// Files: exchanged, with the content of another, shortened, gone.
    Files,
    /// Sectors of the sink's files.
    Sink,
}

/// What became of records, by name.
pub(super) type Destroyed = BTreeMap<u64, Lost>;

/// Where a record stood that has no copy any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    /// Its segment.
    pub(super) segment: SegmentId,
    /// Whether something that is left can tell.
    pub(super) is_known: bool,
    stream: StreamId,
    seq: u64,
    offset: usize,
}

type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// Does harm to a log, and adds the records of which no copy is left in it. What was destroyed before may lose its
/// last witness now.
pub(super) fn harm(
    disk: &Memory,
    random: &mut SplitMix,
    (harm, keys): (Harm, &Keys),
    all: &mut Destroyed,
    story: &mut Vec<String>,
) {
    let before = contents(disk);
    let files: Vec<PathBuf> = before.keys().cloned().collect();
    if files.is_empty() || matches!(harm, Harm::None | Harm::Sink) {
        return;
    }
    for _ in 0..1 + random.below(3) {
        match harm {
            Harm::None | Harm::Sink => {}
            Harm::Sectors => harm_sector(disk, random, &files),
            Harm::Files => harm_file(disk, random, &files),
        }
    }
    let after = contents(disk);
    let told = |contents: &Contents| {
        let held = |(path, content): (&PathBuf, &Vec<u8>)| {
            let head = Header::open(content, keys).map(|opened| opened.header.segment.0).ok();
            let names: Vec<_> = entries(content, keys)
                .into_iter()
                .map(|stored| (stored.name, stored.stream.0, stored.seq, stored.range))
                .collect();
            (number(path).map(|number| number.0), head, content.len(), names)
        };
        contents.iter().map(held).map(|file| format!("  {file:?}")).collect::<Vec<_>>().join("\n")
    };
    story.push(format!("before\n{}\nafter\n{}", told(&before), told(&after)));
    let left = readable(&after, keys);
    let base = left.iter().rev().find_map(|(_, content)| checkpoint(content, keys));
    let forgotten = |lost: &Lost| {
        let end = left.get(&lost.segment).and_then(|content| entries(content, keys).pop());
        let is_before = end.is_some_and(|last| last.range.end > lost.offset);
        !is_before && base.as_ref().is_none_or(|base| !is_owed(base, lost))
    };
    all.values_mut().filter(|lost| forgotten(lost)).for_each(|lost| lost.is_known = false);
    for (name, lost) in destroyed(&before, &left, keys) {
        all.entry(name).or_insert(lost);
    }
}

/// What a start takes from a segment that it reads first.
fn checkpoint(content: &[u8], keys: &Keys) -> Option<Checkpoint> {
    let opened = Header::open(content, keys).ok()?;
    let Some(Scanned::Frame(first)) = Scanner::new(&opened, content).next() else { return None };
    match first.entry(&opened)? {
        Entry::Checkpoint(checkpoint) => Some(checkpoint),
        _ => None,
    }
}

/// Whether a checkpoint says that somebody has not had this record.
fn is_owed(checkpoint: &Checkpoint, lost: &Lost) -> bool {
    let mut streams = checkpoint.streams.iter().filter(|state| state.name.stream == lost.stream);
    let mut owed = streams.by_ref().flat_map(|state| &state.live);
    owed.any(|(segment, chunk)| {
        *segment == lost.segment && chunk.runs.iter().any(|run| run.covers(lost.seq))
    })
}

fn contents(disk: &Memory) -> Contents {
    let is_segment = |path: &PathBuf| number(path).is_some();
    let files = disk.files(Path::new(LOG)).into_iter().filter(is_segment);
    files
        .map(|path| (path.clone(), disk.content(&path)))
        .filter(|(_, all)| !all.is_empty())
        .collect()
}

fn number(path: &Path) -> Option<SegmentId> {
    number_of(path.file_name()?.to_str()?)
}

fn pick<'a>(random: &mut SplitMix, files: &'a [PathBuf]) -> &'a PathBuf {
    // The newest ones matter most.
    let back = if random.one_in(2) { random.below(2) } else { random.below(files.len()) };
    &files[files.len() - 1 - back.min(files.len() - 1)]
}

pub(super) fn harm_sector(disk: &Memory, random: &mut SplitMix, files: &[PathBuf]) {
    let path = pick(random, files);
    let mut content = disk.content(path);
    if content.is_empty() {
        return;
    }
    let at = match random.below(3) {
        // The header, its copy, the checkpoint.
        0 => random.below(content.len().min(SECTOR)),
        1 => random.below(content.len().min(5000)),
        _ => random.below(content.len()),
    };
    let from = at / SECTOR * SECTOR;
    let to = (from + SECTOR).min(content.len());
    match random.below(5) {
        0 | 1 => content[at] ^= 1 << random.below(8),
        2 => content[from..to].fill(if random.one_in(2) { 0 } else { 0xff }),
        3 => {
            // A write that went to another place.
            let other = disk.content(pick(random, files));
            let sector = random.below(other.len() / SECTOR + 1) * SECTOR;
            for (offset, byte) in other.iter().skip(sector).take(to - from).enumerate() {
                content[from + offset] = *byte;
            }
        }
        // A write that never came, though it was synced: what stood there before was room.
        _ => content[at..to].fill(0),
    }
    disk.rot(path, Some(content));
}

fn harm_file(disk: &Memory, random: &mut SplitMix, files: &[PathBuf]) {
    let (one, other) = (pick(random, files), pick(random, files));
    let (first, second) = (disk.content(one), disk.content(other));
    match random.below(5) {
        0 => {
            disk.rot(one, Some(second));
            disk.rot(other, Some(first));
        }
        // A stale copy, or the image of another disk.
        1 => disk.rot(one, Some(second)),
        2 => disk.rot(one, Some(first[..random.below(first.len() + 1)].to_vec())),
        3 if one != other || files.len() > 1 => disk.rot(one, None),
        _ => {
            // Under another number.
            let free = SegmentId(number(&files[files.len() - 1]).map_or(1, |last| last.0 + 1));
            disk.rot(&segment_path(Path::new(LOG), free), Some(second));
        }
    }
}

/// A record in a segment.
#[derive(Clone, Debug)]
struct Stored {
    name: u64,
    stream: StreamId,
    seq: u64,
    range: Range<usize>,
}

/// The records of a segment.
fn entries(content: &[u8], keys: &Keys) -> Vec<Stored> {
    let Ok(opened) = Header::open(content, keys) else { return Vec::new() };
    let mut all = Vec::new();
    for found in Scanner::new(&opened, content) {
        let Scanned::Frame(frame) = found else { continue };
        if let Some(Entry::Record(record)) = frame.entry(&opened) {
            let (name, range) = (name_of(&record.payload), frame.offset..frame.end());
            all.push(Stored { name, stream: record.stream, seq: record.seq, range });
        }
    }
    all
}

/// The content that each segment is read from: its own file, or the first one that holds it.
fn readable<'a>(contents: &'a Contents, keys: &Keys) -> BTreeMap<SegmentId, &'a [u8]> {
    let mut all = BTreeMap::new();
    let head = |content: &[u8]| Some(Header::open(content, keys).ok()?.header.segment);
    let good = contents.iter().filter_map(|(path, content)| Some((path, content, head(content)?)));
    for (path, content, segment) in good {
        if number(path) == Some(segment) || !all.contains_key(&segment) {
            all.insert(segment, content.as_slice());
        }
    }
    all
}

/// The records whose bytes are not any more where they were. Whoever reads them is not asked: what stands there
/// whole must be found, whatever stands around it.
fn destroyed(before: &Contents, left: &BTreeMap<SegmentId, &[u8]>, keys: &Keys) -> Destroyed {
    let mut destroyed = Destroyed::new();
    for (segment, content) in readable(before, keys) {
        let is_whole = |stored: &Stored| {
            let left = left.get(&segment).and_then(|left| left.get(stored.range.clone()));
            left == content.get(stored.range.clone())
        };
        let (kept, gone): (Vec<_>, Vec<_>) = entries(content, keys).into_iter().partition(is_whole);
        let end = kept.iter().map(|stored| stored.range.end).max().unwrap_or(0);
        // A later checkpoint knows what is owed of this one.
        let is_later = |(other, content): (&SegmentId, &&[u8])| {
            *other > segment && begins_with_checkpoint(*other, content, keys).unwrap_or(false)
        };
        let is_told = left.iter().any(is_later);
        for Stored { name, stream, seq, range } in gone {
            let (is_known, offset) = (is_told || end > range.start, range.start);
            destroyed.insert(name, Lost { segment, is_known, stream, seq, offset });
        }
    }
    destroyed
}
