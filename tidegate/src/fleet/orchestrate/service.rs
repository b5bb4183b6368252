//! What gRPC calls: who a caller is, and what it may.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_fleet::{Heartbeat, NodeId};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use super::callers::{Call, Callers};
use super::hub::{Attendant, Hub};
use crate::fleet::codec::SmallCodec;
use crate::fleet::node_id;
use crate::fleet::wire::{
    ATTEND, BeatMessage, CLASSES_KEY, DESCRIBE, DIGEST, DRAIN, DescribeRequest, Description,
    DigestMessage, DigestRequest, DirectiveMessage, DrainReply, DrainRequest, LENDERS, LISTEN_KEY,
    LendersReply, LendersRequest, SITE_KEY,
};
use crate::tls::Certificate;

/// Bytes of a beat: of a node with thousands of neighbours.
const BEAT_MAX: usize = 256 * 1024;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// The service. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct FleetService {
    hub: Hub,
    callers: Arc<Callers>,
}

impl FleetService {
    pub(super) fn new(hub: Hub, callers: Callers) -> Self {
        FleetService { hub, callers: Arc::new(callers) }
    }
}

impl Service<http::Request<Body>> for FleetService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Boxed<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                ATTEND => {
                    let codec = SmallCodec::<DirectiveMessage, BeatMessage>::default();
                    let mut grpc = Grpc::new(codec).max_decoding_message_size(BEAT_MAX);
                    grpc.streaming(Attend(service), request).await
                }
                DESCRIBE => {
                    let codec = ProstCodec::<Description, DescribeRequest>::default();
                    Grpc::new(codec).unary(Describe(service), request).await
                }
                DRAIN => {
                    let codec = ProstCodec::<DrainReply, DrainRequest>::default();
                    Grpc::new(codec).unary(Drain(service), request).await
                }
                LENDERS => {
                    let codec = ProstCodec::<LendersReply, LendersRequest>::default();
                    Grpc::new(codec).unary(Lenders(service), request).await
                }
                DIGEST => {
                    let codec = ProstCodec::<DigestMessage, DigestRequest>::default();
                    Grpc::new(codec).unary(Digest(service), request).await
                }
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// The name in the caller's certificate, if it may do this.
fn name_of<T>(request: &Request<T>, callers: &Callers, call: Call) -> Result<Arc<str>, Status> {
    let certificates = request.peer_certs();
    let first = certificates.as_ref().and_then(|all| all.first());
    let read = first.and_then(|der| Certificate::read(der).ok());
    let nameless = || Status::unauthenticated("your certificate has no common name");
    let certificate = read.ok_or_else(nameless)?;
    callers.check(&certificate, call).map_err(Status::permission_denied)?;
    Ok(certificate.common_name.ok_or_else(nameless)?.into())
}

struct Attend(FleetService);

impl StreamingService<BeatMessage> for Attend {
    type Response = DirectiveMessage;
    type ResponseStream = ReceiverStream<Result<DirectiveMessage, Status>>;
    type Future = Boxed<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<BeatMessage>>) -> Self::Future {
        let FleetService { hub, callers } = self.0.clone();
        Box::pin(async move {
            let name = name_of(&request, &callers, Call::Attend)?;
            let node = node_id(&name);
            let told =
                |key: &str| request.metadata().get(key).and_then(|value| value.to_str().ok());
            let attendant = Attendant {
                name: name.clone(),
                listen: told(LISTEN_KEY).map(Into::into),
                site: told(SITE_KEY).unwrap_or_default().into(),
                classes: told(CLASSES_KEY).unwrap_or_default().into(),
            };
            let mut beats = request.into_inner();
            let directives = hub.join(attendant).await?;
            tokio::spawn(async move {
                let why = loop {
                    let beat = match beats.message().await {
                        Ok(Some(message)) => Heartbeat::try_from(message),
                        Ok(None) => break "it closed the stream".to_owned(),
                        Err(status) => break status.message().to_owned(),
                    };
                    match beat {
                        // A node speaks for itself only.
                        Ok(beat) if beat.node == node => {
                            let claim = beat.check(callers.uplink_max);
                            if hub.beat(beat).await.is_err() {
                                break "the orchestrator is stopping".to_owned();
                            }
                            if let Err(claim) = claim {
                                break format!(
                                    "it claims {claim}: no node has that ([orchestrator] uplink_max)"
                                );
                            }
                        }
                        Ok(_) => break "it speaks for another node".to_owned(),
                        Err(error) => break format!("a beat that makes no sense: {error}"),
                    }
                };
                tracing::info!(node = %name, "a node is gone: {why}");
            });
            Ok(Response::new(ReceiverStream::new(directives)))
        })
    }
}

struct Describe(FleetService);

impl UnaryService<DescribeRequest> for Describe {
    type Response = Description;
    type Future = Boxed<Result<Response<Description>, Status>>;

    fn call(&mut self, request: Request<DescribeRequest>) -> Self::Future {
        let FleetService { hub, callers } = self.0.clone();
        let given_to = NodeId(request.get_ref().given_to);
        Box::pin(async move {
            name_of(&request, &callers, Call::Describe)?;
            Ok(Response::new(hub.describe(given_to).await?))
        })
    }
}

struct Lenders(FleetService);

impl UnaryService<LendersRequest> for Lenders {
    type Response = LendersReply;
    type Future = Boxed<Result<Response<LendersReply>, Status>>;

    fn call(&mut self, request: Request<LendersRequest>) -> Self::Future {
        let FleetService { hub, callers } = self.0.clone();
        Box::pin(async move {
            let caller = name_of(&request, &callers, Call::Attend)?;
            Ok(Response::new(LendersReply { lenders: hub.lenders(node_id(&caller)).await? }))
        })
    }
}

struct Digest(FleetService);

impl UnaryService<DigestRequest> for Digest {
    type Response = DigestMessage;
    type Future = Boxed<Result<Response<DigestMessage>, Status>>;

    fn call(&mut self, request: Request<DigestRequest>) -> Self::Future {
        let FleetService { hub, callers } = self.0.clone();
        Box::pin(async move {
            name_of(&request, &callers, Call::Follow)?;
            let (revision, digest) = hub.digest().await?;
            Ok(Response::new(DigestMessage::new(revision, &digest)))
        })
    }
}

struct Drain(FleetService);

impl UnaryService<DrainRequest> for Drain {
    type Response = DrainReply;
    type Future = Boxed<Result<Response<DrainReply>, Status>>;

    fn call(&mut self, request: Request<DrainRequest>) -> Self::Future {
        let FleetService { hub, callers } = self.0.clone();
        Box::pin(async move {
            let caller = name_of(&request, &callers, Call::Drain)?;
            let DrainRequest { name, is_drained } = request.into_inner();
            tracing::info!(node = %name, is_drained, by = %caller, "drain");
            let is_known = hub.drain(node_id(&name), is_drained).await?;
            Ok(Response::new(DrainReply { is_known }))
        })
    }
}
