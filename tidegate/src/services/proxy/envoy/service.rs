//! What gRPC calls.

use std::future::{Ready, ready};
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService};
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;

use super::dialog::Dialog;
use super::process::process;
use super::wire::{PROCESS, ProcessingRequest, ProcessingResponse};
use crate::services::proxy::listener::Peer;
use crate::services::proxy::worker::WorkerContext;

/// Answers that wait for Envoy: a head, its body and its trailers.
const ANSWERS_MAX: usize = 4;
/// Longest message: a body that a script may see, and its head.
const MESSAGE_MAX: usize = (64 << 20) + (64 << 10);

/// Answers one call.
pub(in crate::services::proxy) async fn answer(
    worker: Rc<WorkerContext>,
    peer: Rc<Peer>,
    request: Request<Incoming>,
) -> Response<Body> {
    if request.uri().path() != PROCESS {
        return Status::unimplemented("this is an external processor: it has Process only")
            .into_http();
    }
    let codec = ProstCodec::<ProcessingResponse, ProcessingRequest>::default();
    let mut grpc = Grpc::new(codec).max_decoding_message_size(MESSAGE_MAX);
    let (answers, all) = mpsc::channel(ANSWERS_MAX);
    let (give, given) = oneshot::channel();
    let response = grpc.streaming(Process { give: Some(give), all: Some(all) }, request).await;
    if let Ok(messages) = given.await {
        spawn_local(process(worker, peer, Dialog::new(messages, answers)));
    }
    response
}

/// Hands the stream out: what speaks with it belongs to this thread, and gRPC's part may not know.
struct Process {
    give: Option<oneshot::Sender<Streaming<ProcessingRequest>>>,
    all: Option<mpsc::Receiver<Result<ProcessingResponse, Status>>>,
}

impl StreamingService<ProcessingRequest> for Process {
    type Response = ProcessingResponse;
    type ResponseStream = ReceiverStream<Result<ProcessingResponse, Status>>;
    type Future = Ready<Result<tonic::Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: tonic::Request<Streaming<ProcessingRequest>>) -> Self::Future {
        let (Some(give), Some(all)) = (self.give.take(), self.all.take()) else {
            return ready(Err(Status::internal("one stream a call")));
        };
        // A send fails only when the connection is gone.
        let _ = give.send(request.into_inner());
        ready(Ok(tonic::Response::new(ReceiverStream::new(all))))
    }
}
