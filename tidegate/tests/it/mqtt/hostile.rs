//! Clients that want the node to hold much: what it holds is on the account, and what does not fit is refused
//! with the protocol's own word.

use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::{Connect, LastWill};
use tidegate::node::broker::HubOptions;
use tidegate_types::account::{Figures, Kind};

use crate::mqtt::client::{Client, connect_again, connect_v311, packet, publish_v311, v5};
use crate::mqtt::node::Node;
use crate::mqtt::soon;

/// Quota exceeded (MQTT 5, 2.4).
const QUOTA_EXCEEDED: u8 = 0x97;

fn figures(node: &Node) -> Figures {
    node.hub.account().figures()
}

/// Waits for something that leaves no word.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    soon(what, async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A SUBSCRIBE of MQTT 3.1.1 to these filters.
fn subscribe(filters: &[&str], qos: u8) -> Vec<u8> {
    let mut body = vec![0, 9];
    for filter in filters {
        body.extend((filter.len() as u16).to_be_bytes());
        body.extend(filter.as_bytes());
        body.push(qos);
    }
    packet(0x82, &body)
}

/// A SUBSCRIBE of MQTT 5 to one filter.
fn subscribe_v5(filter: &str) -> Vec<u8> {
    let mut body = vec![0, 9, 0];
    body.extend((filter.len() as u16).to_be_bytes());
    body.extend(filter.as_bytes());
    body.push(1);
    packet(0x82, &body)
}

/// A CONNECT of MQTT 3.1.1 with a will.
fn connect_with_will(id: &str, will: &[u8]) -> Vec<u8> {
    let mut body = b"\0\x04MQTT\x04\x06\0\0".to_vec();
    for text in [id.as_bytes(), b"will", will] {
        body.extend((text.len() as u16).to_be_bytes());
        body.extend(text);
    }
    packet(0x10, &body)
}

/// What is retained comes as it is taken, once for each filter, however often it is asked for.
#[tokio::test]
async fn one_subscribe_of_20000_filters_copies_nothing_that_is_retained() {
    const RETAINED: usize = 2000;
    let node = Node::start().await;
    let mut publisher = Client::v311(node.address(), "p").await;
    for number in 0..RETAINED {
        let mut publish = publish_v311(&format!("t/{number}"), None, &[7; 100]);
        publish[0] |= 1;
        publisher.send(&publish).await;
    }
    publisher.send(&[0xC0, 0]).await;
    assert_eq!(publisher.packet().await, [0xD0, 0]);
    assert_eq!(node.hub.status().retained, RETAINED);
    let before = figures(&node);
    let mut client = Client::v311(node.address(), "s").await;
    client.send(&subscribe(&["#"; 20_000], 0)).await;
    let answer = client.packet().await;
    let codes = &answer[answer.len() - 20_000..];
    assert!(codes[..10_000].iter().all(|code| *code == 0), "as many as a session may have");
    assert!(codes[10_000..].iter().all(|code| *code == 0x80), "and no more");
    let after = figures(&node);
    assert!(after.total() < before.total() + 200_000, "{before:?} {after:?}");
    assert!(node.hub.status().waiting < RETAINED, "it waits where it is retained");
    for _ in 0..RETAINED {
        assert_eq!(client.packet().await[0] & 0xF1, 0x31);
    }
    client.send(&[0xC0, 0]).await;
    assert_eq!(client.packet().await, [0xD0, 0], "each came once");
}

#[tokio::test]
async fn filters_beyond_the_account_are_refused_with_quota_exceeded() {
    const BOUND: usize = 256 * 1024;
    let node = Node::on(HubOptions { clients: BOUND, ..HubOptions::default() }, |_| {}).await;
    let deep = |number: usize| format!("{number}/{}", "a/".repeat(120));
    let (mut client, _) = Client::v5(node.address(), Connect::default().client_id("s")).await;
    let mut number = 0;
    let code = loop {
        client.send(&subscribe_v5(&deep(number))).await;
        match *client.packet().await.last().unwrap() {
            1 => number += 1,
            code => break code,
        }
        assert!(number < 100, "it is bounded");
    };
    assert_eq!(code, QUOTA_EXCEEDED);
    assert!(number > 0, "some fit");
    assert!(figures(&node).refused(Kind::Subscriptions) > 0);
    assert!(figures(&node).of(Kind::Subscriptions) <= BOUND);
    // Before MQTT 5 there is one word for every failure.
    let mut older = Client::v311(node.address(), "older").await;
    let filters: Vec<String> = (0..100).map(deep).collect();
    older.send(&subscribe(&filters.iter().map(String::as_str).collect::<Vec<_>>(), 1)).await;
    assert_eq!(older.packet().await.last(), Some(&0x80));
    drop((client, older));
    until("what they had is given back", || figures(&node).of(Kind::Subscriptions) == 0).await;
}

