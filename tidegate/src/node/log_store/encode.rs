//! The thread that makes bytes of entries, while the disk is busy with those before.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use tidegate_log::{Append, Entry, SegmentId, Writer};
use tidegate_node::io::Input;
use tidegate_types::record::RefuseReason;
use tokio::sync::mpsc;

use super::CommitCounts;
use super::pending::{Commit, Job, Pending};
use crate::node::contract::Arrival;

/// What the thread is told.
#[derive(Debug)]
pub(super) enum Command {
    Append(Vec<Append>),
    Release(Vec<SegmentId>),
    /// The node's outputs, as segments name them that begin from now on.
    Outputs(Vec<Arc<str>>),
    /// The present segment gets its footer.
    Finish,
}

/// The thread's own.
#[derive(Debug)]
pub(super) struct Encoding {
    pub(super) writer: Writer,
    pub(super) pending: Arc<Pending>,
    pub(super) arrivals: mpsc::Sender<Arrival>,
    pub(super) commits: CommitCounts,
}

impl Encoding {
    /// Until nobody can tell it anything any more.
    pub(super) fn run(mut self, commands: &Receiver<Command>) {
        while let Ok(command) = commands.recv() {
            self.obey(command);
        }
    }

    /// Does what it is told.
    pub(super) fn obey(&mut self, command: Command) {
        // Before anything that the node orders because it heard of a failure.
        if self.pending.take_failure() {
            self.writer.fail();
        }
        match command {
            Command::Append(appends) => {
                let most = self.pending.commit_max();
                commits(&appends, most).for_each(|commit| self.encode(commit));
            }
            Command::Release(segments) => self.pending.tell(Job::Release(segments)),
            Command::Outputs(outputs) => self.writer.name_outputs(outputs),
            Command::Finish => {
                self.writer.finish();
                self.pending.tell(Job::Finish(self.writer.take()));
            }
        }
    }

    fn encode(&mut self, appends: &[Append]) {
        let since = Instant::now();
        // What no segment can take yet fails with the rest: the node begins a new one.
        let mut push = |append: &Append| self.writer.push(append.number, &append.entry).is_ok();
        let is_whole = appends.iter().all(&mut push);
        let numbers = appends.iter().map(|append| append.number).collect();
        let records = records(appends);
        let commit = Commit { numbers, records, writes: self.writer.take(), since };
        let added = if is_whole { self.pending.add(commit) } else { Err(commit) };
        if let Err(Commit { numbers, .. }) = added {
            self.writer.fail();
            self.commits.failed();
            answer_failed(&self.arrivals, numbers);
        }
    }
}

impl Drop for Encoding {
    fn drop(&mut self) {
        self.pending.close();
    }
}

/// Tells the loop that nothing of these is safe. A loop that is gone needs no answer.
pub(super) fn answer_failed(arrivals: &mpsc::Sender<Arrival>, appends: Vec<u64>) {
    let input = Input::AppendFailed { appends, reason: RefuseReason::Storage };
    let _ = arrivals.blocking_send(Arrival::Input(input));
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
    use tidegate_log::{Destinations, FateEntry, LoggedRecord};
    use tidegate_types::record::{Properties, StreamId};
    use tidegate_types::units::Time;

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
            Entry::Fates(FateEntry::default()),
            record(),
            record(),
            Entry::Fates(FateEntry::default()),
            record(),
            record(),
            record(),
            Entry::Fates(FateEntry::default()),
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
