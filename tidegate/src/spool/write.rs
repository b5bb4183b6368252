//! The thread that writes: what is there goes to the file together and is made safe by one sync.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use tidegate_core::io::Input;
use tidegate_core::log::{Append, Entry, SegmentId, Write, Writer};
use tidegate_core::record::RefuseReason;
use tokio::sync::{mpsc, watch};

use super::reserve::Reserve;
use super::{CommitCounts, Folder};
use crate::port::Arrival;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Command {
    Append(Vec<Append>),
    Release(Vec<SegmentId>),
    /// The present segment gets its footer.
    Finish,
}

/// The thread's own.
pub(super) struct Writing {
    pub(super) folder: Arc<Folder>,
    pub(super) writer: Writer,
    pub(super) commit_max: usize,
    pub(super) commit_delay: Duration,
    /// The segment that grows.
    pub(super) file: Option<File>,
    pub(super) arrivals: mpsc::Sender<Arrival>,
    pub(super) ready: watch::Sender<bool>,
    pub(super) commits: CommitCounts,
    pub(super) reserve: Reserve,
}

impl Writing {
    /// Until nobody can tell it anything any more.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        self.reserve.keep();
        let mut next = commands.recv().ok();
        while let Some(command) = next.take() {
            match command {
                Command::Append(appends) => {
                    let appends = self.gather(appends, commands, &mut next);
                    commits(&appends, self.commit_max).for_each(|commit| self.commit(commit));
                }
                Command::Release(segments) => self.release(&segments),
                Command::Finish => {
                    self.writer.finish();
                    if let Err(error) = self.write(&mut Vec::new()) {
                        // Nothing is lost: a segment without a footer is read whole.
                        tracing::warn!(%error, "the log's last segment has no footer");
                    }
                }
            }
            next = next.or_else(|| commands.recv().ok());
        }
    }

    /// What goes with the first entries in one commit: all that is there, and what comes within the delay,
    /// up to the maximum. Another command ends it and is left in `next`.
    fn gather(
        &self,
        mut appends: Vec<Append>,
        commands: &Receiver<Command>,
        next: &mut Option<Command>,
    ) -> Vec<Append> {
        let until = Instant::now() + self.commit_delay;
        while records(&appends) < self.commit_max {
            let wait = until.saturating_duration_since(Instant::now());
            match commands.recv_timeout(wait) {
                Ok(Command::Append(more)) => appends.extend(more),
                Ok(other) => {
                    *next = Some(other);
                    break;
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        appends
    }

    /// One write and one sync.
    fn commit(&mut self, appends: &[Append]) {
        let begun = Instant::now();
        let mut is_whole = true;
        for Append { number, entry } in appends {
            // What no segment can take yet fails with the rest: the node begins a new one.
            is_whole &= self.writer.push(*number, entry).is_ok();
        }
        let mut made = Vec::new();
        let written =
            if is_whole { self.write(&mut made) } else { Err(io::ErrorKind::Other.into()) };
        let input = match written {
            Ok(()) => {
                self.commits.committed(appends.len(), begun.elapsed());
                Input::Appended { upto: appends.last().map_or(0, |append| append.number) }
            }
            Err(error) => {
                if is_whole {
                    tracing::error!(%error, "the log cannot be written");
                }
                self.commits.failed();
                self.writer.fail();
                self.file = None;
                // Nothing in them was acknowledged. A disk that stays full would collect one a second.
                made.into_iter().for_each(|segment| self.delete(segment));
                self.reserve.give(&error);
                let appends = appends.iter().map(|append| append.number).collect();
                Input::AppendFailed { appends, reason: RefuseReason::Storage }
            }
        };
        let is_safe = matches!(input, Input::Appended { .. });
        // A loop that is gone needs no answer.
        let _ = self.arrivals.blocking_send(Arrival::Input(input));
        if is_safe {
            // Only now: who offers a record because of this comes behind the answer.
            self.ready.send_replace(true);
        }
    }

    /// Writes what the writer has, and makes it safe; notes the segments whose files it makes.
    fn write(&mut self, made: &mut Vec<SegmentId>) -> io::Result<()> {
        for Write { segment, is_new, bytes } in self.writer.take() {
            if is_new {
                if let Some(finished) = self.file.take() {
                    finished.sync_data()?;
                }
                let path = self.folder.path(segment);
                let file =
                    OpenOptions::new().create_new(true).append(true).mode(0o600).open(path)?;
                made.push(segment);
                self.folder.sync()?;
                self.file = Some(file);
            }
            let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
            file.write_all(&bytes)?;
        }
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    fn release(&self, segments: &[SegmentId]) {
        segments.iter().for_each(|&segment| self.delete(segment));
        self.reserve.keep();
    }

    fn delete(&self, segment: SegmentId) {
        match fs::remove_file(self.folder.path(segment)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, %segment, "a segment that nothing needs stays");
            }
            _ => {}
        }
    }
}

/// How many of the entries somebody waits for.
fn records(appends: &[Append]) -> usize {
    appends.iter().filter(|append| is_record(append)).count()
}

fn is_record(append: &Append) -> bool {
    matches!(append.entry, Entry::Record(_))
}

/// The entries in commits of so many records at most. What the node writes beside them, fates above all,
/// goes along: it is not worth a sync of its own.
fn commits(mut appends: &[Append], most: usize) -> impl Iterator<Item = &[Append]> {
    std::iter::from_fn(move || {
        let one_too_many = appends.iter().enumerate().filter(|(_, append)| is_record(append));
        let end = one_too_many.map(|(place, _)| place).nth(most).unwrap_or(appends.len());
        let (commit, rest) = appends.split_at(end);
        appends = rest;
        (!commit.is_empty()).then_some(commit)
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidegate_core::log::{Destinations, Fated, LoggedRecord};
    use tidegate_core::record::{Properties, StreamId};
    use tidegate_core::units::Time;

    use super::*;

    fn record() -> Entry {
        Entry::Record(Box::new(LoggedRecord {
            stream: StreamId(1),
            seq: 1,
            destinations: Destinations(1),
            arrived: Time::ZERO,
            deadline: Time::ZERO,
            expires: None,
            wall: None,
            source_unix_ns: None,
            class: "ls".into(),
            key: Bytes::new(),
            properties: Properties::default(),
            payload: Bytes::new(),
            foreign: None,
            packet: None,
        }))
    }

    #[test]
    fn what_is_beside_records_costs_no_commit() {
        let entries = [
            Entry::Fates(Fated::default()),
            record(),
            record(),
            Entry::Fates(Fated::default()),
            record(),
            record(),
            record(),
            Entry::Fates(Fated::default()),
        ];
        let append = |(number, entry)| Append { number, entry };
        let appends: Vec<Append> = (1..).zip(entries).map(append).collect();
        let of = |most| commits(&appends, most).map(<[Append]>::len).collect::<Vec<_>>();
        assert_eq!(records(&appends), 5);
        assert_eq!((of(1), of(2)), (vec![2, 2, 1, 1, 2], vec![4, 2, 2]));
        assert_eq!((of(5), of(9)), (vec![8], vec![8]));
        assert_eq!(commits(&[], 1).count(), 0);
    }
}
