//! A connection to an upstream, with or without TLS, that counts what it wrote.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::sockets::Sockets;

#[derive(Debug)]
enum Kind {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Io {
    kind: Kind,
    /// Bytes handed to the kernel, or to TLS.
    written: Arc<AtomicU64>,
    /// Where it stands among those that are looked at.
    place: Option<(Arc<Sockets>, u64)>,
}

impl Io {
    pub(super) fn plain(stream: TcpStream) -> Io {
        Io { kind: Kind::Plain(stream), written: Arc::default(), place: None }
    }

    pub(super) fn tls(stream: TlsStream<TcpStream>) -> Io {
        Io { kind: Kind::Tls(Box::new(stream)), written: Arc::default(), place: None }
    }

    /// It is looked at until it is closed, or what is returned is ended.
    pub(super) fn enter(&mut self, sockets: &Arc<Sockets>) -> u64 {
        let number = sockets.begin(self.seen());
        self.place = Some((sockets.clone(), number));
        number
    }

    /// Its socket, and the count.
    fn seen(&self) -> (RawFd, Arc<AtomicU64>) {
        let socket = match &self.kind {
            Kind::Plain(stream) => stream.as_raw_fd(),
            Kind::Tls(stream) => stream.get_ref().0.as_raw_fd(),
        };
        (socket, self.written.clone())
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.written.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        written
    }
}

impl Drop for Io {
    /// Before its socket is closed, where another thread may look at it.
    fn drop(&mut self) {
        if let Some((sockets, number)) = &self.place {
            sockets.end(*number);
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Kind::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Kind::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
            Kind::Tls(stream) => Pin::new(stream).poll_write_vectored(context, pieces),
        };
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.kind {
            Kind::Plain(stream) => stream.is_write_vectored(),
            Kind::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_flush(context),
            Kind::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Kind::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::services::proxy::tests::on_one_thread;

    #[test]
    fn a_socket_is_looked_at_until_it_is_closed() {
        on_one_thread(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let connect = || TcpStream::connect(listener.local_addr().unwrap());
            let sockets = Arc::new(Sockets::default());
            let mut given_up = Io::plain(connect().await.unwrap());
            let mut becomes_other = Io::plain(connect().await.unwrap());
            given_up.enter(&sockets);
            let number = becomes_other.enter(&sockets);
            assert_eq!(sockets.count(), 2);
            drop(given_up);
            assert_eq!(sockets.count(), 1);
            sockets.end(number);
            drop(becomes_other);
            assert_eq!(sockets.count(), 0);
        });
    }
}
