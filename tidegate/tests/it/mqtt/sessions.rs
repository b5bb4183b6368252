//! What clients of both versions see, and what the node sees of them.

use std::num::NonZeroU16;
use std::process::{Command, Stdio};
use std::time::Duration;

use rmqtt_codec::types::{Publish, QoS};
use rmqtt_codec::v5::{self, Connect, LastWill, PublishProperties};
use tidegate::input::mqtt::session::{CONTENT_TYPE, CORRELATION_DATA, RESPONSE_TOPIC};
use tidegate::input::mqtt::{self, MqttError, MqttOptions};
use tidegate_types::record::{Body, RefuseReason};

use crate::mqtt::client::{Client, connect_v311, publish_v311, v5};
use crate::mqtt::node::{Node, Policy, Seen};
use crate::mqtt::soon;

fn publish_v5(topic: &'static str, id: Option<u16>, properties: PublishProperties) -> Vec<u8> {
    v5(Publish {
        dup: false,
        retain: false,
        qos: if id.is_some() { QoS::AtLeastOnce } else { QoS::AtMostOnce },
        topic: topic.into(),
        packet_id: id.and_then(NonZeroU16::new),
        payload: "value".into(),
        properties: Some(properties),
    }
    .into())
}

fn connect_v5(id: &'static str) -> Connect {
    Connect::default().client_id(id)
}

#[tokio::test]
async fn an_old_client_publishes_and_leaves() {
    let mut node = Node::start().await;
    let mut client = Client::v311(node.address(), "plc").await;
    let (source, name) = node.opened().await;
    assert_eq!(&*name, "plc");
    client.send(&publish_v311("a/b", None, b"zero")).await;
    client.send(&publish_v311("a/b", Some(9), b"one")).await;
    let zero = node.record().await;
    assert_eq!((zero.key.as_ref(), zero.token, zero.source), (&b"a/b"[..], None, source));
    assert_eq!(zero.body, Body::Resident("zero".into()));
    assert!(node.record().await.token.is_some());
    assert_eq!(client.packet().await, [0x40, 2, 0, 9]);
    client.send(&[0xC0, 0]).await;
    assert_eq!(client.packet().await, [0xD0, 0]);
    client.send(&[0xE0, 0]).await;
    assert_eq!(client.next().await, None);
    assert_eq!(node.closed().await, source);
}

#[tokio::test]
async fn a_new_client_learns_the_limits_and_its_name() {
    let mut node = Node::start().await;
    let (_client, ack) = Client::v5(node.address(), connect_v5("")).await;
    let (_, name) = node.opened().await;
    assert_eq!(ack.assigned_client_id.as_deref(), Some(&*name));
    assert_eq!(ack.max_qos, QoS::ExactlyOnce);
    assert_eq!((ack.receive_max.get(), ack.topic_alias_max), (1024, 16));
    assert_eq!(ack.max_packet_size, Some(1024 * 1024));
    assert!(!ack.session_present && ack.retain_available);
}

#[tokio::test]
async fn properties_travel_with_the_record() {
    let mut node = Node::start().await;
    let (mut client, _) = Client::v5(node.address(), connect_v5("plc")).await;
    node.opened().await;
    let properties = PublishProperties {
        correlation_data: Some(vec![0, 0xFF].into()),
        message_expiry_interval: Some(30.try_into().unwrap()),
        content_type: Some("text/plain".into()),
        response_topic: Some("answers".into()),
        user_properties: vec![
            ("unit".into(), "°C".into()),
            ("source-time-ns".into(), "1700000000000000001".into()),
        ],
        ..PublishProperties::default()
    };
    client.send(&publish_v5("t", Some(1), properties)).await;
    let record = node.record().await;
    assert_eq!(record.ttl, Some(Duration::from_secs(30)));
    assert_eq!(record.source_unix_ns, Some(1_700_000_000_000_000_001));
    let find = |name| record.properties.find(name).unwrap().to_vec();
    assert_eq!(find(CONTENT_TYPE), b"text/plain");
    assert_eq!(find(RESPONSE_TOPIC), b"answers");
    assert_eq!(find(CORRELATION_DATA), [0, 0xFF]);
    assert_eq!(find("unit"), "°C".as_bytes());
    assert!(matches!(client.packet_v5().await, v5::Packet::PublishAck(_)));
}

