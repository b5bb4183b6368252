//! What the standards say, clause by clause: the tests are named by the version and the clause.

use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::{self, Connect, Packet};
use tidegate::node::contract::Notice;

use crate::mqtt::PATIENCE;
use crate::mqtt::client::{Client, publish_v311, v5};
use crate::mqtt::node::{Node, Seen};

/// A CONNECT of MQTT 3.1.1 with a will at `will`.
fn connect_with_will(id: &str, will: &str) -> Vec<u8> {
    let mut body = b"\0\x04MQTT\x04\x06\0\0".to_vec();
    for text in [id, will, "gone"] {
        body.extend((text.len() as u16).to_be_bytes());
        body.extend(text.as_bytes());
    }
    [&[0x10, body.len() as u8][..], &body].concat()
}

/// A connected client with a will.
async fn willing(node: &Node, id: &str) -> Client {
    let mut client = Client::open(node.address()).await;
    client.send(&connect_with_will(id, "will")).await;
    assert_eq!(client.packet().await, [0x20, 2, 0, 0]);
    client
}

/// Publishes with QoS 0, then says goodbye, all at once.
fn last_words(count: u32) -> Vec<u8> {
    let publishes = (0..count).flat_map(|number| publish_v311("t", None, &number.to_be_bytes()));
    publishes.chain([0xE0, 0]).collect()
}

/// What the node saw until so many connections had ended: records of the topic `t`, and wills.
async fn counted(node: &mut Node, connections: usize) -> (usize, usize) {
    let (mut closed, mut publishes, mut wills) = (0, 0, 0);
    while closed < connections {
        match node.seen().await {
            Seen::Close(_) => closed += 1,
            Seen::Record(record) if record.key == "t" => publishes += 1,
            Seen::Record(_) => wills += 1,
            Seen::Open(..) => {}
        }
    }
    (publishes, wills)
}

/// MQTT 3.1.1 and 5, 3.14.4: the server discards the will at the DISCONNECT. It was sent, and so were the
/// publishes before it, though the next connection of the client is heard of first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mqtt311_3_14_4_words_before_a_disconnect_count_when_the_client_is_back_at_once() {
    const ROUNDS: usize = 1000;
    let mut node = Node::with(|options| options.stop_grace = PATIENCE).await;
    for _ in 0..ROUNDS {
        willing(&node, "plc").await.send(&last_words(3)).await;
    }
    assert_eq!(counted(&mut node, ROUNDS).await, (3 * ROUNDS, 0));
}

