//! A node that starts with a gibibyte in its log: it is ready, and takes records, without reading it all; and
//! all of it arrives once.

#![cfg(target_os = "linux")]

use crate::support::PATIENCE;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::support::process::{Node, publish};
use bytes::Bytes;
use tidegate::assembly::{self, Assembled};
use tidegate::config::read;
use tidegate::node::contract::{Notice, Order, OutputPort};
use tidegate_node::io::PathState;
use tidegate_types::record::{Offered, Properties, Token};
use tidegate_types::units::Size;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The backlog: 1 GiB of payload.
const RECORDS: u64 = 16 * 1024;
const PAYLOAD: usize = 64 * 1024;
/// Records that are offered at once.
const BATCH: u64 = 64;
/// What a start may read: the segment that was not finished, of 64 MiB, its checkpoint, and as much again
/// for the program itself and all footers.
const READ_MAX: u64 = 96 << 20;
/// What it may hold: far less than the backlog.
const MEMORY_MAX_KIB: u64 = 128 * 1024;

/// An output that never comes up.
const NOWHERE: &str = "mqtt = { url = \"mqtt://127.0.0.1:1\" }";
/// One behind which there is no network.
const HERE: &str = "sink = { discard = true }";

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let name = format!("tidegate-backlog-{}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn config(&self, input: &str, output: &str) -> String {
        format!(
            "[node]\nname = \"gate\"\n[http]\nlisten = []\n{input}\
             [[output]]\nname = \"cloud\"\n{output}\n\
             [log]\ndirectory = {:?}\nbound = \"3GiB\"\nstandby = true\n",
            self.0
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A node in this process, whose output is driven by `output`.
async fn start(folder: &Folder, name: &str, output: impl Fn(OutputPort)) -> Assembled {
    let text = folder.config("", name);
    let reading = read(&text);
    assert_eq!(reading.render("gate.toml", &text), "");
    let start =
        assembly::start_with(&reading.config, tidegate::link::Links::default(), |_, port, _| {
            output(port);
            Ok(())
        });
    start.await.unwrap()
}

/// Has a node accept the backlog, which goes nowhere; then the node is gone without a word.
fn fill(folder: &Folder) {
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let node = start(folder, NOWHERE, std::mem::forget).await;
        let mut source = node.running.intake.open("filler".into()).await.unwrap();
        let payload = Bytes::from(vec![7; PAYLOAD]);
        for first in (0..RECORDS).step_by(BATCH as usize) {
            let offers = (first..first + BATCH).map(|number| Offered {
                source: source.id(),
                token: Some(Token(number)),
                key: "plant".into(),
                properties: Properties::default(),
                payload: payload.clone(),
                read_at: source.now(),
                source_unix_ns: Some(number),
                ttl: None,
                foreign: None,
                packet: None,
            });
            source.offer(offers.collect()).await.unwrap();
            let mut accepted = 0;
            while accepted < BATCH {
                match timeout(PATIENCE, source.notice()).await.unwrap().unwrap() {
                    Notice::Accept(_, verdict) => {
                        assert_eq!(verdict, Ok(()));
                        accepted += 1;
                    }
                    other => assert!(matches!(other, Notice::Pause | Notice::Resume), "{other:?}"),
                }
            }
        }
    });
    runtime.shutdown_timeout(PATIENCE);
}

/// Starts a node as a process, offers it a record, and kills it.
fn start_and_kill(folder: &Folder) {
    let input = "[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n";
    let mut node = Node::start("backlog", &folder.config(input, NOWHERE));
    let address = node.wait_for("MQTT at ");
    node.wait_for("ready");
    let field = |file: &str, name: &str| -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/{file}", node.process.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (read, backlog) = (field("io", "rchar:"), RECORDS * PAYLOAD as u64);
    assert!(read < READ_MAX, "{read} bytes were read at the start, of {backlog}");
    let _client = publish(&address);
    let memory = field("status", "VmHWM:");
    assert!(memory < MEMORY_MAX_KIB, "{memory} KiB for a backlog of {backlog} bytes");
}

/// Sends all and returns the identities that came.
async fn drain(folder: &Folder) -> Vec<String> {
    let (sender, mut records) = mpsc::unbounded_channel();
    let node = start(folder, HERE, |port| drop(tokio::spawn(confirm(port, sender.clone())))).await;
    let mut came = Vec::new();
    while came.len() < RECORDS as usize + 1 {
        came.push(timeout(PATIENCE, records.recv()).await.expect("a record").unwrap());
    }
    drop(node);
    came.extend(std::iter::from_fn(|| records.try_recv().ok()));
    came
}

/// An output that confirms everything, and tells what came.
pub(crate) async fn confirm(mut port: OutputPort, records: mpsc::UnboundedSender<String>) {
    for lane in 0..port.lanes {
        port.feedback.path_state(lane, PathState::Up).await.unwrap();
    }
    while let Some(Order::Transmit(order)) = port.orders.recv().await {
        let sent = Size(order.end - order.start);
        let is_last = order.end >= order.size;
        let told = port.feedback.sent(order.id, sent).await.is_ok()
            && (!is_last || port.feedback.confirmed(vec![order.id]).await.is_ok());
        if is_last {
            let _ = records.send(order.record.identity.to_string());
        }
        if !told {
            return;
        }
    }
}

#[test]
fn a_large_backlog_does_not_hold_up_a_start_and_arrives_once() {
    let folder = Folder::new();
    fill(&folder);
    start_and_kill(&folder);
    let came = Runtime::new().unwrap().block_on(drain(&folder));
    assert_eq!(came.iter().collect::<BTreeSet<_>>().len(), RECORDS as usize + 1);
    assert_eq!(came.len(), RECORDS as usize + 1, "some came twice");
}
