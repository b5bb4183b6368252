//! One flow of a camera's frames, from the newest frame to the pieces that the node's queues hold.
//!
//! The pieces are records like all others: they go in their class, expire at the frame's bound, and what
//! becomes of each tells how fast the channel is (docs/decisions/0061).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tidegate_frames::channel::ChannelModel;
use tidegate_frames::knobs::difference;
use tidegate_frames::piece::{FRAME_MAX, FramePiece, HEAD, PIECES_MAX};
use tidegate_frames::{ControllerName, Flow, FlowCounts, FrameEnding, FrameResult, Gains, Rung};
use tidegate_types::record::{Offered, Properties, Token};
use tidegate_types::units::Time;
use tokio::sync::{mpsc, watch};

use super::camera::{Camera, Encoding, Shot};
use super::codec::CodecError;
use super::ways::{FrameWay, RungName};
use super::wire::{FlowMessage, NewsKind, NewsMessage};
use crate::node::contract::{Intake, Notice, Source, Stopping};

/// How a node's flows are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SendOptions {
    /// Who says how many bytes a frame may have.
    pub controller: ControllerName,
    /// Bytes of a piece.
    pub piece: usize,
    /// What was measured of the channel.
    pub site: Option<ChannelModel>,
    /// Gains of the controller `pi`.
    pub gains: Gains,
    /// Whether the subscribers are at this node: frames go as they are, for there is no channel.
    pub is_local: bool,
    /// To which of the edge servers they go, which tells them apart for the node's rules.
    pub way: usize,
}

/// What topics of frames to an edge server begin with, by its place.
pub fn topics(way: usize) -> String {
    match way {
        0 => "$frames/".into(),
        other => format!("$frames/@{}/", other + 1),
    }
}

/// Pieces by the tokens that they were offered with.
#[derive(Debug)]
pub(super) struct Pieces {
    source: Source,
    topic: Bytes,
    /// Frame and bytes of each that has no fate.
    open: BTreeMap<u64, (u64, u64)>,
    last: u64,
}

impl Pieces {
    /// Of this flow.
    pub(super) async fn new(
        flow: &FlowMessage,
        way: usize,
        intake: &Intake,
    ) -> Result<Self, Stopping> {
        let topic = format!("{}{}/{:016x}", topics(way), flow.camera, flow.flow);
        let source = intake.open(topic.as_str().into()).await?;
        Ok(Pieces { source, topic: topic.into(), open: BTreeMap::new(), last: 0 })
    }

    pub(super) fn now(&self) -> Time {
        self.source.now()
    }

    /// Offers a frame in pieces. Answers its bytes.
    pub(super) async fn offer(
        &mut self,
        packed: &Packed,
        size: usize,
        ttl: Option<Duration>,
    ) -> Result<u64, Stopping> {
        let Packed { flow, frame, ref whole } = *packed;
        let message = whole.slice(HEAD..);
        let size = size.max(message.len().div_ceil(PIECES_MAX));
        let read_at = self.source.now();
        let payloads = match message.len() <= size {
            true => vec![whole.clone()],
            false => FramePiece::cut(flow, frame, &message, size)
                .iter()
                .map(FramePiece::encode)
                .collect(),
        };
        let mut records = Vec::new();
        let mut all = 0;
        for payload in payloads {
            all += payload.len() as u64;
            self.last += 1;
            self.open.insert(self.last, (frame, payload.len() as u64));
            records.push(Offered {
                source: self.source.id(),
                token: Some(Token(self.last)),
                key: self.topic.clone(),
                properties: Properties::default(),
                payload,
                read_at,
                source_unix_ns: Some(frame),
                ttl,
                foreign: None,
                packet: None,
            });
        }
        self.source.offer(records).await?;
        Ok(all)
    }

