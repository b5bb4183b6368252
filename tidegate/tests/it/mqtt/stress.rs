//! Backpressure, and clients that mean harm.

use std::time::Duration;

use tidegate::node::broker::HubOptions;
use tidegate::node::contract::Notice;
use tidegate_types::record::SourceId;
use tokio::io::AsyncWriteExt;

use crate::mqtt::client::{Client, publish_v311};
use crate::mqtt::node::{Node, Policy};
use crate::mqtt::soon;

/// Pauses a connection, and returns when it surely is: the answer to a publish comes after the pause.
async fn pause(node: &mut Node, client: &mut Client, source: SourceId) {
    node.policy(Policy::Hold);
    client.send(&publish_v311("before", Some(1), b"")).await;
    let record = node.record().await;
    node.notify(source, Notice::Pause);
    node.answer(&record, Ok(()));
    assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
    node.policy(Policy::Accept);
}

#[tokio::test]
async fn a_paused_connection_stays_in_the_kernel() {
    /// More than the kernel buffers of both ends take together.
    const MANY: usize = 64 << 20;
    let mut node = Node::start().await;
    let mut client = Client::v311(node.address(), "bulk").await;
    let (source, _) = node.opened().await;
    pause(&mut node, &mut client, source).await;
    let packet = publish_v311("t", None, &[7; 1000]);
    let mut written = 0;
    while written < MANY {
        match client.stream.try_write(&packet) {
            Ok(count) => written += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // Full for now; what the other end reads would make room.
                if tokio::time::timeout(QUIET, client.stream.writable()).await.is_err() {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(written < MANY, "a paused connection is read");
    assert!(node.seen_now().is_none());
    node.notify(source, Notice::Resume);
    for _ in 0..written / packet.len() {
        node.record().await;
    }
}

#[tokio::test]
async fn a_pause_that_ends_at_once_is_over() {
    let mut node = Node::start().await;
    let mut client = Client::v311(node.address(), "bulk").await;
    let (source, _) = node.opened().await;
    // Both are there when the connection looks for the first.
    node.notify(source, Notice::Pause);
    node.notify(source, Notice::Resume);
    client.send(&publish_v311("bulk", Some(1), b"")).await;
    assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
}

/// How long a socket that is read would at most stay full.
const QUIET: Duration = Duration::from_millis(300);

#[tokio::test]
async fn one_paused_connection_does_not_hold_another() {
    let mut node = Node::start().await;
    let mut bulk = Client::v311(node.address(), "bulk").await;
    let (source, _) = node.opened().await;
    pause(&mut node, &mut bulk, source).await;
    let mut alarm = Client::v311(node.address(), "alarm").await;
    node.opened().await;
    bulk.send(&publish_v311("bulk", Some(1), b"")).await;
    alarm.send(&publish_v311("alarm", Some(1), b"")).await;
    assert_eq!(alarm.packet().await, [0x40, 2, 0, 1]);
    assert_eq!(node.record().await.key, "alarm");
    node.notify(source, Notice::Resume);
    assert_eq!(bulk.packet().await, [0x40, 2, 0, 1]);
    assert_eq!(node.record().await.key, "bulk");
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
    assert_eq!(record.payload, payload);
    node.record().await;
    assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
    assert_eq!(client.packet().await, [0x40, 2, 0, 2]);
}

#[tokio::test]
async fn large_packets_in_the_making_are_bounded_together() {
    // For one of them at a time.
    let bounds = HubOptions { clients: 5 << 20, ..HubOptions::default() };
    let mut node = Node::on(bounds, |_| {}).await;
    let packet = publish_v311("large", Some(1), &vec![7; 1_000_000]);
    let (half, rest) = packet.split_at(packet.len() / 2);
    let mut first = Client::v311(node.address(), "first").await;
    node.opened().await;
    first.send(half).await;
    let mut second = Client::v311(node.address(), "second").await;
    node.opened().await;
    let (mut reader, mut writer) = second.stream.split();
    let write = async { writer.write_all(&packet).await.unwrap() };
    let read = async {
        let mut answer = [0; 4];
        tokio::io::AsyncReadExt::read_exact(&mut reader, &mut answer).await.unwrap();
        assert_eq!(answer, [0x40, 2, 0, 1]);
    };
    let others = async {
        let mut small = Client::v311(node.address(), "small").await;
        node.opened().await;
        small.send(&publish_v311("small", Some(1), b"")).await;
        assert_eq!(small.packet().await, [0x40, 2, 0, 1]);
        first.send(rest).await;
        assert_eq!(first.packet().await, [0x40, 2, 0, 1]);
    };
    soon("all records", async { tokio::join!(write, read, others) }).await;
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
            assert_eq!(node.record().await.payload, n.to_be_bytes().to_vec());
        }
    };
    soon("all records", async { tokio::join!(write, read, records) }).await;
}
