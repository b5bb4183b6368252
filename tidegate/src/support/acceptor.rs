//! Connections of gRPC: each is on the account with all that its windows allow, before a byte of it is read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tidegate_types::account::{Account, Kind, Level, Reservation};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::complaints::Complaints;
use super::places::address;

/// HTTP/2 where there is no room: settings, which come first, and GOAWAY with ENHANCE_YOUR_CALM.
const NO_ROOM: &[u8] =
    &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Acceptor {
    /// Whose connections they are, for people.
    listener: &'static str,
    account: Account,
    /// Bytes that a connection may make us hold: its window and the heads of its calls.
    each: usize,
    is_tls: bool,
    complaints: Complaints,
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    stream: TcpStream,
    _held: Reservation,
}

impl Acceptor {
    /// Of a listener with this account, where each connection may make us hold so many bytes.
    pub(crate) fn new(
        listener: &'static str,
        account: Account,
        each: usize,
        is_tls: bool,
    ) -> Acceptor {
        Acceptor { listener, account, each, is_tls, complaints: Complaints::new(Instant::now()) }
    }

    /// Takes a connection if the fair share of its address allows it; else it is closed, in the clear with the protocol's
    /// word.
    pub(crate) fn accept(&self, came: io::Result<TcpStream>) -> Option<io::Result<Accepted>> {
        let stream = match came {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        let peer = stream.peer_addr().ok()?;
        let account = self.account.fair_named(Level::User, &address(peer.ip()));
        match account.reserve(Kind::Windows, self.each) {
            Ok(held) => Some(Ok(Accepted { stream, _held: held })),
            Err(refusal) => {
                if !self.is_tls {
                    let _ = stream.try_write(NO_ROOM);
                }
                if let Some(withheld) = self.complaints.allow(Instant::now()) {
                    let listener = self.listener;
                    tracing::warn!(%peer, withheld, "{listener} no memory for a connection: {refusal}");
                }
                None
            }
        }
    }
}

impl Connected for Accepted {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_has_room_for_its_windows_or_is_refused_in_words_of_http2() {
        const EACH: usize = 100_000;
        let account = Account::new(2 * EACH);
        let acceptor = Acceptor::new("[test]", account.clone(), EACH, false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _first = TcpStream::connect(address).await.unwrap();
        let accepted = acceptor.accept(listener.accept().await.map(|(stream, _)| stream));
        let accepted = accepted.unwrap().unwrap();
        assert_eq!(account.figures().of(Kind::Windows), EACH);
        let mut second = TcpStream::connect(address).await.unwrap();
        assert!(acceptor.accept(listener.accept().await.map(|(stream, _)| stream)).is_none());
        let mut words = Vec::new();
        second.read_to_end(&mut words).await.unwrap();
        assert_eq!(words, NO_ROOM);
        // Length, kind and flags of both frames, and the last one's code.
        assert_eq!((&words[..9], words[12], words[25]), (&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], 7, 11));
        assert_eq!(words.len(), 9 + 9 + 8);
        drop(accepted);
        assert_eq!(account.used(), 0);
    }
}
