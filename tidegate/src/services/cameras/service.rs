//! What gRPC calls: who a caller is, and which method answers.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_frames::piece::FRAME_MAX;
use tidegate_types::account::{Account, Level};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codec::Codec;
use tonic::codegen::{Service, http};
use tonic::metadata::MetadataMap;
use tonic::server::{Grpc, StreamingService};
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::arriving::Arriving;
use super::desk::Cameras;
use super::publish;
use super::register;
use super::replies::Replies;
use super::shelf::{Shelf, may};
use super::wire::{
    CAMERA_INFO, CONNECT, CameraInfoReply, CameraInfoRequest, ConnectReply, ConnectRequest,
    PUBLISH, PublishReply, PublishRequest, REGISTER, RegisterReply, RegisterRequest, SUBSCRIBE,
    SubscribeRequest, UNREGISTER, UNSUBSCRIBE, UnregisterReply, UnregisterRequest,
    UnsubscribeReply, UnsubscribeRequest,
};
use crate::node::contract::Intake;
use crate::support::places::address;
use crate::support::tls::Certificate;

/// What a message has beside its frame.
const BESIDE: usize = 64 << 10;

pub(super) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The service. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct FramesService {
    pub(super) node: Arc<str>,
    pub(super) cameras: Cameras,
    pub(super) shelf: Shelf,
    pub(super) intake: Intake,
    /// Names that may register cameras; all where it is empty.
    pub(super) nodes: Arc<[String]>,
    /// Whether callers must prove who they are.
    pub(super) is_proven: bool,
    /// Room for what comes by this listener.
    pub(super) account: Account,
}

/// The name under which a caller has room: that of its address.
fn caller(request: &http::Request<Body>) -> String {
    let plain = request.extensions().get::<TcpConnectInfo>();
    let tls = request.extensions().get::<TlsConnectInfo<TcpConnectInfo>>();
    let tcp = plain.or(tls.map(TlsConnectInfo::get_ref));
    let peer = tcp.and_then(TcpConnectInfo::remote_addr);
    peer.map_or_else(String::new, |peer| address(peer.ip()))
}

/// An answer that takes no waiting.
struct Ask<F>(F);

impl<F, M, R> Service<Request<M>> for Ask<F>
where
    F: FnMut(Request<M>) -> Result<R, Status>,
{
    type Response = Response<R>;
    type Error = Status;
    type Future = std::future::Ready<Result<Response<R>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<M>) -> Self::Future {
        std::future::ready((self.0)(request).map(Response::new))
    }
}

/// Answers one question.
async fn ask<M, R>(
    request: http::Request<Body>,
    answer: impl FnMut(Request<M>) -> Result<R, Status> + Send,
) -> http::Response<Body>
where
    M: prost::Message + Default + Send + 'static,
    R: prost::Message + Send + 'static,
{
    Grpc::new(ProstCodec::<R, M>::default()).unary(Ask(answer), request).await
}

impl FramesService {
    /// The name in the caller's certificate; nothing where nobody has one.
    pub(super) fn who<T>(&self, request: &Request<T>) -> Result<String, Status> {
        if !self.is_proven {
            return Ok(String::new());
        }
        let certificates = request.peer_certs();
        let first = certificates.as_ref().and_then(|all| all.first());
        let read = first.and_then(|der| Certificate::read(der).ok());
        let name = read.and_then(|certificate| certificate.common_name);
        name.ok_or_else(|| Status::unauthenticated("your certificate has no common name"))
    }

    /// The name of a camera node: that of its certificate, where it has one, and one that may come.
    pub(super) fn node_of(&self, who: &str, told: &str) -> Result<String, Status> {
        let name = if self.is_proven { who } else { told };
        if name.is_empty() || (self.is_proven && !told.is_empty() && told != who) {
            let text = format!("node {told:?} has a certificate of {who:?}: they must be alike");
            return Err(Status::permission_denied(text));
        }
        if !may(&self.nodes, name) {
            return Err(Status::permission_denied(format!(
                "node {name:?} is not in [frames] nodes"
            )));
        }
        Ok(name.into())
    }

    fn connect(&self, who: &str) -> ConnectReply {
        ConnectReply {
            node: self.node.to_string(),
            version: env!("CARGO_PKG_VERSION").into(),
            cameras: self.shelf.cameras(who, ""),
            identity: who.into(),
        }
    }

