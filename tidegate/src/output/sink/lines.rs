//! What a line of the sink's files says of itself, its number and a checksum, and who reads that: so it is known which
//! lines a disk has damaged or taken.
//!
//! `{"line":12,` begins a line and `,"crc":"0123abcd"}` ends it: the CRC-32C of all before that. Numbers rise by one,
//! over all files of a folder and over restarts. Lines with neither were written by versions before that.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use tidegate_types::crc::crc32c;
use tidegate_types::limits::LOG_DAMAGES_MAX;

use super::mark;
use crate::support::disk::Disk;

const BEGIN: &[u8] = b"{\"line\":";
const CRC: &[u8] = b",\"crc\":\"";
const END: &[u8] = b"\"}";
/// Bytes of the checksum's field, its eight digits and the end.
const TAIL: usize = CRC.len() + 8 + END.len();
/// No line is shorter: `id`, `class` and `key` have names, and the identity has its numbers.
const LINE_MIN: usize = 64;

/// Ends the line that begins at `from`: the text of a JSON object whose first field is `line`.
///
/// # Errors
/// None that memory makes.
pub(super) fn finish(text: &mut Vec<u8>, from: usize) -> io::Result<()> {
    // The brace comes again behind the checksum.
    text.pop();
    let crc = crc32c(0, &text[from..]);
    text.extend_from_slice(CRC);
    writeln!(text, "{crc:08x}\"}}")
}

/// Where a whole line begins in what stands before an end of line, and its number. The end of the line before may be
/// damaged: then that one is in front of it.
pub(crate) fn find(text: &[u8]) -> Option<(usize, u64)> {
    let begins = |at: &usize| text[*at..].starts_with(BEGIN);
    let mut places = (0..text.len()).filter(begins);
    places.find_map(|at| Some((at, number(BEGIN, &text[at..])?)))
}

/// The number of a line that begins so, without its end of line; `None` if its bytes are not those that were written.
pub(super) fn number(begin: &[u8], line: &[u8]) -> Option<u64> {
    let (body, tail) = line.split_at_checked(line.len().checked_sub(TAIL)?)?;
    let digits = tail.strip_prefix(CRC)?.strip_suffix(END)?;
    let is_whole = *digits == *format!("{:08x}", crc32c(0, body)).as_bytes();
    let rest = body.strip_prefix(begin).filter(|_| is_whole)?;
    let digits = rest.split(|&byte| byte == b',').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The last number of these lines, and the one for the line behind them; `None` where none has a number. Damaged lines
/// among them may have had numbers, and none is given twice.
pub(super) fn last_and_next(lines: &[u8]) -> Option<(u64, u64)> {
    let all = || lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let last = all().filter_map(find).map(|(_, number)| number).max()?;
    let damaged = all().map(|line| find(line).map_or(line.len(), |(from, _)| from));
    let damaged: usize = damaged.sum();
    let most = damaged.div_ceil(LINE_MIN) as u64;
    Some((last, last.saturating_add(1 + most)))
}

/// What was found in the files of a sink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Files and their bytes.
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// Whole lines.
    pub(crate) lines: u64,
    /// Lines of earlier versions, of which nobody can tell.
    pub(crate) untold: u64,
    /// Lines that are not whole, by file and bytes from and to: the first `LOG_DAMAGES_MAX`.
    pub(crate) damaged: Vec<(String, usize, usize)>,
    /// How many more there are.
    pub(crate) more_damaged: u64,
    /// What the newest file has behind its last line, bytes from and to: what a crash left, or is being written.
    pub(crate) torn: Option<(usize, usize)>,
    /// Numbers of the whole lines: the first one of each run, and the last one.
    met: BTreeMap<u64, u64>,
    /// The last line that was safe, as far as that was noted.
    mark: u64,
}

impl Found {
    /// Numbers of which there is no whole line, though there are lines before and behind, or it was noted that they
    /// were safe: from and to.
    pub(crate) fn missing(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let next = self.met.keys().skip(1);
        let between = self.met.values().zip(next).map(|(end, next)| (end + 1, next - 1));
        between.chain(missing_at_the_end(self.last(), self.mark, self.bytes > 0))
    }

