//! The client of an existing broker, most of all against a real Mosquitto.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tidegate::input::mqtt::Version;
use tidegate::input::mqtt::client::MqttClientOptions;
use tidegate::node::contract::Notice;
use tidegate::support::password::{Password, PasswordSource};
use tidegate::support::tls::{ClientFiles, ClientTls};
use tidegate_mqtt::client_session::Options;
use tidegate_testbed::{free_address, free_port};
use tidegate_types::record::RefuseReason;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use crate::mqtt::client::{Client, publish_v311};
use crate::mqtt::node::{Node, Policy};
use crate::mqtt::soon;
use crate::support::certificates::Authority;
use crate::support::logs::Logs;

/// A Mosquitto of the test's own, which keeps its sessions on disk; ended by its own number.
struct Mosquitto {
    address: SocketAddr,
    folder: PathBuf,
    process: Child,
}

impl Mosquitto {
    /// `None` where it is not installed.
    async fn start(name: &str) -> Option<Mosquitto> {
        Mosquitto::start_with(name, "").await
    }

    /// `None` where it is not installed; with more settings.
    async fn start_with(name: &str, settings: &str) -> Option<Mosquitto> {
        let address = free_address();
        let folder =
            std::env::temp_dir().join(format!("tidegate-in-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "listener {} 127.0.0.1\nallow_anonymous true\npersistence true\nuser root\n\
             persistence_location {}/\nautosave_interval 1\nautosave_on_changes true\n\
             {settings}",
            address.port(),
            folder.display()
        );
        std::fs::write(folder.join("conf"), text).unwrap();
        let Some(process) = run(&folder) else {
            eprintln!("skipped: needs mosquitto, not found");
            return None;
        };
        let broker = Mosquitto { address, folder, process };
        broker.listens().await;
        Some(broker)
    }

    async fn listens(&self) {
        soon("the broker", async {
            while tokio::net::TcpStream::connect(self.address).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }

    /// Kills it and starts it again.
    async fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        sleep(Duration::from_millis(300)).await;
        self.process = run(&self.folder).unwrap();
        self.listens().await;
    }

    fn options(&self, version: Option<Version>, qos: u8) -> MqttClientOptions {
        MqttClientOptions {
            host: "127.0.0.1".into(),
            port: self.address.port(),
            tls: None,
            session: Options {
                client_id: "gate-7-in".into(),
                user: None,
                password: None,
                topics: vec![("plant/#".into(), qos)],
                map: Default::default(),
                version,
                receive_maximum: 10,
                max_packet_size: 10_000,
            },
            password: None,
        }
    }

    /// Publishes with QoS 1 until the broker has it.
    async fn publish(&self, payload: &[u8]) {
        let mut client = Client::v311(self.address, "sensor").await;
        client.send(&publish_v311("plant/3", Some(1), payload)).await;
        assert_eq!(client.packet().await, [0x40, 2, 0, 1]);
        client.send(&[0xE0, 0]).await;
    }
}

fn run(folder: &std::path::Path) -> Option<Child> {
    let start = |program: &str| {
        let mut command = Command::new(program);
        command.arg("-c").arg(folder.join("conf"));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
    };
    start("mosquitto").or_else(|| start("/usr/sbin/mosquitto"))
}

impl Drop for Mosquitto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Publishes until the subscription is there, and returns with nothing under way.
async fn subscribed(broker: &Mosquitto, node: &mut Node) {
    loop {
        broker.publish(b"first").await;
        let seen = tokio::time::timeout(Duration::from_millis(300), node.record()).await;
        if seen.is_ok() {
            return;
        }
    }
}

fn text(record: &tidegate_types::record::Offered) -> String {
    let bytes = &record.payload;
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn records_come_over_tls_from_a_broker_that_is_trusted() {
    let (authority, strange) = (Authority::new("client-tls"), Authority::new("strange"));
    let (own, ours) = (authority.issue("broker"), authority.issue("gate-7"));
    let port = free_port();
    let settings = format!(
        "listener {port} 127.0.0.1\ncertfile {}\nkeyfile {}\ncafile {}\nrequire_certificate true\n",
        own.certificate.display(),
        own.key.display(),
        authority.ca().display()
    );
    let Some(broker) = Mosquitto::start_with("tls", &settings).await else { return };
    let over_tls = |ca| {
        let own = Some((ours.certificate.clone(), ours.key.clone()));
        let tls = Some(ClientTls::new(ClientFiles { ca, own }).unwrap());
        MqttClientOptions { port, tls, ..broker.options(None, 1) }
    };
    let mut node = Node::client(over_tls(authority.ca())).await;
    node.opened().await;
    subscribed(&broker, &mut node).await;
    let large = vec![b'x'; 9_000];
    broker.publish(&large).await;
    assert_eq!(text(&node.record().await).as_bytes(), large);
    node.stop().await;
    let logs = Logs::collect();
    let mut node = Node::client(over_tls(strange.ca())).await;
    node.opened().await;
    soon("a complaint", async {
        while logs.count("not from an authority that is trusted here") == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(node.seen_now().is_none(), "a broker that is not trusted is not listened to");
}

#[tokio::test]
async fn what_is_not_accepted_comes_again() {
    for (version, qos) in [(None, 1), (Some(Version::V311), 1), (None, 2), (Some(Version::V311), 2)]
    {
        let Some(broker) = Mosquitto::start(&format!("again-{qos}-{}", version.is_some())).await
        else {
            return;
        };
        let mut node = Node::client(broker.options(version, 2)).await;
        assert_eq!(&*node.opened().await.1, "gate-7-in");
        subscribed(&broker, &mut node).await;
        node.policy(Policy::Hold);
        broker.publish(b"unanswered").await;
        assert_eq!(text(&node.record().await), "unanswered");
        node.stop().await;
        broker.publish(b"while away").await;
        let mut node = Node::client(broker.options(version, qos)).await;
        node.opened().await;
        assert_eq!(text(&node.record().await), "unanswered");
        assert_eq!(text(&node.record().await), "while away");
    }
}

#[tokio::test]
async fn a_full_node_and_one_that_never_takes_it() {
    let Some(broker) = Mosquitto::start("refused").await else { return };
    let mut node = Node::client(broker.options(None, 1)).await;
    node.opened().await;
    subscribed(&broker, &mut node).await;
    node.policy(Policy::Refuse(RefuseReason::Full));
    broker.publish(b"later").await;
    for _ in 0..2 {
        assert_eq!(text(&node.record().await), "later", "it comes again");
    }
    node.policy(Policy::Refuse(RefuseReason::NoRule));
    assert_eq!(text(&node.record().await), "later");
    broker.publish(b"next").await;
    while text(&node.record().await) != "next" {}
}

#[tokio::test]
async fn a_pause_leaves_records_at_the_broker() {
    let Some(broker) = Mosquitto::start("pause").await else { return };
    let mut node = Node::client(broker.options(None, 1)).await;
    let (source, _) = node.opened().await;
    subscribed(&broker, &mut node).await;
    node.notify(source, Notice::Pause);
    sleep(Duration::from_millis(100)).await;
    while node.seen_now().is_some() {}
    for number in 0..30 {
        broker.publish(format!("{number}").as_bytes()).await;
    }
    assert!(node.seen_now().is_none(), "a paused client is not read");
    node.notify(source, Notice::Resume);
    for number in 0..30 {
        assert_eq!(text(&node.record().await), format!("{number}"));
    }
}

#[tokio::test]
async fn a_broker_that_comes_back_is_served_again() {
    let Some(mut broker) = Mosquitto::start("restart").await else { return };
    let mut node = Node::client(broker.options(None, 2)).await;
    node.opened().await;
    subscribed(&broker, &mut node).await;
    node.policy(Policy::Hold);
    broker.publish(b"held").await;
    let held = node.record().await;
    assert_eq!(text(&held), "held");
    // The broker writes its sessions down once a second.
    sleep(Duration::from_millis(1500)).await;
    broker.restart().await;
    node.answer(&held, Ok(()));
    node.policy(Policy::Accept);
    broker.publish(b"after").await;
    soon("a record after the restart", async { while text(&node.record().await) != "after" {} })
        .await;
}

/// A packet of less than 128 bytes: its first byte and its body.
async fn short(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 2];
    soon("a packet", stream.read_exact(&mut head)).await.unwrap();
    let mut body = vec![0; head[1].into()];
    stream.read_exact(&mut body).await.unwrap();
    (head[0], body)
}

#[tokio::test]
async fn a_newer_password_waits_for_the_answer_to_what_was_read() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let lasts = Duration::from_secs(7);
    let ends = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + lasts;
    let token = format!("SharedAccessSignature sr=a&sig=b&se={}", ends.as_secs());
    let password = Some(Password::new(PasswordSource::Fixed(token.as_str().into())).unwrap());
    let session = Options {
        client_id: "gate-7-in".into(),
        user: Some("gate".into()),
        password: None,
        topics: vec![("plant/#".into(), 1)],
        map: Default::default(),
        version: Some(Version::V311),
        receive_maximum: 10,
        max_packet_size: 10_000,
    };
    let port = listener.local_addr().unwrap().port();
    let options =
        MqttClientOptions { host: "127.0.0.1".into(), port, tls: None, session, password };
    let mut node = Node::client(options).await;
    node.policy(Policy::Hold);
    let (mut stream, _) = listener.accept().await.unwrap();
    let connect = short(&mut stream).await;
    assert!(connect.0 == 0x10 && connect.1.ends_with(token.as_bytes()));
    stream.write_all(&[0x20, 2, 0, 0]).await.unwrap();
    let (first, subscribe) = short(&mut stream).await;
    assert_eq!(first, 0x82);
    stream.write_all(&[0x90, 3, subscribe[0], subscribe[1], 1]).await.unwrap();
    stream.write_all(&publish_v311("plant/3", Some(1), b"held")).await.unwrap();
    node.opened().await;
    let held = node.record().await;
    // The token is good for no more than this: whoever is still here waits for the answer.
    sleep(lasts).await;
    node.answer(&held, Ok(()));
    assert_eq!(short(&mut stream).await, (0x40, vec![0, 1]));
    assert_eq!(short(&mut stream).await, (0xE0, vec![]));
    let (mut stream, _) = soon("another connection", listener.accept()).await.unwrap();
    assert_eq!(short(&mut stream).await.0, 0x10);
}
