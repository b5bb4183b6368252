//! Clients that people use, as they are, in every way in which they may come: each QoS, both versions,
//! with TLS and without, over IPv4 and IPv6. rumqttc comes without TLS only.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rumqttc::{AsyncClient, Event, MqttOptions, Outgoing, Packet, QoS};
use tidegate::input::mqtt::WebSocketOptions;
use tidegate::support::tls::{self, ServerFiles};
use tokio::process::Command;

use crate::mqtt::foreign::{python, script};
use crate::mqtt::node::{Node, Seen};
use crate::mqtt::soon;
use crate::support::certificates::Authority;

/// Publishes of one client.
const COUNT: u32 = 20;

/// One way to come in.
#[derive(Clone, Debug)]
struct Way {
    address: SocketAddr,
    ca: Option<PathBuf>,
    /// 4 is MQTT 3.1.1.
    version: u8,
    qos: u8,
}

impl Way {
    /// Host, port, version, QoS, count and, with TLS, the file of the authority.
    fn arguments(&self) -> Vec<String> {
        let Way { address, ca, version, qos } = self;
        let numbers = [u32::from(address.port()), u32::from(*version), u32::from(*qos), COUNT];
        let mut words = vec![address.ip().to_string()];
        words.extend(numbers.map(|number| number.to_string()));
        words.extend(ca.iter().map(|ca| ca.display().to_string()));
        words
    }
}

/// A node without TLS and one with it, on both loopbacks.
struct Nodes {
    authority: Authority,
    plain: Node,
    secure: Node,
}

impl Nodes {
    async fn start(name: &str) -> Nodes {
        Nodes::with(name, None).await
    }

    /// The same by WebSocket.
    async fn with(name: &str, websocket: Option<WebSocketOptions>) -> Nodes {
        let authority = Authority::new(name);
        let own = authority.issue("node");
        let files =
            ServerFiles { certificate: own.certificate, key: own.key, client_ca: None, crl: None };
        let v6 = "[::1]:0".parse().unwrap();
        let plain = Node::with(|options| {
            options.listen.push(v6);
            options.websocket = websocket.clone();
        })
        .await;
        let secure = Node::with(|options| {
            options.listen.push(v6);
            options.websocket = websocket;
            options.tls = Some(tls::server(&files).unwrap());
        })
        .await;
        Nodes { authority, plain, secure }
    }

    /// Lets a client come in every way, and looks whether each of its numbers came once, in order.
    async fn try_all<F: Future<Output = Result<(), String>>>(mut self, run: impl Fn(Way) -> F) {
        let ca = self.authority.ca();
        try_at(&mut self.plain, None, &run).await;
        try_at(&mut self.secure, Some(ca), &run).await;
    }
}

/// Lets a client come to a node in every way.
async fn try_at<F: Future<Output = Result<(), String>>>(
    node: &mut Node,
    ca: Option<PathBuf>,
    run: impl Fn(Way) -> F,
) {
    for address in node.addresses.clone() {
        for (version, qos) in [(4, 0), (4, 1), (4, 2), (5, 0), (5, 1), (5, 2)] {
            let way = Way { address, ca: ca.clone(), version, qos };
            let ended = soon("the end of a client", run(way.clone())).await;
            assert_eq!(ended, Ok(()), "{way:?}");
            assert_eq!(numbers(node).await, (0..COUNT).collect::<Vec<_>>(), "{way:?}");
        }
    }
}

/// The numbers that came from one connection, up to its end.
async fn numbers(node: &mut Node) -> Vec<u32> {
    let mut numbers = Vec::new();
    loop {
        match node.seen().await {
            Seen::Open(..) => {}
            Seen::Close(_) => return numbers,
            Seen::Record(record) => {
                let bytes = record.payload;
                numbers.push(std::str::from_utf8(&bytes).unwrap().parse().unwrap());
            }
        }
    }
}

/// Runs a program to its end; what it complains of is the error.
async fn run(mut command: Command) -> Result<(), String> {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = command.kill_on_drop(true).output().await.unwrap();
    let told = || Err(String::from_utf8_lossy(&output.stderr).into_owned());
    if output.status.success() { Ok(()) } else { told() }
}

pub(crate) async fn is_there(program: &str, argument: &str) -> bool {
    let mut command = Command::new(program);
    command.arg(argument).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().await.is_ok()
}

#[tokio::test]
async fn mosquitto_pub_is_served_in_every_way() {
    if !is_there("mosquitto_pub", "--version").await {
        println!("skipped: needs mosquitto_pub (mosquitto-clients), not found");
        return;
    }
    let lines: String = (0..COUNT).map(|number| format!("{number}\n")).collect();
    let nodes = Nodes::start("mosquitto-pub-ways").await;
    let file = nodes.authority.file("lines");
    std::fs::write(&file, lines).unwrap();
    let publish = |way: Way| {
        let Way { address, ca, version, qos } = way;
        let mut command = Command::new("mosquitto_pub");
        command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
        command.args(["-V", if version == 4 { "mqttv311" } else { "mqttv5" }]);
        command.args(["-q", &qos.to_string(), "-t", "t", "-l"]);
        if let Some(ca) = ca {
            command.arg("--cafile").arg(ca);
        }
        let lines = std::fs::File::open(&file).unwrap();
        async move {
            let status = command.stdin(lines).kill_on_drop(true).status().await.unwrap();
            if status.success() { Ok(()) } else { Err(status.to_string()) }
        }
    };
    nodes.try_all(publish).await;
}

