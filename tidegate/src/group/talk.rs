//! A connection between two members: frames, one behind the other.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tidegate_cluster::handover::wire::{FRAME_MAX, MemberFrame, WORDS_MAX};
use tokio::time::timeout;

use crate::tls::Stream;

/// Bytes read by one call.
const READ: usize = 64 * 1024;
/// How long the other end may take for bytes that are to be written, and for its first words.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// See the file's header.
#[derive(Debug)]
pub(super) struct Talk {
    stream: Stream,
    input: BytesMut,
    output: BytesMut,
    /// Bytes of the longest frame that is taken.
    most: usize,
}

impl Talk {
    /// On a connection whose handshake is done: only words are taken, nothing that is long.
    pub(super) fn new(stream: Stream) -> Self {
        Talk { stream, input: BytesMut::new(), output: BytesMut::new(), most: WORDS_MAX }
    }

    /// The other end is a member, and what it says may be long.
    pub(super) fn trust(&mut self) {
        self.most = FRAME_MAX;
    }

    /// The next frame. Cancel-safe.
    pub(super) async fn hear(&mut self) -> io::Result<MemberFrame> {
        loop {
            if let Some(frame) = self.try_hear()? {
                return Ok(frame);
            }
            self.stream.readable().await?;
            self.input.reserve(READ.min(self.most));
            match self.stream.try_read(&mut self.input) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A frame that has been read already.
    pub(super) fn try_hear(&mut self) -> io::Result<Option<MemberFrame>> {
        MemberFrame::take_within(&mut self.input, self.most)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Puts a frame behind those that are to be written.
    pub(super) fn put(&mut self, frame: &MemberFrame) {
        frame.put(&mut self.output);
    }

    /// Puts the bytes of a frame behind them.
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) {
        self.output.extend_from_slice(bytes);
    }

    /// Bytes that are to be written.
    pub(super) fn waiting(&self) -> usize {
        self.output.len()
    }

    /// Writes all of it.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() || self.stream.has_to_write() {
            timeout(PATIENCE, self.stream.writable())
                .await
                .map_err(|_| io::ErrorKind::TimedOut)??;
            match self.stream.try_write(&self.output) {
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says something, and waits until the kernel has it.
    pub(super) async fn say(&mut self, frame: &MemberFrame) -> io::Result<()> {
        self.put(frame);
        self.flush().await
    }
}

#[cfg(test)]
mod tests {
    use tidegate_cluster::handover::wire::MemberFrameError;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

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
        assert!(talk.input.capacity() <= 2 * WORDS_MAX, "{}", talk.input.capacity());
        let (_, heard) = announced(264 << 20, true).await;
        assert!(matches!(heard, Ok(None)), "a member's is waited for");
    }
}
