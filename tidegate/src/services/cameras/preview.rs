//! A camera's newest frames for people: MJPEG over HTTP, which every browser shows as a picture that moves.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use super::camera::Shot;

/// What parts the frames.
pub const BOUNDARY: &str = "tidegate-frame";
/// Shortest time between two frames of a preview: it is for looking, and takes from nobody else.
const APART: Duration = Duration::from_millis(100);

/// A stream of frames, until nobody reads it or the camera is gone. A slow reader gets fewer.
#[derive(Debug)]
pub struct Preview {
    parts: mpsc::Receiver<Bytes>,
}

impl Preview {
    /// Of these frames, the present one first.
    pub(super) fn of(mut newest: watch::Receiver<Option<Arc<Shot>>>) -> Self {
        let (sender, parts) = mpsc::channel(1);
        newest.mark_changed();
        tokio::spawn(async move {
            loop {
                // Who is gone while nothing comes must not hold the camera.
                tokio::select! {
                    () = sender.closed() => return,
                    changed = newest.changed() => if changed.is_err() { return },
                }
                let shot = newest.borrow_and_update().clone();
                let Some(shot) = shot else { continue };
                if sender.send(part(&shot.jpeg)).await.is_err() {
                    return;
                }
                sleep(APART).await;
            }
        });
        Preview { parts }
    }
}

/// One frame with its head.
fn part(jpeg: &Bytes) -> Bytes {
    let head = format!(
        "--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {}\r\n\r\n",
        jpeg.len()
    );
    let mut part = BytesMut::with_capacity(head.len() + jpeg.len() + 2);
    part.extend_from_slice(head.as_bytes());
    part.extend_from_slice(jpeg);
    part.extend_from_slice(b"\r\n");
    part.freeze()
}

impl Body for Preview {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.parts.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
