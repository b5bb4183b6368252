//! What one user may have, and how a client hears that it is too much.

use std::sync::Arc;
use std::time::Duration;

use rmqtt_codec::v5::{Connect, ConnectAckReason};
use tidegate::support::access::{Quota, QuotaRule, Quotas};

use crate::mqtt::client::{Client, connect_v311, packet};
use crate::mqtt::node::Node;
use crate::support::process;

const QUOTA: Quota = Quota {
    connections: Some(2),
    sessions: Some(1),
    subscriptions: Some(2),
    session_expiry: Some(Duration::from_secs(60)),
    streams: None,
    log: None,
};

/// A SUBSCRIBE of MQTT 5 to these filters.
fn subscribe(filters: &[&str]) -> Vec<u8> {
    let mut body = vec![0, 9, 0];
    for filter in filters {
        body.extend((filter.len() as u16).to_be_bytes());
        body.extend(filter.as_bytes());
        body.push(1);
    }
    packet(0x82, &body)
}

fn hello(id: &'static str) -> Connect {
    Connect { clean_start: false, session_expiry_interval_secs: 3600, ..Connect::default() }
        .client_id(id)
}

#[tokio::test]
async fn quotas_are_told_in_the_protocols_words() {
    let rules = vec![QuotaRule { user: None, quota: QUOTA }];
    let node = Node::with(|options| options.quotas = Arc::new(Quotas(rules))).await;
    let over = |which| node.counts.read().over_quota[which];
    let (mut first, answer) = Client::v5(node.address(), hello("a")).await;
    assert_eq!(answer.session_expiry_interval_secs, Some(60), "it is told that it is less");
    assert_eq!(over("session-expiry"), 1);
    first.send(&subscribe(&["a", "b", "c"])).await;
    assert_eq!(first.packet().await[5..], [1, 1, 0x97], "two subscriptions");
    assert_eq!(over("subscriptions"), 1);
    let (second, _) = Client::v5(node.address(), hello("b")).await;
    let (_third, answer) = Client::v5(node.address(), hello("c")).await;
    assert_eq!(answer.reason_code, ConnectAckReason::QuotaExceeded, "two connections");
    let mut older = Client::open(node.address()).await;
    older.send(&connect_v311("d", 0)).await;
    assert_eq!(older.packet().await, [0x20, 2, 0, 3], "before MQTT 5 the server is not there");
    assert_eq!((over("connections"), node.counts.read().denied["quota"]), (2, 2));
    // A client that comes again is none more.
    let (again, answer) = Client::v5(node.address(), hello("a")).await;
    assert!(answer.session_present);
    // One session is kept: the one that ends next makes room.
    drop((second, again));
    while over("sessions") == 0 {
        tokio::task::yield_now().await;
    }
    let (_, answer) = Client::v5(node.address(), hello("c")).await;
    assert_eq!(answer.reason_code, ConnectAckReason::Success);
    node.stop().await;
}

/// A PUBLISH of MQTT 5 with QoS 1 and 50,000 bytes.
fn publish() -> Vec<u8> {
    let mut body = vec![0, 1, b't', 0, 1, 0];
    body.resize(body.len() + 50_000, b'x');
    packet(0x32, &body)
}

/// The reason code of the PUBACK that a publish is answered with.
async fn code(client: &mut Client) -> u8 {
    client.send(&publish()).await;
    let puback = client.packet().await;
    assert_eq!((puback[0], &puback[2..4]), (0x40, &[0, 1][..]));
    puback.get(4).copied().unwrap_or_default()
}

#[tokio::test]
async fn quotas_of_streams_and_of_the_log_hold_from_the_file_to_the_puback() {
    let folder = std::env::temp_dir().join(format!("tidegate-quotas-{}", std::process::id()));
    // Nothing listens at the far end: what is accepted stays in the log.
    let config = format!(
        "[node]\nname = \"quotas\"\n[[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
         [[output]]\nname = \"far\"\nmqtt = {{ url = \"mqtt://127.0.0.1:1\" }}\n\
         [[stream]]\ntopics = [\"#\"]\nfull = \"reject\"\n[http]\nlisten = []\n\
         [limits]\nrecord_max = \"64KiB\"\n[[quota]]\nstreams = 1\nlog = \"200KiB\"\n\
         [log]\ndirectory = {folder:?}\n"
    );
    let mut node = process::Node::start("quotas", &config);
    let address = node.wait_for("MQTT at ").parse().unwrap();
    let (mut first, _) = Client::v5(address, hello("first")).await;
    assert_eq!(code(&mut first).await, 0);
    // Both come from one address: the second name would be its second stream.
    let (mut second, _) = Client::v5(address, hello("second")).await;
    assert_eq!(code(&mut second).await, 0x97, "one stream");
    for number in 2..=4 {
        assert_eq!(code(&mut first).await, 0, "publish {number} of 50,000 bytes");
    }
    assert_eq!(code(&mut first).await, 0x97, "200 KiB of the log");
    drop(node);
    std::fs::remove_dir_all(folder).unwrap();
}
