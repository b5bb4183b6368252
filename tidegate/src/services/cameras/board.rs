//! What cameras and subscribers look like at present, for status and metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::camera::CameraFigures;
use super::desk::Cameras;
use super::preview::Preview;
use super::replica::SetAside;
use super::shelf::Shelf;

/// What the shelf counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShelfCounts {
    /// Whole frames that came.
    pub frames: u64,
    /// Frames of which not all came.
    pub broken: u64,
    /// Frames that subscribers were too slow for.
    pub skipped: u64,
    /// Whole frames that came after their bound, and frames whose bound was over before a subscriber took them.
    pub late: u64,
    /// Subscriptions at present.
    pub subscriptions: usize,
}

/// The figures of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FramesFigures {
    /// By camera; and its frames that could not be stored.
    pub cameras: BTreeMap<Arc<str>, (CameraFigures, u64)>,
    /// Of its subscribers.
    pub shelf: ShelfCounts,
    /// Frames on disk of which nothing can be read.
    pub aside: Vec<SetAside>,
}

/// The figures of a node, if it has to do with cameras. Cheap to clone; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct FramesBoard(Arc<Mutex<Option<(Shelf, Cameras)>>>);

impl FramesBoard {
    fn lock(&self) -> MutexGuard<'_, Option<(Shelf, Cameras)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The node has these.
    pub(super) fn set(&self, shelf: Shelf, cameras: Cameras) {
        *self.lock() = Some((shelf, cameras));
    }

    /// Frames of a camera for people; `None` where there is none of this name, or none to look at.
    pub fn preview(&self, camera: &str) -> Option<Preview> {
        let board = self.lock().clone();
        let camera = board?.1.get(camera)?.clone();
        camera.options.preview.then(|| Preview::of(camera.newest()))
    }

    /// The figures; `None` where the node has nothing to do with cameras.
    pub fn read(&self) -> Option<FramesFigures> {
        let board = self.lock().clone();
        let (shelf, cameras) = board?;
        let figures = cameras.iter().map(|(name, camera)| {
            let missed = camera.store.as_ref().map_or(0, |store| store.missed());
            (name.clone(), (camera.figures(), missed))
        });
        let (shelf, aside) = (shelf.counts(), shelf.aside());
        Some(FramesFigures { cameras: figures.collect(), shelf, aside })
    }
}
