//! Files to one sequence of records, each with the time when it is due; a line at a time, on a thread
//! of its own, for files block.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::error::ReplayError;
use super::options::ReplayFile;
use super::parser::Parser;
use super::row::RowError;

/// Longest line.
const LINE_MAX: usize = 1024 * 1024;
/// Records that cross to the replay at a time.
const BATCH: usize = 128;
/// Shortest pause between the last record of a lap and the first of the next one.
const LAP_GAP_MIN: Duration = Duration::from_millis(1);

/// A record of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Since the beginning of the replay, in recorded time.
    pub due: Duration,
    /// When it was recorded, in nanoseconds since the Unix epoch.
    pub recorded: u64,
    /// Its topic.
    pub key: Bytes,
    /// Its payload.
    pub payload: Bytes,
}

/// What the reading thread sends.
pub(super) type Batch = Result<Vec<Item>, ReplayError>;

/// Reads all files, again and again if `repeat`, until the receiver is gone.
pub(super) fn read_all(files: &[ReplayFile], repeat: bool, to: &mpsc::Sender<Batch>) {
    let mut start = Duration::ZERO;
    loop {
        let lap = Lap::open(files, start).and_then(|lap| lap.read(to));
        match lap {
            Ok(Some(next)) if repeat && next > start => start = next,
            Ok(_) => return,
            Err(error) => {
                // The receiver may be gone, and then nobody asks for the error.
                let _ = to.blocking_send(Err(error));
                return;
            }
        }
    }
}

/// One time through all files.
struct Lap {
    tracks: Vec<Track>,
    start: Duration,
}

impl Lap {
    fn open(files: &[ReplayFile], start: Duration) -> Result<Self, ReplayError> {
        let tracks = files.iter().map(|file| Track::open(file, start));
        Ok(Lap { tracks: tracks.collect::<Result<_, _>>()?, start })
    }

    /// Sends everything in the order of time. Returns when the next lap begins; `None` if nobody listens
    /// or there is no record.
    fn read(mut self, to: &mpsc::Sender<Batch>) -> Result<Option<Duration>, ReplayError> {
        let mut batch = Vec::with_capacity(BATCH);
        let (mut count, mut last) = (0_u32, self.start);
        while let Some(item) = self.next()? {
            count = count.saturating_add(1);
            last = item.due;
            batch.push(item);
            if batch.len() == BATCH
                && to
                    .blocking_send(Ok(std::mem::replace(&mut batch, Vec::with_capacity(BATCH))))
                    .is_err()
            {
                return Ok(None);
            }
        }
        if count == 0 || !batch.is_empty() && to.blocking_send(Ok(batch)).is_err() {
            return Ok(None);
        }
        let mean_gap = (last - self.start) / count;
        Ok(Some(last + mean_gap.max(LAP_GAP_MIN)))
    }

    /// The earliest record of all files.
    fn next(&mut self) -> Result<Option<Item>, ReplayError> {
        let waiting = self.tracks.iter_mut().filter(|track| track.next.is_some());
        let Some(track) = waiting.min_by_key(|track| track.next.as_ref().map(|item| item.due))
        else {
            return Ok(None);
        };
        let item = track.next.take();
        track.advance()?;
        Ok(item)
    }
}

/// One open file.
struct Track {
    file: ReplayFile,
    stem: String,
    lines: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    parser: Parser,
    start: Duration,
    /// Recorded time of the first row: files are replayed side by side, each on its own clock.
    first: Option<u64>,
    last: Duration,
    next: Option<Item>,
}

impl Track {
    fn open(file: &ReplayFile, start: Duration) -> Result<Self, ReplayError> {
        let opened = File::open(&file.path)
            .map_err(|source| ReplayError::Read { file: file.path.clone(), source })?;
        let stem = file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut track = Track {
            file: file.clone(),
            stem,
            lines: BufReader::new(opened),
            line: Vec::new(),
            number: 0,
            parser: Parser::new(file.rules.format),
            start,
            first: None,
            last: start,
            next: None,
        };
        track.advance()?;
        Ok(track)
    }

    /// Reads up to the next row.
    fn advance(&mut self) -> Result<(), ReplayError> {
        while self.read_line()? {
            let wrong = |source| ReplayError::Row {
                file: self.file.path.clone(),
                line: self.number,
                source,
            };
            if self.line.len() > LINE_MAX {
                return Err(wrong(RowError::TooLong(LINE_MAX)));
            }
            let parsed =
                self.parser.line(&self.line, &self.file.rules, &self.stem).map_err(wrong)?;
            let Some(row) = parsed else { continue };
            let first = *self.first.get_or_insert(row.time);
            // A row that goes back in time is due with the one before it: order is the file's.
            let due = self.start + Duration::from_nanos(row.time.saturating_sub(first));
            self.last = self.last.max(due);
            self.next = Some(Item {
                due: self.last,
                recorded: row.time,
                key: row.key.into(),
                payload: row.payload.into(),
            });
            return Ok(());
        }
        Ok(())
    }

    /// Reads one line, but never much more than `LINE_MAX`; false at the end.
    fn read_line(&mut self) -> Result<bool, ReplayError> {
        self.line.clear();
        self.number += 1;
        let mut bounded = (&mut self.lines).take(LINE_MAX as u64 + 1);
        let read = bounded.read_until(b'\n', &mut self.line);
        read.map(|count| count > 0)
            .map_err(|source| ReplayError::Read { file: self.file.path.clone(), source })
    }
}
