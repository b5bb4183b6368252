//! The read buffer of a connection: there while bytes are, gone while the client is silent.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::{Buf, BytesMut};

use super::transport::Transport;
use super::woken::Bell;

/// Bytes of one read: a few hundred small records, which stay in the processor's cache until they are
/// offered.
const CHUNK: usize = 32 * 1024;
/// A packet that every connection may hold the beginning of: it is among what a connection costs.
const FREE: usize = 8 * 1024;

/// Bytes that were read and not yet handled.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: BytesMut,
    /// Size of the packet at the front, as far as is known.
    wanted: usize,
    /// The last bytes were waited for.
    has_waited: bool,
    /// By which other connections know that this one has something to read.
    bell: Option<Arc<Bell>>,
}

impl Buffer {
    /// Of a connection that others may wait for.
    pub(super) fn new(bell: Arc<Bell>) -> Self {
        Buffer { bell: Some(bell), ..Buffer::default() }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what is handled; the packet at the front needs `wanted` bytes.
    pub(super) fn handled(&mut self, done: usize, wanted: usize) {
        self.bytes.advance(done);
        self.wanted = wanted;
    }

    /// Bytes that the packet at the front may take; `None` if it needs no more than every connection has.
    pub(super) fn excess(&self) -> Option<usize> {
        // Twice, for the buffer grows by doubling.
        (self.wanted > FREE).then_some(2 * self.wanted)
    }

    /// Whether the last bytes were waited for, and another connection was woken that has not read its own yet. Says
    /// so once.
    pub(super) fn lets_others_first(&mut self) -> bool {
        std::mem::take(&mut self.has_waited)
            && self.bell.as_ref().is_some_and(|bell| bell.others_wait())
    }

    /// Its connection has its turn, whether it reads or not.
    pub(super) fn has_turn(&self) {
        self.bell.iter().for_each(|bell| bell.heard());
    }

    /// Waits for bytes. Cancel-safe.
    pub(super) async fn readable(&mut self, stream: &Transport) -> io::Result<()> {
        poll_fn(|context| {
            let ready = match &self.bell {
                Some(bell) => {
                    bell.begin(context.waker());
                    let waker = Waker::from(bell.clone());
                    stream.poll_readable(&mut Context::from_waker(&waker))
                }
                None => stream.poll_readable(context),
            };
            if ready.is_pending() {
                self.has_waited = true;
                self.shrink();
            }
            ready
        })
        .await
    }

    /// Reads the bytes that are there; 0 is the end of the stream, `None` that there are none after all.
    pub(super) fn read(&mut self, stream: &mut Transport) -> io::Result<Option<usize>> {
        self.grow();
        match stream.try_read(&mut self.bytes) {
            Ok(count) => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits for bytes and reads them; 0 is the end of the stream. Cancel-safe.
    pub(super) async fn fill(&mut self, stream: &mut Transport) -> io::Result<usize> {
        loop {
            self.readable(stream).await?;
            if let Some(count) = self.read(stream)? {
                return Ok(count);
            }
        }
    }

    /// Makes room for one read. A large packet gets it as its bytes come, never by its word alone.
    fn grow(&mut self) {
        let held = self.bytes.len();
        let missing = self.wanted.saturating_sub(held);
        let room = if held < CHUNK { CHUNK - held } else { missing.min(held).max(1) };
        self.bytes.reserve(room);
    }

    /// Gives memory back that holds nothing.
    fn shrink(&mut self) {
        if self.bytes.capacity() > 2 * self.bytes.len() {
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
    }
}

/// A poll that reads and discards, for closing politely.
pub(super) async fn discard(stream: &mut Transport, most: usize) -> io::Result<()> {
    let mut left = most;
    while left > 0 {
        let mut buffer = Buffer::default();
        match buffer.fill(stream).await? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::support::tls::Stream;

    #[tokio::test]
    async fn memory_follows_the_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        let mut socket = Transport::new(Stream::from(server), Arc::default());
        let mut buffer = Buffer::default();
        client.write_all(&[7; 100]).await.unwrap();
        assert_eq!(buffer.fill(&mut socket).await.unwrap(), 100);
        buffer.handled(90, 50);
        let waiting = poll_fn(|context| {
            Poll::Ready(pin!(buffer.fill(&mut socket)).poll(context).is_pending())
        });
        assert!(waiting.await);
        assert_eq!(buffer.bytes(), [7; 10]);
        assert!(buffer.bytes.capacity() <= 2 * 10);
        drop(client);
        assert_eq!(buffer.fill(&mut socket).await.unwrap(), 0);
    }

    #[test]
    fn a_large_packet_grows_with_what_came() {
        let mut buffer = Buffer::default();
        buffer.handled(0, 1 << 20);
        buffer.grow();
        assert!(buffer.bytes.capacity() < 2 * CHUNK);
        buffer.bytes.resize(CHUNK, 0);
        buffer.grow();
        assert!(buffer.bytes.capacity() < 4 * CHUNK);
    }
}
