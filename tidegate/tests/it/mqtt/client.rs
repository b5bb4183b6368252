//! A client of raw bytes, and an independent codec (rmqtt-codec) for packets that are tedious by hand.

use std::net::SocketAddr;

use bytes::BytesMut;
use rmqtt_codec::v5;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::codec::{Decoder, Encoder};

use crate::mqtt::soon;

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

/// A CONNECT of MQTT 3.1.1, clean session.
pub(crate) fn connect_v311(id: &str, keepalive: u16) -> Vec<u8> {
    let mut packet = vec![0x10, 12 + id.len() as u8];
    packet.extend(b"\0\x04MQTT\x04\x02");
    packet.extend(keepalive.to_be_bytes());
    packet.extend((id.len() as u16).to_be_bytes());
    packet.extend(id.as_bytes());
    packet
}

/// A CONNECT of MQTT 3.1.1 that goes on with its session.
pub(crate) fn connect_again(id: &str) -> Vec<u8> {
    let mut packet = connect_v311(id, 0);
    packet[9] = 0;
    packet
}

/// A QoS 2 PUBLISH of MQTT 3.1.1.
pub(crate) fn publish_once(topic: &str, id: u16, dup: bool) -> Vec<u8> {
    let mut packet = publish_v311(topic, Some(id), &id.to_be_bytes());
    packet[0] = if dup { 0x3C } else { 0x34 };
    packet
}

/// A QoS 0 (no id) or QoS 1 PUBLISH of MQTT 3.1.1.
pub(crate) fn publish_v311(topic: &str, id: Option<u16>, payload: &[u8]) -> Vec<u8> {
    let mut body = (topic.len() as u16).to_be_bytes().to_vec();
    body.extend(topic.as_bytes());
    body.extend(id.iter().flat_map(|id| id.to_be_bytes()));
    body.extend(payload);
    packet(if id.is_some() { 0x32 } else { 0x30 }, &body)
}

/// A packet with this first byte and this body.
pub(crate) fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    let mut length = body.len();
    loop {
        let byte = (length & 0x7F) as u8;
        length >>= 7;
        packet.push(if length > 0 { byte | 0x80 } else { byte });
        if length == 0 {
            break;
        }
    }
    packet.extend(body);
    packet
}

/// Any MQTT 5 packet, as the independent codec writes it.
pub(crate) fn v5(packet: v5::Packet) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    v5::Codec::new(0, 0).encode(packet, &mut bytes).unwrap();
    bytes.to_vec()
}

impl Client {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = soon("a connection", TcpStream::connect(address)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream }
    }

    /// A connected MQTT 3.1.1 client.
    pub(crate) async fn v311(address: SocketAddr, id: &str) -> Self {
        let mut client = Client::open(address).await;
        client.send(&connect_v311(id, 0)).await;
        assert_eq!(client.packet().await, [0x20, 2, 0, 0]);
        client
    }

    /// An MQTT 3.1.1 client that goes on with its session, and whether there was one.
    pub(crate) async fn again(address: SocketAddr, id: &str) -> (Self, bool) {
        let mut client = Client::open(address).await;
        client.send(&connect_again(id)).await;
        let answer = client.packet().await;
        assert_eq!((answer[0], answer[3]), (0x20, 0));
        (client, answer[2] == 1)
    }

    /// A connected MQTT 5 client and the answer to its CONNECT.
    pub(crate) async fn v5(address: SocketAddr, connect: v5::Connect) -> (Self, v5::ConnectAck) {
        let mut client = Client::open(address).await;
        client.send(&v5(connect.into())).await;
        match client.packet_v5().await {
            v5::Packet::ConnectAck(ack) => (client, *ack),
            other => panic!("expected a CONNACK, got {other:?}"),
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        soon("room to write", self.stream.write_all(bytes)).await.unwrap();
    }

    /// The next packet, raw; `None` when the connection is closed.
    pub(crate) async fn next(&mut self) -> Option<Vec<u8>> {
        soon("a packet", async {
            let mut packet = vec![self.stream.read_u8().await.ok()?];
            let mut length = 0;
            for place in 0..4 {
                let byte = self.stream.read_u8().await.ok()?;
                packet.push(byte);
                length |= usize::from(byte & 0x7F) << (7 * place);
                if byte & 0x80 == 0 {
                    break;
                }
            }
            let start = packet.len();
            packet.resize(start + length, 0);
            self.stream.read_exact(&mut packet[start..]).await.ok()?;
            Some(packet)
        })
        .await
    }

    pub(crate) async fn packet(&mut self) -> Vec<u8> {
        self.next().await.expect("a packet, not the end")
    }

    /// The next packet as the independent codec reads it.
    pub(crate) async fn packet_v5(&mut self) -> v5::Packet {
        let bytes = self.packet().await;
        let mut buffer = BytesMut::from(&bytes[..]);
        v5::Codec::new(0, 0).decode(&mut buffer).unwrap().unwrap().0
    }

    /// The reason of the DISCONNECT that must come next, and then the close.
    pub(crate) async fn dismissed(&mut self) -> u8 {
        match self.packet_v5().await {
            v5::Packet::Disconnect(disconnect) => {
                assert_eq!(self.next().await, None);
                disconnect.reason_code.into()
            }
            other => panic!("expected a DISCONNECT, got {other:?}"),
        }
    }
}
