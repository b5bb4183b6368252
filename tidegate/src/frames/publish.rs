//! A stream of frames that somebody publishes: each is looked at, taken or refused, and answered.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_core::frames::jpeg::Head;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::camera::{Camera, Shot};
use super::desk::Cameras;
use super::shelf::may;
use super::wire::{PublishReply, PublishRequest};
use crate::port::Intake;

/// How far a camera's clock may be ahead of ours: frames of a far future would shut out all others.
const AHEAD_MAX: Duration = Duration::from_secs(3600);

/// Who publishes.
pub(super) struct Publisher {
    pub(super) who: String,
    pub(super) cameras: Cameras,
    pub(super) intake: Intake,
}

impl Publisher {
    /// Answers every frame until the stream ends. A frame that is refused ends nothing.
    pub(super) async fn run(
        self,
        mut frames: Streaming<PublishRequest>,
        replies: mpsc::Sender<Result<PublishReply, Status>>,
    ) {
        loop {
            let request = tokio::select! {
                request = frames.message() => request,
                () = self.intake.closed() => {
                    let _ = replies.send(Err(Status::unavailable("the node is stopping"))).await;
                    return;
                }
            };
            let Ok(Some(request)) = request else { return };
            let camera = request.camera.clone();
            let reply = match self.take(request) {
                Ok(frame) => PublishReply { camera, frame, error: String::new() },
                Err(error) => PublishReply { camera, frame: 0, error },
            };
            if replies.send(Ok(reply)).await.is_err() {
                return;
            }
        }
    }

    fn take(&self, request: PublishRequest) -> Result<u64, String> {
        let PublishRequest { camera: name, jpeg, captured_unix_ns, age_us } = request;
        let camera = self.cameras.get(name.as_str());
        let camera = camera.ok_or_else(|| format!("no [[camera]] {name:?} at this node"))?;
        if !may(&camera.options.publishers, &self.who) {
            return Err(format!("{:?} may not publish frames of camera {name:?}", self.who));
        }
        let age = Duration::from_micros(age_us);
        let taken = self.shot(camera, jpeg, captured_unix_ns, age);
        if taken.is_err() {
            camera.refused();
        }
        taken
    }

    fn shot(
        &self,
        camera: &Arc<Camera>,
        jpeg: bytes::Bytes,
        captured_unix_ns: u64,
        age: Duration,
    ) -> Result<u64, String> {
        let head = Head::read(&jpeg).map_err(|error| error.to_string())?;
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix = |since: Duration| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        let number = match captured_unix_ns {
            0 => unix(wall.saturating_sub(age)),
            given if given > unix(wall + AHEAD_MAX) => {
                return Err(format!(
                    "it was taken {} s from now",
                    (given - unix(wall)) / 1_000_000_000
                ));
            }
            given => given,
        };
        let captured_at = self.intake.now().since(tidegate_core::units::Time::ZERO);
        let captured_at = tidegate_core::units::Time::ZERO + captured_at.saturating_sub(age);
        let shot = Shot::new(number, captured_at, head, jpeg);
        camera.take(shot).map_err(|error| error.to_string())?;
        Ok(number)
    }
}
