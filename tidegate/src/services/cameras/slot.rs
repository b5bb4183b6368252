//! What waits for one subscriber: the newest frame and what it must hear. A slow one skips frames, and holds
//! up nobody.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tidegate_types::units::Time;
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
    /// A frame of a replay was taken.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Each with the end of its bound, if it has one.
    frames: VecDeque<(FrameMessage, Option<Time>)>,
    news: VecDeque<ReplyKind>,
    /// Since the last frame that it took.
    skipped_since: u64,
    /// In all.
    skipped: u64,
    /// Of these, those whose bound was over before they were taken.
    late: u64,
    is_closed: bool,
    /// It was closed because its camera is away.
    is_away: bool,
    /// Who waits for the next thing.
    reader: Option<Waker>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has whoever waits look again.
    fn changed(&self, mut state: MutexGuard<'_, State>) {
        let reader = state.reader.take();
        drop(state);
        reader.into_iter().for_each(Waker::wake);
    }

    /// A frame as it was taken: it replaces one that still waits, and is nothing any more after `until`.
    pub(super) fn put(&self, frame: FrameMessage, until: Option<Time>) {
        let mut state = self.lock();
        let waits = state.frames.len() as u64;
        state.frames.clear();
        state.skipped_since += waits;
        state.skipped += waits;
        state.frames.push_back((frame, until));
        self.changed(state);
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
                    state.frames.push_back((frame, None));
                    return self.changed(state);
                }
            }
            room.await;
        }
    }

    /// Something to hear.
    pub(super) fn tell(&self, news: ReplyKind) {
        let mut state = self.lock();
        if state.news.len() >= NEWS_MAX {
            state.news.pop_front();
        }
        state.news.push_back(news);
        self.changed(state);
    }

    /// Nothing follows but what waits.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        self.changed(state);
        self.room.notify_one();
    }

    /// The same, because its camera is away: the last word is that one should come again.
    pub(super) fn close_away(&self) {
        self.lock().is_away = true;
        self.close();
    }

    /// Whether it was closed because its camera is away.
    pub(super) fn is_away(&self) -> bool {
        self.lock().is_away
    }

    /// Frames that it was too slow for.
    pub(super) fn skipped(&self) -> u64 {
        self.lock().skipped
    }

    /// Of these, those whose bound was over before they were taken.
    pub(super) fn late(&self) -> u64 {
        self.lock().late
    }

    /// The next thing, by the clock at which frames came; `None` when it is closed. One reads at a time.
    pub(super) fn poll_next(
        &self,
        context: &mut Context<'_>,
        now: impl FnOnce() -> Time,
    ) -> Poll<Option<ReplyKind>> {
        let mut state = self.lock();
        if let Some(news) = state.news.pop_front() {
            return Poll::Ready(Some(news));
        }
        if !state.frames.is_empty() {
            let now = now();
            while let Some((mut frame, until)) = state.frames.pop_front() {
                if until.is_some_and(|until| until < now) {
                    state.skipped_since += 1;
                    state.skipped += 1;
                    state.late += 1;
                    continue;
                }
                frame.skipped = std::mem::take(&mut state.skipped_since);
                self.room.notify_one();
                return Poll::Ready(Some(ReplyKind::Frame(frame)));
            }
        }
        if state.is_closed {
            return Poll::Ready(None);
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// The same, waited for.
    #[cfg(test)]
    pub(super) async fn next(&self) -> Option<ReplyKind> {
        std::future::poll_fn(|context| self.poll_next(context, || Time::ZERO)).await
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
        (1..=4).for_each(|number| slot.put(frame(number), None));
        slot.tell(ReplyKind::Feasible(FeasibleMessage {}));
        assert!(matches!(slot.next().await, Some(ReplyKind::Feasible(_))));
        assert_eq!(next(&slot).await, (4, 3));
        slot.put(frame(5), None);
        slot.close();
        assert_eq!(next(&slot).await, (5, 0));
        assert_eq!(slot.next().await, None);
        assert_eq!(slot.skipped(), 3);
    }

    #[test]
    fn a_frame_whose_bound_is_over_is_nothing_any_more() {
        let slot = Slot::default();
        let at = |millis| Some(Time::from_millis(millis));
        let next = |now: u64| {
            let mut context = Context::from_waker(Waker::noop());
            slot.poll_next(&mut context, || Time::from_millis(now))
        };
        slot.put(frame(1), at(100));
        assert!(next(101).is_pending(), "too late to be looked at");
        slot.put(frame(2), at(200));
        let Poll::Ready(Some(ReplyKind::Frame(second))) = next(200) else {
            panic!("it is in time")
        };
        assert_eq!((second.frame, second.skipped), (2, 1));
        slot.put(frame(3), None);
        assert!(next(9999).is_ready(), "one without a bound");
        assert_eq!((slot.late(), slot.skipped()), (1, 1));
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