#[tokio::test]
async fn who_acknowledges_nothing_holds_what_one_subscriber_may() {
    const QUEUE: usize = 1 << 20;
    let node = Node::on(HubOptions { queue: QUEUE, ..HubOptions::default() }, |_| {}).await;
    let mut client = Client::v311(node.address(), "s").await;
    client.send(&subscribe(&["t"], 1)).await;
    client.packet().await;
    let mut publisher = Client::v311(node.address(), "p").await;
    let reading = async {
        let mut count = 0;
        while client.next().await.is_some_and(|packet| packet[0] >> 4 == 3) {
            count += 1;
        }
        count
    };
    let publishing = async {
        for number in 1..=60 {
            publisher.send(&publish_v311("t", Some(number), &[7; 100_000])).await;
            assert_eq!(publisher.packet().await[0], 0x40);
        }
    };
    tokio::select! {
        count = reading => panic!("it was closed after {count}"),
        () = publishing => {}
    }
    let status = node.hub.status();
    assert!(status.account.of(Kind::Messages) <= QUEUE + 100_000, "{:?}", status.account);
    assert!(status.drops.values().sum::<u64>() >= 40, "{:?}", status.drops);
    drop(client);
    until("all is given back", || figures(&node).of(Kind::Messages) == 0).await;
}

#[tokio::test]
async fn messages_beyond_the_account_are_dropped_and_counted() {
    const BOUND: usize = 400_000;
    let node = Node::on(HubOptions { clients: BOUND, ..HubOptions::default() }, |options| {
        options.max_packet_size = 50_000;
    })
    .await;
    let mut away = Vec::new();
    for number in 0..10 {
        let mut client = Client::open(node.address()).await;
        client.send(&connect_again(&format!("s{number}"))).await;
        client.packet().await;
        client.send(&subscribe(&[&format!("t/{number}")], 1)).await;
        assert_eq!(client.packet().await.last(), Some(&1));
        client.send(&[0xE0, 0]).await;
        assert_eq!(client.next().await, None);
        away.push(client);
    }
    let mut publisher = Client::v311(node.address(), "p").await;
    for round in 0..5 {
        for number in 0..10 {
            let id = round * 10 + number + 1;
            publisher.send(&publish_v311(&format!("t/{number}"), Some(id), &[7; 20_000])).await;
            assert_eq!(publisher.packet().await[0], 0x40);
        }
    }
    let status = node.hub.status();
    let held = status.account.of(Kind::Messages) + status.account.of(Kind::Sessions);
    assert!(held <= BOUND && status.waiting >= 5, "{status:?}");
    assert_eq!(status.drops.values().sum::<u64>() as usize + status.waiting, 50, "{status:?}");
}

