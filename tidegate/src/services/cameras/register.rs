//! A camera node and its edge server: the node tells its cameras, and hears which frames are wanted. Each side
//! of the stream finds the other one's silence.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::camera::Camera;
use super::desk::{Cameras, Desk};
use super::sender::SendOptions;
use super::service::FramesService;
use super::wire::{CameraInfo, FlowMessage, NewsMessage, REGISTER, RegisterReply, RegisterRequest};
use crate::node::contract::Intake;
use crate::services::fleet::FleetTls;
use crate::support::backoff::Backoff;

/// How often a node tells its cameras.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// Silence after which the other end is taken for gone.
const SILENCE: Duration = Duration::from_secs(5);
/// Waits between attempts to reach the server.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// How often the first server is tried while another one serves; less often each time that it is lost again within
/// the longer span.
const AGAIN: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(60));
/// How long subscribers of live frames wait for a node that is gone: a restart takes less, and a node that has another
/// server is there after [`SILENCE`].
const AWAY: Duration = Duration::from_secs(15);
/// How long an attempt may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// News that wait to be told.
pub(super) const NEWS_MAX: usize = 64;

/// The node's end.
#[derive(Clone, Debug)]
pub(super) struct Registrar {
    /// Our name.
    pub(super) node: Arc<str>,
    /// `host:port` of the servers, in the order in which they are tried.
    pub(super) servers: Vec<String>,
    pub(super) tls: Option<FleetTls>,
    pub(super) cameras: Cameras,
    pub(super) options: SendOptions,
    pub(super) intake: Intake,
}

/// A registration that the server has answered.
struct Session {
    requests: mpsc::Sender<RegisterRequest>,
    replies: Streaming<RegisterReply>,
    first: RegisterReply,
}

impl Registrar {
    /// Keeps the cameras registered until the node stops: at the first server that answers.
    pub(super) async fn run(self) {
        let mut waits = Backoff::within(WAITS.0, WAITS.1);
        let mut again = Backoff::within(AGAIN.0, AGAIN.1);
        let mut was_there = true;
        let (mut way, mut opened) = (0, None);
        loop {
            let pause = if way > 0 { again.next() } else { Duration::ZERO };
            let began_at = Instant::now();
            let why = tokio::select! {
                ended = self.attend(way, opened.take(), &mut waits, &mut was_there) => ended,
                session = self.first_is_back(pause), if way > 0 => {
                    tracing::info!("the edge server at {} is back", self.servers[0]);
                    (way, opened) = (0, Some(session));
                    continue;
                }
                () = self.intake.closed() => return,
            };
            if way == 0 && began_at.elapsed() >= AGAIN.1 {
                again.reset();
            }
            if std::mem::take(&mut was_there) {
                let server = &self.servers[way];
                tracing::warn!(
                    "no edge server at {server}: nobody is served ({why:#}); trying again"
                );
            }
            way = (way + 1) % self.servers.len();
            if way > 0 {
                continue;
            }
            tokio::select! {
                () = sleep(waits.next()) => {}
                () = self.intake.closed() => return,
            }
        }
    }

    async fn channel(&self, way: usize) -> anyhow::Result<Channel> {
        let server = &self.servers[way];
        let endpoint = match &self.tls {
            Some(tls) => tls.endpoint(server)?,
            None => Endpoint::from_shared(format!("http://{server}"))?,
        };
        Ok(endpoint.connect_timeout(PATIENCE).connect().await?)
    }

    /// One stream, to its end; answers why it ended.
    async fn attend(
        &self,
        way: usize,
        opened: Option<Session>,
        waits: &mut Backoff,
        was_there: &mut bool,
    ) -> anyhow::Error {
        let talk = async {
            let session = match opened {
                Some(session) => session,
                None => self.open(way).await?,
            };
            tracing::info!("cameras are registered at {}", self.servers[way]);
            *was_there = true;
            waits.reset();
            self.talk(way, session).await
        };
        match talk.await {
            Ok(()) => anyhow::anyhow!("it closed the stream"),
            Err(error) => error,
        }
    }

    /// Waits until the first server has our cameras registered again: that it takes connections says little.
    async fn first_is_back(&self, pause: Duration) -> Session {
        loop {
            sleep(pause).await;
            if let Ok(session) = self.open(0).await {
                return session;
            }
        }
    }

    /// Registers the cameras at a server. It has answered once.
    async fn open(&self, way: usize) -> anyhow::Result<Session> {
        let channel = self.channel(way).await?;
        let answered = timeout(SILENCE, self.register(channel)).await;
        answered.context("it takes connections, and does not answer")?
    }

    async fn register(&self, channel: Channel) -> anyhow::Result<Session> {
        let mut grpc = Grpc::new(channel);
        grpc.ready().await?;
        let (requests, stream) = mpsc::channel(1);
        requests.send(self.first()).await?;
        let codec = ProstCodec::<RegisterRequest, RegisterReply>::default();
        let request = Request::new(ReceiverStream::new(stream));
        let path = PathAndQuery::from_static(REGISTER);
        let replies = grpc.streaming(request, path, codec).await.map_err(told)?;
        let mut replies = replies.into_inner();
        let first = replies.message().await.map_err(told)?.context("it closed the stream")?;
        Ok(Session { requests, replies, first })
    }

