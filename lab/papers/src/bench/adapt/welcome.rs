//! The other side of the client: who takes records at the far end of a node's output.

use anyhow::{Context, ensure};
use tokio::net::TcpStream;

use crate::load::mqtt::{RECEIVE_MAXIMUM, Reader, Version, Writer, halves};

/// Takes a client's CONNECT and says that it is welcome, and how many QoS 1 records of it may be
/// unacknowledged at once, which only MQTT 5 can say.
pub(super) async fn welcome(socket: TcpStream, maximum: u16) -> anyhow::Result<(Reader, Writer)> {
    let (mut reader, mut writer) = halves(socket, Version::V5);
    let (kind, body) = reader.frame().await?.context("closed instead of CONNECT")?;
    // Two bytes of length, `MQTT`, and the version.
    ensure!(kind == 0x10 && body.len() > 6, "no CONNECT: {kind:#x} {body:?}");
    let version = if body[6] == 5 { Version::V5 } else { Version::V311 };
    (reader.version, writer.version) = (version, version);
    let [high, low] = maximum.to_be_bytes();
    match version {
        Version::V5 => writer.send(0x20, &[0, 0, 3, RECEIVE_MAXIMUM, high, low]).await?,
        Version::V311 => writer.send(0x20, &[0, 0]).await?,
    }
    Ok((reader, writer))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::net::TcpListener;

    use super::*;
    use crate::load::mqtt::{Hello, Packet, hello};

    #[tokio::test]
    async fn a_client_of_ours_is_welcome() {
        for version in [Version::V5, Version::V311] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let client = async {
                let socket = TcpStream::connect(address).await.unwrap();
                let words = Hello { version, ..Hello::new("c") };
                let (mut reader, mut writer, maximum) = hello(socket, words).await.unwrap();
                writer.publish("a/b", 7, &[], b"x").await.unwrap();
                (reader.packet().await.unwrap(), maximum)
            };
            let server = async {
                let (socket, _) = listener.accept().await.unwrap();
                let (mut reader, mut writer) = welcome(socket, 9).await.unwrap();
                let packet = reader.packet().await.unwrap();
                writer.acknowledge(7).await.unwrap();
                packet
            };
            let ((answer, maximum), came) = tokio::join!(client, server);
            assert_eq!(answer, Some(Packet::Acknowledged { id: 7, reason: 0 }));
            assert_eq!(maximum, if version == Version::V5 { 9 } else { u16::MAX });
            let payload = Bytes::from_static(b"x");
            let (topic, id) = ("a/b".into(), Some(7));
            assert_eq!(came, Some(Packet::Publish { topic, properties: vec![], payload, id }));
        }
    }
}
