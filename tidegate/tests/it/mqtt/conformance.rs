//! Packet-level cases of another project, played to our broker. They are read, never copied.
//!
//! `is_equivalent` says where this broker answers differently on purpose, `DEVIATIONS` lists the cases that
//! end differently, and why.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::mqtt::client::{Client, connect_v311, publish_v311};
use crate::mqtt::node::Node;

/// Cases that end differently on purpose: part of their name, and why.
const DEVIATIONS: &[(&str, &str)] = &[(
    "PUBLISH ALLOWED PROPERTIES \"subscription-identifier",
    "a client must not send one (MQTT 5, 3.3.4-6)",
)];

/// Longest wait for one case: reached only by a failure.
const CASE_PATIENCE: Duration = Duration::from_secs(60);

/// What happens in a case, in order.
enum Act {
    Send(Vec<u8>),
    Receive(Vec<u8>),
    /// Another client publishes: topic, payload, QoS.
    Publish(String, String, u64),
}

/// One case.
struct Case {
    name: String,
    version: u64,
    connects: bool,
    ends: bool,
    acts: Vec<Act>,
}

fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    let groups: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut cases = Vec::new();
    for group in &groups {
        for test in group["tests"].as_array().into_iter().flatten() {
            let acts = test["msgs"].as_array().unwrap().iter().map(act).collect();
            cases.push(Case {
                name: format!("{} {}", group["group"].as_str().unwrap(), test["name"]),
                version: test["ver"].as_u64().unwrap_or(4),
                connects: test["connect"].as_bool().unwrap_or(true),
                ends: test["expect_disconnect"].as_bool().unwrap_or(true),
                acts,
            });
        }
    }
    cases
}

fn act(told: &Value) -> Act {
    let word = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    if told["type"] == "publish" {
        return Act::Publish(word("topic"), word("payload"), told["qos"].as_u64().unwrap());
    }
    let text: String = word("payload").split_whitespace().collect();
    let hex = |place| u8::from_str_radix(&text[place..place + 2], 16).unwrap_or(0);
    let bytes = (0..text.len() / 2).map(|place| hex(2 * place)).collect();
    if told["type"] == "send" { Act::Send(bytes) } else { Act::Receive(bytes) }
}

/// Publishes as another client.
async fn publish(node: &Node, topic: &str, payload: &str, qos: u64) {
    let mut helper = Client::v311(node.address(), "helper").await;
    let mut packet = publish_v311(topic, Some(1), payload.as_bytes());
    packet[0] = 0x30 | (qos << 1) as u8;
    helper.send(&packet).await;
    helper.packet().await;
    if qos == 2 {
        helper.send(&[0x62, 2, 0, 1]).await;
        helper.packet().await;
    }
}

/// Whether an answer of ours says the same as the one that is expected.
fn is_equivalent(expected: &[u8], ours: &[u8]) -> bool {
    match (expected, ours) {
        // What a CONNACK announces is a server's choice, and so is the reason behind a failure.
        ([0x20, _, _, wanted, ..], [0x20, _, _, code, ..]) => wanted == code,
        // "No matching subscribers" may be left out (3.4.2.1), and is: outputs get the record.
        ([0x40, 3, high, low, 0x10], [0x40, 2, ours @ ..]) => ours == [*high, *low],
        // The cases use the two reason codes as their broker does, which differs from packet to packet
        // for the same mistake: "malformed packet" and "protocol error".
        ([0xE0, 1, 0x81 | 0x82], [0xE0, 1, 0x81 | 0x82]) => true,
        // What was never taken or sent is answered with its reason.
        ([first @ (0x62 | 0x70), 2, id @ ..], [ours_first, 3, ours @ .., 0x92]) => {
            first == ours_first && id == ours
        }
        _ => expected == ours,
    }
}

/// A DISCONNECT, or a CONNACK that refuses.
fn is_farewell(packet: &[u8]) -> bool {
    packet[0] == 0xE0 || packet[0] == 0x20 && packet[3] != 0
}

async fn play(node: &Node, case: &Case) -> Result<(), String> {
    let mut client = Client::open(node.address()).await;
    if case.connects {
        let mut connect = connect_v311("case", 60);
        if case.version == 5 {
            connect = b"\x10\x11\0\x04MQTT\x05\x02\0\x3C\0\0\x04case".to_vec();
        }
        client.send(&connect).await;
        client.packet().await;
    }
    for act in &case.acts {
        let packet = match act {
            Act::Send(packet) => {
                // The connection may be closed already: the end is checked below.
                let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, packet).await;
                continue;
            }
            Act::Publish(topic, payload, qos) => {
                publish(node, topic, payload, *qos).await;
                continue;
            }
            Act::Receive(packet) => packet,
        };
        match client.next().await {
            Some(ours) if is_equivalent(packet, &ours) => {}
            Some(ours) => return Err(format!("expected {packet:02X?}, got {ours:02X?}")),
            None if packet[0] == 0xE0 => return Ok(()),
            None => return Err(format!("expected {packet:02X?}, got a close")),
        }
    }
    let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, &[0xC0, 0]).await;
    let mut last = client.next().await;
    if case.ends && last.as_ref().is_some_and(|packet| is_farewell(packet)) {
        last = client.next().await;
    }
    match (case.ends, last) {
        (true, None) => Ok(()),
        (false, Some(pong)) if pong == [0xD0, 0] => Ok(()),
        (ends, last) => Err(format!("must end: {ends}; then came {last:02X?}")),
    }
}

#[tokio::test]
async fn foreign_cases_are_met() {
    // A worktree stands deeper than the repository.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let folders = above.map(|folder| folder.join("shared/data/mqtt_conformance"));
    let Some(entries) = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).next() else {
        println!("skipped: needs ../shared/data/mqtt_conformance (MQTT packet cases), not found");
        return;
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    // The cases count on their broker's topic alias maximum.
    let node = Node::with(|options| options.topic_alias_maximum = 10).await;
    let (mut met, mut deviating, mut failed) = (0, 0, Vec::new());
    for case in files.iter().flat_map(|file| cases(file)) {
        let played = tokio::time::timeout(CASE_PATIENCE, play(&node, &case)).await;
        match played.unwrap_or(Err("no answer and no end".into())) {
            Ok(()) => met += 1,
            Err(_) if DEVIATIONS.iter().any(|(name, _)| case.name.contains(name)) => deviating += 1,
            Err(what) => failed.push(format!("{}: {what}", case.name)),
        }
    }
    println!("{met} cases met, {deviating} deviate");
    for (name, why) in DEVIATIONS {
        println!("{name}: {why}");
    }
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}
