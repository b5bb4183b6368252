//! Packet-level cases of another project, played to our server. They are read, never copied.
//!
//! The cases were written for a broker with subscriptions. `is_equivalent` says where this
//! server answers differently on purpose, `DEVIATIONS` lists the cases that end differently, and why.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, connect_v311};
use crate::node::Node;

/// Cases that end differently on purpose: part of their name, and why.
const DEVIATIONS: &[(&str, &str)] = &[
    (
        "PUBLISH ALLOWED PROPERTIES \"subscription-identifier",
        "a client must not send one (MQTT 5, 3.3.4-6)",
    ),
    ("SUBSCRIBE \"82 shared sub", "subscriptions are refused without judging their kind"),
];

/// Longest wait for one case: reached only by a failure.
const CASE_PATIENCE: Duration = Duration::from_secs(5);

/// What is sent or must come, from one case.
struct Case {
    name: String,
    version: u64,
    connects: bool,
    ends: bool,
    packets: Vec<(bool, Vec<u8>)>,
}

fn cases(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).unwrap();
    let groups: Vec<Value> = serde_json::from_str(&text).unwrap();
    let mut cases = Vec::new();
    for group in &groups {
        for test in group["tests"].as_array().into_iter().flatten() {
            let packets = test["msgs"].as_array().unwrap().iter();
            let packets = packets.map(|packet| {
                let text: String = packet["payload"].as_str().unwrap().split_whitespace().collect();
                let hex = |place| u8::from_str_radix(&text[place..place + 2], 16).unwrap_or(0);
                let bytes = (0..text.len() / 2).map(|place| hex(2 * place)).collect();
                (packet["type"] == "send", bytes)
            });
            cases.push(Case {
                name: format!("{} {}", group["group"].as_str().unwrap(), test["name"]),
                version: test["ver"].as_u64().unwrap_or(4),
                connects: test["connect"].as_bool().unwrap_or(true),
                ends: test["expect_disconnect"].as_bool().unwrap_or(true),
                packets: packets.collect(),
            });
        }
    }
    cases
}

/// Whether the case needs what this server does not do: records sent to subscribers.
fn is_out_of_scope(case: &Case) -> bool {
    case.packets.iter().any(|(send, packet)| match packet[..] {
        [first, ..] => !send && first >> 4 == 3,
        [] => true,
    })
}

/// Whether an answer of ours says the same as the one that is expected of a broker with subscriptions.
fn is_equivalent(expected: &[u8], ours: &[u8]) -> bool {
    match (expected, ours) {
        // What a CONNACK announces is a server's choice, and so is the reason behind a failure.
        ([0x20, _, _, wanted, ..], [0x20, _, _, code, ..]) => wanted == code,
        // Without subscriptions "no matching subscribers" says nothing, and is left out.
        ([0x40, 3, high, low, 0x10], [0x40, 2, ours @ ..]) => ours == [*high, *low],
        // No subscription is ever granted, and none ever existed.
        ([first @ (0x90 | 0xB0), _, id @ ..], [ours_first, _, ours @ ..]) => {
            first == ours_first && id[..2] == ours[..2]
        }
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
    for (send, packet) in &case.packets {
        if *send {
            // The connection may be closed already: the end is checked below.
            let _ = tokio::io::AsyncWriteExt::write_all(&mut client.stream, packet).await;
            continue;
        }
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
    let (mut met, mut skipped, mut failed) = (0, 0, Vec::new());
    for case in files.iter().flat_map(|file| cases(file)) {
        if is_out_of_scope(&case) {
            skipped += 1;
            continue;
        }
        let played = tokio::time::timeout(CASE_PATIENCE, play(&node, &case)).await;
        match played.unwrap_or(Err("no answer and no end".into())) {
            Ok(()) => met += 1,
            Err(_) if DEVIATIONS.iter().any(|(name, _)| case.name.contains(name)) => {}
            Err(what) => failed.push(format!("{}: {what}", case.name)),
        }
    }
    println!("{met} cases met, {skipped} need subscriptions");
    assert!(failed.is_empty(), "{} cases failed:\n{}", failed.len(), failed.join("\n"));
}