    async fn talk(&self, way: usize, session: Session) -> anyhow::Result<()> {
        let Session { requests, mut replies, first } = session;
        let (news, mut heard) = mpsc::channel(NEWS_MAX);
        let options = SendOptions { way, ..self.options };
        let mut desk = Desk::new(self.cameras.clone(), options, self.intake.clone(), news);
        desk.set(&first.flows);
        let mut period = interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard_at = Instant::now();
        loop {
            let state = tokio::select! {
                reply = replies.message() => {
                    let Some(RegisterReply { flows }) = reply.map_err(told)? else { return Ok(()) };
                    heard_at = Instant::now();
                    desk.set(&flows);
                    continue;
                }
                Some(first) = heard.recv() => {
                    let mut news = vec![first];
                    while let Ok(next) = heard.try_recv() {
                        news.push(next);
                    }
                    self.state(news)
                }
                _ = period.tick() => {
                    ensure!(heard_at.elapsed() < SILENCE, "it is silent");
                    self.state(Vec::new())
                }
            };
            timeout(SILENCE, requests.send(state)).await.context("it takes nothing")??;
        }
    }

    fn first(&self) -> RegisterRequest {
        let cameras = self.cameras.values().map(|camera| camera.info(&self.node)).collect();
        RegisterRequest { cameras, ..self.state(Vec::new()) }
    }

    /// What changes; the ladders were told once.
    fn state(&self, news: Vec<NewsMessage>) -> RegisterRequest {
        let of =
            |camera: &Arc<Camera>| CameraInfo { ladder: Vec::new(), ..camera.info(&self.node) };
        let cameras = self.cameras.values().map(of).collect();
        RegisterRequest { node: self.node.to_string(), cameras, news }
    }
}

fn told(status: Status) -> anyhow::Error {
    anyhow::anyhow!("{}", status.message())
}

/// The server's end of one node's stream.
pub(super) async fn serve(
    service: FramesService,
    who: String,
    mut requests: Streaming<RegisterRequest>,
    replies: mpsc::Sender<Result<RegisterReply, Status>>,
) {
    let refuse = |status: Status| async {
        let _ = replies.send(Err(status)).await;
    };
    let Ok(Some(first)) = requests.message().await else { return };
    let node = match service.node_of(&who, &first.node) {
        Ok(node) => node,
        Err(status) => return refuse(status).await,
    };
    let (registration, wanted) = service.shelf.register(&node);
    if let Err(status) = service.shelf.update(&node, first.cameras) {
        service.shelf.gone(&node, registration);
        return refuse(status).await;
    }
    tracing::info!(%node, "a camera node is there");
    let served = Served { service: &service, node: &node, wanted, replies: &replies };
    let ended = served.run(&mut requests).await;
    if service.shelf.gone(&node, registration) {
        let why =
            ended.as_ref().map_or_else(|status| status.message(), |()| "it closed the stream");
        tracing::info!(%node, "a camera node is gone: {why}");
        let shelf = service.shelf.clone();
        tokio::spawn(async move {
            sleep(AWAY).await;
            shelf.stays_away(&node, registration);
        });
    }
    if let Err(status) = ended {
        refuse(status).await;
    }
}

struct Served<'a> {
    service: &'a FramesService,
    node: &'a str,
    wanted: watch::Receiver<Vec<FlowMessage>>,
    replies: &'a mpsc::Sender<Result<RegisterReply, Status>>,
}

impl Served<'_> {
    async fn run(mut self, requests: &mut Streaming<RegisterRequest>) -> Result<(), Status> {
        let mut period = interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard_at = Instant::now();
        loop {
            tokio::select! {
                request = requests.message() => {
                    let Some(request) = request? else { return Ok(()) };
                    heard_at = Instant::now();
                    let RegisterRequest { cameras, news, .. } = request;
                    self.service.shelf.update(self.node, cameras)?;
                    news.into_iter().for_each(|news| self.service.shelf.news(self.node, news));
                }
                changed = self.wanted.changed() => {
                    // Another stream of the same node has taken its place.
                    changed.map_err(|_| Status::aborted("the node has registered anew"))?;
                    self.tell().await?;
                }
                _ = period.tick() => {
                    if heard_at.elapsed() >= SILENCE {
                        return Err(Status::deadline_exceeded("it is silent"));
                    }
                    self.tell().await?;
                }
            }
        }
    }

    async fn tell(&mut self) -> Result<(), Status> {
        let flows = self.wanted.borrow_and_update().clone();
        let gone = |_| Status::cancelled("it closed the stream");
        self.replies.send(Ok(RegisterReply { flows })).await.map_err(gone)
    }
}
