//! What of a body is held back with its message, and how it goes on.

use bytes::{Bytes, BytesMut};
use tidegate_types::record::Record;
use tokio::time::timeout;

use super::dialog::Gone;
use super::process::{Stop, Talk};
use super::wire::{
    Asked, BodyMutation, BodySendMode, CommonResponse, HttpBody, Mutation, ResponseStatus,
};
use crate::config::BodyMode;
use crate::script::Side;
use crate::services::proxy::answer::Failure;
use crate::services::proxy::room::Share;
use crate::services::proxy::routes::Route;

/// What of a message came, and was held back.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Bytes that belong to the message: all of it where it is whole.
    pub(super) data: Bytes,
    pub(super) is_whole: bool,
    /// Whether Envoy waits for an answer to the body, and no more to one to the head.
    pub(super) is_body_asked: bool,
    /// Whether it is to be handed back in pieces.
    pub(super) is_streamed: bool,
    /// Trailers came behind the body, and wait too.
    pub(super) has_trailers: bool,
    /// Its bytes, taken before they came.
    _share: Option<Share>,
}

impl Talk<'_> {
    /// As much of a body as belongs to its message.
    pub(super) async fn gather(
        &mut self,
        side: Side,
        route: &Route,
        is_end: bool,
        length: Option<u64>,
    ) -> Result<Held, Stop> {
        if is_end {
            return Ok(Held { is_whole: true, ..Held::default() });
        }
        let is_short = match route.body {
            BodyMode::Head => false,
            BodyMode::Length => length.is_some_and(|length| length <= route.message_max),
            BodyMode::Whole => length.is_none_or(|length| length <= route.message_max),
        };
        let mode = self.dialog.mode(side);
        let is_buffered = matches!(mode, BodySendMode::Buffered | BodySendMode::BufferedPartial);
        let is_duplex = mode == BodySendMode::FullDuplexStreamed;
        if !route.scripts[side as usize] || !is_short || !(is_buffered || is_duplex) {
            return Ok(Held::default());
        }
        let most = length.unwrap_or(route.message_max);
        let share = self.peer.room.hold(most)?;
        let gathering = self.read(side, route.message_max, mode);
        let late = if side == Side::Request { Failure::BodyTimeout } else { Failure::Timeout };
        match timeout(route.timeout, gathering).await {
            Ok(held) => Ok(Held { _share: Some(share), ..held? }),
            Err(_) => Err(late.into()),
        }
    }

    async fn read(&mut self, side: Side, max: u64, mode: BodySendMode) -> Result<Held, Gone> {
        let is_duplex = mode == BodySendMode::FullDuplexStreamed;
        if !is_duplex {
            // Only then it sends the body.
            self.dialog.head(side, CommonResponse::default()).await?;
        }
        let mut held =
            Held { is_body_asked: !is_duplex, is_streamed: is_duplex, ..Held::default() };
        let mut data = BytesMut::new();
        loop {
            match (side, self.dialog.next().await?) {
                (Side::Request, Asked::RequestBody(HttpBody { body, end_of_stream }))
                | (Side::Response, Asked::ResponseBody(HttpBody { body, end_of_stream })) => {
                    if !is_duplex {
                        // A part of one that was too long passes as it is.
                        let is_whole = end_of_stream || mode == BodySendMode::Buffered;
                        return Ok(Held { data: body, is_whole, ..held });
                    }
                    data.extend_from_slice(&body);
                    held.is_whole = end_of_stream;
                    if end_of_stream || data.len() as u64 > max {
                        return Ok(Held { data: data.freeze(), ..held });
                    }
                }
                (Side::Request, Asked::RequestTrailers(_))
                | (Side::Response, Asked::ResponseTrailers(_)) => {
                    let data = data.freeze();
                    return Ok(Held { data, is_whole: true, has_trailers: true, ..held });
                }
                (_, other) => self.pass_one(other).await?,
            }
        }
    }

    /// A message goes, as its script left it.
    pub(super) async fn release(
        &mut self,
        side: Side,
        held: Held,
        record: &Record,
        common: CommonResponse,
    ) -> Result<(), Gone> {
        let data = if held.is_whole { record.payload.clone() } else { held.data.clone() };
        let is_same = data.as_ptr() == held.data.as_ptr() && data.len() == held.data.len();
        let mutation = match data.is_empty() {
            true => Mutation::ClearBody(true),
            false => Mutation::Body(data.clone()),
        };
        let is_told = !is_same && !held.is_streamed;
        let body_mutation = is_told.then_some(BodyMutation { mutation: Some(mutation) });
        let common = CommonResponse { body_mutation, ..common };
        if held.is_body_asked {
            return self.dialog.body(side, common).await;
        }
        // A body where there was none.
        let status = if common.body_mutation.is_some() {
            ResponseStatus::ContinueAndReplace
        } else {
            ResponseStatus::Continue
        };
        self.dialog.head(side, CommonResponse { status: status as i32, ..common }).await?;
        if held.is_streamed {
            let is_end = held.is_whole && !held.has_trailers;
            self.dialog.stream(side, data, is_end).await?;
        }
        if held.has_trailers {
            self.dialog.trailers(side).await?;
        }
        Ok(())
    }
}

/// What the head says of the body's length.
pub(super) fn length_of(headers: &hyper::HeaderMap) -> Option<u64> {
    headers.get(hyper::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
