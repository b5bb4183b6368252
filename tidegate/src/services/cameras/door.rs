//! Who comes in: each connection has its windows' room before a byte of it is read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use tidegate_types::account::{Account, Kind, Level, Reservation};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::{HEADERS_MAX, WINDOW};
use crate::support::complaints::Complaints;
use crate::support::places::address;

/// What a connection may make us hold.
const ROOM: usize = (WINDOW + HEADERS_MAX) as usize;
/// HTTP/2 where there is no room: settings, which come first, and GOAWAY with ENHANCE_YOUR_CALM.
const NO_ROOM: &[u8] =
    &[0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];

/// See the file's header.
#[derive(Debug)]
pub(super) struct Door {
    account: Account,
    is_tls: bool,
    complaints: Complaints,
}

/// A connection that has room.
#[derive(Debug)]
pub(super) struct Roomy {
    stream: TcpStream,
    _room: Reservation,
}

impl Door {
    /// To a listener with this account.
    pub(super) fn new(account: Account, is_tls: bool) -> Door {
        Door { account, is_tls, complaints: Complaints::new(Instant::now()) }
    }

    /// Lets a connection in if there is room for it on the fair share of its address; else it is closed, in the clear
    /// with the protocol's word.
    pub(super) fn let_in(&self, accepted: io::Result<TcpStream>) -> Option<io::Result<Roomy>> {
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => return Some(Err(error)),
        };
        let peer = stream.peer_addr().ok()?;
        let account = self.account.fair_named(Level::User, &address(peer.ip()));
        match account.reserve(Kind::Windows, ROOM) {
            Ok(room) => Some(Ok(Roomy { stream, _room: room })),
            Err(refusal) => {
                if !self.is_tls {
                    let _ = stream.try_write(NO_ROOM);
                }
                if let Some(withheld) = self.complaints.allow(Instant::now()) {
                    tracing::warn!(%peer, withheld, "[frames] no memory for a connection: {refusal}");
                }
                None
            }
        }
    }
}

impl Connected for Roomy {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Roomy {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Roomy {
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
        let account = Account::new(2 * ROOM);
        let door = Door::new(account.clone(), false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _first = TcpStream::connect(address).await.unwrap();
        let roomy = door.let_in(listener.accept().await.map(|(stream, _)| stream));
        let roomy = roomy.unwrap().unwrap();
        assert_eq!(account.figures().of(Kind::Windows), ROOM);
        let mut second = TcpStream::connect(address).await.unwrap();
        assert!(door.let_in(listener.accept().await.map(|(stream, _)| stream)).is_none());
        let mut words = Vec::new();
        second.read_to_end(&mut words).await.unwrap();
        assert_eq!(words, NO_ROOM);
        // Length, kind and flags of both frames, and the last one's code.
        assert_eq!((&words[..9], words[12], words[25]), (&[0, 0, 0, 4, 0, 0, 0, 0, 0][..], 7, 11));
        assert_eq!(words.len(), 9 + 9 + 8);
        drop(roomy);
        assert_eq!(account.used(), 0);
    }
}
