//! The thread that writes: what is there goes to the file together and is made safe by one sync.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use tidegate_log::mirror::SegmentLengths;
use tidegate_log::{SegmentId, SegmentWrite};
use tidegate_node::io::Input;
use tidegate_types::units::Size;
use tokio::sync::{mpsc, watch};

use super::encode::answer_failed;
use super::growing::Growing;
use super::pending::{Commit, Job, Pending};
use super::reserve::Reserve;
use super::{CommitCounts, Folder};
use crate::node::contract::Arrival;

/// The thread's own.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) folder: Arc<Folder>,
    pub(super) pending: Arc<Pending>,
    /// The segment that grows.
    pub(super) file: Option<(SegmentId, Growing)>,
    pub(super) arrivals: mpsc::Sender<Arrival>,
    pub(super) ready: watch::Sender<bool>,
    /// What is safe on disk, for who copies it.
    pub(super) safe: watch::Sender<SegmentLengths>,
    pub(super) commits: CommitCounts,
    pub(super) reserve: Reserve,
}

impl Writing {
    /// Until nothing more comes.
    pub(super) fn run(mut self) {
        self.reserve.keep(0);
        while let Some(job) = self.pending.next() {
            self.work(job);
        }
    }

    /// Does one job.
    pub(super) fn work(&mut self, job: Job) {
        match job {
            Job::Commit(commit) => self.commit(commit),
            Job::Release(segments) => self.release(&segments),
            Job::Finish(writes) => {
                let written = self.write(writes, &mut Vec::new());
                self.tell_length();
                if let Err(error) = written.and_then(|()| self.finish()) {
                    // Nothing is lost: a segment without a footer is read whole.
                    tracing::warn!(%error, "the log's last segment has no footer");
                }
            }
        }
    }

    /// One write and one sync; the answer only then.
    fn commit(&mut self, commit: Commit) {
        let begun = Instant::now();
        let Commit { mut numbers, writes, .. } = commit;
        let mut made = Vec::new();
        if let Err(error) = self.write(writes, &mut made) {
            tracing::error!(%error, "the log cannot be written");
            self.commits.failed();
            numbers.extend(self.pending.fail());
            // What is left of the segment is read as far as it is whole.
            self.file.take().iter_mut().for_each(|(_, file)| file.cut());
            // Nothing in them was acknowledged. A disk that stays full would collect one a second.
            made.into_iter().for_each(|segment| self.delete(segment));
            self.reserve.give(&error);
            answer_failed(&self.arrivals, numbers);
            return;
        }
        self.tell_length();
        self.commits.committed(numbers.len(), begun.elapsed());
        let upto = numbers.last().copied().unwrap_or(0);
        // A loop that is gone needs no answer.
        let _ = self.arrivals.blocking_send(Arrival::Input(Input::Appended { upto }));
        // Only now: who offers a record because of this comes behind the answer.
        self.ready.send_replace(true);
    }

    /// The segment that grows is safe up to its end.
    fn tell_length(&self) {
        let Some((segment, file)) = &self.file else { return };
        self.safe.send_modify(|safe| {
            safe.insert(*segment, Size(file.end()));
        });
    }

    /// Writes, and makes it safe; notes the segments whose files it makes.
    fn write(&mut self, writes: Vec<SegmentWrite>, made: &mut Vec<SegmentId>) -> io::Result<()> {
        for SegmentWrite { segment, is_new, bytes } in writes {
            if is_new {
                self.finish()?;
                let path = self.folder.path(segment);
                self.file = Some((segment, Growing::create(self.folder.disk(), &path)?));
                made.push(segment);
                self.folder.sync()?;
            }
            self.file.as_mut().ok_or(io::ErrorKind::NotFound)?.1.write(&bytes)?;
        }
        self.file.as_ref().map_or(Ok(()), |(_, file)| file.sync())
    }

    /// Nothing more goes into the segment that grows: its room goes, and what it has is made safe.
    fn finish(&mut self) -> io::Result<()> {
        let Some((_, mut file)) = self.file.take() else { return Ok(()) };
        file.cut();
        file.sync()
    }

    fn release(&self, segments: &[SegmentId]) {
        segments.iter().for_each(|&segment| self.delete(segment));
        self.safe.send_modify(|safe| safe.retain(|segment, _| !segments.contains(segment)));
        self.reserve.keep(0);
    }

    fn delete(&self, segment: SegmentId) {
        match self.folder.discard(segment) {
            Ok(true) => self.commits.quarantined(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, %segment, "a segment that nothing needs stays");
            }
            _ => {}
        }
    }
}
