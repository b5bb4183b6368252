//! The same over NATS: cameras publish frames as they are, applications subscribe.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::client::{Came, Schedule, Watching, now_ns, sleep_until};
use super::film::Film;
use crate::load::nats::Client;

/// Before the JPEG: when it was due.
const STAMP: usize = size_of::<u64>();
/// Largest message: the usual limit of a megabyte would refuse large frames.
pub(super) const PAYLOAD_MAX: &str = "8MB";

/// A connection of either kind.
trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

/// Where a server is.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) address: SocketAddr,
    /// What is shown there; nothing without TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Place {
    async fn connect(&self) -> anyhow::Result<Client<Box<dyn Socket>>> {
        let socket = TcpStream::connect(self.address).await.context("a NATS server")?;
        socket.set_nodelay(true)?;
        let socket: Box<dyn Socket> = match &self.tls {
            None => Box::new(socket),
            Some(config) => {
                let name = self.address.ip().into();
                Box::new(TlsConnector::from(config.clone()).connect(name, socket).await?)
            }
        };
        Client::connect(socket).await
    }
}

/// Publishes a frame whenever one is due, however late the one before it has gone.
pub(super) async fn publish(
    place: Place,
    camera: String,
    film: Arc<Film>,
    offset: usize,
    schedule: Schedule,
) -> anyhow::Result<()> {
    let mut client = place.connect().await?;
    for (number, due_ns) in schedule.dues().enumerate() {
        sleep_until(due_ns).await;
        let jpeg = film.frame(offset + number);
        client.publish(&camera, &[&due_ns.to_be_bytes(), &jpeg]).await?;
    }
    // What it has been told is at the server when it answers.
    client.settle().await
}

/// Subscribes, and answers what came until it was over. Frames are as they were taken, so none is kept.
pub(super) async fn watch(
    place: Place,
    camera: String,
    watching: Watching,
) -> anyhow::Result<Vec<Came>> {
    let Watching { ready, mut until, .. } = watching;
    let mut client = place.connect().await?;
    client.subscribe(&camera).await?;
    // Who waited may have gone.
    let _ = ready.send(()).await;
    let mut came = Vec::new();
    loop {
        let message = tokio::select! {
            message = client.next() => message?.context("the server is gone")?,
            _ = until.changed() => return Ok(came),
        };
        came.push(read(&message.payload, now_ns()).context("a message without a stamp")?);
    }
}

/// A frame as it was taken.
fn read(payload: &Bytes, at_ns: u64) -> Option<Came> {
    let (stamp, jpeg) = payload.split_first_chunk::<STAMP>()?;
    let (due_ns, bytes) = (u64::from_be_bytes(*stamp), jpeg.len() as u64);
    Some(Came { due_ns, at_ns, age_ns: 0, bytes, rung: (8, 0), accuracy: 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_carries_when_it_was_due() {
        let payload = Bytes::from([&7_u64.to_be_bytes()[..], b"jpeg"].concat());
        let came = read(&payload, 9).unwrap();
        assert_eq!((came.due_ns, came.at_ns, came.bytes, came.rung), (7, 9, 4, (8, 0)));
        assert_eq!(read(&Bytes::from_static(b"short"), 9), None);
    }
}