    /// The next piece that has its fate: its frame, its bytes, and whether it arrived.
    pub(super) async fn settled(&mut self) -> Result<(u64, u64, bool), Stopping> {
        loop {
            let Some(notice) = self.source.notice().await else { return Err(Stopping) };
            let Notice::Accept(Token(token), result) = notice else { continue };
            if let Some((frame, bytes)) = self.open.remove(&token) {
                return Ok((frame, bytes, result.is_ok()));
            }
        }
    }

    /// Whether all have their fate.
    pub(super) fn are_settled(&self) -> bool {
        self.open.is_empty()
    }
}

/// A frame of a flow as it travels, written once.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    flow: u64,
    frame: u64,
    /// As one piece.
    whole: Bytes,
}

/// The bytes of a frame for a flow; `None` if it is larger than any. `way`: as in [`Shot::message`].
pub(super) fn pack(
    flow: u64,
    shot: &Shot,
    camera: &Camera,
    encoding: &Encoding,
    (now, way): (Time, Option<Duration>),
) -> Option<Packed> {
    let message = shot.message(&camera.options.name, encoding, now, way);
    let length = message.encoded_len();
    if length > FRAME_MAX {
        return None;
    }
    let mut whole = BytesMut::with_capacity(HEAD + length);
    FramePiece::whole(flow, shot.number, &mut whole);
    message.encode(&mut whole).ok()?;
    Some(Packed { flow, frame: shot.number, whole: whole.freeze() })
}

/// Sends a camera's frames as they are taken, until it is aborted or the node stops.
pub(super) async fn run(
    message: FlowMessage,
    camera: Arc<Camera>,
    options: SendOptions,
    intake: Intake,
    news: mpsc::Sender<NewsMessage>,
) -> Result<(), Stopping> {
    let pieces = Pieces::new(&message, options.way, &intake).await?;
    let flow = {
        let ladder = camera.ladder();
        let flow = Flow::new(message.target(), options.controller, &ladder, options.gains);
        match &options.site {
            Some(site) => flow.begin_at(site, &ladder),
            None => flow,
        }
    };
    let mut newest = camera.newest();
    // What was taken before is no news.
    newest.mark_unchanged();
    let (encoded, encodings) = mpsc::channel(1);
    let told = FlowCounts::default();
    let mut sender = Sender {
        message,
        camera,
        options,
        pieces,
        flow,
        news,
        encoded,
        told,
        shots: BTreeMap::new(),
        left: BTreeMap::new(),
        shown: None,
    };
    sender.serve(newest, encodings).await
}

/// What became of a frame that was to be encoded.
enum Made {
    /// It leaves, and shows this at an eighth of its size, where that was asked.
    Encoding(Encoding, Option<Arc<[u8]>>),
    /// It shows what the last one did.
    Unchanged,
    /// It is no picture.
    Failed(CodecError),
}

type Encoded = (Arc<Shot>, Made);

/// The last frame that left: its number, when it was taken, and what it shows.
type Shown = (u64, Time, Arc<[u8]>);

/// A frame goes after so long, whatever it shows: who comes anew sees something, and silence is a fault.
const REFRESH: Duration = Duration::from_secs(1);

struct Sender {
    message: FlowMessage,
    camera: Arc<Camera>,
    options: SendOptions,
    pieces: Pieces,
    flow: Flow,
    news: mpsc::Sender<NewsMessage>,
    encoded: mpsc::Sender<Encoded>,
    /// What the camera was told.
    told: FlowCounts,
    /// The frame that waits.
    shots: BTreeMap<u64, Arc<Shot>>,
    /// Frames under way: at which rung, how many bytes, and how long after they were taken.
    left: BTreeMap<u64, (Option<Rung>, u64, Duration)>,
    /// The last frame that left, where frames that show the same are left out.
    shown: Option<Shown>,
}

