//! What a subscriber hears, as the body of a gRPC answer: a frame's bytes go to the connection as they are, the same
//! ones for all subscribers. tonic's encoder would copy them for each.
//!
//! Nothing waits here: what comes next is asked for when the connection has room for it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{BufMut, Bytes, BytesMut};
use hyper::body::{Body, Frame};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};
use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderValue};

use super::shelf::Shelf;
use super::slot::Slot;
use super::wire::{FrameMessage, ReplyKind, SubscribeReply, SubscribedMessage};
use crate::support::time::Clock;

/// Before each message of gRPC: not compressed, and its length.
const PREFIX: usize = 5;
/// `SubscribeReply.frame` and `Frame.jpeg`.
const FRAME: u32 = 2;
const JPEG: u32 = 14;

/// A subscription's answer. Dropping it ends the subscription.
#[derive(Debug)]
pub(super) struct Replies {
    pub(super) shelf: Shelf,
    pub(super) clock: Clock,
    pub(super) who: String,
    pub(super) id: u64,
    pub(super) slot: Arc<Slot>,
    /// Whether the first reply was given.
    pub(super) has_begun: bool,
    /// The picture of the frame whose head was given.
    pub(super) picture: Option<Bytes>,
    /// Whether the last word was given.
    pub(super) is_over: bool,
}

impl Drop for Replies {
    fn drop(&mut self) {
        self.shelf.unsubscribe(&self.who, self.id);
    }
}

impl Body for Replies {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(picture) = self.picture.take() {
            return Poll::Ready(Some(Ok(Frame::data(picture))));
        }
        if self.is_over {
            return Poll::Ready(None);
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            let first = ReplyKind::Subscribed(SubscribedMessage { id: self.id });
            return Poll::Ready(Some(Ok(Frame::data(small(first)))));
        }
        let clock = self.clock;
        let Poll::Ready(next) = self.slot.poll_next(context, || clock.now()) else {
            return Poll::Pending;
        };
        let frame = match next {
            None => {
                self.is_over = true;
                Frame::trailers(last_word(&self.slot))
            }
            Some(ReplyKind::Frame(frame)) => {
                let (head, picture) = large(frame);
                self.picture = Some(picture).filter(|picture| !picture.is_empty());
                Frame::data(head)
            }
            Some(other) => Frame::data(small(other)),
        };
        Poll::Ready(Some(Ok(frame)))
    }
}

/// How a stream ends: well, or because its camera is away.
fn last_word(slot: &Slot) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    if slot.is_away() {
        // A text of ours has no character that a header cannot have.
        let _ = Status::unavailable("its camera is away").add_header(&mut trailers);
    } else {
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
    }
    trailers
}

/// A reply as it travels.
fn small(reply: ReplyKind) -> Bytes {
    let message = SubscribeReply::from(reply);
    let mut bytes = BytesMut::with_capacity(PREFIX + message.encoded_len());
    prefix(message.encoded_len(), &mut bytes);
    // A buffer that grows has room for everything.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}

/// The reply that is a frame, all but its picture, which is the last thing of it; and the picture.
fn large(mut frame: FrameMessage) -> (Bytes, Bytes) {
    let picture = std::mem::take(&mut frame.jpeg);
    let own = frame.encoded_len();
    let of_picture = match picture.len() {
        0 => 0,
        length => key_len(JPEG) + encoded_len_varint(length as u64) + length,
    };
    let inner = own + of_picture;
    let all = key_len(FRAME) + encoded_len_varint(inner as u64) + inner;
    let mut bytes = BytesMut::with_capacity(PREFIX + all - picture.len());
    prefix(all, &mut bytes);
    encode_key(FRAME, WireType::LengthDelimited, &mut bytes);
    encode_varint(inner as u64, &mut bytes);
    let _ = frame.encode(&mut bytes);
    if !picture.is_empty() {
        encode_key(JPEG, WireType::LengthDelimited, &mut bytes);
        encode_varint(picture.len() as u64, &mut bytes);
    }
    (bytes.freeze(), picture)
}

fn prefix(length: usize, bytes: &mut BytesMut) {
    bytes.put_u8(0);
    // Frames have a bound that fits.
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_camera_that_is_away_hears_so() {
        let code = |slot: &Slot| last_word(slot)["grpc-status"].clone();
        let slot = Slot::default();
        slot.close();
        assert_eq!(code(&slot), "0");
        let slot = Slot::default();
        slot.close_away();
        assert_eq!(code(&slot), "14", "UNAVAILABLE");
    }

    #[test]
    fn what_goes_is_the_message_that_tonic_would_have_written() {
        let pictures = [Bytes::new(), Bytes::from_static(&[7; 300])];
        for jpeg in pictures {
            let frame = FrameMessage {
                camera: "gate".into(),
                frame: 9,
                accuracy: 0.5,
                skipped: 3,
                jpeg,
                ..FrameMessage::default()
            };
            let (head, picture) = large(frame.clone());
            let bytes = [head, picture].concat();
            let length = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            assert_eq!((bytes[0], length as usize), (0, bytes.len() - PREFIX));
            let read = SubscribeReply::decode(&bytes[PREFIX..]);
            assert_eq!(read, Ok(ReplyKind::Frame(frame).into()));
        }
        let first = ReplyKind::Subscribed(SubscribedMessage { id: 7 });
        assert_eq!(small(first)[..], [0, 0, 0, 0, 4, 10, 2, 8, 7]);
    }
}
