//! Bytes that clients make a process hold: each is taken from here before it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Room {
    max: u64,
    used: AtomicU64,
}

/// Bytes that were taken; they are given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<Room>,
    bytes: u64,
}

impl Room {
    /// Room for so many bytes.
    pub(crate) fn new(max: u64) -> Arc<Room> {
        Arc::new(Room { max, used: AtomicU64::new(0) })
    }

    /// So many bytes, unless there are no more as many.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Share { room: self.clone(), bytes })
    }

    /// Bytes that are taken now.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Gives back what is more than so many bytes.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let more = self.bytes.saturating_sub(bytes);
        self.bytes -= more;
        self.room.used.fetch_sub(more, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let room = Room::new(10);
        let mut first = room.take(8).unwrap();
        assert!(room.take(3).is_none());
        assert!(room.take(u64::MAX).is_none(), "a sum that overflows does not fit");
        first.shrink(2);
        let second = room.take(8).unwrap();
        assert_eq!(room.used(), 10);
        drop((first, second));
        assert_eq!(room.used(), 0);
    }
}
