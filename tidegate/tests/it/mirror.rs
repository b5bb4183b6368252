//! A node's log at a neighbour: two processes, of which one is killed.

use crate::support::PATIENCE;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::certificates::Authority;
use crate::support::process::Node;

/// Between two looks at what cannot be waited for.
const LOOK: Duration = Duration::from_millis(20);
/// Records of a test.
const RECORDS: u16 = 30;

/// The two nodes: one whose log is kept, and one that keeps it.
struct Pair {
    authority: Authority,
    name: &'static str,
}

impl Pair {
    fn new(name: &'static str) -> Pair {
        Pair { authority: Authority::new(name), name }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.authority.file(name)
    }

    fn files(&self, of: &str) -> String {
        let files = self.authority.issue(of);
        let (ca, certificate, key) = (self.authority.ca(), files.certificate, files.key);
        format!("ca = {ca:?}\ncertificate = {certificate:?}\nkey = {key:?}\n")
    }

    /// Writes what it takes over to files.
    fn keeper(&self, more: &str) -> (Node, String) {
        let text = format!(
            "[node]\nname = \"gate-8\"\n[http]\nlisten = []\n[log]\ndirectory = {:?}\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
             [[output]]\nsink = {{ directory = {:?} }}\n\
             [mirror]\nlisten = \"127.0.0.1:0\"\ndirectory = {:?}\n{more}{}",
            self.file("log-8"),
            self.file("records"),
            self.file("kept"),
            self.files("gate-8"),
        );
        let mut node = Node::start(&format!("{}-keeper", self.name), &text);
        let port = node.wait_for("other nodes' logs at 127.0.0.1:");
        node.wait_for("ready");
        (node, port)
    }

