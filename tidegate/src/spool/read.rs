//! The thread that reads a backlog back, a window of a segment at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use tidegate_core::io::Input;
use tidegate_core::log::{Fetch, Fetched, HEADER_MAX, Header, Key, Window, fetch};
use tokio::sync::mpsc;

use super::Folder;
use crate::port::Arrival;

/// Bytes of a window, unless one entry needs more.
const WINDOW: usize = 512 * 1024;
/// How often a read that fails is tried.
const ATTEMPTS: u32 = 3;

/// The thread's own.
pub(super) struct Reader {
    pub(super) folder: Arc<Folder>,
    pub(super) keys: Vec<Key>,
    pub(super) arrivals: mpsc::Sender<Arrival>,
}

impl Reader {
    /// Until nobody asks any more.
    pub(super) fn run(self, orders: &Receiver<Fetch>) {
        while let Ok(order) = orders.recv() {
            let mut read = self.read(&order);
            for _ in 1..ATTEMPTS {
                if read.is_ok() {
                    break;
                }
                read = self.read(&order);
            }
            let fetched = read.unwrap_or_else(|error| {
                if error.kind() != io::ErrorKind::NotFound {
                    let segment = order.segment;
                    tracing::error!(%error, %segment, "a segment of the log cannot be read back");
                }
                // What a whole reading does not find gets its fate from the node.
                Fetched { is_end: true, next: order.from, ..Fetched::default() }
            });
            if self.arrivals.blocking_send(Arrival::Input(Input::Fetched(fetched))).is_err() {
                return;
            }
        }
    }

    fn read(&self, order: &Fetch) -> io::Result<Fetched> {
        read_window(&self.folder.path(order.segment), &self.keys, order)
    }
}

/// Reads what an order wants from the file of its segment.
///
/// # Errors
/// What the system says, or none of the keys opens it.
pub(crate) fn read_window(path: &Path, keys: &[Key], order: &Fetch) -> io::Result<Fetched> {
    let file = File::open(path)?;
    let head = read_at(&file, 0, HEADER_MAX)?;
    let opened = Header::open(&head, keys).map_err(io::Error::other)?;
    let mut length = WINDOW;
    loop {
        let bytes = read_at(&file, u64::from(order.from), length)?;
        let window = Window { from: order.from, bytes: &bytes, is_last: bytes.len() < length };
        let fetched = fetch(&opened, window, &order.streams, order.most);
        match fetched.needs {
            // Twice as many at least: where damage hides how long an entry is, steps of a byte would
            // read the same again and again.
            Some(needs) => length = needs.max(2 * length),
            None => return Ok(fetched),
        }
    }
}

/// So many bytes from a place on, less only at the end of the file.
pub(crate) fn read_at(file: &File, mut from: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], from) {
            Ok(0) => break,
            Ok(read) => (filled, from) = (filled + read, from + read as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