/// Encodes a frame, unless it shows what the last one did.
async fn make(camera: &Camera, shot: &Shot, rung: Option<usize>, shown: Option<Shown>) -> Made {
    let mut shows = None;
    if let Some(part) = camera.options.differencing {
        let outline = match camera.outline(shot).await {
            Ok(outline) => outline,
            Err(error) => return Made::Failed(error),
        };
        let is_recent = |at: Time| shot.captured_at.since(at) < REFRESH;
        let before = shown.filter(|(_, at, _)| is_recent(*at));
        if before.is_some_and(|(.., before)| difference(&outline, &before) <= part) {
            return Made::Unchanged;
        }
        shows = Some(outline);
    }
    let encoding = match rung {
        Some(rung) => camera.encode(shot, rung).await,
        None => Ok(shot.source()),
    };
    encoding.map_or_else(Made::Failed, |encoding| Made::Encoding(encoding, shows))
}

impl Sender {
    async fn serve(
        &mut self,
        mut newest: watch::Receiver<Option<Arc<Shot>>>,
        mut encodings: mpsc::Receiver<Encoded>,
    ) -> Result<(), Stopping> {
        loop {
            tokio::select! {
                changed = newest.changed() => {
                    changed.map_err(|_| Stopping)?;
                    if let Some(shot) = newest.borrow_and_update().clone() {
                        self.flow.arrived(shot.number, shot.captured_at);
                        self.shots = BTreeMap::from([(shot.number, shot)]);
                    }
                }
                Some((shot, made)) = encodings.recv() => self.leave(&shot, made).await?,
                settled = self.pieces.settled() => {
                    let (frame, bytes, has_arrived) = settled?;
                    self.flow.settled(self.pieces.now(), frame, bytes, has_arrived);
                }
            }
            self.look();
            self.tell();
        }
    }

    /// Has the frame encoded that goes next.
    fn look(&mut self) {
        let now = self.pieces.now();
        let chosen = match self.options.is_local {
            // A frame goes when the one before has arrived: there is nothing to choose.
            true => self.flow.poll_whole(now).map(|frame| (frame, None)),
            false => {
                let chosen = self.flow.poll(now, &self.camera.ladder());
                chosen.map(|(frame, rung)| (frame, Some(rung)))
            }
        };
        let Some((frame, rung)) = chosen else { return };
        let Some(shot) = self.shots.remove(&frame) else { return self.flow.failed() };
        let (camera, encoded) = (self.camera.clone(), self.encoded.clone());
        let shown = self.shown.clone();
        tokio::spawn(async move {
            let made = make(&camera, &shot, rung, shown).await;
            // Who waits for it may be gone.
            let _ = encoded.send((shot, made)).await;
        });
    }

    async fn leave(&mut self, shot: &Shot, made: Made) -> Result<(), Stopping> {
        let mut rung = None;
        let packed = match made {
            Made::Encoding(encoding, shows) => {
                rung = encoding.rung;
                self.shown = shows.map(|shows| (shot.number, shot.captured_at, shows));
                let leaves = (self.pieces.now(), Some(self.flow.way()));
                pack(self.message.flow, shot, &self.camera, &encoding, leaves)
            }
            Made::Unchanged => {
                self.flow.unchanged();
                return Ok(());
            }
            Made::Failed(error) => {
                if self.flow.counts().unencoded.is_power_of_two()
                    || self.flow.counts().unencoded == 0
                {
                    tracing::warn!(camera = %self.camera.options.name, "a frame is left out: {error}");
                }
                None
            }
        };
        let Some(packed) = packed else {
            self.flow.failed();
            return Ok(());
        };
        let now = self.pieces.now();
        let deadline = shot.captured_at + self.flow.target().patience();
        let ttl = Some(deadline.since(now).max(Duration::from_millis(1)));
        let bytes = self.pieces.offer(&packed, self.options.piece, ttl).await?;
        self.flow.encoded(now, bytes);
        self.left.insert(shot.number, (rung, bytes, now.since(shot.captured_at)));
        Ok(())
    }

