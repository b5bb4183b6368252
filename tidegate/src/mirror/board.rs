//! What mirrors look like at present, for status and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_log::mirror::{CopyProgress, SegmentLengths};
use tokio::sync::watch;

/// A log of another node that is kept here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptFigures {
    /// Bytes of it.
    pub bytes: u64,
    /// Whether its owner is connected.
    pub is_connected: bool,
    /// Whether its records are being sent from here.
    pub is_inherited: bool,
    /// Records of it that were taken over by this node.
    pub records: u64,
}

/// The figures of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorFigures {
    /// Bytes of our log that the mirror does not have; `None` where there is no mirror or it is away.
    pub behind: Option<u64>,
    /// Whether our log is to be mirrored.
    pub has_mirror: bool,
    /// Logs that are kept here, by their nodes and which life of their logs.
    pub kept: BTreeMap<(Arc<str>, u64), KeptFigures>,
}

/// The figures of a node, if it has to do with mirrors. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct MirrorBoard(Arc<Mutex<Board>>);

#[derive(Debug, Default)]
struct Board {
    /// Without `behind`, which is computed when it is asked for.
    figures: Option<MirrorFigures>,
    /// How far our mirror has got, and the log that it copies.
    copying: Option<(CopyProgress, watch::Receiver<SegmentLengths>)>,
}

impl MirrorBoard {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Our mirror has got so far in copying this log.
    pub(super) fn has_got(&self, copying: &CopyProgress, log: &watch::Receiver<SegmentLengths>) {
        let mut board = self.lock();
        board.figures.get_or_insert_default().has_mirror = true;
        board.copying = Some((copying.clone(), log.clone()));
    }

    /// Our mirror is away.
    pub(super) fn is_away(&self) {
        let mut board = self.lock();
        board.figures.get_or_insert_default().has_mirror = true;
        board.copying = None;
    }

    /// Something about a log that is kept here.
    pub(super) fn kept(&self, name: &(Arc<str>, u64), change: impl FnOnce(&mut KeptFigures)) {
        change(self.lock().figures.get_or_insert_default().kept.entry(name.clone()).or_default());
    }

    /// A log is not kept any more.
    pub(super) fn forget(&self, name: &(Arc<str>, u64)) {
        if let Some(figures) = &mut self.lock().figures {
            figures.kept.remove(name);
        }
    }

    /// The figures; `None` where the node has nothing to do with mirrors. What the mirror lacks is what the log has at
    /// this moment: who reads it after an acknowledgement knows of that record.
    pub fn read(&self) -> Option<MirrorFigures> {
        let board = self.lock();
        let behind = board.copying.as_ref().map(|(copying, log)| copying.behind(&log.borrow()).0);
        board.figures.clone().map(|figures| MirrorFigures { behind, ..figures })
    }
}
