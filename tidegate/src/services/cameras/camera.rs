//! The cameras of this node: what each has taken last, and its frames at the rungs that somebody wanted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_frames::jpeg::JpegHeader;
use tidegate_frames::{FlowCounts, Ladder, Rung};
use tidegate_types::units::Time;
use tokio::sync::{OnceCell, watch};

use super::codec::{CodecError, Workers};
use super::ladder::LadderFile;
use super::recent::Recent;
use super::source::SourceOptions;
use super::store::Store;
use super::wire::{CameraInfo, FrameMessage, RungMessage};

/// Weight of a new frame in the rate.
const GAIN: f64 = 0.1;

/// A camera as configured.
#[derive(Clone, Debug)]
pub struct CameraOptions {
    /// Its name.
    pub name: Arc<str>,
    /// Names in certificates that may publish its frames; all where it is empty.
    pub publishers: Vec<String>,
    /// Names that may subscribe; all where it is empty.
    pub subscribers: Vec<String>,
    /// Its ladder.
    pub ladder: LadderFile,
    /// Where its frames come from, beside who publishes them.
    pub source: Option<SourceOptions>,
    /// Whether the node's pages show it.
    pub preview: bool,
    /// A frame that differs from the last one of a flow in no more than this part is left out; `None`: none is.
    pub differencing: Option<f64>,
}

/// A frame that was taken.
#[derive(Debug)]
pub(super) struct Shot {
    /// Its number, rising over restarts: nanoseconds since 1970, by the camera's clock.
    pub(super) number: u64,
    /// When it was taken, on this node's clock.
    pub(super) captured_at: Time,
    /// What its header says.
    pub(super) head: JpegHeader,
    /// The JPEG.
    pub(super) jpeg: Bytes,
    /// The one before it, where a rung may take away what has not moved.
    before: Option<Bytes>,
    encodings: Mutex<BTreeMap<usize, Arc<OnceCell<Encoding>>>>,
    outline: OnceCell<Arc<[u8]>>,
}

/// A frame as it leaves.
#[derive(Clone, Debug)]
pub(super) struct Encoding {
    /// The JPEG.
    pub(super) jpeg: Bytes,
    /// Its pixels.
    pub(super) size: (u32, u32),
    /// How it was made; `None`: it is the source.
    pub(super) rung: Option<Rung>,
}

impl Shot {
    /// One with these bytes, whose header was read.
    pub(super) fn new(number: u64, captured_at: Time, head: JpegHeader, jpeg: Bytes) -> Self {
        let (encodings, outline) = (Mutex::default(), OnceCell::new());
        Shot { number, captured_at, head, jpeg, before: None, encodings, outline }
    }

    /// The source itself.
    pub(super) fn source(&self) -> Encoding {
        let size = (self.head.width.into(), self.head.height.into());
        Encoding { jpeg: self.jpeg.clone(), size, rung: None }
    }

    /// The message that travels; `now` is when it leaves. `way`: the shortest time to its subscribers, where they have
    /// a bound for it.
    pub(super) fn message(
        &self,
        camera: &str,
        encoding: &Encoding,
        now: Time,
        way: Option<Duration>,
    ) -> FrameMessage {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let rung = encoding.rung;
        let accuracy = rung.map_or((1.0, 1.0), |rung| (rung.accuracy, rung.accuracy_low));
        FrameMessage {
            camera: camera.into(),
            frame: self.number,
            captured_unix_ns: self.number,
            age_us: micros(now.since(self.captured_at)),
            width: encoding.size.0,
            height: encoding.size.1,
            source_width: self.head.width.into(),
            source_height: self.head.height.into(),
            eighths: rung.map_or(8, |rung| rung.eighths.into()),
            quality: rung.map_or(0, |rung| rung.quality.into()),
            is_gray: rung.map_or(self.head.components == 1, |rung| rung.is_gray),
            accuracy: accuracy.0,
            accuracy_low: accuracy.1,
            jpeg: encoding.jpeg.clone(),
            skipped: 0,
            left_us: way.map_or(0, |_| micros(now.since(Time::ZERO)).max(1)),
            way_us: way.map_or(0, micros),
            is_late: false,
        }
    }
}

