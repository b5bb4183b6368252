//! Metrics of cameras and their subscribers: only of a node that has to do with them.

use super::{Metric, NONE, Text};
use crate::observe::status::cameras::results;
use crate::services::cameras::{CameraFigures, FramesFigures};

pub(super) const TAKEN: Metric =
    Metric::counter("tidegate_camera_frames_total", "Counts a frame that was published and taken.");
pub(super) const REFUSED: Metric = Metric::counter(
    "tidegate_camera_refused_frames_total",
    "Counts a frame that was published and refused: damaged, or out of the order of time.",
);
pub(super) const ENCODED: Metric = Metric::counter(
    "tidegate_camera_encoded_frames_total",
    "Counts an encoding of a frame to a rung, once for all who want it.",
);
pub(super) const UNSTORED: Metric = Metric::counter(
    "tidegate_camera_unstored_frames_total",
    "Counts a frame that was taken and could not be kept on disk.",
);
pub(super) const ENDED: Metric = Metric::counter(
    "tidegate_camera_flow_frames_total",
    "Counts a frame of a flow when it is clear what became of it: delivered, late, cancelled on its way, or \
     left out (superseded, stale, backlogged, inaccurate, unencoded, unchanged).",
);
pub(super) const BYTES: Metric = Metric::counter(
    "tidegate_camera_flow_bytes_total",
    "Grows by the bytes of each frame that leaves.",
);
pub(super) const ARRIVED: Metric = Metric::counter(
    "tidegate_frames_arrived_frames_total",
    "Counts a whole frame that came for subscribers here.",
);
pub(super) const BROKEN: Metric = Metric::counter(
    "tidegate_frames_broken_frames_total",
    "Counts a frame of which not every piece came before a newer one did.",
);
pub(super) const SKIPPED: Metric = Metric::counter(
    "tidegate_frames_skipped_frames_total",
    "Counts a frame that one subscriber was too slow for.",
);
pub(super) const LATE: Metric = Metric::counter(
    "tidegate_frames_late_frames_total",
    "Counts a whole frame that came after its bound, and one whose bound was over before its subscriber took it.",
);
pub(super) const SUBSCRIPTIONS: Metric =
    Metric::gauge("tidegate_frames_open_subscriptions", "Subscriptions at present.");
pub(super) const ASIDE: Metric = Metric::gauge(
    "tidegate_frames_set_aside_bytes",
    "Bytes on disk of other nodes' cameras of which nothing can be read.",
);

/// Adds all of them.
pub(super) fn encode(figures: Option<&FramesFigures>, text: &mut Text) {
    let Some(figures) = figures else { return };
    type Read = fn(&CameraFigures) -> u64;
    let plain: [(Metric, Read); 4] = [
        (TAKEN, |camera| camera.taken),
        (REFUSED, |camera| camera.refused),
        (ENCODED, |camera| camera.encoded),
        (BYTES, |camera| camera.flows.bytes),
    ];
    for (metric, read) in plain {
        text.head(metric);
        for (name, (camera, _)) in &figures.cameras {
            text.sample(metric.name, &[("camera", name)], read(camera) as f64);
        }
    }
    text.head(UNSTORED);
    for (name, (_, missed)) in &figures.cameras {
        text.sample(UNSTORED.name, &[("camera", name)], *missed as f64);
    }
    text.head(ENDED);
    for (name, (CameraFigures { flows, .. }, _)) in &figures.cameras {
        for (result, count) in results(flows) {
            text.sample(ENDED.name, &[("camera", name), ("result", result)], count as f64);
        }
    }
    text.family(ARRIVED, [(NONE, figures.shelf.frames as f64)]);
    text.family(BROKEN, [(NONE, figures.shelf.broken as f64)]);
    text.family(SKIPPED, [(NONE, figures.shelf.skipped as f64)]);
    text.family(LATE, [(NONE, figures.shelf.late as f64)]);
    text.family(SUBSCRIPTIONS, [(NONE, figures.shelf.subscriptions as f64)]);
    let aside: u64 = figures.aside.iter().map(|one| one.bytes).sum();
    text.family(ASIDE, [(NONE, aside as f64)]);
}
