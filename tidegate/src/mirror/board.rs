//! What mirrors look like at present, for status and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::units::Size;

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
pub struct MirrorBoard(Arc<Mutex<Option<MirrorFigures>>>);

impl MirrorBoard {
    fn lock(&self) -> MutexGuard<'_, Option<MirrorFigures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Our mirror lacks so much.
    pub(super) fn is_behind(&self, behind: Size) {
        let mut figures = self.lock();
        let figures = figures.get_or_insert_default();
        (figures.has_mirror, figures.behind) = (true, Some(behind.0));
    }

    /// Our mirror is away.
    pub(super) fn is_away(&self) {
        let mut figures = self.lock();
        let figures = figures.get_or_insert_default();
        (figures.has_mirror, figures.behind) = (true, None);
    }

    /// Something about a log that is kept here.
    pub(super) fn kept(&self, name: &(Arc<str>, u64), change: impl FnOnce(&mut KeptFigures)) {
        change(self.lock().get_or_insert_default().kept.entry(name.clone()).or_default());
    }

    /// A log is not kept any more.
    pub(super) fn forget(&self, name: &(Arc<str>, u64)) {
        if let Some(figures) = &mut *self.lock() {
            figures.kept.remove(name);
        }
    }

    /// The figures; `None` where the node has nothing to do with mirrors.
    pub fn read(&self) -> Option<MirrorFigures> {
        self.lock().clone()
    }
}
