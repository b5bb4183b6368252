//! Cameras that publish to a node and applications that subscribe at one, by gRPC.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use bytes::Bytes;
use tidegate::services::cameras::wire::{
    PUBLISH, PublishReply, PublishRequest, ReplyKind, SUBSCRIBE, SubscribeReply, SubscribeRequest,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use super::film::Film;
use crate::net::namespace::{Link, Side};
use crate::rig::CONNECT;

/// Bytes of frames that may be under way to a client: the stream's window, and the connection's.
const WINDOWS: (u32, u32) = (4 << 20, 16 << 20);
/// Largest frame of HTTP/2 that is taken.
const CHUNK: u32 = 1 << 20;
/// Between two tries to be served.
const AGAIN: Duration = Duration::from_millis(100);

/// Nanoseconds since 1970 by a clock that is never set: every client of a run has this one.
pub(super) fn now_ns() -> u64 {
    ns_of(Instant::now())
}

/// A time by the clock of [`now_ns`].
pub(super) fn ns_of(at: Instant) -> u64 {
    static ORIGIN: OnceLock<(Instant, u64)> = OnceLock::new();
    let (origin, unix) = ORIGIN.get_or_init(|| {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (Instant::now(), unix.as_nanos() as u64)
    });
    unix + at.saturating_duration_since(*origin).as_nanos() as u64
}

/// Until a time of [`now_ns`].
pub(super) async fn sleep_until(at_ns: u64) {
    sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns()))).await;
}

/// When a camera takes frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// The first one, by [`now_ns`].
    pub(super) first_ns: u64,
    pub(super) period_ns: u64,
    pub(super) count: u64,
}

impl Schedule {
    /// When each frame is due.
    pub(super) fn dues(self) -> impl Iterator<Item = u64> {
        (0..self.count).map(move |number| self.first_ns + number * self.period_ns)
    }

    /// Which frame was due then.
    pub(super) fn number(self, due_ns: u64) -> usize {
        (due_ns.saturating_sub(self.first_ns) / self.period_ns) as usize
    }
}

/// A frame that came to a subscriber.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Came {
    /// When it was due to be taken.
    pub(super) due_ns: u64,
    /// When it was there.
    pub(super) at_ns: u64,
    /// How old it was when it left its node.
    pub(super) age_ns: u64,
    pub(super) bytes: u64,
    /// Eighths of the source's width, and quality; 0: the source itself.
    pub(super) rung: (u32, u32),
    pub(super) accuracy: f64,
}

/// How a subscriber and who waits for it speak.
#[derive(Debug)]
pub(super) struct Watching {
    /// Told when it is served.
    pub(super) ready: mpsc::Sender<()>,
    /// Told when it is over.
    pub(super) until: watch::Receiver<bool>,
    /// Gets each frame, by when it was due.
    pub(super) kept: Option<mpsc::UnboundedSender<(u64, Bytes)>>,
}

/// Where a node serves, and what is shown there.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) address: SocketAddr,
    pub(super) tls: ClientTlsConfig,
}

impl Seat {
    async fn connect(&self) -> anyhow::Result<Grpc<Channel>> {
        let endpoint = Endpoint::from_shared(format!("https://{}", self.address))?;
        let endpoint = endpoint
            .tls_config(self.tls.clone())?
            .tcp_nodelay(true)
            .max_frame_size(CHUNK)
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1);
        let mut client = Grpc::new(endpoint.connect().await?).max_decoding_message_size(64 << 20);
        client.ready().await?;
        Ok(client)
    }
}

