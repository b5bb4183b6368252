//! What a disk does to files that were safe, and which records have no copy any more.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidegate_core::log::{Entry, Found, Header, Scanner, SegmentId, begins_with_checkpoint};
use tidegate_core::random::SplitMix;

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
}

/// What became of records: by name, the segment that they stood in, and whether something that is left can tell.
pub(super) type Destroyed = BTreeMap<u64, (SegmentId, bool)>;

type Contents = BTreeMap<PathBuf, Vec<u8>>;

/// Does harm to a log; answers with the records of which no copy is left in it.
pub(super) fn harm(
    disk: &Memory,
    random: &mut SplitMix,
    harm: Harm,
    story: &mut Vec<String>,
) -> Destroyed {
    let before = contents(disk);
    let files: Vec<PathBuf> = before.keys().cloned().collect();
    if files.is_empty() || harm == Harm::None {
        return Destroyed::new();
    }
    for _ in 0..1 + random.below(3) {
        match harm {
            Harm::None => {}
            Harm::Sectors => harm_sector(disk, random, &files),
            Harm::Files => harm_file(disk, random, &files),
        }
    }
    let after = contents(disk);
    let told = |contents: &Contents| {
        let held = |(path, content): (&PathBuf, &Vec<u8>)| {
            let head = Header::open(content, &[]).map(|opened| opened.header.segment.0).ok();
            let names: Vec<u64> = entries(content).into_iter().map(|(name, _)| name).collect();
            (number(path).map(|number| number.0), head, content.len(), names)
        };
        contents.iter().map(held).map(|file| format!("  {file:?}")).collect::<Vec<_>>().join("\n")
    };
    story.push(format!("before\n{}\nafter\n{}", told(&before), told(&after)));
    destroyed(&before, &after)
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

fn harm_sector(disk: &Memory, random: &mut SplitMix, files: &[PathBuf]) {
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

/// The records of a segment, and the bytes of their entries.
fn entries(content: &[u8]) -> Vec<(u64, std::ops::Range<usize>)> {
    let Ok(opened) = Header::open(content, &[]) else { return Vec::new() };
    let mut all = Vec::new();
    for found in Scanner::new(&opened, content) {
        let Found::Frame(frame) = found else { continue };
        if let Some(Entry::Record(record)) = frame.entry(&opened) {
            all.push((name_of(&record.payload), frame.offset..frame.end()));
        }
    }
    all
}

/// The content that each segment is read from: its own file, or the first one that holds it.
fn readable(contents: &Contents) -> BTreeMap<SegmentId, &[u8]> {
    let mut all = BTreeMap::new();
    let head = |content: &[u8]| Some(Header::open(content, &[]).ok()?.header.segment);
    let good = contents.iter().filter_map(|(path, content)| Some((path, content, head(content)?)));
    for (path, content, segment) in good {
        if number(path) == Some(segment) || !all.contains_key(&segment) {
            all.insert(segment, content.as_slice());
        }
    }
    all
}

fn destroyed(before: &Contents, after: &Contents) -> Destroyed {
    let left = readable(after);
    let mut destroyed = Destroyed::new();
    for (segment, content) in readable(before) {
        let kept = left.get(&segment).map(|content| entries(content)).unwrap_or_default();
        let end = kept.last().map_or(0, |(_, range)| range.end);
        // A later checkpoint knows what is owed of this one.
        let is_later = |(other, content): (&SegmentId, &&[u8])| {
            *other > segment && begins_with_checkpoint(*other, content, &[]).unwrap_or(false)
        };
        let is_known = left.iter().any(is_later);
        let names: BTreeSet<u64> = kept.into_iter().map(|(name, _)| name).collect();
        for (name, range) in entries(content) {
            if !names.contains(&name) {
                destroyed.insert(name, (segment, is_known || end > range.start));
            }
        }
    }
    destroyed
}
