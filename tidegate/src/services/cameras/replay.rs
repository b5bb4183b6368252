//! Frames of a camera from one time to another, in memory and on disk: all of them, one after the other.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tidegate_frames::jpeg::JpegHeader;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::camera::{Camera, Shot};
use super::sender::{Packed, Pieces, SendOptions, pack};
use super::store::StoreReader;
use super::wire::{EndedMessage, FlowMessage, NewsKind, NewsMessage};
use crate::node::contract::{Intake, Stopping};
use crate::support::backoff::Backoff;

/// Waits before a frame that did not arrive goes again.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often one goes at most.
const TRIES_MAX: u32 = 5;
/// How long after its stop a replay waits for frames that were taken before.
const LAST: Duration = Duration::from_secs(1);

/// Sends what is asked for, and tells when that is done. A stop that is to come is waited for: each new frame goes too.
pub(super) async fn run(
    message: FlowMessage,
    camera: Arc<Camera>,
    options: SendOptions,
    intake: Intake,
    news: mpsc::Sender<NewsMessage>,
) -> Result<(), Stopping> {
    let mut pieces = Pieces::new(&message, options.way, &intake).await?;
    let stop = message.stop_unix_ns.or(camera.newest_kept()).unwrap_or(0);
    let mut source = Kept::new(camera.clone(), message.start_unix_ns.unwrap_or(0));
    while let Some((number, jpeg)) = source.next(stop).await {
        if let Some(packed) = encode(&camera, &message, number, jpeg, &pieces).await {
            send(&mut pieces, &packed, options.piece).await?;
        }
    }
    let ended = Some(NewsKind::Ended(EndedMessage {}));
    // The end of a replay must not be lost: it is waited for.
    let _ = news.send(NewsMessage { flow: message.flow, news: ended }).await;
    Ok(())
}

/// A camera's frames from a time on: of the disk those that memory has no more.
struct Kept {
    camera: Arc<Camera>,
    newest: watch::Receiver<Option<Arc<Shot>>>,
    reader: Option<StoreReader>,
    next: u64,
}

impl Kept {
    fn new(camera: Arc<Camera>, next: u64) -> Self {
        let newest = camera.newest();
        let reader = camera.store.clone().map(StoreReader::new);
        Kept { camera, newest, reader, next }
    }

    /// The next frame up to `stop`; `None` where no more can come.
    async fn next(&mut self, stop: u64) -> Option<(u64, Bytes)> {
        loop {
            self.newest.mark_unchanged();
            if let Some((number, jpeg)) = self.kept().await {
                self.next = number + 1;
                return (number <= stop).then_some((number, jpeg));
            }
            let left = Duration::from_nanos(stop).checked_sub(since_epoch())?;
            // Frames that were taken before the end are a moment on their way.
            if timeout(left.saturating_add(LAST), self.newest.changed()).await.is_err() {
                self.next = stop.max(self.next);
                return self.kept().await.filter(|(number, _)| *number <= stop);
            }
        }
    }

    /// The next frame that there is.
    async fn kept(&mut self) -> Option<(u64, Bytes)> {
        let (recent, since) = self.camera.recent(self.next);
        if since.is_none_or(|since| self.next < since)
            && let Some(stored) = self.stored().await
            && since.is_none_or(|since| stored.0 < since)
        {
            return Some(stored);
        }
        recent.map(|shot| (shot.number, shot.jpeg.clone()))
    }

    async fn stored(&mut self) -> Option<(u64, Bytes)> {
        let (mut reader, next) = (self.reader.take()?, self.next);
        let read = move || {
            let read = reader.read_from(next);
            (reader, read)
        };
        let (reader, read) = tokio::task::spawn_blocking(read).await.ok()?;
        self.reader = Some(reader);
        read.inspect_err(|error| tracing::warn!("a stored frame cannot be read: {error}")).ok()?
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
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
