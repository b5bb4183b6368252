//! A TCP connection, with TLS or without, that works by readiness: wait until it is readable or writable, then try.
//!
//! Why not an asynchronous TLS stream: a lane must know when the last byte of a cut is in the kernel's hands, and nothing
//! may wait in a buffer of the library's. Here at most one TLS record is encrypted and not yet written, and `try_write`
//! counts it when it is.

use std::io::{self, BufRead, Read, Write};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;
use tokio::task::unconstrained;

use super::second::SecondHand;

/// Bytes of one TLS record: it can be read only when all of it has come, so on a slow line it is small;
/// it costs 22 bytes or a little more.
const RECORD_MAX: usize = 8 * 1024;

/// See the file's header.
#[derive(Debug)]
pub struct Stream {
    tcp: OwnedReadHalf,
    second: Option<SecondHand>,
    tls: Option<Box<Tls>>,
    /// Bytes handed to the kernel, those of TLS itself with them.
    handed: u64,
}

#[derive(Debug)]
struct Tls {
    connection: Connection,
    /// Bytes of a `try_write` that are encrypted and not wholly written.
    taken: usize,
    /// Decrypted bytes that nobody has read.
    plain: usize,
    /// The far end says nothing more.
    ended: bool,
}

impl From<TcpStream> for Stream {
    fn from(tcp: TcpStream) -> Self {
        let (tcp, write) = tcp.into_split();
        Stream { tcp, second: Some(SecondHand(Some(write))), tls: None, handed: 0 }
    }
}

impl Stream {
    fn with(tcp: TcpStream, connection: Connection) -> Self {
        let tls = Tls { connection, taken: 0, plain: 0, ended: false };
        Stream { tls: Some(Box::new(tls)), ..Stream::from(tcp) }
    }

    /// The server's end of a TLS connection, whose handshake is still to come.
    ///
    /// # Errors
    /// The library has no room for it.
    pub fn server(tcp: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let connection = ServerConnection::new(config).map_err(invalid)?;
        Ok(Stream::with(tcp, connection.into()))
    }

    /// The client's end, whose far end must prove that it is `name`.
    ///
    /// # Errors
    /// The library has no room for it.
    pub fn client(
        tcp: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let connection = ClientConnection::new(config, name).map_err(invalid)?;
        Ok(Stream::with(tcp, connection.into()))
    }

    /// The socket, to look at.
    pub fn tcp(&self) -> &TcpStream {
        self.tcp.as_ref()
    }

    /// What somebody else can write by, once; none where TLS has a word in it.
    pub fn second(&mut self) -> Option<SecondHand> {
        self.second.take_if(|_| self.tls.is_none())
    }

    /// Bytes handed to the kernel so far, as TCP counts them.
    pub fn handed(&self) -> u64 {
        self.handed
    }

    /// Whether TLS is still being agreed on: nothing can be written yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.connection.is_handshaking())
    }

    /// Whether TLS itself has something to write: `try_write`, be it of nothing, does it.
    pub fn has_to_write(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.connection.wants_write())
    }

    /// Whether it speaks TLS.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The certificate that the far end proved to have, once the handshake is done.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.connection.peer_certificates()?.first()
    }

    /// The same, and those that it sent along.
    pub fn peer_certificates(&self) -> Option<&[CertificateDer<'static>]> {
        self.tls.as_ref()?.connection.peer_certificates()
    }

    /// The protocol that both ends agreed on, as TLS names it.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.connection.alpn_protocol()
    }

    /// Waits until `try_read` has something to do. Cancel-safe.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn readable(&self) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll_readable(context)).await
    }

    /// The same for a task of one's own.
    ///
    /// # Errors
    /// The connection failed.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.tls {
            Some(tls) if tls.plain > 0 => Poll::Ready(Ok(())),
            _ => self.tcp().poll_read_ready(context),
        }
    }

    /// Waits until `try_write` has something to do: during a handshake only where TLS itself has.
    /// Cancel-safe.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn writable(&self) -> io::Result<()> {
        if self.is_handshaking() && !self.has_to_write() {
            return std::future::pending().await;
        }
        self.tcp().writable().await
    }

    /// Reads what is there, up to about the buffer's room; 0 is the end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there; else the connection failed, or the far end broke TLS.
    pub fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match &mut self.tls {
            None => read(&mut self.tcp, buffer),
            Some(tls) => tls.read(self.tcp.as_ref(), buffer, &mut self.handed),
        }
    }

    /// Writes a part of `bytes` and answers how much of it is in the kernel's hands.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room now: come again with the same bytes at the front, for some of
    /// them may be encrypted already. Any other error: the connection failed.
    pub fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => {
                let written = self.tcp().try_write(bytes)?;
                self.handed += written as u64;
                Ok(written)
            }
            Some(tls) => tls.write(self.tcp.as_ref(), bytes, &mut self.handed),
        }
    }

    /// Agrees on TLS; at once where there is none.
    ///
    /// # Errors
    /// The connection failed, or the far end cannot be trusted or does not trust us.
    pub async fn handshake(&mut self) -> io::Result<()> {
        while self.is_agreeing() {
            self.agreeable().await?;
            self.agree()?;
        }
        Ok(())
    }

    /// Whether a step of TLS's agreement is left.
    pub fn is_agreeing(&self) -> bool {
        self.is_handshaking() || self.has_to_write()
    }

    /// Waits until `agree` has something to do: whoever says nothing gets no further than this.
    /// Cancel-safe.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn agreeable(&self) -> io::Result<()> {
        if self.has_to_write() { self.tcp().writable().await } else { self.tcp().readable().await }
    }

    /// Takes one step of TLS's agreement, without waiting. It may cost a millisecond of a processor.
    ///
    /// # Errors
    /// The connection failed, or the far end cannot be trusted or does not trust us.
    pub fn agree(&mut self) -> io::Result<()> {
        let Stream { tcp, tls: Some(tls), handed, .. } = self else { return Ok(()) };
        let tcp = (*tcp).as_ref();
        if tls.connection.wants_write() {
            unless_blocked(tls.flush(tcp, handed))?;
        } else if unless_blocked(tls.receive(tcp, handed))? == Some(()) && tls.ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() || self.has_to_write() {
            self.writable().await?;
            match self.try_write(left) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says that nothing more will be written, to TLS and to TCP.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.connection.send_close_notify();
            while tls.connection.wants_write() {
                self.tcp.as_ref().writable().await?;
                unless_blocked(tls.flush(self.tcp.as_ref(), &mut self.handed))?;
            }
        }
        socket2::SockRef::from(self.tcp()).shutdown(std::net::Shutdown::Write)
    }
}

