//! The spool: the files of the log.
//!
//! The node decides what is written, read back and deleted; the `log` crate turns it into bytes. Here are
//! the folder, its lock, and threads, so that nobody else waits for the disk: `encode` makes bytes of
//! entries, `write` commits in groups all that is there (`pending` stands between them), `read` fetches a
//! backlog, and none ever waits for another.

mod counts;
mod encode;
pub(crate) mod folder;
#[cfg(test)]
mod folder_tests;
pub(crate) mod growing;
mod lock;
pub(crate) mod look;
mod pending;
mod quarantine;
pub(crate) mod read;
pub(crate) mod reserve;
#[cfg(test)]
mod trial;
mod write;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tidegate_log::mirror::SegmentLengths;
use tidegate_log::{
    Append, Damage, DamageKind, Fetch, Key, LogError, LogName, Recovery, SegmentId, Writer,
};
use tokio::sync::watch;

use self::encode::Command;
use self::pending::Pending;
use self::reserve::Reserve;
use crate::node::contract::Arrival;
pub use counts::{CommitCounts, Commits};
pub use folder::{Folder, Opened, open};

/// Where a log is, and how it is written.
#[derive(Clone, Debug)]
pub struct SpoolOptions {
    /// The folder of its segments; made if it is not there.
    pub directory: PathBuf,
    /// The first key seals, each of them opens; none: nothing is sealed.
    pub keys: Vec<Key>,
    /// Records that one commit takes at most; other entries go along.
    pub commit_max: usize,
    /// How long a commit waits for more entries than the first. What comes while the disk is busy goes
    /// together in any case.
    pub commit_delay: Duration,
    /// Whether to wait for another process that holds the log, to take over when it ends.
    pub standby: bool,
}

/// Why a log cannot be used. Nothing in it was changed.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The system refuses.
    #[error("log: could not {doing} {}: {source}{}", .path.display(), cure(.source))]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Another process writes it.
    #[error(
        "log: another process uses {}: stop it, choose another [log] directory, or set \
         standby = true to take over when it ends",
        .0.display()
    )]
    InUse(PathBuf),
    /// It is of another node.
    #[error(
        "log: {} belongs to the node {found:?} and this one is called {expected:?}: correct [node] \
         name or choose another [log] directory",
        .directory.display()
    )]
    OfAnother {
        /// The folder.
        directory: PathBuf,
        /// Whose it is.
        found: String,
        /// Who asks.
        expected: String,
    },
    /// Its segments say that it must not be used.
    #[error("log: {}: {source}{}", .directory.display(), cause(.source))]
    Log {
        /// The folder.
        directory: PathBuf,
        /// What they say.
        source: LogError,
    },
}

fn cure(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ": give it to the user that the node runs as (chown), or choose another [log] directory"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ": mount it writable, or choose another [log] directory"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": make room there, or choose another [log] directory"
        }
        io::ErrorKind::NotADirectory => ": a file stands where a folder must be",
        _ => "",
    }
}

fn cause(error: &LogError) -> String {
    match error {
        LogError::Unusable { source, .. } => format!(": {source}"),
        LogError::Foreign { .. } => String::new(),
    }
}

/// The running spool. Dropping it ends the threads as soon as they have done what they were told.
#[derive(Debug)]
pub struct Spool {
    encode: mpsc::Sender<Command>,
    read: mpsc::Sender<Fetch>,
    encoding: JoinHandle<()>,
    writing: JoinHandle<()>,
    reading: JoinHandle<()>,
    /// True from the first commit on.
    is_ready: watch::Receiver<bool>,
    /// What is safe on disk.
    lengths: watch::Receiver<SegmentLengths>,
    commits: CommitCounts,
}

/// A log as it is when writing begins.
#[derive(Debug)]
pub struct Beginning {
    /// Its folder.
    pub folder: Folder,
    /// What new segments are called by.
    pub name: LogName,
    /// Its segments, and what there is of each.
    pub lengths: SegmentLengths,
}