#[tokio::test]
async fn topic_aliases_are_kept_and_misuse_ends_the_connection() {
    let mut node = Node::start().await;
    let (mut client, _) = Client::v5(node.address(), connect_v5("plc")).await;
    node.opened().await;
    let alias = |alias| PublishProperties {
        topic_alias: NonZeroU16::new(alias),
        ..PublishProperties::default()
    };
    client.send(&publish_v5("long/topic", None, alias(16))).await;
    client.send(&publish_v5("", None, alias(16))).await;
    for _ in 0..2 {
        assert_eq!(node.record().await.key, "long/topic");
    }
    client.send(&publish_v5("t", None, alias(17))).await;
    assert_eq!(client.dismissed().await, 0x94);
}

#[tokio::test]
async fn acknowledgements_wait_for_the_node_and_keep_their_order() {
    let mut node = Node::start().await;
    node.policy(Policy::Hold);
    let mut client = Client::v311(node.address(), "plc").await;
    node.opened().await;
    client.send(&[publish_v311("t", Some(5), b""), publish_v311("t", Some(4), b"")].concat()).await;
    let first = node.record().await;
    let second = node.record().await;
    node.answer(&second, Ok(()));
    client.send(&[0xC0, 0]).await;
    assert_eq!(client.packet().await, [0xD0, 0], "a ping overtakes what is not accepted");
    node.answer(&first, Ok(()));
    assert_eq!(client.packet().await, [0x40, 2, 0, 5]);
    assert_eq!(client.packet().await, [0x40, 2, 0, 4]);
}

