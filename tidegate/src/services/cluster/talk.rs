//! What members say to each other, on a connection of two.

use bytes::BytesMut;
use tidegate_cluster::handover::wire::{MemberFrame, MemberFrameError, WORDS_MAX};

use crate::support::talk::{self, Said};

/// A connection between two members.
pub(super) type Talk = talk::Talk<MemberFrame>;

impl Said for MemberFrame {
    type Malformed = MemberFrameError;
    const FIRST_MAX: usize = WORDS_MAX;

    fn put(&self, to: &mut BytesMut) {
        MemberFrame::put(self, to);
    }

    fn take_within(from: &mut BytesMut, most: usize) -> Result<Option<Self>, MemberFrameError> {
        MemberFrame::take_within(from, most)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::support::tls::Stream;

    /// What is heard of who announces a frame of so many bytes and sends none of them.
    async fn announced(length: u32, is_trusted: bool) -> (Talk, io::Result<Option<MemberFrame>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut talk = Talk::new(Stream::from(listener.accept().await.unwrap().0));
        if is_trusted {
            talk.trust();
        }
        stranger.write_all(&length.to_le_bytes()).await.unwrap();
        stranger.shutdown().await.unwrap();
        let heard = match talk.hear().await {
            Ok(frame) => Ok(Some(frame)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        };
        (talk, heard)
    }

    #[tokio::test]
    async fn a_long_frame_of_who_is_no_member_is_refused_by_its_first_bytes() {
        let (talk, heard) = announced(264 << 20, false).await;
        let error = heard.unwrap_err();
        let malformed = error.get_ref().and_then(|error| error.downcast_ref::<MemberFrameError>());
        assert!(matches!(malformed, Some(MemberFrameError::Malformed(_))), "{error}");
        assert!(talk.room() <= 2 * WORDS_MAX, "{}", talk.room());
        let (_, heard) = announced(264 << 20, true).await;
        assert!(matches!(heard, Ok(None)), "a member's is waited for");
    }
}
