//! Subscribers over real sockets: what they get, what is kept for them, and what they may.

use std::time::Duration;

use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::{self, Connect, Packet};
use tidegate::support::access::{Access, Allow, Identification};
use tidegate_types::record::RefuseReason;

use crate::mqtt::client::{Client, connect_again, publish_once, publish_v311};
use crate::mqtt::node::{Node, Policy};

/// A SUBSCRIBE of MQTT 3.1.1 to one filter.
fn subscribe(filter: &str, qos: u8) -> Vec<u8> {
    let mut packet = vec![0x82, 5 + filter.len() as u8, 0, 9, 0, filter.len() as u8];
    packet.extend(filter.as_bytes());
    packet.push(qos);
    packet
}

async fn subscribed(node: &Node, id: &str, filter: &str, qos: u8) -> Client {
    let mut client = Client::v311(node.address(), id).await;
    client.send(&subscribe(filter, qos)).await;
    assert_eq!(client.packet().await, [0x90, 3, 0, 9, qos]);
    client
}

#[tokio::test]
async fn a_publish_reaches_subscribers_and_the_node() {
    let mut node = Node::start().await;
    let mut subscriber = subscribed(&node, "s", "a/#", 1).await;
    let mut publisher = Client::v311(node.address(), "p").await;
    publisher.send(&publish_v311("a/b", Some(1), b"x")).await;
    assert_eq!(publisher.packet().await, [0x40, 2, 0, 1]);
    assert_eq!(subscriber.packet().await, b"\x32\x08\0\x03a/b\0\x01x");
    node.opened().await;
    node.opened().await;
    assert_eq!(node.record().await.key, "a/b");
}

#[tokio::test]
async fn an_exactly_once_publish_is_delivered_when_it_is_accepted() {
    let node = Node::start().await;
    let mut subscriber = subscribed(&node, "s", "t", 2).await;
    node.policy(Policy::Refuse(RefuseReason::Full));
    let mut publisher = Client::v311(node.address(), "p").await;
    publisher.send(&publish_once("t", 1, false)).await;
    assert_eq!(publisher.next().await, None, "refused");
    node.policy(Policy::Accept);
    let mut publisher = Client::v311(node.address(), "p").await;
    publisher.send(&publish_once("t", 1, true)).await;
    assert_eq!(publisher.packet().await, [0x50, 2, 0, 1]);
    assert_eq!(subscriber.packet().await, b"\x34\x07\0\x01t\0\x01\0\x01");
    publisher.send(&publish_once("t", 1, true)).await;
    assert_eq!(publisher.packet().await, [0x50, 2, 0, 1], "a duplicate");
    subscriber.send(b"\x50\x02\0\x01").await;
    assert_eq!(subscriber.packet().await, [0x62, 2, 0, 1], "it came once");
    subscriber.send(b"\x70\x02\0\x01\xC0\0").await;
    assert_eq!(subscriber.packet().await, [0xD0, 0]);
}

#[tokio::test]
async fn what_came_while_a_subscriber_was_away_waits_for_it() {
    let node = Node::start().await;
    let mut subscriber = Client::open(node.address()).await;
    subscriber.send(&connect_again("s")).await;
    subscriber.packet().await;
    subscriber.send(&subscribe("t", 1)).await;
    subscriber.packet().await;
    subscriber.send(&[0xE0, 0]).await;
    assert_eq!(subscriber.next().await, None);
    let mut publisher = Client::v311(node.address(), "p").await;
    publisher.send(&publish_v311("t", Some(1), b"kept")).await;
    publisher.packet().await;
    let (mut subscriber, is_present) = Client::again(node.address(), "s").await;
    assert!(is_present);
    assert_eq!(subscriber.packet().await, b"\x32\x09\0\x01t\0\x01kept");
    // Not acknowledged: it comes again, marked.
    drop(subscriber);
    let (mut subscriber, _) = Client::again(node.address(), "s").await;
    assert_eq!(subscriber.packet().await, b"\x3A\x09\0\x01t\0\x01kept");
    subscriber.send(&[0x40, 2, 0, 1, 0xC0, 0]).await;
    assert_eq!(subscriber.packet().await, [0xD0, 0]);
    // A clean session is a new one.
    drop(subscriber);
    let mut subscriber = Client::v311(node.address(), "s").await;
    publisher.send(&publish_v311("t", Some(2), b"x")).await;
    publisher.packet().await;
    subscriber.send(&[0xC0, 0]).await;
    assert_eq!(subscriber.packet().await, [0xD0, 0]);
}

