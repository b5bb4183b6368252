//! A connection between two members: frames, one behind the other.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tidegate_core::moves::wire::Frame;
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
}

impl Talk {
    /// On a connection whose handshake is done.
    pub(super) fn new(stream: Stream) -> Self {
        Talk { stream, input: BytesMut::new(), output: BytesMut::new() }
    }

    /// The next frame. Cancel-safe.
    pub(super) async fn hear(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.try_hear()? {
                return Ok(frame);
            }
            self.stream.readable().await?;
            self.input.reserve(READ);
            match self.stream.try_read(&mut self.input) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// A frame that has been read already.
    pub(super) fn try_hear(&mut self) -> io::Result<Option<Frame>> {
        Frame::take(&mut self.input)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Puts a frame behind those that are to be written.
    pub(super) fn put(&mut self, frame: &Frame) {
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
    pub(super) async fn say(&mut self, frame: &Frame) -> io::Result<()> {
        self.put(frame);
        self.flush().await
    }
}