/// Messages that all wait for take their memory once.
#[tokio::test]
async fn a_message_is_counted_once_however_many_wait_for_it() {
    let node = Node::start().await;
    for number in 0..10 {
        let mut client = Client::open(node.address()).await;
        client.send(&connect_again(&format!("s{number}"))).await;
        client.packet().await;
        client.send(&subscribe(&["t"], 1)).await;
        client.packet().await;
        client.send(&[0xE0, 0]).await;
        assert_eq!(client.next().await, None);
    }
    let mut publisher = Client::v311(node.address(), "p").await;
    publisher.send(&publish_v311("t", Some(1), &[7; 500_000])).await;
    publisher.packet().await;
    let status = node.hub.status();
    assert_eq!(status.waiting, 10);
    let bytes = status.account.of(Kind::Messages);
    assert!((500_000..600_000).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn wills_beyond_the_account_are_refused_at_connect() {
    const BOUND: usize = 64 * 1024;
    let node = Node::on(HubOptions { clients: BOUND, ..HubOptions::default() }, |_| {}).await;
    let mut clients = Vec::new();
    let code = loop {
        let mut client = Client::open(node.address()).await;
        client.send(&connect_with_will(&clients.len().to_string(), &[7; 6_000])).await;
        match client.packet().await[3] {
            0 => clients.push(client),
            code => break code,
        }
        assert!(clients.len() < 20, "it is bounded");
    };
    assert_eq!(code, 3, "server unavailable");
    assert!(!clients.is_empty() && figures(&node).of(Kind::Wills) <= BOUND);
    let will = LastWill {
        qos: QoS::AtMostOnce,
        retain: false,
        topic: "will".into(),
        message: vec![7; 6_000].into(),
        will_delay_interval_sec: None,
        correlation_data: None,
        message_expiry_interval: None,
        content_type: None,
        user_properties: Vec::new(),
        is_utf8_payload: None,
        response_topic: None,
    };
    let mut client = Client::open(node.address()).await;
    let connect = Connect { last_will: Some(will), ..Connect::default().client_id("v5") };
    client.send(&v5(connect.into())).await;
    assert_eq!(client.packet().await[3], QUOTA_EXCEEDED);
    let without = Client::v311(node.address(), "without").await;
    drop((clients, without));
    until("all is given back", || figures(&node).of(Kind::Wills) == 0).await;
}

#[tokio::test]
async fn connects_that_never_end_are_bounded() {
    const BOUND: usize = 512 * 1024;
    let node = Node::on(HubOptions { clients: BOUND, ..HubOptions::default() }, |_| {}).await;
    let connect = connect_with_will("long", &[7; 60_000]);
    let mut clients = Vec::new();
    for _ in 0..10 {
        let mut client = Client::open(node.address()).await;
        client.send(&connect[..50_000]).await;
        clients.push(client);
    }
    until("some are refused", || figures(&node).refused(Kind::Packets) > 0).await;
    assert!(figures(&node).of(Kind::Packets) <= BOUND);
    // Who asks for little is let in.
    let mut small = Client::open(node.address()).await;
    small.send(&connect_v311("small", 0)).await;
    assert_eq!(small.packet().await, [0x20, 2, 0, 0]);
}

/// A session that there is no memory for is not kept, and its client hears so when it is back.
#[tokio::test]
async fn sessions_beyond_the_account_are_not_kept() {
    const BOUND: usize = 105 * 1024;
    let node = Node::on(HubOptions { clients: BOUND, ..HubOptions::default() }, |options| {
        options.max_packet_size = 4096;
    })
    .await;
    for number in 0..60 {
        let (mut client, _) = Client::again(node.address(), &format!("s{number}")).await;
        client.send(&subscribe(&["a/b/c"], 1)).await;
        assert_eq!(client.packet().await.last(), Some(&1));
        client.send(&[0xE0, 0]).await;
        assert_eq!(client.next().await, None);
    }
    let counted = || {
        let figures = figures(&node);
        figures.of(Kind::Sessions) + figures.of(Kind::Subscriptions)
    };
    until("some are refused", || figures(&node).refused(Kind::Sessions) > 0).await;
    assert!(counted() <= BOUND && counted() > BOUND / 4, "{:?}", figures(&node));
    let (_, is_present) = Client::again(node.address(), "s0").await;
    assert!(is_present, "who came first is kept");
    let (_, is_present) = Client::again(node.address(), "s59").await;
    assert!(!is_present, "who came last is not");
}

/// What a connection remembers of topics is on the account too.
#[tokio::test]
async fn a_client_of_many_long_topics_is_served_within_the_account() {
    const BOUND: usize = 128 * 1024;
    let node = Node::on(HubOptions { clients: BOUND, ..HubOptions::default() }, |_| {}).await;
    let mut publisher = Client::v311(node.address(), "p").await;
    for number in 0..1000 {
        let topic = format!("{number}/{}", "x".repeat(2000));
        publisher.send(&publish_v311(&topic, Some(number + 1), b"x")).await;
        assert_eq!(soon("an answer", publisher.packet()).await[0], 0x40);
        assert!(figures(&node).total() <= BOUND);
    }
    drop(publisher);
    until("all is given back", || figures(&node).total() == 0).await;
}