    fn tell(&mut self) {
        let counts = self.flow.counts();
        self.camera.count(&self.told, &counts);
        self.told = counts;
        self.note();
        if let Some(news) = self.flow.poll_infeasible() {
            let news = Some(NewsKind::from(news));
            // Whoever cannot take it now hears the next change.
            let _ = self.news.try_send(NewsMessage { flow: self.message.flow, news });
        }
    }

    /// Has kept what became of frames, where frames are kept.
    fn note(&mut self) {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        while let Some(FrameEnding { frame, result, after }) = self.flow.poll_ended() {
            let has_come = matches!(result, FrameResult::Delivered | FrameResult::Late);
            if !has_come && self.shown.as_ref().is_some_and(|(shown, ..)| *shown == frame) {
                // Nobody has seen it.
                self.shown = None;
            }
            let (rung, bytes, left) = self.left.remove(&frame).unwrap_or_default();
            let Some(store) = &self.camera.store else { continue };
            store.note(FrameWay {
                frame,
                flow: self.message.flow,
                rung: rung.map(RungName::from),
                bytes,
                left_us: micros(left),
                ended_us: micros(after),
                result: result.name().into(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_frames::jpeg::JpegHeader;
    use tidegate_types::account::Account;

    use super::super::camera::CameraOptions;
    use super::super::codec::{Workers, test_picture};
    use super::super::ladder;
    use super::super::recent::{Recent, RecentLimit};
    use super::*;

    fn camera(differencing: Option<f64>) -> Camera {
        let options = CameraOptions {
            name: "c".into(),
            publishers: Vec::new(),
            subscribers: Vec::new(),
            ladder: ladder::load(None, false).unwrap(),
            source: None,
            preview: false,
            differencing,
        };
        let limit = RecentLimit { span: Duration::ZERO, bytes: 0 };
        Camera::new(options, Workers::new(1), Recent::new(limit, Account::new(0)), None)
    }

    /// A frame that was taken then, of so many pixels a row: each has another pattern.
    fn shot(number: u64, millis: u64, quality: i32, width: usize) -> Shot {
        let jpeg = test_picture(width, 128, quality);
        let head = JpegHeader::read(&jpeg).unwrap();
        Shot::new(number, Time::from_millis(millis), head, jpeg.into())
    }

    #[tokio::test]
    async fn a_frame_that_shows_what_the_last_one_did_is_left_out_for_a_second() {
        let camera = camera(Some(0.02));
        let first = shot(1, 5000, 90, 256);
        let Made::Encoding(_, Some(shows)) = make(&camera, &first, None, None).await else {
            panic!("nothing came before it")
        };
        let shown = Some((1, first.captured_at, shows));
        let leaves = async |shot: Shot, shown: Option<Shown>| match make(
            &camera, &shot, None, shown,
        )
        .await
        {
            Made::Encoding(..) => true,
            Made::Unchanged => false,
            Made::Failed(error) => panic!("{error}"),
        };
        assert!(!leaves(shot(2, 5100, 90, 256), shown.clone()).await, "the same");
        assert!(!leaves(shot(3, 5999, 80, 256), shown.clone()).await, "grain is no change");
        assert!(leaves(shot(4, 6000, 90, 256), shown.clone()).await, "a second is over");
        assert!(leaves(shot(5, 5100, 90, 272), shown.clone()).await, "another size");
        assert!(leaves(shot(6, 5100, 90, 256), None).await, "nobody has seen the last one");
    }

    #[tokio::test]
    async fn all_frames_leave_where_nobody_asked_for_less() {
        let camera = camera(None);
        let first = shot(1, 5000, 90, 256);
        let shown = Some((1, first.captured_at, camera.outline(&first).await.unwrap()));
        let made = make(&camera, &shot(2, 5100, 90, 256), None, shown).await;
        assert!(matches!(made, Made::Encoding(_, None)));
    }
}