    /// Its records wait: nobody listens where they should go.
    fn owner(&self, to: &str, certificate: &str) -> (Node, Owner) {
        let text = format!(
            "[node]\nname = \"gate-7\"\n[http]\nlisten = \"127.0.0.1:0\"\n[log]\ndirectory = {:?}\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
             [[output]]\namqp = {{ url = \"amqp://127.0.0.1:1\" }}\n\
             [mirror]\nto = \"localhost:{to}\"\n{}",
            self.file("log-7"),
            self.files(certificate),
        );
        let mut node = Node::start(&format!("{}-owner", self.name), &text);
        let mqtt = format!("127.0.0.1:{}", node.wait_for("MQTT at 127.0.0.1:"));
        let http = node.wait_for("status page at http://");
        (node, Owner { mqtt, http })
    }
}

/// Where an owner is asked and told.
struct Owner {
    mqtt: String,
    http: String,
}

impl Owner {
    /// Publishes numbers with QoS 1, and waits for each PUBACK: from then on the log has it.
    fn publish(&self, numbers: std::ops::Range<u16>) {
        let mut client = TcpStream::connect(&self.mqtt).unwrap();
        client.write_all(b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01a").unwrap();
        let mut answer = [0; 4];
        client.read_exact(&mut answer).unwrap();
        for number in numbers {
            let [high, low] = (number + 1).to_be_bytes();
            client.write_all(&[0x32, 8, 0, 1, b't', high, low]).unwrap();
            client.write_all(format!("{number:03}").as_bytes()).unwrap();
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [0x40, 2, high, low]);
        }
    }

    fn metric(&self, name: &str) -> Option<f64> {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// Until the mirror has what the log has.
    fn wait_until_mirrored(&self) {
        let begun = Instant::now();
        while self.metric("tidegate_mirror_behind_bytes ") != Some(0.0) {
            assert!(begun.elapsed() < PATIENCE, "the mirror never has all");
            std::thread::sleep(LOOK);
        }
    }
}

/// The first segment of the one log that is kept.
fn oldest_segment(kept: &Path) -> PathBuf {
    let log = fs::read_dir(kept).unwrap().next().unwrap().unwrap().path();
    let files = fs::read_dir(log).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "segment")).min().unwrap()
}

/// Segments below a folder, by name.
fn segments(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(segments(&path));
        } else if path.extension().is_some_and(|end| end == "segment") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

/// The records that the sink has written.
fn written(folder: &Path) -> String {
    // It makes its folder for its first record.
    let Ok(entries) = fs::read_dir(folder) else { return String::new() };
    let files = entries.map(|entry| entry.unwrap().path());
    let records = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    records.map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn what_a_killed_node_owed_is_sent_by_its_mirror() {
    let pair = Pair::new("mirror-killed");
    let (mut keeper, port) = pair.keeper("after = \"3s\"\nfrom = [\"gate-7\"]\n");
    let (mut owner, doors) = pair.owner(&port, "gate-7");
    doors.publish(0..RECORDS);
    doors.wait_until_mirrored();
    // Its machine is gone, disk and all.
    owner.process.kill().unwrap();
    owner.end();
    fs::remove_dir_all(pair.file("log-7")).unwrap();

    keeper.wait_for("its records are sent from here");
    keeper.wait_for("all its records that are here are taken over");
    keeper.signal();
    assert!(keeper.end().success());
    let written = written(&pair.file("records"));
    assert_eq!(written.lines().count(), usize::from(RECORDS), "{written}");
    for number in 0..RECORDS {
        assert!(written.contains(&format!("{number:03}")), "{number:03} in\n{written}");
    }
    let of_owner = |line: &&str| line.contains("gate-7") && line.contains("\"again\":true");
    assert!(written.lines().all(|line| of_owner(&line)), "{written}");
    assert_eq!(segments(&pair.file("kept")).len(), 0, "nothing is kept of it any more");
}

/// Nothing that was accepted ends without a word: what the copy says was owed and does not have is told.
#[test]
fn what_is_owed_and_not_in_the_copy_is_told() {
    let pair = Pair::new("mirror-torn");
    let (mut keeper, port) = pair.keeper("after = \"10m\"\n");
    let (mut owner, doors) = pair.owner(&port, "gate-7");
    doors.publish(0..RECORDS);
    doors.wait_until_mirrored();
    // Another life begins another segment: what is owed of the first stands in the second.
    owner.process.kill().unwrap();
    owner.end();
    let (mut owner, doors) = pair.owner(&port, "gate-7");
    doors.publish(RECORDS..2 * RECORDS);
    doors.wait_until_mirrored();
    owner.process.kill().unwrap();
    owner.end();
    keeper.process.kill().unwrap();
    keeper.end();
    fs::remove_file(oldest_segment(&pair.file("kept"))).unwrap();

    let (mut keeper, _) = pair.keeper("after = \"3s\"\n");
    let missing = keeper.wait_for("are not in the copy: only its own disk has them");
    assert!(missing.contains(&format!("missing={RECORDS}")), "{missing}");
    keeper.wait_for("are taken over");
    keeper.signal();
    assert!(keeper.end().success());
    assert_eq!(written(&pair.file("records")).lines().count(), usize::from(RECORDS));
}

#[test]
fn a_copy_is_the_log_and_goes_on_where_it_was() {
    let pair = Pair::new("mirror-back");
    let (mut keeper, port) = pair.keeper("after = \"10m\"\n");
    let (mut owner, doors) = pair.owner(&port, "gate-7");
    doors.publish(0..RECORDS);
    doors.wait_until_mirrored();
    owner.process.kill().unwrap();
    owner.end();
    let (mut owner, doors) = pair.owner(&port, "gate-7");
    doors.publish(RECORDS..2 * RECORDS);
    doors.wait_until_mirrored();
    owner.process.kill().unwrap();
    owner.end();
    let (kept, log) = (segments(&pair.file("kept")), segments(&pair.file("log-7")));
    assert_eq!(kept.keys().collect::<Vec<_>>(), log.keys().collect::<Vec<_>>());
    assert!(kept.len() >= 2, "each life begins a segment");
    for (name, copy) in &kept {
        // Behind what is safe there is room ahead, and what no commit holds yet.
        assert!(!copy.is_empty() && log[name].starts_with(copy), "{name}");
    }
    keeper.signal();
    assert!(keeper.end().success());
    assert_eq!(written(&pair.file("records")), "", "its owner answers for it");
}

#[test]
fn who_may_not_come_hears_why() {
    let pair = Pair::new("mirror-refused");
    let (_keeper, port) = pair.keeper("from = [\"gate-9\"]\n");
    let (mut owner, doors) = pair.owner(&port, "gate-7");
    let why = owner.wait_for("does not keep our log: ");
    assert_eq!(why, "it refuses: the node is not in [mirror] from there");
    assert_eq!(doors.metric("tidegate_mirror_up "), Some(0.0));
    drop(owner);
    let (mut owner, _) = pair.owner(&port, "gate-9");
    let why = owner.wait_for("does not keep our log: ");
    assert_eq!(why, "it refuses: the name in the certificate is not the node's");
}

#[test]
fn a_mirror_that_is_full_says_so_and_keeps_what_it_has() {
    let pair = Pair::new("mirror-full");
    let (_keeper, port) = pair.keeper("bound = \"1KiB\"\n");
    let (mut owner, doors) = pair.owner(&port, "gate-7");
    doors.publish(0..RECORDS);
    let why = owner.wait_for("does not keep our log: ");
    assert_eq!(why, "it refuses: [mirror] bound is reached there");
    let bytes: usize = segments(&pair.file("kept")).values().map(Vec::len).sum();
    assert!(bytes <= 1024, "{bytes}");
}
