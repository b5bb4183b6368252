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

    use tidegate_cluster::handover::{GroupMessage, UnitId};
    use tidegate_types::account::{Account, Kind};
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
            talk.trust(usize::MAX);
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

    async fn connected() -> (Talk, Talk) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let said = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let heard = listener.accept().await.unwrap().0;
        (Talk::new(Stream::from(said)), Talk::new(Stream::from(heard)))
    }

    #[tokio::test]
    async fn a_members_frame_is_on_the_account_while_it_comes() {
        let (mut member, mut talk) = connected().await;
        let account = Account::new(4 << 20);
        talk.trust_on(&account);
        let long =
            MemberFrame::Said(UnitId(0), GroupMessage::Result(1, vec![b'x'; 1 << 20].into()));
        let mut bytes = BytesMut::new();
        long.put(&mut bytes);
        let rest = bytes.split_off(bytes.len() - 1);
        // Whoever says so much needs somebody who reads it meanwhile.
        let hears = tokio::spawn(async move {
            let heard = talk.hear().await.unwrap();
            (talk, heard)
        });
        member.put_bytes(&bytes);
        member.flush().await.unwrap();
        while account.used() < bytes.len() {
            tokio::task::yield_now().await;
        }
        member.put_bytes(&rest);
        member.flush().await.unwrap();
        let (talk, heard) = hears.await.unwrap();
        assert_eq!(heard, long);
        drop(talk);
        assert_eq!(account.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_more_is_read_while_there_is_no_memory_and_in_the_end_that_is_said() {
        let (mut member, mut talk) = connected().await;
        let account = Account::new(1 << 20);
        let others = account.reserve(Kind::Messages, 1 << 20).unwrap();
        talk.trust_on(&account);
        member.say(&MemberFrame::Greeted).await.unwrap();
        assert!(talk.try_hear().unwrap().is_none());
        let error = talk.hear().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("beyond the 1048576 bytes"), "{error}");
        drop(others);
        assert_eq!(talk.hear().await.unwrap(), MemberFrame::Greeted);
    }
}