/// The same where the server is told that nobody reads any more before it has read.
#[tokio::test]
async fn mqtt311_3_14_4_words_before_a_disconnect_count_when_a_write_fails_first() {
    let mut node = Node::with(|options| options.stop_grace = PATIENCE).await;
    let mut client = willing(&node, "plc").await;
    let (source, _) = node.opened().await;
    client.send(b"\x82\x06\0\x09\0\x01s\0").await;
    assert_eq!(client.packet().await, [0x90, 3, 0, 9, 0]);
    // The node takes nothing: the connection does not read, and goes on writing.
    node.notify(source, Notice::Pause);
    client.send(&last_words(3)).await;
    socket2::SockRef::from(&client.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(client);
    let mut other = Client::v311(node.address(), "other").await;
    other.send(&publish_v311("s", Some(1), b"x")).await;
    assert_eq!(other.packet().await, [0x40, 2, 0, 1]);
    node.notify(source, Notice::Resume);
    other.send(&[0xE0, 0]).await;
    let (publishes, others) = counted(&mut node, 2).await;
    assert_eq!((publishes, others), (3, 1), "the other one's publish, and no will");
}

/// MQTT 3.1.1, 3.1.4: the server ends the older connection of a client, whatever that is waiting for.
#[tokio::test]
async fn mqtt311_3_1_4_a_client_is_let_in_though_its_older_connection_is_held() {
    let mut node = Node::with(|options| options.stop_grace = std::time::Duration::ZERO).await;
    let mut older = Client::v311(node.address(), "plc").await;
    let (source, _) = node.opened().await;
    node.notify(source, Notice::Pause);
    older.send(&publish_v311("t", None, b"x")).await;
    let _newer = Client::v311(node.address(), "plc").await;
    assert_eq!(older.next().await, None);
}

/// MQTT 3.1, 2.1: "This flag is set when the client or server attempts to re-deliver a PUBLISH, PUBREL,
/// SUBSCRIBE or UNSUBSCRIBE message". Later versions reserve it (3.1.1, 2.2.2).
#[tokio::test]
async fn mqtt31_2_1_dup_is_legal_on_pubrel_subscribe_and_unsubscribe() {
    let node = Node::start().await;
    let again: [(&[u8], &[u8]); 4] = [
        (b"\x8A\x06\0\x09\0\x01s\0", &[0x90, 3, 0, 9, 0]),
        (b"\xAA\x05\0\x0A\0\x01s", &[0xB0, 2, 0, 10]),
        (b"\x3C\x06\0\x01t\0\x07x", &[0x50, 2, 0, 7]),
        (b"\x6A\x02\0\x07", &[0x70, 2, 0, 7]),
    ];
    let mut client = Client::open(node.address()).await;
    client.send(b"\x10\x11\0\x06MQIsdp\x03\x02\0\0\0\x03old").await;
    assert_eq!(client.packet().await, [0x20, 2, 0, 0]);
    for (packet, answer) in again {
        client.send(packet).await;
        assert_eq!(client.packet().await, answer);
    }
    for (packet, _) in [again[0], again[1], again[3]] {
        let mut newer = Client::v311(node.address(), "newer").await;
        newer.send(packet).await;
        assert_eq!(newer.next().await, None, "{packet:?}");
    }
}

fn publish_v5(topic: &'static str, id: Option<u16>) -> Vec<u8> {
    v5(rmqtt_codec::types::Publish {
        dup: false,
        retain: false,
        qos: if id.is_some() { QoS::AtLeastOnce } else { QoS::AtMostOnce },
        topic: topic.into(),
        packet_id: id.and_then(std::num::NonZeroU16::new),
        payload: "forged".into(),
        properties: None,
    }
    .into())
}

/// MQTT 5, 4.7.2: "The Server SHOULD prevent Clients from using such Topic Names to exchange messages with
/// other Clients." MQTT 5 has a word for it; before, the connection is closed (3.1.1, 3.3.5-2).
#[tokio::test]
async fn mqtt5_4_7_2_no_client_publishes_to_sys() {
    let mut node = Node::start().await;
    let mut reader = Client::v311(node.address(), "reader").await;
    reader.send(b"\x82\x0B\0\x09\0\x06$SYS/#\0").await;
    assert_eq!(reader.packet().await, [0x90, 3, 0, 9, 0]);
    let (mut client, _) = Client::v5(node.address(), Connect::default().client_id("new")).await;
    client.send(&publish_v5("$SYS/broker/uptime", None)).await;
    client.send(&publish_v5("$SYS/broker/uptime", Some(3))).await;
    let Packet::PublishAck(ack) = client.packet_v5().await else { panic!("no PUBACK") };
    assert_eq!((ack.packet_id.get(), ack.reason_code), (3, v5::PublishAckReason::NotAuthorized));
    let counts = node.counts.read();
    assert_eq!((counts.refused["forbidden"], counts.dropped["forbidden"]), (1, 1));
    let mut old = Client::v311(node.address(), "old").await;
    old.send(&publish_v311("$SYS/broker/uptime", Some(1), b"forged")).await;
    assert_eq!(old.next().await, None);
    // Nor by a will.
    let mut dying = Client::open(node.address()).await;
    dying.send(&connect_with_will("dying", "$SYS/broker/uptime")).await;
    assert_eq!(dying.packet().await, [0x20, 2, 0, 0]);
    drop(dying);
    reader.send(&[0xC0, 0]).await;
    assert_eq!(reader.packet().await, [0xD0, 0], "nothing came before");
    drop((reader, client));
    assert_eq!(counted(&mut node, 4).await, (0, 0));
}

/// MQTT 5, 4.7.1: "#" must be the last character of a filter. UNSUBACK has a word for one that is not
/// (3.11.3: 0x8F); before MQTT 5 it has none, and the connection is closed (3.1.1, 4.8).
#[tokio::test]
async fn mqtt5_4_7_1_unsubscribe_of_what_is_no_filter_is_told() {
    let node = Node::start().await;
    let (mut client, _) = Client::v5(node.address(), Connect::default().client_id("new")).await;
    client.send(b"\xA2\x0B\0\x09\0\0\x03#/x\0\x01s").await;
    assert_eq!(client.packet().await, [0xB0, 5, 0, 9, 0, 0x8F, 0x11]);
    let mut old = Client::v311(node.address(), "old").await;
    old.send(b"\xA2\x07\0\x09\0\x03#/x").await;
    assert_eq!(old.next().await, None);
}

/// MQTT 5, 3.8.4: a publish of another client that comes after a SUBSCRIBE is for it, though both were there
/// when the server looked. The only worker is held while they come.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn mqtt5_3_8_4_a_subscribe_is_before_the_publish_that_came_after_it() {
    let node = Node::start().await;
    let mut publisher = Client::v311(node.address(), "publisher").await;
    for number in 0..60_u8 {
        let mut subscriber = Client::v311(node.address(), "subscriber").await;
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let (is_held, waits) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            is_held.send(()).unwrap();
            // An error: it is let go.
            let _ = held.recv();
        });
        waits.await.unwrap();
        subscriber.stream.try_write(b"\x82\x06\0\x09\0\x01s\0").unwrap();
        publisher.stream.try_write(&publish_v311("s", Some(1), &[number])).unwrap();
        drop(hold);
        assert_eq!(publisher.packet().await, [0x40, 2, 0, 1]);
        assert_eq!(subscriber.packet().await, [0x90, 3, 0, 9, 0]);
        subscriber.send(&[0xC0, 0]).await;
        assert_eq!(subscriber.packet().await, [0x30, 4, 0, 1, b's', number]);
        assert_eq!(subscriber.packet().await, [0xD0, 0]);
        subscriber.send(&[0xE0, 0]).await;
        assert_eq!(subscriber.next().await, None);
    }
}

