//! The read buffer of a connection: there while bytes are, gone while the client is silent.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::ready;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::ReadHalf;

/// Bytes of one read: a few hundred small records, which stay in the processor's cache until they are
/// offered.
const CHUNK: usize = 32 * 1024;

/// Bytes that were read and not yet handled.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    bytes: BytesMut,
    /// Size of the packet at the front, as far as is known.
    wanted: usize,
}

impl Buffer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets what is handled; the packet at the front needs `wanted` bytes.
    pub(super) fn handled(&mut self, done: usize, wanted: usize) {
        self.bytes.advance(done);
        self.wanted = wanted;
    }

    /// Waits for bytes and reads them; 0 is the end of the stream. Cancel-safe.
    pub(super) async fn fill(&mut self, socket: &mut ReadHalf<'_>) -> io::Result<usize> {
        poll_fn(|context| {
            let ready = socket.as_ref().poll_read_ready(context);
            if ready.is_pending() {
                self.shrink();
            }
            ready!(ready)?;
            self.grow();
            let read = pin!(socket.read_buf(&mut self.bytes)).poll(context);
            if read.is_pending() {
                self.shrink();
            }
            read
        })
        .await
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
        if self.bytes.capacity() > 4 * self.bytes.len() {
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
    }
}

/// A poll that reads and discards, for closing politely.
pub(super) async fn discard(socket: &mut ReadHalf<'_>, most: usize) -> io::Result<()> {
    let mut left = most;
    while left > 0 {
        let mut buffer = Buffer::default();
        match buffer.fill(socket).await? {
            0 => break,
            count => left = left.saturating_sub(count),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn memory_follows_the_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let (mut socket, _) = server.split();
        let mut buffer = Buffer::default();
        client.write_all(&[7; 100]).await.unwrap();
        assert_eq!(buffer.fill(&mut socket).await.unwrap(), 100);
        buffer.handled(90, 50);
        let waiting = poll_fn(|context| {
            Poll::Ready(pin!(buffer.fill(&mut socket)).poll(context).is_pending())
        });
        assert!(waiting.await);
        assert_eq!(buffer.bytes(), [7; 10]);
        assert!(buffer.bytes.capacity() <= 4 * 10);
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
