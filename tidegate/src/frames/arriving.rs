//! A call that brings frames, each of which has its room before it comes: gRPC says how long a message is, and one
//! that nobody ends is held for as long as its connection lives.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use tidegate_types::account::{Account, Kind, Reservation};
use tonic::Status;

/// Before each message of gRPC: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Arriving<B> {
    body: B,
    account: Account,
    /// Of the prefix, what came.
    prefix: [u8; PREFIX],
    filled: usize,
    /// Bytes of the message that are to come.
    left: usize,
    /// Of the newest message: nobody knows when it was taken, but that it was when the next one begins.
    room: Reservation,
}

impl<B> Arriving<B> {
    /// A call whose messages are on this account.
    pub(super) fn new(body: B, account: Account) -> Arriving<B> {
        let room = account.empty(Kind::Packets);
        Arriving { body, account, prefix: [0; PREFIX], filled: 0, left: 0, room }
    }

    /// So much came.
    fn meet(&mut self, mut data: &[u8]) -> Result<(), Status> {
        while !data.is_empty() {
            let skipped = self.left.min(data.len());
            data.advance(skipped);
            self.left -= skipped;
            while self.left == 0
                && let Some((byte, rest)) = data.split_first()
            {
                self.prefix[self.filled] = *byte;
                (self.filled, data) = (self.filled + 1, rest);
                if self.filled == PREFIX {
                    self.begin()?;
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Status> {
        let [_, a, b, c, d] = self.prefix;
        (self.filled, self.left) = (0, u32::from_be_bytes([a, b, c, d]) as usize);
        self.room = self.account.empty(Kind::Packets);
        let refused =
            |refusal| Status::resource_exhausted(format!("no room for a frame: {refusal}"));
        self.room.grow(self.left).map_err(refused)
    }
}

impl<B> Body for Arriving<B>
where
    B: Body<Data = Bytes, Error = Status> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = ready!(Pin::new(&mut self.body).poll_frame(context));
        let met = match polled.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            Some(data) => self.meet(&data.clone()),
            None => Ok(()),
        };
        Poll::Ready(match met {
            Ok(()) => polled,
            Err(status) => Some(Err(status)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, StreamBody};
    use tidegate_types::account::Level;

    use super::*;

    /// Pieces of a call, each a frame of HTTP/2.
    fn call(
        pieces: &[&[u8]],
        account: &Account,
    ) -> Arriving<impl Body<Data = Bytes, Error = Status> + Unpin + use<>> {
        let frames: Vec<Result<Frame<Bytes>, Status>> =
            pieces.iter().map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        Arriving::new(StreamBody::new(tokio_stream::iter(frames)), account.clone())
    }

    #[tokio::test]
    async fn a_frame_is_on_the_account_from_its_first_bytes_on_and_refused_where_there_is_no_room()
    {
        let account = Account::new(40 << 20);
        let long = [&[0][..], &(32u32 << 20).to_be_bytes(), b"begins"].concat();
        let mut first = call(&[&long[..3], &long[3..]], &account);
        assert!(first.frame().await.unwrap().is_ok() && first.frame().await.unwrap().is_ok());
        assert_eq!(account.used(), 32 << 20);
        let mut second = call(&[&long], &account.fair(Level::User));
        let refused = second.frame().await.unwrap().unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        drop((first, second));
        assert_eq!(account.used(), 0);
    }

    #[tokio::test]
    async fn each_message_has_the_room_of_its_length_while_it_comes() {
        let account = Account::new(1000);
        let mut call = call(&[b"\0\0\0\0\x03abc\0\0", b"\0\0\0\0\0\0\0\x04wx", b"yz\0"], &account);
        let mut held = Vec::new();
        while let Some(frame) = call.frame().await {
            assert!(frame.is_ok());
            held.push(account.used());
        }
        assert_eq!(
            held,
            [3, 4, 4],
            "an empty one is passed, and the last one stays until another begins"
        );
    }
}
