//! The newest frames of a camera as they were taken, in memory: what was just missed is replayed without a disk.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::account::{Account, Kind, Reservation};

use super::camera::Shot;

/// How much of a camera stays in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentLimit {
    /// Frames of so long.
    pub span: Duration,
    /// Their bytes.
    pub bytes: u64,
}

/// See the file's header. There is no gap: it has every frame since its oldest.
#[derive(Debug)]
pub(super) struct Recent {
    limit: RecentLimit,
    account: Account,
    frames: VecDeque<(Arc<Shot>, Reservation)>,
    bytes: u64,
}

impl Recent {
    /// Empty, its bytes on this account.
    pub(super) fn new(limit: RecentLimit, account: Account) -> Self {
        Recent { limit, account, frames: VecDeque::new(), bytes: 0 }
    }

    /// A newer frame was taken. The oldest ones go for it, or all where there is no room for it.
    pub(super) fn push(&mut self, shot: &Shot) {
        let size = shot.jpeg.len() as u64;
        let span = u64::try_from(self.limit.span.as_nanos()).unwrap_or(u64::MAX);
        let since = shot.number.saturating_sub(span);
        while self.bytes + size > self.limit.bytes
            || self.frames.front().is_some_and(|(oldest, _)| oldest.number < since)
        {
            if !self.drop_oldest() {
                return;
            }
        }
        let room = loop {
            match self.account.reserve(Kind::Frames, shot.jpeg.len()) {
                Ok(room) => break room,
                Err(_) if self.drop_oldest() => {}
                Err(_) => return,
            }
        };
        // Without the encodings that others make of it.
        let kept = Shot::new(shot.number, shot.captured_at, shot.head, shot.jpeg.clone());
        self.bytes += size;
        self.frames.push_back((Arc::new(kept), room));
    }

    fn drop_oldest(&mut self) -> bool {
        let oldest = self.frames.pop_front();
        self.bytes -= oldest.as_ref().map_or(0, |(shot, _)| shot.jpeg.len() as u64);
        oldest.is_some()
    }

    /// Number of the oldest frame.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.frames.front().map(|(shot, _)| shot.number)
    }

    /// Number of the newest frame.
    pub(super) fn newest(&self) -> Option<u64> {
        self.frames.back().map(|(shot, _)| shot.number)
    }

    /// The first frame whose number is at least this.
    pub(super) fn from(&self, number: u64) -> Option<Arc<Shot>> {
        let at = self.frames.partition_point(|(shot, _)| shot.number < number);
        self.frames.get(at).map(|(shot, _)| shot.clone())
    }
}

#[cfg(test)]
mod tests {
    use tidegate_frames::jpeg::JpegHeader;
    use tidegate_types::units::Time;

    use super::*;

    fn shot(second: u64, length: usize) -> Shot {
        let head = JpegHeader { width: 8, height: 8, components: 3 };
        Shot::new(second * 1_000_000_000, Time::ZERO, head, vec![second as u8; length].into())
    }

    fn held(recent: &Recent) -> Vec<u64> {
        recent.frames.iter().map(|(shot, _)| shot.number / 1_000_000_000).collect()
    }

    #[test]
    fn the_newest_frames_stay_within_time_bytes_and_the_account() {
        let account = Account::new(1000);
        let limit = RecentLimit { span: Duration::from_secs(5), bytes: 500 };
        let mut recent = Recent::new(limit, account.clone());
        (1..=10).for_each(|second| recent.push(&shot(second, 100)));
        assert_eq!(held(&recent), [6, 7, 8, 9, 10], "500 bytes");
        recent.push(&shot(14, 100));
        assert_eq!(held(&recent), [9, 10, 14], "five seconds");
        assert_eq!((recent.bytes, account.used()), (300, 300));
        let first = |second: u64| recent.from(second * 1_000_000_000).map(|shot| shot.jpeg[0]);
        assert_eq!([first(0), first(9), first(11), first(15)], [Some(9), Some(9), Some(14), None]);
        let others = account.reserve(Kind::Frames, 700).unwrap();
        recent.push(&shot(15, 200));
        assert_eq!(held(&recent), [14, 15], "others have the room");
        recent.push(&shot(16, 400));
        assert_eq!(held(&recent), [0; 0], "no frame without the one before it");
        drop(others);
        recent.push(&shot(17, 501));
        assert_eq!((held(&recent), account.used()), (vec![], 0), "larger than all room");
    }
}