#[tokio::test]
async fn a_session_whose_time_is_over_takes_nothing_more() {
    let node = Node::start().await;
    let mut connect = Connect::default().client_id("s");
    connect.session_expiry_interval_secs = 1;
    let (mut subscriber, _) = Client::v5(node.address(), connect).await;
    subscriber.send(b"\x82\x07\0\x09\0\0\x01t\x01").await;
    subscriber.packet().await;
    assert_eq!(node.hub.status().sessions, 1);
    drop(subscriber);
    crate::mqtt::soon("the end of the session", async {
        while node.hub.status().sessions > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(node.hub.status().subscriptions, 0);
}

#[tokio::test]
async fn a_will_and_what_is_retained_reach_subscribers() {
    let node = Node::start().await;
    let mut early = subscribed(&node, "early", "state/#", 0).await;
    let mut connect = Connect::default().client_id("plc");
    connect.last_will = Some(v5::LastWill {
        qos: QoS::AtLeastOnce,
        retain: true,
        topic: "state/plc".into(),
        message: "gone".into(),
        will_delay_interval_sec: None,
        correlation_data: None,
        message_expiry_interval: None,
        content_type: None,
        user_properties: Vec::new(),
        is_utf8_payload: None,
        response_topic: None,
    });
    drop(Client::v5(node.address(), connect).await);
    assert_eq!(early.packet().await, b"\x30\x0F\0\x09state/plcgone");
    let mut late = subscribed(&node, "late", "state/+", 1).await;
    assert_eq!(late.packet().await, b"\x33\x11\0\x09state/plc\0\x01gone", "marked as retained");
    let mut publisher = Client::v311(node.address(), "p").await;
    publisher.send(b"\x31\x0B\0\x09state/plc\xC0\0").await;
    publisher.packet().await;
    let mut last = subscribed(&node, "last", "state/+", 1).await;
    last.send(&[0xC0, 0]).await;
    assert_eq!(last.packet().await, [0xD0, 0], "an empty one ends it");
}

#[tokio::test]
async fn options_of_a_subscription_hold() {
    let node = Node::start().await;
    let (mut client, _) = Client::v5(node.address(), Connect::default().client_id("s")).await;
    // Identifier 5, no local, retain as published.
    client.send(b"\x82\x09\0\x09\x02\x0B\x05\0\x01t\x0D").await;
    assert_eq!(client.packet().await, [0x90, 4, 0, 9, 0, 1]);
    client.send(b"\x32\x07\0\x01t\0\x01\0x").await;
    assert_eq!(client.packet().await, [0x40, 2, 0, 1], "its own publish does not come back");
    let mut publisher = Client::v311(node.address(), "p").await;
    publisher.send(b"\x31\x04\0\x01ty").await;
    assert_eq!(client.packet().await, b"\x31\x07\0\x01t\x02\x0B\x05y");
    client.send(b"\xA2\x09\0\x0A\0\0\x01t\0\x01u").await;
    let Packet::UnsubscribeAck(ack) = client.packet_v5().await else { panic!("no UNSUBACK") };
    assert_eq!(ack.status.len(), 2);
}

#[tokio::test]
async fn a_subscription_needs_a_right() {
    let rules = vec![Allow::new(None, vec!["#".into()], vec!["public/#".into()]).unwrap()];
    let access = Access::new(Identification::Nobody, Some(rules));
    let node = Node::with(|options| options.access = access.into()).await;
    let mut client = Client::v311(node.address(), "s").await;
    client.send(&subscribe("#", 0)).await;
    assert_eq!(client.packet().await, [0x90, 3, 0, 9, 0x80]);
    client.send(&subscribe("public/a", 0)).await;
    assert_eq!(client.packet().await, [0x90, 3, 0, 9, 0]);
    assert_eq!(node.counts.read().refused["forbidden"], 1);
}

#[tokio::test]
async fn a_subscriber_that_does_not_read_loses_messages_and_nobody_waits() {
    const COUNT: u16 = 300;
    let node = Node::start().await;
    let _subscriber = subscribed(&node, "s", "t", 0).await;
    let mut publisher = Client::v311(node.address(), "p").await;
    let payload = vec![b'x'; 64 * 1024];
    // More than its outbox and the buffers of its connection hold.
    for id in 1..=COUNT {
        publisher.send(&publish_v311("t", Some(id), &payload)).await;
        publisher.packet().await;
    }
    let status = node.hub.status();
    let dropped: u64 = status.drops.values().sum();
    assert!(dropped > 0, "{status:?}");
    assert_eq!(status.published, u64::from(COUNT));
    assert_eq!(status.delivered + dropped + status.waiting as u64, u64::from(COUNT));
}
