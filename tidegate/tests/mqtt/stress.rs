//! Backpressure, and clients that mean harm.

use std::time::Duration;

use tidegate::port::Notice;
use tokio::io::AsyncWriteExt;

use crate::client::{Client, publish_v311};
use crate::node::{Node, Policy};
use crate::soon;

/// Writes until the socket takes nothing for a while; returns the bytes written.
async fn stuff(client: &mut Client, packet: &[u8]) -> usize {
    const QUIET: Duration = Duration::from_millis(500);
    let mut written = 0;
    let bytes = packet.repeat(64);
    while let Ok(count) = tokio::time::timeout(QUIET, client.stream.write(&bytes)).await {
        written += count.unwrap();
        assert!(written < 256 << 20, "a paused connection is read");
    }
    written
}

#[tokio::test]
async fn a_paused_connection_stays_in_the_kernel() {
    let mut node = Node::start().await;
    let mut client = Client::v311(node.address(), "bulk").await;
    let (source, _) = node.opened().await;
    node.notify(source, Notice::Pause);
    let packet = publish_v311("t", None, &[7; 1000]);
    let written = stuff(&mut client, &packet).await;
    let mut early = 0;
    while node.seen_now().is_some() {
        early += 1;
    }
    assert!(early * packet.len() < written / 2, "{early} records of {written} bytes came through");
    node.notify(source, Notice::Resume);
    for _ in early..written / packet.len() {
        node.record().await;
    }
}

#[tokio::test]
async fn one_paused_connection_does_not_hold_another() {
    let mut node = Node::start().await;
    let mut bulk = Client::v311(node.address(), "bulk").await;
    let (source, _) = node.opened().await;
    let mut alarm = Client::v311(node.address(), "alarm").await;
    node.opened().await;
    node.notify(source, Notice::Pause);
    bulk.send(&publish_v311("bulk", None, b"")).await;
    alarm.send(&publish_v311("alarm", Some(1), b"")).await;
    assert_eq!(alarm.packet().await, [0x40, 2, 0, 1]);
    node.notify(source, Notice::Resume);
    let keys = [node.record().await.key, node.record().await.key];
    assert!(keys.iter().any(|key| key == "bulk") && keys.iter().any(|key| key == "alarm"));
}

#[tokio::test]
async fn a_paused_client_is_not_taken_for_a_silent_one() {
    let mut node = Node::start().await;
    let mut client = Client::open(node.address()).await;
    client.send(&crate::client::connect_v311("plc", 1)).await;
    client.packet().await;
    let (source, _) = node.opened().await;
    node.notify(source, Notice::Pause);
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.send(&publish_v311("t", Some(1), b"")).await;
    node.notify(source, Notice::Resume);
    assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_given_up() {
    let mut node = Node::with(|options| options.write_timeout = Duration::from_millis(200)).await;
    let mut client = Client::v311(node.address(), "deaf").await;
    let (source, _) = node.opened().await;
    let pings = [0xC0, 0].repeat(32 * 1024);
    soon("the end of the connection", async {
        while client.stream.write_all(&pings).await.is_ok() {}
    })
    .await;
    assert_eq!(node.closed().await, source);
}

#[tokio::test]
async fn large_records_pass_whole() {
    let mut node = Node::start().await;
    let mut client = Client::v311(node.address(), "camera").await;
    node.opened().await;
    let payload: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let packets = [publish_v311("f", Some(1), &payload), publish_v311("f", Some(2), b"end")];
    client.send(&packets.concat()).await;
    let record = node.record().await;
    assert_eq!(record.body, tidegate_core::record::Body::Resident(payload.into()));
    node.record().await;
    assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
    assert_eq!(client.packet().await, [0x40, 2, 0, 2]);
}

#[tokio::test]
async fn records_cut_anywhere_are_put_together() {
    let mut node = Node::start().await;
    let mut client = Client::v311(node.address(), "slow").await;
    node.opened().await;
    for byte in publish_v311("a/b", Some(1), &[7; 150]) {
        client.send(&[byte]).await;
    }
    assert_eq!(node.record().await.key, "a/b");
    assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
}

#[tokio::test]
async fn many_records_keep_their_order() {
    const RECORDS: u32 = 20_000;
    let mut node = Node::start().await;
    let mut client = Client::v311(node.address(), "fast").await;
    node.opened().await;
    node.policy(Policy::Accept);
    let stream: Vec<u8> = (0..RECORDS)
        .flat_map(|n| publish_v311("t", Some(n as u16 | 1), &n.to_be_bytes()))
        .collect();
    let (mut reader, mut writer) = client.stream.split();
    let write = async { writer.write_all(&stream).await.unwrap() };
    let read = async {
        let mut acknowledgements = vec![0; 4 * RECORDS as usize];
        tokio::io::AsyncReadExt::read_exact(&mut reader, &mut acknowledgements).await.unwrap();
        for (n, packet) in acknowledgements.chunks(4).enumerate() {
            let [high, low] = (n as u16 | 1).to_be_bytes();
            assert_eq!(packet, [0x40, 2, high, low]);
        }
    };
    let records = async {
        for n in 0..RECORDS {
            let body = tidegate_core::record::Body::Resident(n.to_be_bytes().to_vec().into());
            assert_eq!(node.record().await.body, body);
        }
    };
    soon("all records", async { tokio::join!(write, read, records) }).await;
}