    fn last(&self) -> Option<u64> {
        self.met.last_key_value().map(|(_, &last)| last)
    }

    /// The first and the last number.
    #[cfg(test)]
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        Some((*self.met.first_key_value()?.0, self.last()?))
    }

    fn meet(&mut self, number: u64) {
        self.lines += 1;
        let before = self.met.range(..=number).next_back().map(|(&first, &last)| (first, last));
        let first = match before {
            Some((_, last)) if last >= number => return,
            Some((first, last)) if last + 1 == number => first,
            _ => number,
        };
        let behind = number.checked_add(1).and_then(|behind| self.met.remove(&behind));
        self.met.insert(first, behind.unwrap_or(number));
    }

    fn read(&mut self, name: &str, bytes: &[u8], is_newest: bool) {
        self.files += 1;
        self.bytes += bytes.len() as u64;
        let mut from = 0;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let mut to = from + line.len();
            let end = to;
            let found = line.strip_suffix(b"\n").map(|line| (line, find(line)));
            if let Some((_, Some((at, number)))) = found {
                self.meet(number);
                to = from + at;
            }
            match found {
                Some((_, Some((0, _)))) => {}
                Some((line, None)) if is_of_before(line) => self.untold += 1,
                None if is_newest => self.torn = Some((from, to)),
                _ if self.damaged.len() < LOG_DAMAGES_MAX => {
                    self.damaged.push((name.into(), from, to));
                }
                _ => self.more_damaged += 1,
            }
            from = end;
        }
    }
}

/// Of the lines up to the mark, those behind the last whole one. Where no byte is left somebody emptied the folder, or
/// the only file was full and went.
pub(super) fn missing_at_the_end(last: Option<u64>, mark: u64, is_any: bool) -> Option<(u64, u64)> {
    // Where none is whole nobody knows which ones went with their files, but for the last.
    let from = last.map_or(mark, |last| last.saturating_add(1));
    (is_any && mark > 0 && from <= mark).then_some((from, mark))
}

/// Whether a version before numbers may have written this.
fn is_of_before(line: &[u8]) -> bool {
    line.starts_with(b"{\"id\":") && serde_json::from_slice::<serde_json::Value>(line).is_ok()
}

