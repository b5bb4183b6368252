//! The thread that reads a backlog back, a window of a segment at a time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tidegate_log::{Fetch, Fetched, HEADER_MAX, Header, Key, SegmentWindow, fetch};
use tidegate_node::io::Input;
use tokio::sync::mpsc;

use super::{CommitCounts, Folder};
use crate::disk::{Disk, How, read_at};
use crate::port::Arrival;

/// Bytes of a window, unless one entry needs more.
const WINDOW: usize = 512 * 1024;
/// How often a read that fails is tried.
const ATTEMPTS: u32 = 3;

/// The thread's own.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) folder: Arc<Folder>,
    pub(super) keys: Vec<Key>,
    pub(super) arrivals: mpsc::Sender<Arrival>,
    pub(super) commits: CommitCounts,
}

impl Reader {
    /// Until nobody asks any more.
    pub(super) fn run(self, orders: &Receiver<Fetch>) {
        while let Ok(order) = orders.recv() {
            let fetched = self.fetch(&order);
            if self.arrivals.blocking_send(Arrival::Input(Input::Fetched(fetched))).is_err() {
                return;
            }
        }
    }

    /// What an order wants; damage that it meets is named once, and its file kept for people.
    pub(super) fn fetch(&self, order: &Fetch) -> Fetched {
        let mut read = self.read(order);
        for _ in 1..ATTEMPTS {
            if read.is_ok() {
                break;
            }
            read = self.read(order);
        }
        let segment = order.segment;
        let fetched = read.unwrap_or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                tracing::error!(%error, %segment, "a segment of the log cannot be read back");
                self.note(order);
            }
            // What a whole reading does not find gets its fate from the node.
            Fetched { is_end: true, next: order.from, ..Fetched::default() }
        });
        if let Some((from, to)) = fetched.damaged
            && self.note(order)
        {
            tracing::error!(%segment, from, to, "the log is damaged here: left out, the rest is used");
        }
        fetched
    }

    fn note(&self, order: &Fetch) -> bool {
        let is_new = self.folder.note_damage(order.segment);
        if is_new {
            self.commits.damaged();
        }
        is_new
    }

    fn read(&self, order: &Fetch) -> io::Result<Fetched> {
        let path = self.folder.path(order.segment);
        read_window(self.folder.disk(), &path, &self.keys, order)
    }
}

/// Reads what an order wants from the file of its segment.
///
/// # Errors
/// What the system says, or none of the keys opens it.
pub(crate) fn read_window(
    disk: &dyn Disk,
    path: &Path,
    keys: &[Key],
    order: &Fetch,
) -> io::Result<Fetched> {
    let file = disk.open(path, How::Read)?;
    let head = read_at(&*file, 0, HEADER_MAX)?;
    let opened = Header::open(&head, keys).map_err(io::Error::other)?;
    if opened.header.segment != order.segment {
        // It has none of the records of this one.
        return Ok(Fetched { is_end: true, next: order.from, ..Fetched::default() });
    }
    let mut length = WINDOW;
    loop {
        let bytes = read_at(&*file, u64::from(order.from), length)?;
        let window =
            SegmentWindow { from: order.from, bytes: &bytes, is_last: bytes.len() < length };
        let fetched = fetch(&opened, window, &order.streams, order.most);
        match fetched.needs {
            // Twice as many at least: where damage hides how long an entry is, steps of a byte would
            // read the same again and again.
            Some(needs) => length = needs.max(2 * length),
            None => return Ok(fetched),
        }
    }
}