/// A camera at work.
#[derive(Debug)]
pub(super) struct Camera {
    /// As configured.
    pub(super) options: CameraOptions,
    newest: watch::Sender<Option<Arc<Shot>>>,
    /// Number of the newest frame of an earlier process.
    before: u64,
    ladder: Mutex<Ladder>,
    workers: Workers,
    /// The newest frames as they were taken.
    recent: Mutex<Recent>,
    /// Where its frames are kept, if anywhere.
    pub(super) store: Option<Store>,
    figures: Mutex<CameraFigures>,
}

/// What a camera and its flows did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CameraFigures {
    /// Frames taken.
    pub taken: u64,
    /// Frames that were refused.
    pub refused: u64,
    /// Frames a second, of late.
    pub rate: f64,
    /// What became of the frames of all its flows that ended, and of those at present.
    pub flows: FlowCounts,
    /// Frames that were encoded.
    pub encoded: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a frame is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OrderError {
    /// Out of time order.
    #[error(
        "it was taken {behind_ms} ms before the last one: frames come in the order of their time"
    )]
    Older {
        /// By so much.
        behind_ms: u64,
    },
    /// Its time is the last one's.
    #[error("it was taken at the same time as the last one")]
    Same,
}

impl Camera {
    /// One that has taken nothing yet.
    pub(super) fn new(
        options: CameraOptions,
        workers: Workers,
        recent: Recent,
        store: Option<Store>,
    ) -> Self {
        let ladder = Mutex::new(options.ladder.ladder.clone());
        let newest = watch::Sender::new(None);
        let before = store.as_ref().and_then(Store::newest).unwrap_or(0);
        let (recent, figures) = (Mutex::new(recent), Mutex::default());
        Camera { options, newest, before, ladder, workers, recent, store, figures }
    }

    /// A frame was taken: the newest from now on.
    ///
    /// # Errors
    /// It is not the newest.
    pub(super) fn take(&self, mut shot: Shot) -> Result<(), OrderError> {
        let looks_back = self.options.ladder.looks_back();
        shot.before =
            self.newest.borrow().as_ref().filter(|_| looks_back).map(|one| one.jpeg.clone());
        let shot = Arc::new(shot);
        let mut order = Ok(());
        self.newest.send_if_modified(|newest| {
            let last = newest.as_ref().map_or(self.before, |last| last.number);
            if shot.number <= last {
                let behind_ms = (last - shot.number) / 1_000_000;
                order = Err(match last == shot.number {
                    true => OrderError::Same,
                    false => OrderError::Older { behind_ms },
                });
                return false;
            }
            let mut figures = lock(&self.figures);
            figures.taken += 1;
            if let Some(last) = newest {
                let apart = shot.captured_at.since(last.captured_at).as_secs_f64().max(1e-3);
                figures.rate += GAIN * (1.0 / apart - figures.rate);
            }
            drop(figures);
            // Before anybody hears of it.
            lock(&self.recent).push(&shot);
            *newest = Some(shot.clone());
            true
        });
        order?;
        if let Some(store) = &self.store {
            store.append(shot);
        }
        Ok(())
    }

    /// A frame was refused.
    pub(super) fn refused(&self) {
        lock(&self.figures).refused += 1;
    }

    /// The newest frame, and every newer one.
    pub(super) fn newest(&self) -> watch::Receiver<Option<Arc<Shot>>> {
        self.newest.subscribe()
    }

    /// The first frame in memory whose number is at least this, and the oldest that is there.
    pub(super) fn recent(&self, number: u64) -> (Option<Arc<Shot>>, Option<u64>) {
        let recent = lock(&self.recent);
        (recent.from(number), recent.oldest())
    }

