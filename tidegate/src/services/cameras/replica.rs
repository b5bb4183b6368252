//! What an edge server keeps of the frames that it was sent: a camera that goes leaves them here.

mod disk;

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use tidegate_types::account::{Account, Kind, Reservation};

pub(super) use self::disk::{ReplicaDisk, StoredFrame};
pub use self::disk::{ReplicaOptions, SetAside};
use super::wire::{CameraInfo, FrameMessage};

/// Frames of each camera, as they came. It is on nobody's account while it keeps none.
#[derive(Debug, Default)]
pub(super) struct Replica {
    /// Bytes of each camera, whose they are, and the node whose cameras need no replica.
    limit: Option<(u64, Account, Arc<str>)>,
    cameras: BTreeMap<String, Frames>,
    disk: Option<ReplicaDisk>,
}

/// A frame that is here.
#[derive(Debug)]
pub(super) enum ReplicaFrame {
    /// It is in memory.
    Here(Box<FrameMessage>),
    /// It is on disk.
    Stored(StoredFrame),
}

/// The newest frames of one camera, by number.
#[derive(Debug, Default)]
struct Frames {
    all: BTreeMap<u64, (FrameMessage, Reservation)>,
    bytes: u64,
}

impl Frames {
    fn drop_oldest(&mut self) -> bool {
        let Some((_, (_, room))) = self.all.pop_first() else { return false };
        self.bytes -= room.bytes() as u64;
        true
    }
}

impl Replica {
    /// Keeps so many bytes of each camera of other nodes than `own` from now on.
    pub(super) fn limit(&mut self, bytes: u64, account: Account, own: Arc<str>) {
        self.limit = Some((bytes, account, own));
    }

    /// Keeps frames on disk, too.
    pub(super) fn store(&mut self, disk: ReplicaDisk) {
        self.disk = Some(disk);
    }

    /// Folders on disk of which nothing can be read.
    pub(super) fn aside(&self) -> Vec<SetAside> {
        self.disk.as_ref().map(ReplicaDisk::aside).unwrap_or_default()
    }

    /// What is known of a camera has changed.
    pub(super) fn tell(&self, info: &CameraInfo) {
        self.disk.iter().for_each(|disk| disk.tell(info));
    }

    /// A frame came from a node, of a camera of which so much is known. Of one that came by several flows the most accurate
    /// stays; the oldest ones go for it.
    pub(super) fn keep(
        &mut self,
        node: &str,
        frame: &FrameMessage,
        (info, is_replay): (&CameraInfo, bool),
    ) {
        let is_own = self.limit.as_ref().is_none_or(|(_, _, own)| **own == *node);
        if is_own {
            return;
        }
        self.keep_here(frame);
        self.disk.iter().for_each(|disk| disk.keep(frame, info, is_replay));
    }

    fn keep_here(&mut self, frame: &FrameMessage) {
        let Some((most, account, _)) = self.limit.as_ref().filter(|(most, ..)| *most > 0) else {
            return;
        };
        let size = frame.encoded_len() as u64;
        let frames = self.cameras.entry(frame.camera.clone()).or_default();
        // What is known stays until the better one has room.
        let known = match frames.all.get(&frame.frame) {
            Some((known, _)) if known.accuracy >= frame.accuracy => return,
            Some((_, room)) => room.bytes() as u64,
            None => 0,
        };
        // One that is older than all makes no room for itself.
        let is_newer = |frames: &Frames| {
            frames.all.first_key_value().is_some_and(|(&oldest, _)| oldest < frame.frame)
        };
        while frames.bytes - known + size > *most {
            if !(is_newer(frames) && frames.drop_oldest()) {
                return;
            }
        }
        let room = loop {
            match account.reserve(Kind::Frames, size as usize) {
                Ok(room) => break room,
                Err(_) if is_newer(frames) && frames.drop_oldest() => {}
                Err(_) => return,
            }
        };
        frames.bytes = frames.bytes - known + size;
        frames.all.insert(frame.frame, (frame.clone(), room));
    }

