//! The spool without its threads: each does what it would, when it is told to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate_log::{Fetched, Key, LogName, Recovery, SegmentId, Writer};
use tidegate_node::io::{Append, Fetch, Input};
use tokio::sync::{mpsc, watch};

use crate::node::contract::Arrival;
use crate::node::log_store::encode::{Command, Encoding};
use crate::node::log_store::folder::open_on;
use crate::node::log_store::pending::Pending;
use crate::node::log_store::read::Reader;
use crate::node::log_store::reserve::Reserve;
use crate::node::log_store::write::Writing;
use crate::node::log_store::{CommitCounts, Folder, SpoolOptions, damaged_ranges};
use crate::support::disk::model::Memory;

/// Where the log is.
pub(super) const LOG: &str = "/log";

/// Answers on their way; more are never unread.
const ANSWERS: usize = 4096;

#[derive(Debug)]
pub(super) struct Machine {
    encoding: Encoding,
    pending: Arc<Pending>,
    writing: Writing,
    reader: Reader,
    arrivals: mpsc::Receiver<Arrival>,
}

/// A log that was opened.
pub(super) struct Begun {
    folder: Folder,
    pub(super) recovery: Recovery,
    pub(super) incarnation: u64,
}

/// Opens the log as a start does.
pub(super) fn open(disk: &Memory, options: &SpoolOptions, boot: u64) -> std::io::Result<Begun> {
    use crate::support::disk::Disk;
    disk.make_folder(&options.directory, 0)?;
    let opened = open_on(Arc::new(disk.clone()), None, options, "gate", (5, boot));
    let opened = opened.map_err(std::io::Error::other)?;
    Ok(Begun { folder: opened.folder, recovery: opened.recovery, incarnation: opened.incarnation })
}

pub(super) fn options(commit_max: usize, keys: Vec<Key>) -> SpoolOptions {
    SpoolOptions {
        directory: PathBuf::from(LOG),
        keys,
        commit_max,
        commit_delay: Duration::ZERO,
        standby: false,
    }
}

impl Machine {
    pub(super) fn new(begun: Begun, name: LogName, options: &SpoolOptions) -> Machine {
        let Begun { folder, recovery, .. } = begun;
        let (sender, arrivals) = mpsc::channel(ANSWERS);
        let commits = CommitCounts::new(damaged_ranges(&recovery), folder.quarantined());
        let reserve = Reserve::new(folder.shared_disk(), folder.reserve());
        reserve.keep(0);
        let folder = Arc::new(folder);
        let pending = Arc::new(Pending::new(options.commit_max, options.commit_delay));
        let encoding = Encoding {
            writer: Writer::new(name, &options.keys),
            pending: pending.clone(),
            arrivals: sender.clone(),
            commits: commits.clone(),
        };
        let reader = Reader {
            folder: folder.clone(),
            keys: options.keys.clone(),
            arrivals: sender.clone(),
            commits: commits.clone(),
        };
        let writing = Writing {
            folder,
            pending: pending.clone(),
            file: None,
            arrivals: sender,
            ready: watch::channel(false).0,
            safe: watch::channel(recovery.segments).0,
            commits,
            reserve,
        };
        Machine { encoding, pending, writing, reader, arrivals }
    }

    pub(super) fn append(&mut self, appends: Vec<Append>) {
        self.encoding.obey(Command::Append(appends));
    }

    pub(super) fn release(&mut self, segments: Vec<SegmentId>) {
        self.encoding.obey(Command::Release(segments));
    }

    pub(super) fn fetch(&self, order: &Fetch) -> Fetched {
        self.reader.fetch(order)
    }

    /// One job of the thread that writes; false if there is none.
    pub(super) fn write(&mut self) -> bool {
        let is_busy = !self.pending.is_idle();
        if is_busy && let Some(job) = self.pending.next() {
            self.writing.work(job);
        }
        is_busy
    }

    /// What the threads have told the node.
    pub(super) fn hear(&mut self) -> Option<Input> {
        match self.arrivals.try_recv().ok()? {
            Arrival::Input(input) => Some(input),
            other => panic!("the spool says {other:?}"),
        }
    }
}
