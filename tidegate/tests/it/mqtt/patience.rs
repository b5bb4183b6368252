//! Clients that take their time: each wait has an end, and who waits is in nobody else's way.

use std::time::Duration;

use rmqtt_codec::v5::Connect;
use tidegate::node::broker::HubOptions;
use tidegate::support::tls::{self, ClientFiles, ServerFiles, Stream};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::mqtt::PATIENCE;
use crate::mqtt::client::{Client, connect_v311, publish_v311};
use crate::mqtt::node::Node;
use crate::mqtt::soon;
use crate::support::certificates::Authority;

/// More silent sockets than handshakes may be under way, of which some have begun a ClientHello.
#[tokio::test]
async fn sockets_that_say_nothing_take_no_turn_of_a_handshake() {
    const SILENT: usize = 300;
    let authority = Authority::new("silent");
    let own = authority.issue("node");
    let (certificate, key) = (own.certificate, own.key);
    let files = ServerFiles { certificate, key, client_ca: None, crl: None };
    let node = Node::with(|options| {
        options.tls = Some(tls::server(&files).unwrap());
        // They stay for longer than this test waits.
        options.connect_timeout = 2 * PATIENCE;
    })
    .await;
    let mut silent = Vec::new();
    for number in 0..SILENT {
        let mut socket = TcpStream::connect(node.address()).await.unwrap();
        if number % 2 == 0 {
            socket.write_all(b"\x16\x03\x01").await.unwrap();
        }
        silent.push(socket);
    }
    let config = tls::client(&ClientFiles { ca: authority.ca(), own: None }).unwrap();
    let tcp = TcpStream::connect(node.address()).await.unwrap();
    let mut client = Stream::client(tcp, config, tls::server_name("127.0.0.1").unwrap()).unwrap();
    soon("the handshake", client.handshake()).await.unwrap();
    client.write_all(&connect_v311("plc", 0)).await.unwrap();
    let mut answer = bytes::BytesMut::with_capacity(16);
    while answer.is_empty() {
        soon("an answer", client.readable()).await.unwrap();
        match client.try_read(&mut answer) {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            read => assert!(read.unwrap() > 0, "closed"),
        }
    }
    assert_eq!(answer, [0x20, 2, 0, 0][..]);
    drop(silent);
}

/// The room of large packets is for who sends them, not for who only begins to.
#[tokio::test]
async fn a_large_packet_that_does_not_come_gives_its_room_up() {
    let bounds = HubOptions { clients: 420 << 10, ..HubOptions::default() };
    let mut node = Node::on(bounds, |options| {
        options.max_packet_size = 100_000;
        options.packet_timeout = Duration::from_millis(100);
    })
    .await;
    let large = publish_v311("t", Some(1), &[7; 90_000]);
    let (mut slow, _) = Client::v5(node.address(), Connect::default().client_id("slow")).await;
    node.opened().await;
    slow.send(&large[..50_000]).await;
    let mut quick = Client::v311(node.address(), "quick").await;
    node.opened().await;
    quick.send(&large).await;
    assert_eq!(quick.packet().await, [0x40, 2, 0, 1]);
    assert_eq!(slow.dismissed().await, 0x83);
    node.closed().await;
    assert_eq!(node.record().await.payload.len() as u64, 90_000);
}

/// Who is in nobody's way may be slow.
#[tokio::test]
async fn a_slow_packet_is_waited_for_while_nobody_needs_its_room() {
    let mut node = Node::with(|options| options.packet_timeout = Duration::from_millis(1)).await;
    let large = publish_v311("t", Some(1), &[7; 90_000]);
    let mut slow = Client::v311(node.address(), "slow").await;
    node.opened().await;
    for part in large.chunks(20_000) {
        slow.send(part).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(slow.packet().await, [0x40, 2, 0, 1]);
    assert_eq!(node.record().await.payload.len() as u64, 90_000);
}

#[tokio::test]
async fn a_client_without_a_keepalive_may_be_silent_for_the_idle_timeout() {
    let node = Node::with(|options| options.idle_timeout = Duration::from_millis(100)).await;
    let (mut client, _) = Client::v5(node.address(), Connect::default().client_id("plc")).await;
    assert_eq!(client.dismissed().await, 0x8D);
    // Its own keepalive is its word.
    let keepalive = Connect { keep_alive: 600, ..Connect::default().client_id("plc") };
    let (mut client, _) = Client::v5(node.address(), keepalive).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    client.send(&[0xC0, 0]).await;
    assert_eq!(client.packet().await, [0xD0, 0]);
}
