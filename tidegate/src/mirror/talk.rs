//! A connection between the owner of a log and its keeper: messages, one behind the other.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tidegate_log::mirror::{HELLO_MAX, MirrorMessage, take_within};
use tokio::time::timeout;

use crate::tls::Stream;

/// Bytes read by one call.
const READ: usize = 64 * 1024;
/// How long the other end may take for bytes that are to be written.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// See the file's header.
#[derive(Debug)]
pub(super) struct Talk {
    stream: Stream,
    input: BytesMut,
    output: BytesMut,
    /// Bytes of the longest message that is taken.
    most: usize,
}

impl Talk {
    /// On a connection whose handshake is done: first words are taken only.
    pub(super) fn new(stream: Stream) -> Self {
        Talk { stream, input: BytesMut::new(), output: BytesMut::new(), most: HELLO_MAX }
    }

    /// The other end has proven who it is, and what it says may be long.
    pub(super) fn trust(&mut self) {
        self.most = usize::MAX;
    }

    /// The next message. Cancel-safe.
    ///
    /// # Errors
    /// The connection ended, or what came is no message.
    pub(super) async fn hear(&mut self) -> io::Result<MirrorMessage> {
        loop {
            if let Some(message) = self.heard()? {
                return Ok(message);
            }
            self.stream.readable().await?;
            self.read()?;
        }
    }

    /// A message that has come already.
    ///
    /// # Errors
    /// As [`Talk::hear`].
    pub(super) fn try_hear(&mut self) -> io::Result<Option<MirrorMessage>> {
        match self.heard()? {
            Some(message) => Ok(Some(message)),
            None => {
                self.read()?;
                self.heard()
            }
        }
    }

    fn heard(&mut self) -> io::Result<Option<MirrorMessage>> {
        take_within(&mut self.input, self.most)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn read(&mut self) -> io::Result<()> {
        self.input.reserve(READ.min(self.most));
        match self.stream.try_read(&mut self.input) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Says something, and waits until the kernel has it.
    ///
    /// # Errors
    /// The connection ended, or the other end takes nothing for long.
    pub(super) async fn say(&mut self, message: &MirrorMessage) -> io::Result<()> {
        message.put(&mut self.output);
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
}