/// MQTT 5, 4.12: a CONNECT with an authentication method that the server does not have is answered 0x8C; and 4.12.0-6:
/// who named no method must send no AUTH.
#[tokio::test]
async fn mqtt5_4_12_enhanced_authentication_is_refused() {
    let node = Node::with(|_| {}).await;
    let mut client = Client::open(node.address()).await;
    let method = b"\x15\0\x0dSCRAM-SHA-256\x16\0\x0an,,n=a,r=b";
    let mut body = b"\0\x04MQTT\x05\x02\0\x3c".to_vec();
    body.push(method.len() as u8);
    body.extend(method);
    body.extend(b"\0\x01a");
    client.send(&[&[0x10, body.len() as u8][..], &body].concat()).await;
    let refused = client.packet().await;
    assert_eq!((refused[0], &refused[2..4]), (0x20, &[0, 0x8C][..]));
    assert_eq!(client.next().await, None);
    let mut client = Client::open(node.address()).await;
    client.send(b"\x10\x0e\0\x04MQTT\x05\x02\0\x3c\0\0\x01a").await;
    assert_eq!(client.packet().await[3], 0);
    client.send(&[0xF0, 0]).await;
    let told = client.packet().await;
    assert_eq!((told[0], told[2]), (0xE0, 0x82));
    assert_eq!(client.next().await, None);
}