    /// The first frame of a camera from here to there, and its number.
    pub(super) fn next(&self, camera: &str, from: u64, to: u64) -> Option<(u64, ReplicaFrame)> {
        let here = self.cameras.get(camera).and_then(|frames| frames.all.range(from..).next());
        let stored = self.disk.as_ref().and_then(|disk| disk.find(camera, from));
        let here =
            here.filter(|(number, _)| stored.as_ref().is_none_or(|(first, _)| **number <= *first));
        let found = match here {
            Some((&number, (frame, _))) => {
                let frame = FrameMessage { skipped: 0, is_late: false, ..frame.clone() };
                Some((number, ReplicaFrame::Here(Box::new(frame))))
            }
            None => stored.map(|(number, frame)| (number, ReplicaFrame::Stored(frame))),
        };
        found.filter(|(number, _)| *number <= to)
    }

    /// Number of the oldest frame of a camera; 0: none.
    pub(super) fn oldest(&self, camera: &str) -> u64 {
        self.next(camera, 0, u64::MAX).map_or(0, |(number, _)| number)
    }

    /// A camera is no more.
    pub(super) fn forget(&mut self, camera: &str) {
        self.cameras.remove(camera);
        self.disk.iter().for_each(|disk| disk.forget(camera));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(number: u64, accuracy: f64) -> FrameMessage {
        let jpeg = vec![number as u8; 100].into();
        FrameMessage { camera: "c".into(), frame: number, accuracy, jpeg, ..Default::default() }
    }

    #[test]
    fn a_frame_stays_where_a_better_one_of_it_has_no_room() {
        let each = frame(7, 0.5).encoded_len();
        let mut replica = Replica::default();
        replica.limit(1 << 20, Account::new(each + 1), "edge".into());
        replica.keep("n", &frame(7, 0.5), (&CameraInfo::default(), false));
        replica.keep("n", &frame(7, 0.9), (&CameraInfo::default(), false));
        assert_eq!(next(&replica, 0, 9), Some((7, 0.5)));
    }

    fn next(replica: &Replica, from: u64, to: u64) -> Option<(u64, f64)> {
        match replica.next("c", from, to)?.1 {
            ReplicaFrame::Here(frame) => Some((frame.frame, frame.accuracy)),
            ReplicaFrame::Stored(frame) => panic!("{frame:?}"),
        }
    }

    fn held(replica: &Replica) -> Vec<u64> {
        replica.cameras["c"].all.keys().copied().collect()
    }

    #[test]
    fn the_newest_frames_stay_each_at_its_best() {
        let account = Account::new(10_000);
        let each = frame(1, 0.5).encoded_len() as u64;
        let mut replica = Replica::default();
        let info = (&CameraInfo::default(), false);
        replica.keep("n", &frame(1, 0.5), info);
        assert!(replica.cameras.is_empty(), "nobody asked it to");
        replica.limit(each * 3, account.clone(), "edge".into());
        replica.keep("edge", &frame(1, 0.5), info);
        assert!(replica.cameras.is_empty(), "its own node has them");
        (1..=5).for_each(|number| replica.keep("n", &frame(number, 0.5), info));
        assert_eq!(held(&replica), [3, 4, 5]);
        replica.keep("n", &frame(2, 0.5), info);
        assert_eq!(held(&replica), [3, 4, 5], "a replay of older ones takes no room of newer ones");
        replica.keep("n", &frame(4, 0.9), info);
        replica.keep("n", &frame(4, 0.7), info);
        let next = |from, to| next(&replica, from, to);
        assert_eq!([next(0, 9), next(4, 4), next(6, 9)], [Some((3, 0.5)), Some((4, 0.9)), None]);
        assert_eq!((next(0, 2), replica.oldest("c"), replica.oldest("d")), (None, 3, 0));
        assert_eq!(account.used() as u64, each * 3);
        replica.forget("c");
        assert_eq!(account.used(), 0);
    }
}
