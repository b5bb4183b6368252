//! A camera and an application, by gRPC as anybody would write them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tidegate::services::cameras::test_picture;
use tidegate::services::cameras::wire::{
    CAMERA_INFO, CameraInfo, CameraInfoReply, CameraInfoRequest, FrameMessage, PUBLISH,
    PublishReply, PublishRequest, ReplyKind, SUBSCRIBE, SubscribeReply, SubscribeRequest,
};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::frames::PATIENCE;
use crate::support::certificates::Authority;

/// How often a camera takes a frame.
const PERIOD: Duration = Duration::from_millis(40);

/// What every camera sees: made once, for it takes long.
pub(crate) fn jpeg() -> Bytes {
    static PICTURE: OnceLock<Bytes> = OnceLock::new();
    PICTURE.get_or_init(|| test_picture(1280, 720, 92).into()).clone()
}

/// Somebody at a node.
#[derive(Clone)]
pub(crate) struct Client(Grpc<Channel>);

impl Client {
    /// Without TLS; fails while nobody listens.
    pub(crate) async fn plain(port: u16) -> Result<Client, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{port}"))?;
        Ok(Client::of(endpoint.connect().await?))
    }

    /// With a certificate of this name.
    pub(crate) async fn proven(
        port: u16,
        authority: &Authority,
        name: &str,
    ) -> Result<Client, tonic::transport::Error> {
        let read = |file: std::path::PathBuf| std::fs::read(file).unwrap();
        let issued = authority.issue(name);
        let identity = Identity::from_pem(read(issued.certificate), read(issued.key));
        let ca = Certificate::from_pem(read(authority.ca()));
        let tls = ClientTlsConfig::new().ca_certificate(ca).identity(identity);
        let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}"))?;
        Ok(Client::of(endpoint.tls_config(tls)?.connect().await?))
    }

    fn of(channel: Channel) -> Client {
        Client(Grpc::new(channel).max_decoding_message_size(64 << 20))
    }

    async fn unary<M, R>(&mut self, path: &'static str, message: M) -> Result<R, Status>
    where
        M: Message + Send + Sync + 'static,
        R: Message + Default + Send + 'static,
    {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<M, R>::default();
        let path = PathAndQuery::from_static(path);
        self.0.unary(Request::new(message), path, codec).await.map(Response::into_inner)
    }

    pub(crate) async fn cameras(&mut self) -> Vec<CameraInfo> {
        let all = CameraInfoRequest::default();
        let reply: CameraInfoReply = self.unary(CAMERA_INFO, all).await.unwrap();
        reply.cameras
    }

    /// Frames within bounds; what comes first is left out.
    pub(crate) async fn subscribe(&mut self, request: SubscribeRequest) -> Result<Watch, Status> {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<SubscribeRequest, SubscribeReply>::default();
        let path = PathAndQuery::from_static(SUBSCRIBE);
        let stream = self.0.server_streaming(Request::new(request), path, codec).await?;
        let mut watch = Watch(stream.into_inner());
        let first = watch.next().await?;
        assert!(matches!(first, Some(ReplyKind::Subscribed(_))), "{first:?}");
        Ok(watch)
    }

    pub(crate) async fn publish(&mut self) -> Result<Camera, Status> {
        self.0.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let (frames, stream) = mpsc::channel(1);
        let codec = ProstCodec::<PublishRequest, PublishReply>::default();
        let path = PathAndQuery::from_static(PUBLISH);
        let request = Request::new(ReceiverStream::new(stream));
        let replies = self.0.streaming(request, path, codec).await?.into_inner();
        Ok(Camera { frames, replies })
    }
}

/// What an application asks for.
pub(crate) fn live(camera: &str, latency_ms: u32, accuracy: f64) -> SubscribeRequest {
    SubscribeRequest { camera: camera.into(), latency_ms, accuracy, ..SubscribeRequest::default() }
}

/// A subscription.
pub(crate) struct Watch(Streaming<SubscribeReply>);

impl Watch {
    /// The next thing; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<ReplyKind>, Status> {
        let next = timeout(PATIENCE, self.0.message()).await.expect("nothing came");
        Ok(next?.and_then(|reply| reply.reply))
    }

    /// The next frame.
    pub(crate) async fn frame(&mut self) -> Result<FrameMessage, Status> {
        loop {
            match self.next().await? {
                Some(ReplyKind::Frame(frame)) => return Ok(frame),
                Some(_) => {}
                None => return Err(Status::aborted("it ended")),
            }
        }
    }
}

impl Watch {
    /// The first frame. A flow begins a moment after its subscription was answered, and a frame that was published
    /// before is not in it: so frames are published until one comes.
    pub(crate) async fn first(&mut self, camera: &mut Camera, name: &str) -> FrameMessage {
        let mut period = tokio::time::interval(PERIOD);
        let jpeg = jpeg();
        loop {
            tokio::select! {
                frame = self.frame() => return frame.unwrap(),
                _ = period.tick() => {
                    let request =
                        PublishRequest { camera: name.into(), jpeg: jpeg.clone(), ..Default::default() };
                    camera.send(request).await.unwrap();
                }
            }
        }
    }
}

/// A camera that publishes.
pub(crate) struct Camera {
    frames: mpsc::Sender<PublishRequest>,
    replies: Streaming<PublishReply>,
}

impl Camera {
    /// Publishes one frame and hears what became of it.
    pub(crate) async fn send(&mut self, request: PublishRequest) -> Result<PublishReply, Status> {
        let gone = |_| Status::unavailable("it ended");
        self.frames.send(request).await.map_err(gone)?;
        let reply = timeout(PATIENCE, self.replies.message()).await.expect("no answer");
        reply?.ok_or_else(|| Status::unavailable("it ended"))
    }

    /// One of a camera's, with the time given.
    pub(crate) async fn take(&mut self, camera: &str, unix_ns: u64, jpeg: &Bytes) -> PublishReply {
        let (camera, captured_unix_ns) = (camera.into(), unix_ns);
        let request = PublishRequest { camera, jpeg: jpeg.clone(), captured_unix_ns, age_us: 0 };
        self.send(request).await.unwrap()
    }
}

/// Publishes frames of a camera until it is dropped, and comes back whenever its node does.
pub(crate) struct Film(tokio::task::JoinHandle<()>);

impl Film {
    pub(crate) fn of(camera: &'static str, port: u16, authority: Option<Arc<Authority>>) -> Film {
        Film(tokio::spawn(async move {
            let jpeg = jpeg();
            let mut period = tokio::time::interval(PERIOD);
            loop {
                period.tick().await;
                let client = match &authority {
                    Some(authority) => Client::proven(port, authority, "cam-host").await,
                    None => Client::plain(port).await,
                };
                let Ok(mut client) = client else { continue };
                let Ok(mut publisher) = client.publish().await else { continue };
                let request = || PublishRequest {
                    camera: camera.into(),
                    jpeg: jpeg.clone(),
                    ..PublishRequest::default()
                };
                while publisher.send(request()).await.is_ok() {
                    period.tick().await;
                }
            }
        }))
    }
}

impl Drop for Film {
    fn drop(&mut self) {
        self.0.abort();
    }
}
