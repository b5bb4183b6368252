//! The far end of a node's MQTT output: takes records and acknowledges each when its handler says.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::welcome::welcome;
use crate::load::mqtt::Packet;

/// A wait that is shorter is none: the clock of timers is no finer.
const SOON: Duration = Duration::from_millis(1);
/// What a client's ping and goodbye begin with.
const PING: u8 = 0xc0;
const GOODBYE: u8 = 0xe0;

/// A record that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) topic: String,
    pub(super) properties: Vec<(String, String)>,
    pub(super) payload: Bytes,
}

/// What takes records; it answers with when each is done with.
pub(super) type Handler = Arc<dyn Fn(Came) -> Instant + Send + Sync>;

/// Takes records of whoever connects, at most `maximum` of each connection at once, until the set ends.
pub(super) fn serve(
    listener: TcpListener,
    tasks: &mut JoinSet<()>,
    maximum: u16,
    handler: Handler,
) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let handler = handler.clone();
            let _ = socket.set_nodelay(true);
            // Who goes away is no mistake.
            connections.spawn(async move { _ = take(socket, maximum, handler).await });
        }
    });
    Ok(())
}

async fn take(socket: TcpStream, maximum: u16, handler: Handler) -> anyhow::Result<()> {
    let (mut reader, mut writer) = welcome(socket, maximum).await?;
    while let Some(packet) = reader.packet().await? {
        match packet {
            Packet::Publish { topic, properties, payload, id } => {
                let done = handler(Came { topic, properties, payload });
                if done > Instant::now() + SOON {
                    sleep_until(done).await;
                }
                if let Some(id) = id {
                    writer.acknowledge(id).await?;
                }
            }
            Packet::Other(PING) => writer.send(0xd0, &[]).await?,
            Packet::Other(GOODBYE) => break,
            _ => {}
        }
    }
    Ok(())
}
