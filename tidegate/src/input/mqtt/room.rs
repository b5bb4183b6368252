//! Room for packets that are larger than what every connection may hold, until they are complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidegate_types::account::{Account, Kind, Refusal, Reservation};
use tokio::sync::Notify;
use tokio::time::timeout;

/// How often who waits looks again: room may come from what is no packet.
const LOOK: Duration = Duration::from_millis(100);

/// Who waits for room of an account. All connections of a listener share it.
#[derive(Debug, Default)]
pub(super) struct Room {
    freed: Notify,
    waiting: AtomicUsize,
}

/// Room for one packet, which others may wait for.
#[derive(Debug)]
pub(super) struct Held {
    room: Arc<Room>,
    /// `None` only while it is dropped.
    reserved: Option<Reservation>,
}

/// Counts who waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Room {
    /// Room for so many bytes, if there is any.
    pub(super) fn take(self: &Arc<Self>, account: &Account, bytes: usize) -> Result<Held, Refusal> {
        let reserved = account.reserve(Kind::Packets, bytes)?;
        Ok(Held { room: self.clone(), reserved: Some(reserved) })
    }

    /// Waits for it. Cancel-safe.
    pub(super) async fn wait(self: &Arc<Self>, account: &Account, bytes: usize) -> Held {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(&self.waiting);
        loop {
            let mut freed = std::pin::pin!(self.freed.notified());
            freed.as_mut().enable();
            if let Ok(held) = self.take(account, bytes) {
                return held;
            }
            // Either way it looks again.
            let _ = timeout(LOOK, freed).await;
        }
    }

    /// Whether anybody waits.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.reserved = None;
        if self.room.is_awaited() {
            self.room.freed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_gets_what_is_given_back() {
        let (room, account) = (Arc::new(Room::default()), Account::new(100));
        let held = room.take(&account, 60).unwrap();
        assert!(room.take(&account, 60).is_err() && !room.is_awaited());
        {
            let mut waits = std::pin::pin!(room.wait(&account, 60));
            tokio::select! {
                biased;
                _ = &mut waits => panic!("there is no room"),
                () = tokio::task::yield_now() => {}
            }
            assert!(room.is_awaited());
            drop(held);
            let held = waits.await;
            assert_eq!(account.used(), 60);
            drop(held);
        }
        assert!(!room.is_awaited() && account.used() == 0);
    }
}
