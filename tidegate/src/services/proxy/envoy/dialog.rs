//! What is said with Envoy about one exchange: each part of a message is answered once, in order.

use bytes::Bytes;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::wire::{
    Answer, Asked, BodyMutation, BodySendMode, CommonResponse, HttpBody, Mutation, PartResponse,
    ProcessingRequest, ProcessingResponse, TrailersResponse,
};
use crate::script::Side;

/// Largest piece of a body that is handed back at once: what Envoy asks for.
const PIECE_MAX: usize = 64 << 10;

/// Envoy ended the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// When everything was over.
    Well,
    /// Because the client went away, or anything else broke.
    Badly,
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Dialog {
    messages: Streaming<ProcessingRequest>,
    answers: mpsc::Sender<Result<ProcessingResponse, Status>>,
    /// One that came while something waited.
    pending: Option<Asked>,
    /// How bodies of requests and of responses come.
    modes: [BodySendMode; 2],
}

impl Dialog {
    pub(super) fn new(
        messages: Streaming<ProcessingRequest>,
        answers: mpsc::Sender<Result<ProcessingResponse, Status>>,
    ) -> Dialog {
        Dialog { messages, answers, pending: None, modes: [BodySendMode::Buffered; 2] }
    }

    /// How bodies of this side come.
    pub(super) fn mode(&self, side: Side) -> BodySendMode {
        self.modes[side as usize]
    }

    /// What Envoy says next.
    pub(super) async fn next(&mut self) -> Result<Asked, Gone> {
        match self.pending.take() {
            Some(asked) => Ok(asked),
            None => self.hear().await,
        }
    }

    async fn hear(&mut self) -> Result<Asked, Gone> {
        loop {
            let message = match self.messages.message().await {
                Ok(Some(message)) => message,
                Ok(None) => return Err(Gone::Well),
                Err(_) => return Err(Gone::Badly),
            };
            if message.observability_mode {
                let text = "observability_mode cannot hold anything: take it out";
                // A send fails only when Envoy is gone.
                let _ = self.answers.send(Err(Status::failed_precondition(text))).await;
                return Err(Gone::Badly);
            }
            if let Some(told) = message.protocol_config {
                self.modes = [told.request_body_mode(), told.response_body_mode()];
            }
            if let Some(asked) = message.request {
                return Ok(asked);
            }
        }
    }

    /// Waits for something, as long as Envoy stays.
    pub(super) async fn while_there<T>(
        &mut self,
        waiting: impl Future<Output = T>,
    ) -> Result<T, Gone> {
        tokio::pin!(waiting);
        loop {
            let may_hear = self.pending.is_none();
            tokio::select! {
                biased;
                done = &mut waiting => return Ok(done),
                asked = self.hear(), if may_hear => self.pending = Some(asked?),
            }
        }
    }

    /// Answers.
    pub(super) async fn say(&self, answer: Answer) -> Result<(), Gone> {
        let answer = ProcessingResponse { response: Some(answer) };
        self.answers.send(Ok(answer)).await.map_err(|_| Gone::Badly)
    }

    /// A head goes, so changed.
    pub(super) async fn head(&self, side: Side, common: CommonResponse) -> Result<(), Gone> {
        let part = PartResponse { response: Some(common) };
        self.say(match side {
            Side::Request => Answer::RequestHeaders(part),
            Side::Response => Answer::ResponseHeaders(part),
        })
        .await
    }

    /// A body goes, so changed.
    pub(super) async fn body(&self, side: Side, common: CommonResponse) -> Result<(), Gone> {
        let part = PartResponse { response: Some(common) };
        self.say(match side {
            Side::Request => Answer::RequestBody(part),
            Side::Response => Answer::ResponseBody(part),
        })
        .await
    }

    /// Trailers go as they are.
    pub(super) async fn trailers(&self, side: Side) -> Result<(), Gone> {
        self.say(match side {
            Side::Request => Answer::RequestTrailers(TrailersResponse {}),
            Side::Response => Answer::ResponseTrailers(TrailersResponse {}),
        })
        .await
    }

    /// Part of a body goes as it is, in the way that its mode wants.
    pub(super) async fn pass_body(&self, side: Side, body: HttpBody) -> Result<(), Gone> {
        match self.mode(side) {
            BodySendMode::FullDuplexStreamed | BodySendMode::Grpc => {
                self.stream(side, body.body, body.end_of_stream).await
            }
            _ => self.body(side, CommonResponse::default()).await,
        }
    }

    /// Hands a body back in pieces.
    pub(super) async fn stream(
        &self,
        side: Side,
        mut body: Bytes,
        is_end: bool,
    ) -> Result<(), Gone> {
        let is_whole_message = self.mode(side) == BodySendMode::Grpc;
        loop {
            let most = if is_whole_message { body.len() } else { PIECE_MAX.min(body.len()) };
            let piece = HttpBody { body: body.split_to(most), end_of_stream: false };
            let piece = HttpBody { end_of_stream: is_end && body.is_empty(), ..piece };
            let mutation = BodyMutation { mutation: Some(Mutation::Streamed(piece)) };
            let common =
                CommonResponse { body_mutation: Some(mutation), ..CommonResponse::default() };
            self.body(side, common).await?;
            if body.is_empty() {
                return Ok(());
            }
        }
    }
}
