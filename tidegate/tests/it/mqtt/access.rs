//! Users, passwords and rights at the listener.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rmqtt_codec::types::QoS;
use rmqtt_codec::v5;
use tidegate::input::mqtt::Refused;
use tidegate::support::access::users::{UserFile, Users};
use tidegate::support::access::{Access, Allow, Identification};
use tidegate::support::tls::{self, ClientFiles, ServerFiles, Stream};

use crate::mqtt::client::{Client, connect_again, connect_v311, publish_v311};
use crate::mqtt::node::{Node, Seen};
use crate::support::certificates::Authority;

/// A file of one user, `plc-7` with `secret`.
fn users(authority: &Authority) -> PathBuf {
    let (file, mut users) = (authority.file("users"), Users::default());
    users.add("plc-7", b"secret").unwrap();
    users.write(&file).unwrap();
    file
}

fn rules() -> Option<Vec<Allow>> {
    Some(vec![Allow::new(Some("plc-*".into()), vec!["factory/%u/#".into()], Vec::new()).unwrap()])
}

/// A node with that user and rights in `factory/plc-7/`.
async fn node(authority: &Authority, refused: Refused) -> Node {
    let users = UserFile::open(&users(authority)).unwrap();
    let by_password = Identification::Password { users, anonymous: false };
    Node::with(|options| {
        options.access = Arc::new(Access::new(by_password, rules()));
        options.refused = refused;
    })
    .await
}

/// Forbidden publishes whose clients were told, and that were dropped.
fn forbidden(node: &Node) -> (u64, u64) {
    let counts = node.counts.read();
    (counts.refused["forbidden"], counts.dropped["forbidden"])
}

