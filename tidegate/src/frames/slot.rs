//! What waits for one subscriber: the newest frame and what it must hear. A slow one skips frames, and holds
//! up nobody.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::wire::{FrameMessage, ReplyKind};

/// Frames of a replay that wait: a replay skips nothing.
const REPLAYED_MAX: usize = 2;
/// Changes that a subscriber has not heard: the older ones do not matter.
const NEWS_MAX: usize = 4;

/// A subscriber's place.
#[derive(Debug, Default)]
pub(super) struct Slot {
    state: Mutex<State>,
    changed: Notify,
    /// A frame of a replay was taken.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    frames: VecDeque<FrameMessage>,
    news: VecDeque<ReplyKind>,
    /// Since the last frame that it took.
    skipped_since: u64,
    /// In all.
    skipped: u64,
    is_closed: bool,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A frame as it was taken: it replaces one that still waits.
    pub(super) fn put(&self, frame: FrameMessage) {
        let mut state = self.lock();
        let waits = state.frames.len() as u64;
        state.frames.clear();
        state.skipped_since += waits;
        state.skipped += waits;
        state.frames.push_back(frame);
        drop(state);
        self.changed.notify_one();
    }

    /// A stored frame: waits for room.
    pub(super) async fn put_all(&self, frame: FrameMessage) {
        loop {
            let room = self.room.notified();
            {
                let mut state = self.lock();
                if state.is_closed {
                    return;
                }
                if state.frames.len() < REPLAYED_MAX {
                    state.frames.push_back(frame);
                    break;
                }
            }
            room.await;
        }
        self.changed.notify_one();
    }

    /// Something to hear.
    pub(super) fn tell(&self, news: ReplyKind) {
        let mut state = self.lock();
        if state.news.len() >= NEWS_MAX {
            state.news.pop_front();
        }
        state.news.push_back(news);
        drop(state);
        self.changed.notify_one();
    }

    /// Nothing follows but what waits.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
        self.room.notify_one();
    }

    /// Frames that it was too slow for.
    pub(super) fn skipped(&self) -> u64 {
        self.lock().skipped
    }

    /// The next thing; `None` when it is closed.
    pub(super) async fn next(&self) -> Option<ReplyKind> {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                if let Some(news) = state.news.pop_front() {
                    return Some(news);
                }
                if let Some(mut frame) = state.frames.pop_front() {
                    frame.skipped = std::mem::take(&mut state.skipped_since);
                    self.room.notify_one();
                    return Some(ReplyKind::Frame(frame));
                }
                if state.is_closed {
                    return None;
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::FeasibleMessage;
    use super::*;

    fn frame(frame: u64) -> FrameMessage {
        FrameMessage { frame, ..FrameMessage::default() }
    }

    async fn next(slot: &Slot) -> (u64, u64) {
        match slot.next().await {
            Some(ReplyKind::Frame(frame)) => (frame.frame, frame.skipped),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_slow_subscriber_gets_the_newest_frame_and_hears_what_it_missed() {
        let slot = Slot::default();
        (1..=4).for_each(|number| slot.put(frame(number)));
        slot.tell(ReplyKind::Feasible(FeasibleMessage {}));
        assert!(matches!(slot.next().await, Some(ReplyKind::Feasible(_))));
        assert_eq!(next(&slot).await, (4, 3));
        slot.put(frame(5));
        slot.close();
        assert_eq!(next(&slot).await, (5, 0));
        assert_eq!(slot.next().await, None);
        assert_eq!(slot.skipped(), 3);
    }

    #[tokio::test]
    async fn a_replay_waits_for_room_and_skips_nothing() {
        let slot = Slot::default();
        slot.put_all(frame(1)).await;
        slot.put_all(frame(2)).await;
        let (_, first) = tokio::join!(slot.put_all(frame(3)), next(&slot));
        assert_eq!(first.0, 1);
        assert_eq!((next(&slot).await.0, next(&slot).await.0), (2, 3));
        slot.put_all(frame(4)).await;
        slot.put_all(frame(5)).await;
        slot.close();
        slot.put_all(frame(6)).await;
    }
}
