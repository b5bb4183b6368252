//! A stream of frames that somebody publishes: each is looked at, taken or refused, and answered.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate_frames::jpeg::JpegHeader;
use tidegate_types::units::Time;
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
            let request = match request {
                Ok(Some(request)) => request,
                Ok(None) => return,
                Err(status) => {
                    // It may be gone.
                    let _ = replies.send(Err(status)).await;
                    return;
                }
            };
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
        take(camera, &self.intake, jpeg, captured_unix_ns, Duration::from_micros(age_us))
    }
}

/// A frame of a camera, taken `captured_unix_ns` (0: now) by its clock, and `age` ago by ours. Answers its number,
/// or why it is not taken.
pub(super) fn take(
    camera: &Camera,
    intake: &Intake,
    jpeg: bytes::Bytes,
    captured_unix_ns: u64,
    age: Duration,
) -> Result<u64, String> {
    let taken = shot(intake, jpeg, captured_unix_ns, age).and_then(|shot| {
        let number = shot.number;
        camera.take(shot).map(|()| number).map_err(|error| error.to_string())
    });
    if taken.is_err() {
        camera.refused();
    }
    taken
}

fn shot(
    intake: &Intake,
    jpeg: bytes::Bytes,
    captured_unix_ns: u64,
    age: Duration,
) -> Result<Shot, String> {
    let head = JpegHeader::read(&jpeg).map_err(|error| error.to_string())?;
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
    let captured_at = intake.now().since(Time::ZERO).saturating_sub(age);
    Ok(Shot::new(number, Time::ZERO + captured_at, head, jpeg))
}
