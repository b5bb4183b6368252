//! What a disk does to the sink's lines when they were safe, and which records have no whole line any more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use tidegate_types::random::SplitMix;

use super::account::{SINK, name_of};
use super::harm::harm_sector;
use crate::disk::model::Memory;
use crate::output::sink::lines::find;
use crate::output::sink::mark;

/// Numbers of lines that are not whole any more, by the names of their records. True: something that was left could
/// tell, a whole line behind it or the mark.
pub(super) type Rotten = BTreeMap<u64, BTreeMap<u64, bool>>;

/// A whole line.
struct Stored {
    number: u64,
    name: u64,
    range: Range<usize>,
}

/// Does harm to the sink's files, and adds the lines that it took.
pub(super) fn harm_lines(
    disk: &Memory,
    random: &mut SplitMix,
    rotten: &mut Rotten,
    story: &mut Vec<String>,
) {
    let files: Vec<PathBuf> = disk.files(Path::new(SINK));
    if files.is_empty() {
        return;
    }
    let before: Vec<Vec<u8>> = files.iter().map(|path| disk.content(path)).collect();
    for _ in 0..1 + random.below(3) {
        harm_sector(disk, random, &files);
    }
    let (mut gone, mut last) = (Vec::new(), 0);
    for (path, before) in files.iter().zip(&before) {
        let after = disk.content(path);
        for line in stored(before) {
            let is_whole = after.get(line.range.clone()) == before.get(line.range.clone());
            last = if is_whole { line.number.max(last) } else { last };
            gone.extend((!is_whole).then_some((line.name, line.number)));
        }
    }
    let mark = mark::read(disk, Path::new(SINK)).expect("it can be read");
    story
        .push(format!("of the sink's lines, gone {gone:?}, whole up to {last}, safe up to {mark}"));
    let is_told = |number: u64| number < last || number <= mark;
    // What is left decides what can be told, of what went before, too.
    let told = rotten.values_mut().flat_map(|lines| lines.iter_mut());
    told.for_each(|(number, told)| *told &= is_told(*number));
    for (name, number) in gone {
        rotten.entry(name).or_default().entry(number).or_insert(is_told(number));
    }
}

fn stored(content: &[u8]) -> Vec<Stored> {
    let (mut all, mut from) = (Vec::new(), 0);
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        let to = from + line.len();
        let line = line.strip_suffix(b"\n").unwrap_or_default();
        if let Some((at, number)) = find(line)
            && let Some(name) = name(&line[at..])
        {
            all.push(Stored { number, name, range: from + at..to });
        }
        from = to;
    }
    all
}

/// The name of the record in a whole line.
fn name(line: &[u8]) -> Option<u64> {
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    line["text"].as_str().map(|text| name_of(text.as_bytes()))
}

/// Names of the records in whole lines of the sink.
pub(super) fn sunk(disk: &Memory) -> BTreeSet<u64> {
    let files = disk.files(Path::new(SINK));
    files.iter().flat_map(|path| stored(&disk.content(path))).map(|line| line.name).collect()
}
