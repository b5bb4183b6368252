//! One connection of a path: where packets go, and what is heard by it.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quinn::VarInt;
use tokio::sync::mpsc;

use super::tcp;

/// Tells connections apart, over all links of the process.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A connection as a link sees it. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Wire {
    number: u64,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Quic(quinn::Connection),
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
    /// A QUIC connection.
    pub(crate) fn quic(connection: quinn::Connection) -> Self {
        Wire { number: NUMBERS.fetch_add(1, Ordering::Relaxed), way: Way::Quic(connection) }
    }

    /// A TCP connection, and where its task finds what it is to write.
    pub(crate) fn tcp() -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (sender, packets) = mpsc::channel(tcp::PACKETS_MAX);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        (Wire { number, way: Way::Tcp(sender) }, packets)
    }

    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// What it is, in a word.
    pub(crate) fn transport(&self) -> &'static str {
        match self.way {
            Way::Quic(_) => "quic",
            Way::Tcp(_) => "tcp",
        }
    }

    /// Sends a packet of `path`, now or never: what finds no room is lost, as on any network.
    pub(crate) fn send(&self, path: usize, mut packet: Vec<u8>) {
        packet.push(path as u8);
        match &self.way {
            // A connection that is gone is heard of by its own task.
            Way::Quic(connection) => drop(connection.send_datagram(packet.into())),
            Way::Tcp(packets) => drop(packets.try_send(packet)),
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if let Way::Quic(connection) = &self.way {
            connection.close(VarInt::from_u32(0), b"done");
        }
    }
}

/// Splits a datagram into the packet and the number of its path; `None` where it is none of ours.
pub(crate) fn split(mut datagram: Bytes) -> Option<(Bytes, usize)> {
    let path = usize::from(*datagram.last()?);
    datagram.truncate(datagram.len() - 1);
    (path < tidegate_core::link::PATHS_MAX).then_some((datagram, path))
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