impl Spool {
    /// Starts the threads. `arrivals` leads to the loop of the node.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        beginning: Beginning,
        options: &SpoolOptions,
        commits: CommitCounts,
        arrivals: tokio::sync::mpsc::Sender<Arrival>,
    ) -> io::Result<Spool> {
        let Beginning { folder, name, lengths } = beginning;
        let (encode, commands) = mpsc::channel();
        let (read, orders) = mpsc::channel();
        let (ready, is_ready) = watch::channel(false);
        let (safe, lengths) = watch::channel(lengths);
        let reserve = Reserve::new(folder.shared_disk(), folder.reserve());
        let folder = Arc::new(folder);
        let reader = read::Reader {
            folder: folder.clone(),
            keys: options.keys.clone(),
            arrivals: arrivals.clone(),
            commits: commits.clone(),
        };
        let pending = Arc::new(Pending::new(options.commit_max, options.commit_delay));
        let encoder = encode::Encoding {
            writer: Writer::new(name, &options.keys),
            pending: pending.clone(),
            arrivals: arrivals.clone(),
            commits: commits.clone(),
        };
        let writer = write::Writing {
            folder,
            pending,
            file: None,
            arrivals,
            ready,
            safe,
            commits: commits.clone(),
            reserve,
        };
        let named = |name: &str| std::thread::Builder::new().name(name.into());
        let reading = named("log-read").spawn(move || reader.run(&orders))?;
        let encoding = named("log-encode").spawn(move || encoder.run(&commands))?;
        let writing = named("log-write").spawn(move || writer.run())?;
        Ok(Spool { encode, read, encoding, writing, reading, is_ready, lengths, commits })
    }

    /// Whether something was committed: waits for it through the receiver.
    pub fn is_ready(&self) -> watch::Receiver<bool> {
        self.is_ready.clone()
    }

    /// What is safe on disk, after each commit.
    pub fn lengths(&self) -> watch::Receiver<SegmentLengths> {
        self.lengths.clone()
    }

    /// What its commits count.
    pub fn commits(&self) -> CommitCounts {
        self.commits.clone()
    }

    /// Writes entries; the loop hears `Appended` or `AppendFailed`.
    pub fn append(&self, appends: Vec<Append>) {
        // A thread that is gone has panicked, and `finish` tells.
        let _ = self.encode.send(Command::Append(appends));
    }

    /// Deletes segments.
    pub fn release(&self, segments: Vec<SegmentId>) {
        let _ = self.encode.send(Command::Release(segments));
    }

    /// Segments that begin from now on name these outputs.
    pub fn name_outputs(&self, outputs: Vec<Arc<str>>) {
        let _ = self.encode.send(Command::Outputs(outputs));
    }

    /// Reads records back; the loop hears `Fetched`.
    pub fn fetch(&self, order: Fetch) {
        let _ = self.read.send(order);
    }

    /// Finishes the present segment and waits until it is safe, and until the folder is free for the next process.
    pub async fn finish(self) {
        let Spool { encode, read, encoding, writing, reading, .. } = self;
        let _ = encode.send(Command::Finish);
        drop((encode, read));
        let join = move || encoding.join().and(writing.join()).and(reading.join());
        let joined = tokio::task::spawn_blocking(join);
        joined.await.expect("a join does not panic").expect("the spool's threads do not panic");
    }
}

/// Damaged places that a start met; a torn end, which every crash may leave, is none.
pub fn damaged_ranges(recovery: &Recovery) -> u64 {
    let is_damage = |damage: &&Damage| damage.verdict != DamageKind::Torn;
    recovery.damage.iter().filter(is_damage).count() as u64 + recovery.more_damage
}

/// What damage means for the operator, one line each; nothing for what a crash leaves by itself.
pub fn tell_damage(recovery: &Recovery) {
    for damage in &recovery.damage {
        let (segment, from, to) = (damage.segment, damage.from, damage.to);
        match damage.verdict {
            DamageKind::Torn => {
                tracing::info!(%segment, from, to, "the log's torn end is left out")
            }
            DamageKind::Corrupt => {
                tracing::error!(%segment, from, to, "the log is damaged here: left out, the rest is used");
            }
            DamageKind::Header => {
                tracing::error!(%segment, "a segment of the log cannot be read at all");
            }
            DamageKind::Spare => {
                tracing::error!(%segment, "one copy of a segment's header is damaged: the other is used");
            }
            DamageKind::Other => {
                tracing::error!(%segment, "the file of a segment holds another one: it is not used");
            }
            DamageKind::Moved => {
                tracing::error!(%segment, "the file of a segment holds another one: that is read here");
            }
            DamageKind::Missing => {
                tracing::error!(%segment, "a segment of the log is gone: what it held is lost");
            }
        }
    }
    if recovery.more_damage > 0 {
        tracing::error!(places = recovery.more_damage, "the log is damaged in more places");
    }
}
