//! Nodes as processes, which are killed in the middle of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_testbed::free_port;
pub(crate) use tidegate_testbed::wait_until;

use crate::link::PATIENCE;
use crate::link::far::files;
use crate::support::certificates::Authority;
use crate::support::process::Node;

/// How often a file is looked at.
const POLL: Duration = Duration::from_millis(50);

/// Two nodes with logs, and what the far one has written.
struct Pair {
    name: &'static str,
    folder: PathBuf,
    authority: Authority,
    /// Keys of the edge.
    own: String,
    port: u16,
    mqtt: u16,
}

impl Pair {
    fn new(name: &'static str) -> Pair {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let (port, mqtt) = (free_port(), free_port());
        let authority = Authority::new(name);
        let own = files(&authority, &authority.issue("gate-7"));
        Pair { name, folder, authority, own, port, mqtt }
    }

    /// The far node's keys, by this authority.
    fn keys(authority: &Authority) -> String {
        files(authority, &authority.issue("far"))
    }

    fn far(&self, files: &str) -> Node {
        let config = format!(
            "[node]\nname = \"far\"\n[http]\nlisten = []\n[log]\ndirectory = {:?}\n\
             [[input]]\nlink = {{ listen = \"127.0.0.1:{}\", {files} }}\n\
             [[output]]\nsink = {{ directory = {:?} }}\n",
            self.folder.join("far-log"),
            self.port,
            self.folder.join("far-data"),
        );
        Node::start(&format!("{}-far", self.name), &config)
    }

    fn edge(&self) -> Node {
        let files = &self.own;
        let config = format!(
            "[node]\nname = \"gate-7\"\n[http]\nlisten = []\n[log]\ndirectory = {:?}\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:{}\" }}\n\
             [[output]]\nlink = {{ to = \"127.0.0.1:{}\", {files}, \
             paths = [\"127.0.0.2\", \"127.0.0.3\"] }}\n",
            self.folder.join("edge-log"),
            self.mqtt,
            self.port,
        );
        Node::start(&format!("{}-edge", self.name), &config)
    }

    /// Payloads that the far node has written, and under how many names each.
    fn written(&self) -> BTreeMap<u64, (usize, BTreeSet<String>)> {
        let path = self.folder.join("far-data/records.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let mut all: BTreeMap<u64, (usize, BTreeSet<String>)> = BTreeMap::new();
        // The last line may be in the making.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            let number = value["text"].as_str().unwrap().trim_end_matches('.').parse().unwrap();
            let entry = all.entry(number).or_default();
            entry.0 += 1;
            entry.1.insert(value["id"].as_str().unwrap().to_owned());
        }
        all
    }

    /// Waits until the far node has written all of these.
    fn wait_for(&self, numbers: &BTreeSet<u64>) -> BTreeMap<u64, (usize, BTreeSet<String>)> {
        let end = Instant::now() + PATIENCE;
        loop {
            let written = self.written();
            let missing: Vec<&u64> =
                numbers.iter().filter(|number| !written.contains_key(number)).collect();
            if missing.is_empty() {
                return written;
            }
            assert!(Instant::now() < end, "{} missing, as {:?}", missing.len(), missing[0]);
            std::thread::sleep(POLL);
        }
    }
}

/// Publishes by MQTT 3.1.1 with QoS 1, one by one, until a number or the end of the connection. Answers
/// what was acknowledged.
fn publish(port: u16, numbers: std::ops::Range<u64>) -> BTreeSet<u64> {
    let mut acked = BTreeSet::new();
    let end = Instant::now() + PATIENCE;
    let mut client = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(client) => break client,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        std::thread::sleep(POLL);
    };
    client.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a").unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    for number in numbers {
        let text = format!("{number:.<500}");
        let length = 2 + 1 + 2 + text.len();
        let mut packet = vec![0x32, (length % 128 + 128) as u8, (length / 128) as u8];
        packet.extend_from_slice(b"\x00\x01t\x00\x01");
        packet.extend_from_slice(text.as_bytes());
        if client.write_all(&packet).is_err() || client.read_exact(&mut answer).is_err() {
            break;
        }
        assert_eq!(answer, *b"\x40\x02\x00\x01");
        acked.insert(number);
    }
    acked
}

#[test]
fn an_edge_that_is_killed_loses_nothing_and_repeats_nothing() {
    let pair = Pair::new("link-edge-killed");
    let mut far = pair.far(&Pair::keys(&pair.authority));
    far.wait_for("ready");
    let mut acked = BTreeSet::new();
    for round in 0..4 {
        let mut edge = pair.edge();
        edge.wait_for("ready");
        let mqtt = pair.mqtt;
        let first = round * 1000;
        acked.append(&mut publish(mqtt, first..first + 200));
        // It is killed with records under way.
        let publisher = std::thread::spawn(move || publish(mqtt, first + 200..first + 1000));
        let half = BTreeSet::from([first + 250]);
        pair.wait_for(&half);
        edge.process.kill().unwrap();
        edge.process.wait().unwrap();
        acked.append(&mut publisher.join().unwrap());
    }
    let _edge = pair.edge();
    let written = pair.wait_for(&acked);
    let twice: Vec<_> = written.iter().filter(|(_, (count, _))| *count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(acked.len() > 800);
}

#[test]
fn a_far_node_that_is_killed_loses_nothing() {
    let pair = Pair::new("link-far-killed");
    let keys = Pair::keys(&pair.authority);
    let mut far = pair.far(&keys);
    far.wait_for("ready");
    let mut edge = pair.edge();
    edge.wait_for("ready");
    let mqtt = pair.mqtt;
    let publisher = std::thread::spawn(move || publish(mqtt, 0..1500));
    for round in 1..4 {
        pair.wait_for(&BTreeSet::from([round * 300]));
        far.process.kill().unwrap();
        far.process.wait().unwrap();
        far = pair.far(&keys);
        far.wait_for("ready");
    }
    let acked = publisher.join().unwrap();
    assert_eq!(acked.len(), 1500);
    let written = pair.wait_for(&acked);
    // What comes again comes under its own name, by which a consumer knows it.
    assert!(written.values().all(|(_, names)| names.len() == 1));
}

#[test]
fn who_is_not_trusted_is_told_and_gets_nothing() {
    let pair = Pair::new("link-untrusted");
    let stranger = Authority::new("link-stranger");
    let mut far = pair.far(&Pair::keys(&stranger));
    far.wait_for("ready");
    let mut edge = pair.edge();
    let mqtt = pair.mqtt;
    assert_eq!(publish(mqtt, 0..3).len(), 3, "the log has them");
    let told = edge.wait_for("no path: ");
    assert!(told.contains("is not from an authority that is trusted here (ca)"), "{told}");
    far.process.kill().unwrap();
    far.process.wait().unwrap();
    assert!(pair.written().is_empty());
    // The right one comes.
    let mut far = pair.far(&Pair::keys(&pair.authority));
    far.wait_for("a link begins");
    pair.wait_for(&(0..3).collect());
}
