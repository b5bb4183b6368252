//! Last wills: published for clients that go without a word, at once or after their delay.

use std::time::{Duration, Instant};

use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::{self, Connect, LastWill};

use crate::mqtt::client::{Client, v5};
use crate::mqtt::node::{Node, Seen};

fn connect(delay: u32, expiry: u32) -> Connect {
    let will = LastWill {
        qos: QoS::ExactlyOnce,
        retain: true,
        topic: "plc/state".into(),
        message: "gone".into(),
        will_delay_interval_sec: (delay > 0).then_some(delay),
        correlation_data: None,
        message_expiry_interval: None,
        content_type: None,
        user_properties: Vec::new(),
        is_utf8_payload: None,
        response_topic: None,
    };
    let mut connect = Connect { last_will: Some(will), ..Connect::default().client_id("plc") };
    connect.clean_start = false;
    connect.session_expiry_interval_secs = expiry;
    connect
}

async fn will(node: &mut Node) {
    let record = node.record().await;
    assert_eq!((record.key.as_ref(), record.token), (&b"plc/state"[..], None));
    assert_eq!(record.properties.find("retain").unwrap(), "1");
}

#[tokio::test]
async fn a_will_waits_for_its_delay() {
    let mut node = Node::start().await;
    for (delay, expiry, waits) in [(1, 60, 1), (60, 1, 1), (60, 0, 0)] {
        drop(Client::v5(node.address(), connect(delay, expiry)).await);
        let start = Instant::now();
        let (source, _) = node.opened().await;
        will(&mut node).await;
        let waited = start.elapsed();
        assert_eq!(waited >= Duration::from_millis(900), waits == 1, "{delay} {expiry} {waited:?}");
        assert_eq!(node.closed().await, source);
        // The session of the next case is a new one.
        let _clean = Client::v311(node.address(), "plc").await;
        node.opened().await;
        drop(_clean);
        node.closed().await;
    }
}

#[tokio::test]
async fn a_client_that_comes_back_in_time_has_no_will() {
    let mut node = Node::start().await;
    drop(Client::v5(node.address(), connect(1, 60)).await);
    let (first, _) = node.opened().await;
    let (_client, ack) = Client::v5(node.address(), connect(60, 60)).await;
    assert!(ack.session_present);
    assert_eq!(node.closed().await, first);
    node.opened().await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(node.seen_now().is_none());
}

#[tokio::test]
async fn a_new_session_is_the_end_of_the_old_one_and_its_delay() {
    let mut node = Node::start().await;
    drop(Client::v5(node.address(), connect(60, 60)).await);
    node.opened().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let _clean = Client::v311(node.address(), "plc").await;
    will(&mut node).await;
}

#[tokio::test]
async fn a_take_over_is_no_goodbye() {
    let mut node = Node::start().await;
    let (_older, _) = Client::v5(node.address(), connect(0, 60)).await;
    node.opened().await;
    let (mut newer, _) = Client::v5(node.address(), connect(0, 60)).await;
    will(&mut node).await;
    node.closed().await;
    node.opened().await;
    newer.send(&[0xE0, 0]).await;
    assert!(matches!(node.seen().await, Seen::Close(_)), "a goodbye has no will");
}

#[tokio::test]
async fn a_goodbye_may_ask_for_the_will() {
    let mut node = Node::start().await;
    let (mut client, _) = Client::v5(node.address(), connect(0, 0)).await;
    node.opened().await;
    let reason_code = v5::DisconnectReasonCode::DisconnectWithWillMessage;
    let farewell = v5::Disconnect { reason_code, ..v5::Disconnect::default() };
    client.send(&v5(farewell.into())).await;
    will(&mut node).await;
}
