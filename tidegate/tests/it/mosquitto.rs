//! The MQTT output against a real Mosquitto.

use tidegate_types::headers;
use tidegate_types::record::DropReason;

use crate::support::PATIENCE;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::certificates::Authority;
use crate::support::logs::Logs;
use crate::support::node::{End, Node};
use bytes::BytesMut;
use rmqtt_codec::types::QoS;
use rmqtt_codec::v5::{Codec, Connect, Packet, Subscribe, SubscriptionOptions};
use tidegate::keys::url::Host;
use tidegate::output::mqtt::MqttOptions;
use tidegate::support::tls::{ClientFiles, ClientTls};
use tidegate_testbed::free_port;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_util::codec::{Decoder, Encoder};

/// A Mosquitto of the test's own, ended by its own number.
struct Mosquitto {
    port: u16,
    file: PathBuf,
    process: Child,
}

impl Mosquitto {
    /// Starts one with these settings added; `None` where it is not installed.
    fn start(name: &str, settings: &str) -> Option<Mosquitto> {
        let port = free_port();
        let name = format!("tidegate-mosquitto-{name}-{}.conf", std::process::id());
        let file = std::env::temp_dir().join(name);
        let all = format!("listener {port} 127.0.0.1\nallow_anonymous true\n{settings}\n");
        std::fs::write(&file, all).unwrap();
        let start = |program: &str| {
            let mut command = Command::new(program);
            command.arg("-c").arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        };
        let process = start("mosquitto").or_else(|| start("/usr/sbin/mosquitto"))?;
        Some(Mosquitto { port, file, process })
    }

    fn options(&self) -> MqttOptions {
        MqttOptions {
            hosts: vec![Host::new("localhost", self.port)],
            tls: None,
            client_id: "gate-7-cloud".into(),
            is_exact: false,
            version: None,
            topics: Default::default(),
            user: None,
            password: None,
            classes: ["ls".into(), "lt".into()].into(),
            retain: false,
        }
    }
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.file);
    }
}

/// A client that takes everything at QoS 0.
struct Subscriber {
    stream: TcpStream,
    codec: Codec,
    input: BytesMut,
}

impl Subscriber {
    async fn connect(port: u16) -> Subscriber {
        let start = Instant::now();
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(stream) => break stream,
                Err(error) => assert!(start.elapsed() < PATIENCE, "{error}"),
            }
            sleep(Duration::from_millis(50)).await;
        };
        let mut subscriber = Subscriber { stream, codec: Codec::new(0, 0), input: BytesMut::new() };
        let connect = Connect { clean_start: true, client_id: "all".into(), ..Connect::default() };
        subscriber.say(connect.into()).await;
        assert!(matches!(subscriber.hear().await, Packet::ConnectAck(_)));
        let options = SubscriptionOptions { qos: QoS::AtMostOnce, ..Default::default() };
        let subscribe = Subscribe {
            packet_id: 1.try_into().unwrap(),
            id: None,
            user_properties: Vec::new(),
            topic_filters: vec![("#".into(), options)],
        };
        subscriber.say(Packet::Subscribe(subscribe)).await;
        assert!(matches!(subscriber.hear().await, Packet::SubscribeAck(_)));
        subscriber
    }

    async fn say(&mut self, packet: Packet) {
        let mut bytes = BytesMut::new();
        self.codec.encode(packet, &mut bytes).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn hear(&mut self) -> Packet {
        loop {
            if let Some((packet, _)) = self.codec.decode(&mut self.input).unwrap() {
                return packet;
            }
            let read = self.stream.read_buf(&mut self.input);
            assert!(timeout(PATIENCE, read).await.unwrap().unwrap() > 0);
        }
    }
}

#[tokio::test]
async fn records_reach_a_real_mosquitto() {
    // A small receive maximum, so that it is met often.
    let Some(broker) = Mosquitto::start("all", "max_inflight_messages 5") else {
        println!("skipped: needs mosquitto, not found");
        return;
    };
    let mut subscriber = Subscriber::connect(broker.port).await;
    let mut node = Node::start(broker.options(), 2, 100);
    let payload: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
    node.offer(1, "large", payload.clone().into());
    for number in 2..=500 {
        node.offer(number, &format!("plant/{}/alarm", number % 7), vec![b'x'; 200].into());
    }
    node.offer(501, "no/#/topic", vec![b'x'; 200].into());
    node.run_until(Node::is_done).await;
    println!("500 records, {} B handed over", node.handed);
    assert_eq!(node.fates.remove(&501), Some(End::Dropped(DropReason::Refused)));
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    node.stop().await;
    let mut seqs = BTreeSet::new();
    while seqs.len() < 500 {
        let Packet::Publish(publish) = subscriber.hear().await else { continue };
        let properties = publish.properties.unwrap().user_properties;
        let all: BTreeMap<_, _> =
            properties.iter().map(|(name, value)| (&**name, &**value)).collect();
        let seq: u64 = all[headers::SEQ].parse().unwrap();
        assert!(seqs.insert(seq), "{seq} came twice");
        assert_eq!(
            (all[headers::NODE], all[headers::STREAM], all["unit"]),
            ("gate-7", "12", "celsius")
        );
        assert_eq!(all[headers::CLASS], if seq.is_multiple_of(2) { "ls" } else { "lt" });
        assert_eq!(all[headers::SOURCE_TIME], (1_700_000_000_000_000_000 + seq).to_string());
        match seq {
            1 => assert!(*publish.topic == *"large" && publish.payload == payload),
            _ => assert_eq!(*publish.topic, *format!("plant/{}/alarm", seq % 7)),
        }
    }
}