/// A CONNECT of MQTT 3.1.1 with user name and password.
fn connect_as(id: &str, user: &str, password: &str) -> Vec<u8> {
    let mut bytes = connect_v311(id, 0);
    bytes[9] |= 0xC0;
    for text in [user, password] {
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes[1] = (bytes.len() - 2) as u8;
    bytes
}

/// The same for a client that goes on with its session.
fn connect_again_as(id: &str, user: &str, password: &str) -> Vec<u8> {
    let mut bytes = connect_as(id, user, password);
    bytes[9] &= !0x02;
    bytes
}

fn login(user: &str, password: &'static str) -> v5::Connect {
    v5::Connect {
        clean_start: true,
        client_id: "one".into(),
        username: Some(user.into()),
        password: Some(password.into()),
        ..v5::Connect::default()
    }
}

/// A QoS 1 PUBLISH of MQTT 5 without properties.
fn publish(topic: &str, id: u16) -> Vec<u8> {
    publish_v311(topic, Some(id), b"\0x")
}

#[tokio::test]
async fn who_has_no_right_name_or_password_is_told_in_his_versions_words() {
    let mut node = node(&Authority::new("password"), Refused::Close).await;
    for (packet, code) in [
        (connect_as("a", "plc-7", "wrong"), 4),
        (connect_as("a", "plc-8", "secret"), 4),
        (connect_v311("a", 0), 5),
        (connect_as("a", "plc-7", "secret"), 0),
    ] {
        let mut client = Client::open(node.address()).await;
        client.send(&packet).await;
        assert_eq!(client.packet().await, [0x20, 2, 0, code]);
        if code != 0 {
            assert_eq!(client.next().await, None);
        }
    }
    node.opened().await;
    for (connect, code) in [
        (login("plc-7", "wrong"), 0x86),
        (v5::Connect { client_id: "two".into(), ..v5::Connect::default() }, 0x87),
        (login("plc-7", "secret"), 0),
    ] {
        let (_, ack) = Client::v5(node.address(), connect).await;
        assert_eq!(u8::from(ack.reason_code), code);
    }
    let denied = node.counts.read().denied;
    let expected = [
        ("anonymous", 2),
        ("busy", 0),
        ("certificate", 0),
        ("clone", 0),
        ("password", 3),
        ("quota", 0),
        ("revoked", 0),
        ("session", 0),
        ("tls", 0),
        ("token", 0),
        ("unasked", 0),
        ("websocket", 0),
    ];
    assert_eq!(denied, expected.into());
    node.stop().await;
}

#[tokio::test]
async fn forbidden_topics_are_refused_in_mqtt_5() {
    let mut node = node(&Authority::new("forbidden"), Refused::Drop).await;
    let (mut client, _) = Client::v5(node.address(), login("plc-7", "secret")).await;
    node.opened().await;
    client.send(&publish("factory/plc-8/alarm", 1)).await;
    client.send(&publish("factory/plc-7/alarm", 2)).await;
    let mut reasons = Vec::new();
    for _ in 0..2 {
        let v5::Packet::PublishAck(ack) = client.packet_v5().await else { panic!("a PUBACK") };
        reasons.push((ack.packet_id.get(), u8::from(ack.reason_code)));
    }
    assert_eq!(reasons, [(1, 0x87), (2, 0)]);
    assert_eq!(node.record().await.key, "factory/plc-7/alarm");
    assert_eq!(forbidden(&node), (1, 0));
    node.stop().await;
}

#[tokio::test]
async fn before_mqtt_5_a_forbidden_publish_closes_or_is_dropped_as_configured() {
    for refused in [Refused::Close, Refused::Drop] {
        let mut node = node(&Authority::new("older"), refused).await;
        let mut client = Client::open(node.address()).await;
        client.send(&connect_as("a", "plc-7", "secret")).await;
        assert_eq!(client.packet().await, [0x20, 2, 0, 0]);
        node.opened().await;
        // Nobody is told at QoS 0.
        client.send(&publish_v311("elsewhere", None, b"x")).await;
        client.send(&publish_v311("factory/plc-7/a", Some(1), b"x")).await;
        assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
        assert_eq!(node.record().await.key, "factory/plc-7/a");
        client.send(&publish_v311("elsewhere", Some(2), b"x")).await;
        match refused {
            Refused::Close => {
                assert_eq!(client.next().await, None);
                assert_eq!(forbidden(&node), (1, 1));
            }
            Refused::Drop => {
                assert_eq!(client.packet().await, [0x40, 2, 0, 2]);
                assert_eq!(forbidden(&node), (0, 2));
            }
        }
        drop(client);
        assert!(matches!(node.seen().await, Seen::Close(_)));
        node.stop().await;
    }
}

#[tokio::test]
async fn no_qos_and_no_will_is_a_way_around_the_rights() {
    let mut node = node(&Authority::new("around"), Refused::Drop).await;
    let will = v5::LastWill {
        qos: QoS::AtMostOnce,
        retain: false,
        topic: "factory/plc-8/state".into(),
        message: "gone".into(),
        will_delay_interval_sec: None,
        correlation_data: None,
        message_expiry_interval: None,
        content_type: None,
        user_properties: Vec::new(),
        is_utf8_payload: None,
        response_topic: None,
    };
    let connect = v5::Connect { last_will: Some(will), ..login("plc-7", "secret") };
    let (mut client, _) = Client::v5(node.address(), connect).await;
    node.opened().await;
    assert_eq!(forbidden(&node), (0, 1), "the will");
    let mut twice = publish("factory/plc-8/alarm", 1);
    twice[0] = 0x34;
    client.send(&twice).await;
    let v5::Packet::PublishReceived(ack) = client.packet_v5().await else { panic!("a PUBREC") };
    assert_eq!((ack.packet_id.get(), u8::from(ack.reason_code)), (1, 0x87));
    // The packet identifier is free again.
    client.send(&publish("factory/plc-7/alarm", 1)).await;
    let v5::Packet::PublishAck(ack) = client.packet_v5().await else { panic!("a PUBACK") };
    assert_eq!((ack.packet_id.get(), u8::from(ack.reason_code)), (1, 0));
    assert_eq!(node.record().await.key, "factory/plc-7/alarm");
    assert_eq!(forbidden(&node), (1, 1));
    drop(client);
    node.closed().await;
    node.stop().await;
}

#[tokio::test]
async fn a_flood_of_wrong_logins_does_not_hold_up_who_is_there() {
    const FLOOD: usize = 60;
    let node = node(&Authority::new("flood"), Refused::Close).await;
    let mut client = Client::open(node.address()).await;
    client.send(&connect_as("good", "plc-7", "secret")).await;
    assert_eq!(client.packet().await, [0x20, 2, 0, 0]);
    let mut flood = Vec::new();
    for number in 0..FLOOD {
        let mut wrong = Client::open(node.address()).await;
        // Passwords of their own: the same one again is known to be wrong without a hash.
        let password = format!("wrong-{number}");
        wrong.send(&connect_as(&number.to_string(), "plc-7", &password)).await;
        flood.push(wrong);
    }
    for id in 1..=50 {
        client.send(&publish_v311("factory/plc-7/a", Some(id), b"x")).await;
        client.packet().await;
    }
    // Who was there before comes back at once: no hash is computed for it.
    let mut back = Client::open(node.address()).await;
    back.send(&connect_as("good", "plc-7", "secret")).await;
    assert_eq!(back.packet().await, [0x20, 2, 0, 0]);
    let hashed = node.counts.read().denied["password"];
    println!("{FLOOD} wrong logins: {hashed} hashed before 50 acknowledgements and a login");
    assert!(hashed < FLOOD as u64 / 2, "{hashed} of {FLOOD} wrong logins went before");
    drop(flood);
    node.stop().await;
}

#[tokio::test]
async fn the_certificate_may_be_the_user() {
    let authority = Authority::new("common-name");
    let own = authority.issue("node");
    let files = ServerFiles {
        certificate: own.certificate,
        key: own.key,
        client_ca: Some(authority.ca()),
        crl: None,
    };
    let mut node = Node::with(|options| {
        options.tls = Some(tls::server(&files).unwrap());
        options.access = Arc::new(Access::new(Identification::Certificate, rules()));
        options.refused = Refused::Drop;
    })
    .await;
    let own = authority.issue("plc-9");
    let trust = ClientFiles { ca: authority.ca(), own: Some((own.certificate, own.key)) };
    let tcp = tokio::net::TcpStream::connect(node.address()).await.unwrap();
    let name = tls::server_name("localhost").unwrap();
    let mut client = Stream::client(tcp, tls::client(&trust).unwrap(), name).unwrap();
    client.handshake().await.unwrap();
    let mut bytes = connect_v311("any", 0);
    bytes.extend(publish_v311("factory/plc-7/a", Some(1), b"x"));
    bytes.extend(publish_v311("factory/plc-9/a", Some(2), b"x"));
    client.write_all(&bytes).await.unwrap();
    node.opened().await;
    assert_eq!(node.record().await.key, "factory/plc-9/a");
    node.stop().await;
}

#[tokio::test]
async fn a_real_mosquitto_pub_comes_in_over_tls_with_its_password() {
    let authority = Authority::new("mosquitto-pub");
    let own = authority.issue("node");
    let files =
        ServerFiles { certificate: own.certificate, key: own.key, client_ca: None, crl: None };
    let users = UserFile::open(&users(&authority)).unwrap();
    let by_password = Identification::Password { users, anonymous: false };
    let mut node = Node::with(|options| {
        options.tls = Some(tls::server(&files).unwrap());
        options.access = Arc::new(Access::new(by_password, rules()));
    })
    .await;
    let port = node.address().port().to_string();
    let ca = authority.ca();
    let run = move |password: &'static str, version: &'static str| {
        Command::new("mosquitto_pub")
            .args(["-h", "127.0.0.1", "-p", &port, "-u", "plc-7", "-P", password, "-V", version])
            .args(["-q", "1", "-t", "factory/plc-7/a", "-m", "hello", "--cafile"])
            .arg(&ca)
            .stderr(Stdio::null())
            .status()
            .ok()
            .map(|status| status.success())
    };
    let ended = tokio::task::spawn_blocking(move || {
        ["mqttv311", "mqttv5"].map(|version| (run("secret", version), run("wrong", version)))
    });
    let ended = ended.await.unwrap();
    if ended[0].0.is_none() {
        println!("skipped: needs mosquitto_pub, not found");
        return;
    }
    assert_eq!(ended, [(Some(true), Some(false)); 2]);
    for _ in 0..2 {
        node.opened().await;
        assert_eq!(node.record().await.key, "factory/plc-7/a");
        node.closed().await;
    }
    node.stop().await;
}

/// A node with two users, who may do everything.
async fn node_of_two(authority: &Authority, anonymous: bool) -> Node {
    let (file, mut users) = (authority.file("users"), Users::default());
    users.add("alice", b"a").unwrap();
    users.add("bob", b"b").unwrap();
    users.write(&file).unwrap();
    let users = UserFile::open(&file).unwrap();
    let by_password = Identification::Password { users, anonymous };
    Node::with(|options| options.access = Arc::new(Access::new(by_password, None))).await
}

/// Comes as `alice-1` and is refused, in both versions and whether the session is wanted or not.
async fn is_refused(node: &Node, user: Option<(&'static str, &'static str)>) {
    for clean in [true, false] {
        let mut client = Client::open(node.address()).await;
        client
            .send(&match (user, clean) {
                (Some((name, password)), true) => connect_as("alice-1", name, password),
                (Some((name, password)), false) => connect_again_as("alice-1", name, password),
                (None, true) => connect_v311("alice-1", 0),
                (None, false) => connect_again("alice-1"),
            })
            .await;
        assert_eq!(client.packet().await, [0x20, 2, 0, 2], "{user:?}");
        assert_eq!(client.next().await, None);
        let connect = v5::Connect {
            clean_start: clean,
            client_id: "alice-1".into(),
            username: user.map(|(name, _)| name.into()),
            password: user.map(|(_, password)| password.into()),
            ..v5::Connect::default()
        };
        let (mut client, ack) = Client::v5(node.address(), connect).await;
        assert_eq!((u8::from(ack.reason_code), ack.session_present), (0x85, false), "{user:?}");
        assert_eq!(client.next().await, None);
    }
}

/// Alice's client, by MQTT 5, which wants its session; and whether there was one.
async fn alice(node: &Node) -> (Client, bool) {
    let connect = v5::Connect {
        client_id: "alice-1".into(),
        clean_start: false,
        session_expiry_interval_secs: 600,
        ..login("alice", "a")
    };
    let (client, ack) = Client::v5(node.address(), connect).await;
    assert_eq!(u8::from(ack.reason_code), 0);
    (client, ack.session_present)
}

/// Sends a QoS 2 publish of MQTT 5 and hears its PUBREC.
async fn publish_twice(client: &mut Client, first: u8) {
    let mut packet = publish("factory/a", 7);
    packet[0] = first;
    client.send(&packet).await;
    let v5::Packet::PublishReceived(ack) = client.packet_v5().await else { panic!("a PUBREC") };
    assert_eq!((ack.packet_id.get(), u8::from(ack.reason_code)), (7, 0));
}

#[tokio::test]
async fn another_user_does_not_take_over_a_session() {
    let mut node = node_of_two(&Authority::new("another"), true).await;
    let (mut owner, _) = alice(&node).await;
    node.opened().await;
    publish_twice(&mut owner, 0x34).await;
    assert_eq!(node.record().await.key, "factory/a");
    // While it is live.
    is_refused(&node, Some(("bob", "b"))).await;
    is_refused(&node, None).await;
    owner.send(&publish("factory/b", 8)).await;
    let v5::Packet::PublishAck(_) = owner.packet_v5().await else { panic!("it is still there") };
    assert_eq!(node.record().await.key, "factory/b");
    // While it is kept.
    owner.send(&[0xE0, 0]).await;
    node.closed().await;
    is_refused(&node, Some(("bob", "b"))).await;
    is_refused(&node, None).await;
    assert_eq!(node.counts.read().denied["session"], 16);
    assert!(node.seen_now().is_none(), "the node heard of nobody");
    // It has what it had: the publish that comes again is known.
    let (mut owner, is_there) = alice(&node).await;
    assert!(is_there);
    node.opened().await;
    publish_twice(&mut owner, 0x3C).await;
    assert!(node.seen_now().is_none(), "it was offered once");
    node.stop().await;
}

#[tokio::test]
async fn the_same_user_takes_over_its_session() {
    let mut node = node_of_two(&Authority::new("same"), false).await;
    let (mut older, is_there) = alice(&node).await;
    assert!(!is_there);
    node.opened().await;
    let (newer, is_there) = alice(&node).await;
    assert!(is_there);
    assert_eq!(older.dismissed().await, 0x8E);
    drop(newer);
    let (_, is_there) = alice(&node).await;
    assert!(is_there, "kept or live, it is alice's");
    node.stop().await;
}
