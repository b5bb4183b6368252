//! Stored frames of a camera, from one time to another: all of them, one after the other.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_frames::jpeg::JpegHeader;
use tokio::sync::mpsc;

use super::camera::{Camera, Shot};
use super::sender::{Packed, Pieces, SendOptions, pack};
use super::wire::{EndedMessage, FlowMessage, NewsKind, NewsMessage};
use crate::output::backoff::Backoff;
use crate::port::{Intake, Stopping};

/// Waits before a frame that did not arrive goes again.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often one goes at most.
const TRIES_MAX: u32 = 5;

/// Sends what is asked for, and tells when that is done.
pub(super) async fn run(
    message: FlowMessage,
    camera: Arc<Camera>,
    options: SendOptions,
    intake: Intake,
    news: mpsc::Sender<NewsMessage>,
) -> Result<(), Stopping> {
    let mut pieces = Pieces::new(&message, &intake).await?;
    let newest = camera.store.as_ref().and_then(|store| store.newest()).unwrap_or(0);
    let stop = message.stop_unix_ns.unwrap_or(u64::MAX).min(newest);
    let mut next = message.start_unix_ns.unwrap_or(0);
    while let Some((number, jpeg)) = read(&camera, next).await
        && number <= stop
    {
        next = number + 1;
        if let Some(packed) = encode(&camera, &message, number, jpeg, &pieces).await {
            send(&mut pieces, &packed, options.piece).await?;
        }
    }
    let ended = Some(NewsKind::Ended(EndedMessage {}));
    // The end of a replay must not be lost: it is waited for.
    let _ = news.send(NewsMessage { flow: message.flow, news: ended }).await;
    Ok(())
}

async fn read(camera: &Arc<Camera>, number: u64) -> Option<(u64, Bytes)> {
    let store = camera.store.clone()?;
    let read = tokio::task::spawn_blocking(move || store.read_from(number)).await.ok()?;
    read.inspect_err(|error| tracing::warn!("a stored frame cannot be read: {error}")).ok()?
}

/// A stored frame at the least rung of the accuracy that is asked for; as it was taken where that is 1.
async fn encode(
    camera: &Camera,
    message: &FlowMessage,
    number: u64,
    jpeg: Bytes,
    pieces: &Pieces,
) -> Option<Packed> {
    let head = JpegHeader::read(&jpeg).ok()?;
    let shot = Shot::new(number, pieces.now(), head, jpeg);
    let accuracy = Some(message.target().accuracy).filter(|accuracy| *accuracy < 1.0);
    let rung = accuracy.and_then(|accuracy| camera.ladder().least_of(accuracy));
    let encoding = match rung {
        Some(rung) => camera.encode(&shot, rung).await.ok()?,
        None => shot.source(),
    };
    pack(message.flow, &shot, camera, &encoding, (pieces.now(), None))
}

async fn send(pieces: &mut Pieces, packed: &Packed, size: usize) -> Result<(), Stopping> {
    let mut waits = Backoff::within(WAITS.0, WAITS.1);
    for _ in 0..TRIES_MAX {
        pieces.offer(packed, size, None).await?;
        let mut is_whole = true;
        while !pieces.are_settled() {
            is_whole &= pieces.settled().await?.2;
        }
        if is_whole {
            break;
        }
        tokio::time::sleep(waits.next()).await;
    }
    Ok(())
}
