//! Clients that people use, as subscribers: each QoS, both versions.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::mqtt::client::{Client, publish_v311};
use crate::mqtt::clients::is_there;
use crate::mqtt::foreign::{python, script};
use crate::mqtt::node::Node;
use crate::mqtt::soon;

/// Messages for one subscriber.
const COUNT: u16 = 20;

/// A client in a process of its own. Its lines are the payloads of its messages.
struct Subscriber {
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Subscriber {
    fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Subscriber { _child: child, lines }
    }

    async fn line(&mut self) -> String {
        soon("a line", self.lines.next_line()).await.unwrap().expect("a line, not the end")
    }
}

/// Publishes the numbers with this QoS, and looks whether each comes once, in order.
async fn numbers_come(node: &Node, subscriber: &mut Subscriber, version: u8, qos: u8) {
    soon("its subscription", async {
        while node.hub.status().subscriptions == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut publisher = Client::v311(node.address(), "p").await;
    for number in 0..COUNT {
        let id = (qos > 0).then_some(number + 1);
        let mut packet = publish_v311("t", id, number.to_string().as_bytes());
        packet[0] = 0x30 | (qos << 1);
        publisher.send(&packet).await;
        if qos > 0 {
            publisher.packet().await;
        }
    }
    for number in 0..COUNT {
        assert_eq!(subscriber.line().await, number.to_string(), "version {version}, QoS {qos}");
    }
}

/// Every way of a client that `command` starts with port, version and QoS.
async fn try_all(command: impl Fn(u16, u8, u8) -> Command) {
    for (version, qos) in [(4, 0), (4, 1), (4, 2), (5, 0), (5, 1), (5, 2)] {
        let node = Node::start().await;
        let mut subscriber = Subscriber::start(command(node.address().port(), version, qos));
        numbers_come(&node, &mut subscriber, version, qos).await;
    }
}

#[tokio::test]
async fn mosquitto_sub_is_served() {
    if !is_there("mosquitto_sub", "--help").await {
        println!("skipped: needs mosquitto_sub (mosquitto-clients), not found");
        return;
    }
    try_all(|port, version, qos| {
        let mut command = Command::new("mosquitto_sub");
        command.args(["-h", "127.0.0.1", "-p", &port.to_string(), "-t", "t"]);
        command.args(["-V", if version == 4 { "mqttv311" } else { "mqttv5" }]);
        command.args(["-q", &qos.to_string()]);
        command
    })
    .await;
}

#[tokio::test]
async fn paho_is_served_as_a_subscriber() {
    let Some(python) = python("import paho.mqtt.client").await else {
        println!("skipped: needs paho for python3 (python3-paho-mqtt), not found");
        return;
    };
    try_all(|port, version, qos| {
        let mut command = Command::new(python);
        command.arg(script("paho_subscriber.py"));
        command
            .args([u32::from(port), version.into(), qos.into()].map(|number| number.to_string()));
        command
    })
    .await;
}

#[tokio::test]
async fn mqtt_js_is_served_as_a_subscriber() {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/javascript/node_modules");
    if !is_there("node", "--version").await || !modules.join("mqtt").exists() {
        println!("skipped: needs node and its package mqtt (scripts/setup.sh), not found");
        return;
    }
    try_all(|port, version, qos| {
        let mut command = Command::new("node");
        command.arg(script("mqtt_js_subscriber.cjs")).env("NODE_PATH", &modules);
        command
            .args([u32::from(port), version.into(), qos.into()].map(|number| number.to_string()));
        command
    })
    .await;
}
