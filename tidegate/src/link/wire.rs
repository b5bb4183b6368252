//! One connection of a path: where packets go, and what is heard by it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quinn::VarInt;
use rustls::pki_types::CertificateDer;
use tokio::sync::mpsc;

use super::marking::Marking;
use super::thread::count_packet;
use super::{PROTOCOL_LETTERS, PROTOCOL_MARKS, quic, tcp};
use crate::support::tls::{Certificate, Role, Stream};

/// Tells connections apart, over all links of the process.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A connection as a link sees it. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Wire {
    number: u64,
    met: Met,
    way: Way,
}

/// Who is at the other end, as its handshake has proven.
#[derive(Clone, Debug, Default)]
pub(crate) struct Met {
    /// The name in its certificate.
    pub(crate) name: Option<Arc<str>>,
    /// The certificate.
    pub(crate) certificate: Option<CertificateDer<'static>>,
    /// Whether it reads letters that come with records.
    pub(crate) reads_letters: bool,
    /// Whether it counts marks of congestion, and hears of those that are counted here.
    pub(crate) hears_marks: bool,
    /// Whether its certificate lets it be a node.
    pub(crate) may_be_node: bool,
}

impl Met {
    /// Who has shown this certificate, and speaks this protocol.
    pub(crate) fn new(
        certificate: Option<CertificateDer<'static>>,
        protocol: Option<&[u8]>,
    ) -> Self {
        let read = certificate.as_ref().and_then(|der| Certificate::read(der).ok());
        let may_be_node = read.as_ref().is_some_and(|read| read.may_be(Role::Node));
        let name = read.and_then(|certificate| certificate.common_name).map(Into::into);
        let hears_marks = protocol == Some(PROTOCOL_MARKS);
        let reads_letters = hears_marks || protocol == Some(PROTOCOL_LETTERS);
        Met { name, certificate, reads_letters, hears_marks, may_be_node }
    }

    /// The same of a TLS connection.
    pub(crate) fn of(stream: &Stream) -> Self {
        Met::new(stream.peer_certificate().cloned(), stream.protocol())
    }
}

#[derive(Debug)]
enum Way {
    /// And what its socket counts.
    Quic(quinn::Connection, Arc<Marking>),
    /// To the task that writes.
    Tcp(mpsc::Sender<Vec<u8>>),
}

/// What the task of a link hears of its connections.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A connection is there.
    Up {
        /// The path that it is.
        path: usize,
        /// It.
        wire: Wire,
    },
    /// A packet came.
    Packet {
        /// By which path.
        path: usize,
        /// By which connection.
        number: u64,
        /// Its bytes.
        packet: Bytes,
    },
    /// A connection is gone.
    Down {
        /// The path that it was.
        path: usize,
        /// Which connection.
        number: u64,
    },
}

impl Wire {
    /// A QUIC connection, and what its socket counts.
    pub(crate) fn quic(connection: quinn::Connection, marking: Arc<Marking>) -> Self {
        let (number, met) = (NUMBERS.fetch_add(1, Ordering::Relaxed), quic::met(&connection));
        Wire { number, met, way: Way::Quic(connection, marking) }
    }

    /// A TCP connection, and where its task finds what it is to write.
    pub(crate) fn tcp(stream: &Stream) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (sender, packets) = mpsc::channel(tcp::PACKETS_MAX);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        (Wire { number, met: Met::of(stream), way: Way::Tcp(sender) }, packets)
    }

    /// Who is at the other end.
    pub(crate) fn met(&self) -> &Met {
        &self.met
    }

    /// Closes it and says why, where that can be said.
    pub(crate) fn refuse(&self, why: &str) {
        if let Way::Quic(connection, _) = &self.way {
            connection.close(VarInt::from_u32(1), why.as_bytes());
        }
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether marks are counted, and told.
    pub(crate) fn hears_marks(&self) -> bool {
        self.met.hears_marks && matches!(self.way, Way::Quic(..))
    }

    /// Packets that came marked since this was asked last.
    pub(crate) fn take_marked(&self) -> u64 {
        match &self.way {
            Way::Quic(connection, marking) => marking.take(|| connection.remote_address()),
            Way::Tcp(_) => 0,
        }
    }

    /// What it is, in a word.
    pub(crate) fn transport(&self) -> &'static str {
        match self.way {
            Way::Quic(..) => "quic",
            Way::Tcp(_) => "tcp",
        }
    }

    /// Sends a packet of `path`, now or never: what finds no room is lost, as on any network.
    pub(crate) fn send(&self, path: usize, mut packet: Vec<u8>) {
        count_packet();
        packet.push(path as u8);
        match &self.way {
            // A connection that is gone is heard of by its own task.
            Way::Quic(connection, _) => drop(connection.send_datagram(packet.into())),
            Way::Tcp(packets) => drop(packets.try_send(packet)),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Way::Quic(connection, _) = &self.way {
            connection.close(VarInt::from_u32(0), b"done");
        }
    }
}

/// Splits a datagram into the packet and the number of its path; `None` where it is none of ours.
pub(crate) fn split(mut datagram: Bytes) -> Option<(Bytes, usize)> {
    let path = usize::from(*datagram.last()?);
    datagram.truncate(datagram.len() - 1);
    (path < tidegate_link::PATHS_MAX).then_some((datagram, path))
}

/// Hands on what comes by a QUIC connection that is `path`, until it ends; then says so. Answers why.
pub(crate) async fn listen(
    connection: &quinn::Connection,
    (path, number): (usize, u64),
    heard: &mpsc::Sender<Heard>,
) -> quinn::ConnectionError {
    let error = loop {
        let datagram = match connection.read_datagram().await {
            Ok(datagram) => datagram,
            Err(error) => break error,
        };
        count_packet();
        if let Some((packet, of)) = split(datagram)
            && of == path
            && heard.send(Heard::Packet { path, number, packet }).await.is_err()
        {
            break quinn::ConnectionError::LocallyClosed;
        }
    };
    let _ = heard.send(Heard::Down { path, number }).await;
    error
}