impl Tls {
    fn read(&mut self, tcp: &TcpStream, to: &mut BytesMut, handed: &mut u64) -> io::Result<usize> {
        if to.len() == to.capacity() {
            to.reserve(RECORD_MAX);
        }
        let before = to.len();
        loop {
            self.take(to)?;
            let taken = to.len() - before;
            let is_enough = taken > 0 && to.len() == to.capacity();
            if is_enough || self.ended {
                return Ok(taken);
            }
            match self.receive(tcp, handed) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => {
                    return Ok(taken);
                }
                result => result?,
            }
        }
    }

    /// Moves decrypted bytes into the room of `buffer`.
    fn take(&mut self, buffer: &mut BytesMut) -> io::Result<()> {
        while self.plain > 0 {
            let mut reader = self.connection.reader();
            let chunk = reader.fill_buf()?;
            let room = match buffer.capacity() - buffer.len() {
                0 => return Ok(()),
                room => room.min(chunk.len()),
            };
            buffer.extend_from_slice(&chunk[..room]);
            reader.consume(room);
            self.plain -= room;
        }
        Ok(())
    }

    /// Reads encrypted bytes and lets TLS work on them, and answers what it must answer.
    fn receive(&mut self, tcp: &TcpStream, handed: &mut u64) -> io::Result<()> {
        if self.connection.read_tls(&mut Socket(tcp))? == 0 {
            // Whether something is missing, the protocol above sees by itself.
            self.ended = true;
            return Ok(());
        }
        let worked = self.connection.process_new_packets();
        // After an error this tells the far end why.
        let flushed = unless_blocked(self.flush(tcp, handed));
        let state = worked.map_err(invalid)?;
        flushed?;
        self.plain = state.plaintext_bytes_to_read();
        self.ended |= state.peer_has_closed();
        Ok(())
    }

    fn write(&mut self, tcp: &TcpStream, bytes: &[u8], handed: &mut u64) -> io::Result<usize> {
        self.flush(tcp, handed)?;
        if self.taken == 0 && !bytes.is_empty() {
            if self.connection.is_handshaking() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let record = &bytes[..bytes.len().min(RECORD_MAX)];
            self.taken = self.connection.writer().write(record)?;
            self.flush(tcp, handed)?;
        }
        Ok(std::mem::take(&mut self.taken))
    }

    /// Writes what is encrypted, all of it or an error.
    fn flush(&mut self, tcp: &TcpStream, handed: &mut u64) -> io::Result<()> {
        while self.connection.wants_write() {
            *handed += self.connection.write_tls(&mut Socket(tcp))? as u64;
        }
        Ok(())
    }
}

/// The socket as the library wants to see it.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn invalid(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Reads what is there. What does not fill the room was all there was: here tokio takes that from the count, so nobody
/// has to read once more to hear it.
fn read(tcp: &mut OwnedReadHalf, buffer: &mut BytesMut) -> io::Result<usize> {
    // Not a step among others that the runtime counts: what is there must be found.
    let read = pin!(unconstrained(tcp.read_buf(buffer)));
    match read.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(read) => read,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

fn unless_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}