/// Reads all files of a sink, the oldest first; `None` if the folder has none.
///
/// # Errors
/// What the system says.
pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> io::Result<Option<Found>> {
    loop {
        // First: a node that runs notes lines when they are there.
        let mark = mark::read(disk, folder)?;
        let files = files(disk, folder)?;
        let mut found = Found { mark, ..Found::default() };
        for (age, (name, _)) in files.iter().rev() {
            match disk.read(&folder.join(name)) {
                Ok(bytes) => found.read(name, &bytes, *age == 0),
                // A node that runs has given it another name: the list will show that.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let closed =
            |files: &Files| files.range(1..).map(|(_, file)| file.clone()).collect::<Vec<_>>();
        // What is closed meanwhile is read by no name or by two.
        if closed(&files) == closed(&self::files(disk, folder)?) {
            return Ok((!files.is_empty()).then_some(found));
        }
    }
}

/// Files by their age, with their bytes: 0 is the one that is written.
type Files = BTreeMap<u32, (String, u64)>;

pub(super) fn files(disk: &dyn Disk, folder: &Path) -> io::Result<Files> {
    let age = |name: &str| match name.strip_prefix("records.")? {
        "jsonl" => Some(0),
        name => name.strip_suffix(".jsonl")?.parse().ok().filter(|age| *age > 0),
    };
    let all = disk.list(folder)?.into_iter().filter(|listed| listed.is_file);
    Ok(all.filter_map(|listed| Some((age(&listed.name)?, (listed.name, listed.size)))).collect())
}

/// See the sink's.
///
/// # Panics
/// A promise is broken.
pub(super) fn exercise(bytes: &[u8]) {
    let mut found = Found { mark: number(mark::BEGIN, bytes).unwrap_or(0), ..Found::default() };
    found.read("records.1.jsonl", bytes, false);
    found.read("records.jsonl", bytes, true);
    let mut after = 0;
    for (from, to) in found.missing() {
        assert!(after <= from && from <= to, "what is missing stands between what is there");
        after = to;
    }
    assert!(found.damaged.iter().all(|(_, from, to)| from < to && *to <= bytes.len()));
    assert!(found.torn.is_none_or(|(from, to)| from < to && to <= bytes.len()));
    if let Some((last, next)) = last_and_next(bytes) {
        // One without its end of line has had its number, too.
        assert!(found.last() <= Some(last) && next >= last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> Vec<u8> {
        let mut text =
            format!("{{\"line\":{number},\"text\":\"{}\"}}", "x".repeat(60)).into_bytes();
        finish(&mut text, 0).unwrap();
        text
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        let whole = line(1_234);
        assert_eq!(number(BEGIN, whole.trim_ascii_end()), Some(1_234));
        assert!(serde_json::from_slice::<serde_json::Value>(&whole).is_ok());
        for bit in 0..(whole.len() - 1) * 8 {
            let mut line = whole.clone();
            line[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(number(BEGIN, line.strip_suffix(b"\n").unwrap()), None, "bit {bit}");
        }
        assert!(
            ["", "{}", "{\"line\":1}"].iter().all(|text| number(BEGIN, text.as_bytes()).is_none())
        );
    }

    #[test]
    fn what_is_damaged_and_what_is_gone_is_named() {
        let mut found = Found::default();
        let old = b"{\"id\":\"gate/1/2/3\"}\n";
        let (mut first, second) =
            ([&old[..], &line(1), &line(2)].concat(), [line(4), line(5)].concat());
        let at = old.len() + line(1).len();
        first[at + 20] ^= 1;
        found.read("records.1.jsonl", &first, false);
        found.read("records.jsonl", &[&second, &line(6)[..30]].concat(), true);
        assert_eq!((found.files, found.lines, found.untold), (2, 3, 1));
        assert_eq!(found.damaged, [("records.1.jsonl".into(), at, first.len())]);
        assert_eq!(found.torn, Some((second.len(), second.len() + 30)));
        assert_eq!(found.missing().collect::<Vec<_>>(), [(2, 3)]);
        // The end of a line is damaged: the next one is whole.
        let mut merged = [line(7), line(8)].concat();
        merged[line(7).len() - 1] = b'x';
        found.read("records.3.jsonl", &merged, false);
        assert_eq!(found.damaged[1], ("records.3.jsonl".into(), 0, line(7).len()));
        assert_eq!(found.missing().collect::<Vec<_>>(), [(2, 3), (6, 7)]);
        found.read("records.4.jsonl", &[line(6), line(7)].concat(), false);
        // A line that stands twice, one that stands too early: what is there is not missing.
        found.read("records.2.jsonl", &[line(3), line(5), line(2)].concat(), false);
        assert_eq!((found.missing().count(), found.span()), (0, Some((1, 8))));
    }

    #[test]
    fn what_is_gone_from_the_very_end_is_named_by_the_mark() {
        let mut found = Found { mark: 5, ..Found::default() };
        assert_eq!(found.missing().count(), 0, "somebody emptied the folder");
        found.read("records.jsonl", &[0; 100], true);
        assert_eq!(found.missing().collect::<Vec<_>>(), [(5, 5)]);
        found.read("records.jsonl", &[line(1), line(3)].concat(), true);
        assert_eq!(found.missing().collect::<Vec<_>>(), [(2, 2), (4, 5)]);
        found.mark = 3;
        assert_eq!(found.missing().collect::<Vec<_>>(), [(2, 2)]);
    }

    #[test]
    fn no_number_is_given_twice() {
        assert_eq!(last_and_next(b""), None);
        assert_eq!(last_and_next(&[line(7), line(8)].concat()), Some((8, 9)));
        let mut damaged = [line(7), line(8), line(9)].concat();
        let at = line(7).len() + 30;
        damaged[at] ^= 1;
        damaged[at + line(8).len()] ^= 1;
        let (last, next) = last_and_next(&damaged).unwrap();
        assert!(last == 7 && next >= 10, "8 and 9 were given");
    }
}