#[tokio::test]
async fn refusals_have_reason_codes_or_close() {
    let mut node = Node::start().await;
    let (mut client, _) = Client::v5(node.address(), connect_v5("new")).await;
    node.opened().await;
    let cases =
        [(RefuseReason::Full, 0x97), (RefuseReason::NoRule, 0x87), (RefuseReason::Oversize, 0x83)];
    for (reason, code) in cases {
        node.policy(Policy::Refuse(reason));
        client.send(&publish_v5("t", Some(1), PublishProperties::default())).await;
        node.record().await;
        let v5::Packet::PublishAck(ack) = client.packet_v5().await else { panic!("no PUBACK") };
        assert_eq!(u8::from(ack.reason_code), code);
        assert_eq!(ack.reason_string.as_deref(), Some(reason.name()));
    }
    let mut client = Client::v311(node.address(), "old").await;
    client.send(&publish_v311("t", Some(1), b"")).await;
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn a_newer_connection_takes_over() {
    let mut node = Node::start().await;
    let (mut older, _) = Client::v5(node.address(), connect_v5("plc")).await;
    let (first, _) = node.opened().await;
    let (mut newer, _) = Client::v5(node.address(), connect_v5("plc")).await;
    assert_eq!(older.dismissed().await, 0x8E);
    assert_eq!(node.closed().await, first, "the older connection ends before the newer one begins");
    let (second, _) = node.opened().await;
    newer.send(&publish_v5("t", None, PublishProperties::default())).await;
    assert_eq!(node.record().await.source, second);
}

#[tokio::test]
async fn a_silent_client_is_dismissed_and_its_will_published() {
    let mut node = Node::start().await;
    let will = LastWill {
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: "plc/state".into(),
        message: "gone".into(),
        will_delay_interval_sec: None,
        correlation_data: None,
        message_expiry_interval: None,
        content_type: None,
        user_properties: vec![("cause".into(), "silence".into())],
        is_utf8_payload: None,
        response_topic: None,
    };
    let connect = Connect { keep_alive: 1, last_will: Some(will), ..connect_v5("plc") };
    let (mut client, _) = Client::v5(node.address(), connect).await;
    let (source, _) = node.opened().await;
    assert_eq!(client.dismissed().await, 0x8D);
    let record = node.record().await;
    assert_eq!((record.key.as_ref(), record.token), (&b"plc/state"[..], None));
    assert_eq!(record.properties.find("cause").unwrap(), "silence");
    assert_eq!(node.closed().await, source);
}

#[tokio::test]
async fn a_will_is_for_ungraceful_ends_only() {
    let mut node = Node::start().await;
    let connect = b"\x10\x15\0\x04MQTT\x04\x06\0\0\0\x03plc\0\x01w\0\x01x";
    for (farewell, expected) in [(&b"\xE0\0"[..], false), (b"", true), (b"\x30\x03\0\x01#", true)] {
        let mut client = Client::open(node.address()).await;
        client.send(connect).await;
        client.packet().await;
        node.opened().await;
        client.send(farewell).await;
        drop(client);
        match node.seen().await {
            Seen::Record(will) => assert!(expected && will.key == "w"),
            Seen::Close(_) => assert!(!expected, "{farewell:?}"),
            Seen::Open(..) => panic!("nobody connects"),
        }
        if expected {
            node.closed().await;
        }
    }
}

#[tokio::test]
async fn violations_end_the_connection_with_their_reason() {
    let mut node = Node::with(|options| options.max_packet_size = 200).await;
    let connect = v5(connect_v5("plc").into());
    let cases: [(&[u8], u8); 6] = [
        (b"\x30\xFF\x7F", 0x95),
        (b"\x30\x05\0\x02\xC3\x28\0", 0x81),
        (b"\x30\x04\0\x01#\0", 0x81),
        (b"\x36\x06\0\x01t\0\x01\0", 0x81),
        (b"\xF0\0", 0x82),
        (&connect, 0x82),
    ];
    for (packet, reason) in cases {
        let (mut client, _) = Client::v5(node.address(), connect_v5("plc")).await;
        let (source, _) = node.opened().await;
        client.send(packet).await;
        assert_eq!(client.dismissed().await, reason, "{packet:02X?}");
        assert_eq!(node.closed().await, source);
    }
    for first in [&b"\xC0\0"[..], b"\x16\x03\x01\x02\0\x01\0", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut client = Client::open(node.address()).await;
        client.send(first).await;
        assert_eq!(client.next().await, None, "{first:?}");
    }
    assert!(node.seen_now().is_none(), "the node never hears of those");
}

#[tokio::test]
async fn the_receive_maximum_is_enforced() {
    let mut node = Node::with(|options| options.receive_maximum = 3).await;
    node.policy(Policy::Hold);
    let publish = |id| publish_v5("t", Some(id), PublishProperties::default());
    let (mut client, ack) = Client::v5(node.address(), connect_v5("new")).await;
    assert_eq!(ack.receive_max.get(), 3);
    node.opened().await;
    client.send(&(1..=4).flat_map(publish).collect::<Vec<u8>>()).await;
    assert_eq!(client.dismissed().await, 0x93);
    for _ in 0..3 {
        node.record().await;
    }
    node.closed().await;

    let mut client = Client::v311(node.address(), "old").await;
    node.opened().await;
    let many = |ids: std::ops::Range<u16>| {
        ids.flat_map(|id| publish_v311("t", Some(id), b"")).collect::<Vec<u8>>()
    };
    client.send(&many(1..9)).await;
    let held = [node.record().await, node.record().await, node.record().await];
    assert!(node.seen_now().is_none());
    for record in &held {
        node.answer(record, Ok(()));
    }
    for id in 1..=3 {
        assert_eq!(client.packet().await, [0x40, 2, 0, id]);
        node.record().await;
    }
}

#[tokio::test]
async fn a_stop_tells_clients_and_waits_for_answers() {
    let mut node = Node::start().await;
    let (mut new, _) = Client::v5(node.address(), connect_v5("new")).await;
    node.opened().await;
    let mut old = Client::v311(node.address(), "old").await;
    node.opened().await;
    node.policy(Policy::Hold);
    new.send(&publish_v5("t", Some(1), PublishProperties::default())).await;
    let record = node.record().await;
    let address = node.address();
    let answer = async {
        node.answer(&record, Ok(()));
        node.stop().await;
    };
    let farewell = async {
        assert!(matches!(new.packet_v5().await, v5::Packet::PublishAck(_)));
        assert_eq!(new.dismissed().await, 0x8B);
        assert_eq!(old.next().await, None);
    };
    tokio::join!(answer, farewell);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn connections_are_bounded() {
    let mut node = Node::with(|options| options.connections_max = 1).await;
    let first = Client::v311(node.address(), "first").await;
    node.opened().await;
    let mut second = Client::open(node.address()).await;
    assert_eq!(second.next().await, None);
    drop(first);
    node.closed().await;
    // The permit is given back just after the node hears of the close.
    soon("room for another client", async {
        loop {
            let mut third = Client::open(node.address()).await;
            third.send(&connect_v311("third", 0)).await;
            if third.next().await.is_some() {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn who_says_nothing_makes_room_for_who_connects() {
    let mut node = Node::with(|options| options.connections_max = 2).await;
    let mut silent = Vec::new();
    for _ in 0..4 {
        // Each takes the place of the eldest.
        silent.push(Client::open(node.address()).await);
    }
    assert_eq!(silent[0].next().await, None);
    assert_eq!(silent[1].next().await, None);
    let _first = Client::v311(node.address(), "first").await;
    assert_eq!(silent[2].next().await, None);
    let _second = Client::v311(node.address(), "second").await;
    assert_eq!(silent[3].next().await, None);
    node.opened().await;
    node.opened().await;
    // Who is there keeps its place.
    assert_eq!(Client::open(node.address()).await.next().await, None);
    node.stop().await;
}

#[tokio::test]
async fn a_client_without_connect_is_closed() {
    let node = Node::with(|options| options.connect_timeout = Duration::from_millis(50)).await;
    let mut client = Client::open(node.address()).await;
    assert_eq!(client.next().await, None);
}

#[tokio::test]
async fn several_addresses_are_served() {
    let mut node = Node::with(|options| {
        options.listen = vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
    })
    .await;
    for address in node.addresses.clone() {
        let _client = Client::v311(address, "plc").await;
        while !matches!(node.seen().await, Seen::Open(..)) {}
    }
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let node = Node::start().await;
    let address = node.address();
    let error = mqtt::bind(MqttOptions::new(vec![address])).await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&address.to_string()) && text.contains("stop it"), "{text}");
    assert!(matches!(mqtt::bind(MqttOptions::new(vec![])).await, Err(MqttError::NoAddress)));
}

#[tokio::test]
async fn mosquitto_pub_is_served() {
    if Command::new("mosquitto_pub").arg("--help").stdout(Stdio::null()).status().is_err() {
        println!("skipped: needs mosquitto_pub (mosquitto-clients), not found");
        return;
    }
    let mut node = Node::start().await;
    let port = node.address().port().to_string();
    for (version, qos, extra) in [
        ("mqttv311", "0", &[][..]),
        ("mqttv311", "1", &["--retain", "--will-topic", "w", "--will-payload", "x"]),
        ("mqttv5", "0", &["-D", "publish", "topic-alias", "2"]),
        ("mqttv5", "1", &["-D", "publish", "user-property", "unit", "K", "--repeat", "50"]),
        ("mqttv311", "2", &["--repeat", "50"]),
        ("mqttv5", "2", &["--repeat", "50"]),
    ] {
        let mut command = Command::new("mosquitto_pub");
        command.args(["-h", "127.0.0.1", "-p", &port, "-V", version, "-q", qos, "-t", "a/b"]);
        command.args(["-i", "mosq", "-m", "hello"]).args(extra).stderr(Stdio::piped());
        let run = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = soon("the end of mosquitto_pub", run).await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && errors.is_empty(), "{version} {qos}: {errors}");
        assert_eq!(&*node.opened().await.1, "mosq");
        let expected = if extra.contains(&"--repeat") { 50 } else { 1 };
        for _ in 0..expected {
            let record = node.record().await;
            assert_eq!((record.key.as_ref(), record.token.is_some()), (&b"a/b"[..], qos != "0"));
        }
        node.closed().await;
    }
}
