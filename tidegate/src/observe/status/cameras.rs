//! Cameras in the status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use tidegate_frames::FlowCounts;

use crate::services::cameras::{FramesFigures, SetAside};

/// Cameras and the subscribers of frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FramesView {
    /// Cameras of this node, by name.
    pub cameras: Vec<CameraView>,
    /// Subscriptions at this node.
    pub subscriptions: usize,
    /// Whole frames that came for them.
    pub arrived_frames: u64,
    /// Frames of which not every piece came.
    pub broken_frames: u64,
    /// Frames that subscribers were too slow for.
    pub skipped_frames: u64,
    /// Frames that came, or were taken, after their bound.
    pub late_frames: u64,
    /// Frames of other nodes' cameras on disk of which nothing can be read.
    #[serde(default)]
    pub set_aside: Vec<SetAsideView>,
}

/// Frames that are kept though nothing of them can be read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SetAsideView {
    /// Whose they were.
    pub camera: String,
    /// Where they are.
    pub folder: String,
    /// Bytes of them.
    pub bytes: u64,
}

/// One camera.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CameraView {
    /// Its name.
    pub name: String,
    /// Frames a second, of late.
    pub frames_per_second: f64,
    /// Frames taken.
    pub taken_frames: u64,
    /// Frames refused: damaged, or out of the order of time.
    pub refused_frames: u64,
    /// Encodings.
    pub encoded_frames: u64,
    /// Frames that could not be kept on disk.
    pub unstored_frames: u64,
    /// Bytes of frames that left.
    pub sent_bytes: u64,
    /// What became of the frames of its flows; results that never were are left out.
    pub results: BTreeMap<String, u64>,
}

/// What became of the frames of flows, by name.
pub(crate) fn results(flows: &FlowCounts) -> [(&'static str, u64); 9] {
    [
        ("delivered", flows.delivered),
        ("late", flows.late),
        ("cancelled", flows.cancelled),
        ("superseded", flows.superseded),
        ("stale", flows.stale),
        ("backlogged", flows.backlogged),
        ("inaccurate", flows.inaccurate),
        ("unencoded", flows.unencoded),
        ("unchanged", flows.unchanged),
    ]
}

pub(super) fn frames_view(figures: &FramesFigures) -> FramesView {
    let cameras = figures.cameras.iter().map(|(name, (camera, unstored))| {
        let results = results(&camera.flows).into_iter().filter(|(_, count)| *count > 0);
        CameraView {
            name: name.to_string(),
            frames_per_second: camera.rate,
            taken_frames: camera.taken,
            refused_frames: camera.refused,
            encoded_frames: camera.encoded,
            unstored_frames: *unstored,
            sent_bytes: camera.flows.bytes,
            results: results.map(|(result, count)| (result.to_owned(), count)).collect(),
        }
    });
    FramesView {
        cameras: cameras.collect(),
        subscriptions: figures.shelf.subscriptions,
        arrived_frames: figures.shelf.frames,
        broken_frames: figures.shelf.broken,
        skipped_frames: figures.shelf.skipped,
        late_frames: figures.shelf.late,
        set_aside: figures.aside.iter().map(set_aside).collect(),
    }
}

fn set_aside(SetAside { camera, folder, bytes }: &SetAside) -> SetAsideView {
    SetAsideView { camera: camera.clone(), folder: folder.display().to_string(), bytes: *bytes }
}