    /// Number of the newest frame that can be replayed.
    pub(super) fn newest_kept(&self) -> Option<u64> {
        let stored = self.store.as_ref().and_then(Store::newest);
        stored.max(lock(&self.recent).newest())
    }

    /// Number of the oldest frame that can be replayed.
    fn oldest_kept(&self) -> Option<u64> {
        let stored = self.store.as_ref().and_then(Store::oldest);
        stored.into_iter().chain(lock(&self.recent).oldest()).min()
    }

    /// Its ladder as it has learned it.
    pub(super) fn ladder(&self) -> MutexGuard<'_, Ladder> {
        lock(&self.ladder)
    }

    /// A frame at a rung: encoded once, whoever wants it.
    ///
    /// # Errors
    /// It cannot be decoded.
    pub(super) async fn encode(&self, shot: &Shot, at: usize) -> Result<Encoding, CodecError> {
        let (rung, expected) = {
            let ladder = self.ladder();
            (ladder.rungs()[at], ladder.expected(at))
        };
        // What is small enough as it is costs nothing.
        if shot.jpeg.len() as f64 <= expected {
            return Ok(shot.source());
        }
        let cell = lock(&shot.encodings).entry(at).or_default().clone();
        let encode = || async {
            let frame = (shot.jpeg.clone(), shot.head);
            let shrunk = self.workers.shrink(shot.before.clone(), frame, rung).await?;
            self.ladder().encoded(at, shrunk.jpeg.len() as u64);
            lock(&self.figures).encoded += 1;
            let size = (shrunk.width, shrunk.height);
            Ok(Encoding { jpeg: shrunk.jpeg.into(), size, rung: Some(rung) })
        };
        cell.get_or_try_init(encode).await.cloned()
    }

    /// What a frame shows at an eighth of its size: made once, whoever asks.
    ///
    /// # Errors
    /// It cannot be decoded.
    pub(super) async fn outline(&self, shot: &Shot) -> Result<Arc<[u8]>, CodecError> {
        let make = || async {
            let made = self.workers.outline(shot.jpeg.clone(), shot.head).await?;
            Ok(made.into())
        };
        shot.outline.get_or_try_init(make).await.cloned()
    }

    /// What a flow's frames came to since it told last.
    pub(super) fn count(&self, before: &FlowCounts, now: &FlowCounts) {
        let flows = &mut lock(&self.figures).flows;
        flows.delivered += now.delivered - before.delivered;
        flows.late += now.late - before.late;
        flows.cancelled += now.cancelled - before.cancelled;
        flows.superseded += now.superseded - before.superseded;
        flows.stale += now.stale - before.stale;
        flows.backlogged += now.backlogged - before.backlogged;
        flows.inaccurate += now.inaccurate - before.inaccurate;
        flows.unencoded += now.unencoded - before.unencoded;
        flows.unchanged += now.unchanged - before.unchanged;
        flows.bytes += now.bytes - before.bytes;
    }

    /// What it did.
    pub(super) fn figures(&self) -> CameraFigures {
        *lock(&self.figures)
    }

    /// What others may know of it.
    pub(super) fn info(&self, node: &str) -> CameraInfo {
        let figures = self.figures();
        let newest = self.newest.borrow().clone();
        let oldest = self.oldest_kept();
        let size = newest.as_ref().map(|shot| (shot.head.width, shot.head.height));
        let (width, height) = size.unwrap_or_default();
        CameraInfo {
            name: self.options.name.to_string(),
            node: node.into(),
            is_online: true,
            width: width.into(),
            height: height.into(),
            frames_per_second: figures.rate,
            newest_unix_ns: newest.map_or(0, |shot| shot.number),
            oldest_unix_ns: oldest.unwrap_or(0),
            ladder: self.ladder().rungs().iter().map(RungMessage::from).collect(),
            ladder_is_generic: self.options.ladder.is_generic,
            subscribers: self.options.subscribers.clone(),
        }
    }
}