/// Publishes a frame whenever one is due. Answers how many were refused.
pub(super) async fn publish(
    seat: Seat,
    camera: String,
    film: Arc<Film>,
    offset: usize,
    schedule: Schedule,
) -> anyhow::Result<u64> {
    let mut client = seat.connect().await.context("a camera")?;
    let (frames, stream) = mpsc::channel(1);
    let codec = ProstCodec::<PublishRequest, PublishReply>::default();
    let path = PathAndQuery::from_static(PUBLISH);
    let request = Request::new(ReceiverStream::new(stream));
    let mut replies = client.streaming(request, path, codec).await?.into_inner();
    let send = async {
        for (number, due_ns) in schedule.dues().enumerate() {
            sleep_until(due_ns).await;
            let request = PublishRequest {
                camera: camera.clone(),
                jpeg: film.frame(offset + number),
                captured_unix_ns: due_ns,
                age_us: now_ns().saturating_sub(due_ns) / 1000,
            };
            frames.send(request).await.context("the camera's node is gone")?;
        }
        drop(frames);
        anyhow::Ok(())
    };
    let hear = async {
        let mut refused = 0;
        while let Some(reply) = replies.message().await? {
            refused += u64::from(!reply.error.is_empty());
        }
        anyhow::Ok(refused)
    };
    let ((), refused) = tokio::try_join!(send, hear)?;
    Ok(refused)
}

/// Subscribes when the camera is known, and answers what came until it was over.
pub(super) async fn watch(
    seat: Seat,
    request: SubscribeRequest,
    watching: Watching,
) -> anyhow::Result<Vec<Came>> {
    let Watching { ready, mut until, kept } = watching;
    let mut client = seat.connect().await.context("a subscriber")?;
    let end = tokio::time::Instant::now() + CONNECT;
    let mut stream = loop {
        client.ready().await?;
        let codec = ProstCodec::<SubscribeRequest, SubscribeReply>::default();
        let path = PathAndQuery::from_static(SUBSCRIBE);
        match client.server_streaming(Request::new(request.clone()), path, codec).await {
            Ok(reply) => break reply.into_inner(),
            // Its node has not registered yet.
            Err(status) if status.code() == Code::NotFound => sleep(AGAIN).await,
            Err(status) => bail!(status),
        }
        anyhow::ensure!(tokio::time::Instant::now() < end, "{} is not known", request.camera);
    };
    let mut came = Vec::new();
    loop {
        let message = tokio::select! {
            message = stream.message() => message?,
            _ = until.changed() => break,
        };
        match message.and_then(|reply| reply.reply) {
            None => bail!("the subscription ended"),
            Some(ReplyKind::Subscribed(_)) => drop(ready.send(()).await),
            Some(ReplyKind::Frame(frame)) => {
                came.push(Came {
                    due_ns: frame.captured_unix_ns,
                    at_ns: now_ns(),
                    age_ns: frame.age_us * 1000,
                    bytes: frame.jpeg.len() as u64,
                    rung: (frame.eighths, frame.quality),
                    accuracy: frame.accuracy,
                });
                // Who wanted it may have gone.
                let _ = kept.as_ref().map(|kept| kept.send((frame.captured_unix_ns, frame.jpeg)));
            }
            Some(_) => {}
        }
    }
    Ok(came)
}

/// Waits until so many are ready.
pub(super) async fn all_ready(ready: &mut mpsc::Receiver<()>, count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        let next = timeout(CONNECT, ready.recv()).await.context("a subscriber is not served")?;
        next.context("a subscriber ended")?;
    }
    Ok(())
}

/// What a client of another thread will answer.
pub(super) type Answer<T> = oneshot::Receiver<anyhow::Result<T>>;

/// Does a client's work on a side of a link, on a thread and a runtime of its own: its sockets are that side's.
pub(super) fn on<T, F>(
    link: &Link,
    side: Side,
    work: impl FnOnce() -> F + Send + 'static,
) -> anyhow::Result<Answer<T>>
where
    T: Send + 'static,
    F: Future<Output = anyhow::Result<T>>,
{
    let (answer, answered) = oneshot::channel();
    link.thread(side, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = runtime.context("a runtime").and_then(|runtime| runtime.block_on(work()));
        // Who asked may have gone.
        let _ = answer.send(result);
    })?;
    Ok(answered)
}