#[tokio::test]
async fn paho_is_served_in_every_way() {
    let Some(python) = python("import paho.mqtt.client").await else {
        println!("skipped: needs paho for python3 (python3-paho-mqtt), not found");
        return;
    };
    let nodes = Nodes::start("paho-ways").await;
    let publish = |way: Way| {
        let mut command = Command::new(python);
        command.arg(script("paho_ways.py")).args(way.arguments());
        run(command)
    };
    nodes.try_all(publish).await;
}

/// The folder of the packages of Node.js, if MQTT.js can run.
async fn mqtt_js() -> Option<PathBuf> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/javascript/node_modules");
    let is_there = is_there("node", "--version").await && modules.join("mqtt").exists();
    if !is_there {
        println!("skipped: needs node and its package mqtt (scripts/setup.sh), not found");
    }
    is_there.then_some(modules)
}

#[tokio::test]
async fn mqtt_js_is_served_in_every_way() {
    let Some(modules) = mqtt_js().await else { return };
    let nodes = Nodes::start("mqtt-js-ways").await;
    let publish = |way: Way| {
        let mut command = Command::new("node");
        command.arg(script("mqtt_js_ways.cjs")).args(way.arguments()).env("NODE_PATH", &modules);
        run(command)
    };
    nodes.try_all(publish).await;
}

#[tokio::test]
async fn mqtt_js_is_served_by_websocket_in_every_way() {
    let Some(modules) = mqtt_js().await else { return };
    let nodes = Nodes::with("mqtt-js-web", Some(WebSocketOptions::default())).await;
    let publish = |way: Way| {
        let mut command = Command::new("node");
        command.arg(script("mqtt_js_ways.cjs")).args(way.arguments());
        command.env("NODE_PATH", &modules).env("WEB", "1");
        run(command)
    };
    nodes.try_all(publish).await;
}

/// Without TLS: it would speak that by the library that we use ourselves.
#[tokio::test]
async fn rumqttc_is_served_in_every_way() {
    let mut nodes = Nodes::start("rumqttc-ways").await;
    try_at(&mut nodes.plain, None, rumqttc_way).await;
}

/// What a client's event means for the test.
enum Told {
    Sent,
    Acknowledged,
    Gone,
    Other,
}

async fn rumqttc_way(way: Way) -> Result<(), String> {
    use rumqttc::v5;
    let (host, port) = (way.address.ip().to_string(), way.address.port());
    let expected = if way.qos == 0 { 0 } else { COUNT };
    let sent = |outgoing: Outgoing| match outgoing {
        Outgoing::Publish(_) => Told::Sent,
        Outgoing::Disconnect => Told::Gone,
        _ => Told::Other,
    };
    if way.version == 5 {
        let options = v5::MqttOptions::new("rumqttc", host, port);
        let (client, mut events) = v5::AsyncClient::new(options, COUNT as usize + 1);
        let qos = v5::mqttbytes::qos(way.qos).unwrap();
        for number in 0..COUNT {
            client.publish("t", qos, false, number.to_string()).await.unwrap();
        }
        let next = async || {
            use v5::mqttbytes::v5::Packet;
            Ok(match events.poll().await.map_err(|error| error.to_string())? {
                v5::Event::Incoming(Packet::PubAck(_) | Packet::PubComp(_)) => Told::Acknowledged,
                v5::Event::Outgoing(outgoing) => sent(outgoing),
                v5::Event::Incoming(_) => Told::Other,
            })
        };
        return until_gone(expected, next, async || client.disconnect().await.unwrap()).await;
    }
    let options = MqttOptions::new("rumqttc", host, port);
    let (client, mut events) = AsyncClient::new(options, COUNT as usize + 1);
    let qos = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce][usize::from(way.qos)];
    for number in 0..COUNT {
        client.publish("t", qos, false, number.to_string()).await.unwrap();
    }
    let next = async || {
        Ok(match events.poll().await.map_err(|error| error.to_string())? {
            Event::Incoming(Packet::PubAck(_) | Packet::PubComp(_)) => Told::Acknowledged,
            Event::Outgoing(outgoing) => sent(outgoing),
            Event::Incoming(_) => Told::Other,
        })
    };
    until_gone(expected, next, async || client.disconnect().await.unwrap()).await
}

/// Polls a client until all is sent and acknowledged, and it has said goodbye.
async fn until_gone(
    expected: u32,
    mut next: impl AsyncFnMut() -> Result<Told, String>,
    goodbye: impl AsyncFn(),
) -> Result<(), String> {
    let (mut sent, mut acknowledged) = (0, 0);
    loop {
        match next().await? {
            Told::Sent => sent += 1,
            Told::Acknowledged => acknowledged += 1,
            Told::Gone => return Ok(()),
            Told::Other => {}
        }
        if (sent, acknowledged) == (COUNT, expected) {
            goodbye().await;
            sent = 0;
        }
    }
}