    /// A refused question about a camera is as good as one about none: names are no news to strangers.
    fn info(&self, who: &str, name: &str) -> Result<CameraInfoReply, Status> {
        let cameras = self.shelf.cameras(who, name);
        if cameras.is_empty() && !name.is_empty() {
            let text =
                format!("no camera {name:?} is registered here, or none that {who:?} may see");
            return Err(Status::not_found(text));
        }
        Ok(CameraInfoReply { cameras })
    }

    /// Frames until either end has enough: what `Replies` gives is written by hand.
    async fn subscribe(
        &self,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, Status> {
        let (head, body) = request.into_parts();
        let decoder = ProstCodec::<(), SubscribeRequest>::default().decoder();
        let mut requests = Streaming::new_request(decoder, body, None, None);
        let asked = requests.message().await?;
        let asked = asked.ok_or_else(|| Status::invalid_argument("there is no request"))?;
        let request = Request::from_parts(MetadataMap::new(), head.extensions, asked);
        let who = self.who(&request)?;
        let (id, slot) = self.shelf.subscribe(&who, request.get_ref())?;
        let replies = Replies {
            shelf: self.shelf.clone(),
            clock: self.intake.clock(),
            who,
            id,
            slot,
            has_begun: false,
            picture: None,
            is_over: false,
        };
        let mut response = http::Response::new(Body::new(replies));
        let kind = http::HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        Ok(response)
    }

    async fn answer(self, request: http::Request<Body>) -> http::Response<Body> {
        match request.uri().path() {
            CONNECT => {
                ask(request, |request: Request<ConnectRequest>| {
                    Ok(self.connect(&self.who(&request)?))
                })
                .await
            }
            CAMERA_INFO => {
                ask(request, |request: Request<CameraInfoRequest>| {
                    self.info(&self.who(&request)?, &request.get_ref().camera)
                })
                .await
            }
            UNSUBSCRIBE => {
                ask(request, |request: Request<UnsubscribeRequest>| {
                    let who = self.who(&request)?;
                    let was_known = self.shelf.unsubscribe(&who, request.get_ref().id);
                    Ok(UnsubscribeReply { was_known })
                })
                .await
            }
            UNREGISTER => {
                ask(request, |request: Request<UnregisterRequest>| {
                    let node = self.node_of(&self.who(&request)?, &request.get_ref().node)?;
                    Ok(UnregisterReply { was_known: self.shelf.unregister(&node) })
                })
                .await
            }
            SUBSCRIBE => self.subscribe(request).await.unwrap_or_else(Status::into_http),
            PUBLISH => {
                let codec = ProstCodec::<PublishReply, PublishRequest>::default();
                let mut grpc = Grpc::new(codec).max_decoding_message_size(FRAME_MAX + BESIDE);
                let account = self.account.fair_named(Level::User, &caller(&request));
                let request = request.map(|body| Body::new(Arriving::new(body, account)));
                grpc.streaming(Publish(self), request).await
            }
            REGISTER => {
                let codec = ProstCodec::<RegisterReply, RegisterRequest>::default();
                Grpc::new(codec).streaming(Register(self), request).await
            }
            _ => Status::unimplemented("no such method").into_http(),
        }
    }
}

impl Service<http::Request<Body>> for FramesService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}

type Stream<R> = ReceiverStream<Result<R, Status>>;

struct Publish(FramesService);

impl StreamingService<PublishRequest> for Publish {
    type Response = PublishReply;
    type ResponseStream = Stream<PublishReply>;
    type Future = Boxed<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<PublishRequest>>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            let who = service.who(&request)?;
            let (replies, stream) = mpsc::channel(1);
            let publisher =
                publish::Publisher { who, cameras: service.cameras, intake: service.intake };
            tokio::spawn(publisher.run(request.into_inner(), replies));
            Ok(Response::new(ReceiverStream::new(stream)))
        })
    }
}

struct Register(FramesService);

impl StreamingService<RegisterRequest> for Register {
    type Response = RegisterReply;
    type ResponseStream = Stream<RegisterReply>;
    type Future = Boxed<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<RegisterRequest>>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            let who = service.who(&request)?;
            let (replies, stream) = mpsc::channel(1);
            tokio::spawn(register::serve(service, who, request.into_inner(), replies));
            Ok(Response::new(ReceiverStream::new(stream)))
        })
    }
}