#[tokio::test]
async fn a_broker_that_is_killed_is_followed_by_the_next_host_and_nothing_is_lost() {
    let settings = "max_inflight_messages 5";
    let all = ["first", "second"].map(|name| Mosquitto::start(name, settings));
    let [Some(mut first), Some(second)] = all else {
        println!("skipped: needs mosquitto, not found");
        return;
    };
    let mut subscriber = Subscriber::connect(second.port).await;
    let hosts = [&first, &second].map(|broker| Host::new("127.0.0.1", broker.port)).to_vec();
    let mut node = Node::start(MqttOptions { hosts, ..first.options() }, 2, 20);
    for number in 1..=600 {
        node.offer(number, "plant/alarm", vec![b'x'; 200].into());
    }
    node.run_until(|node| node.fates.len() > 100).await;
    assert_eq!(node.downs(), 0, "the first host of the list serves");
    first.process.kill().unwrap();
    node.run_until(|node| node.downs() == 2).await;
    let mut left: BTreeSet<u64> = (1..=600).filter(|seq| !node.fates.contains_key(seq)).collect();
    assert!(!left.is_empty(), "it was killed in the middle");
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    node.stop().await;
    while !left.is_empty() {
        let Packet::Publish(publish) = subscriber.hear().await else { continue };
        let properties = publish.properties.unwrap().user_properties;
        let seq = properties.iter().find(|(name, _)| **name == *headers::SEQ);
        left.remove(&seq.unwrap().1.parse().unwrap());
    }
}

#[tokio::test]
async fn what_the_broker_does_not_take_is_oversize() {
    let Some(broker) = Mosquitto::start("small", "max_packet_size 1000") else {
        println!("skipped: needs mosquitto, not found");
        return;
    };
    let mut node = Node::start(broker.options(), 1, 100);
    node.offer(1, "small", vec![0; 100].into());
    node.offer(2, "large", vec![0; 20_000].into());
    node.run_until(Node::is_done).await;
    assert_eq!(node.fates[&1], End::Confirmed);
    assert_eq!(node.fates[&2], End::Dropped(DropReason::Oversize));
    node.stop().await;
}

/// Settings of a first listener with TLS that wants certificates, and of a second one without.
fn with_tls(authority: &Authority, plain: u16) -> String {
    let own = authority.issue("broker");
    format!(
        "cafile {}\ncertfile {}\nkeyfile {}\nrequire_certificate true\nlistener {plain} 127.0.0.1",
        authority.ca().display(),
        own.certificate.display(),
        own.key.display()
    )
}

fn over_tls(options: MqttOptions, files: ClientFiles) -> MqttOptions {
    MqttOptions { tls: Some(ClientTls::new(files).unwrap()), ..options }
}

#[tokio::test]
async fn records_reach_a_real_mosquitto_over_tls() {
    let authority = Authority::new("mosquitto");
    let plain = free_port();
    let Some(broker) = Mosquitto::start("tls", &with_tls(&authority, plain)) else {
        println!("skipped: needs mosquitto, not found");
        return;
    };
    let mut subscriber = Subscriber::connect(plain).await;
    let own = authority.issue("gate-7");
    let files = ClientFiles { ca: authority.ca(), own: Some((own.certificate, own.key)) };
    let mut node = Node::start(over_tls(broker.options(), files), 2, 100);
    let payload: Vec<u8> = (0..300_000_u32).map(|place| (place % 251) as u8).collect();
    node.offer(1, "large", payload.clone().into());
    for number in 2..=500 {
        node.offer(number, "plant/alarm", vec![b'x'; 200].into());
    }
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    assert!(node.samples > 0, "the kernel's counts are seen under TLS too");
    node.stop().await;
    let mut came = 0;
    while came < 500 {
        let Packet::Publish(publish) = subscriber.hear().await else { continue };
        assert!(*publish.topic != *"large" || publish.payload == payload);
        came += 1;
    }
}

#[tokio::test]
async fn a_broker_that_is_not_trusted_gets_nothing() {
    let (authority, other) = (Authority::new("broker"), Authority::new("stranger"));
    let plain = free_port();
    let Some(broker) = Mosquitto::start("strange", &with_tls(&authority, plain)) else {
        println!("skipped: needs mosquitto, not found");
        return;
    };
    let logs = Logs::collect();
    for (files, words) in [
        (ClientFiles { ca: other.ca(), own: None }, "not from an authority that is trusted here"),
        (ClientFiles { ca: authority.ca(), own: None }, "the far end wants a certificate"),
    ] {
        let mut node = Node::start(over_tls(broker.options(), files), 2, 100);
        node.offer(1, "secret", vec![b'x'; 200].into());
        node.run_until(|_| logs.count(words) > 0).await;
        assert_eq!((node.handed, logs.count(words)), (0, 1), "two lanes, one complaint");
        node.stop().await;
    }
}
