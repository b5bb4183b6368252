//! The broker's sessions through kill -9: what was acknowledged reaches every persistent session.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_testbed::{CrowdOptions, free_port, kill_under_crowd};

use crate::support::PATIENCE;
use crate::support::process::Node;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn config(&self, port: u16, streams: &str) -> String {
        format!(
            "[node]\nname = \"kept\"\n[[input]]\nmqtt = {{ listen = \"127.0.0.1:{port}\" }}\n\
             [[output]]\nsink = {{ directory = {:?} }}\n[http]\nlisten = []\n\
             [log]\ndirectory = {:?}\n{streams}",
            self.0.join("out"),
            self.0.join("log"),
        )
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A client of MQTT 3.1.1 that keeps its session, as plain as its bytes.
struct Client {
    stream: TcpStream,
    is_present: bool,
    buffer: Vec<u8>,
}

/// A packet from the server: its first byte and its body.
type Packet = (u8, Vec<u8>);

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

fn packet(first: u8, body: &[u8]) -> Vec<u8> {
    assert!(body.len() < 16_384, "two bytes of length are enough here");
    let length = body.len();
    let head = match length < 128 {
        true => vec![first, length as u8],
        false => vec![first, (length % 128) as u8 | 128, (length / 128) as u8],
    };
    [head, body.to_vec()].concat()
}

impl Client {
    /// Connects; `will` is published to this topic, with QoS 2.
    fn connect(port: u16, id: &str, will: Option<&str>) -> Client {
        Client::ask(port, id, 0, will).let_in()
    }

    /// Wants to connect, with a session that is `clean` (2) or not (0).
    fn ask(port: u16, id: &str, clean: u8, will: Option<&str>) -> Client {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_nodelay(true).unwrap();
        let flags = clean | if will.is_some() { 0x14 } else { 0 };
        let mut body = [text("MQTT"), vec![4, flags, 0, 0]].concat();
        body.extend(text(id));
        if let Some(topic) = will {
            body.extend([text(topic), text("gone")].concat());
        }
        stream.write_all(&packet(0x10, &body)).unwrap();
        Client { stream, is_present: false, buffer: Vec::new() }
    }

    /// Waits until it is let in.
    fn let_in(mut self) -> Client {
        let (first, body) = self.next(PATIENCE).expect("a CONNACK");
        assert_eq!((first, body[1]), (0x20, 0));
        self.is_present = body[0] == 1;
        self
    }

    fn send(&mut self, first: u8, body: &[u8]) {
        // A node that was killed takes nothing.
        let _ = self.stream.write_all(&packet(first, body));
    }

    fn subscribe(&mut self, filter: &str, qos: u8) {
        self.send(0x82, &[vec![0, 1], text(filter), vec![qos]].concat());
        let (first, body) = self.next(PATIENCE).expect("a SUBACK");
        assert_eq!((first, body[2]), (0x90, qos));
    }

    fn publish(&mut self, topic: &str, payload: &str, qos: u8, flags: u8, id: u16) {
        let mut body = text(topic);
        if qos > 0 {
            body.extend(id.to_be_bytes());
        }
        body.extend(payload.as_bytes());
        self.send(0x30 | qos << 1 | flags, &body);
    }

    /// The next packet; none where the connection ended, or nothing came for so long.
    fn next(&mut self, patience: Duration) -> Option<Packet> {
        let until = Instant::now() + patience;
        loop {
            if let Some(packet) = self.take() {
                return Some(packet);
            }
            let left = until.checked_duration_since(Instant::now())?;
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1)))).unwrap();
            let mut bytes = [0; 4096];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend(&bytes[..count]),
                Err(_) => {}
            }
        }
    }

    fn take(&mut self) -> Option<Packet> {
        let (mut length, mut at) = (0, 1);
        loop {
            let byte = *self.buffer.get(at)?;
            length |= usize::from(byte & 127) << (7 * (at - 1));
            at += 1;
            if byte & 128 == 0 {
                break;
            }
        }
        let body = self.buffer.get(at..at + length)?.to_vec();
        let first = self.buffer[0];
        self.buffer.drain(..at + length);
        Some((first, body))
    }

    /// The next publish that is new to a session, acknowledged as its QoS wants: topic, payload, whether it is retained.
    fn message(
        &mut self,
        patience: Duration,
        known: &mut BTreeSet<u16>,
    ) -> Option<(String, String, bool)> {
        loop {
            let (first, body) = self.next(patience)?;
            match first >> 4 {
                3 => {
                    let length = usize::from(u16::from_be_bytes([body[0], body[1]]));
                    let topic = String::from_utf8(body[2..2 + length].to_vec()).unwrap();
                    let (qos, mut rest) = (first >> 1 & 3, &body[2 + length..]);
                    let mut is_new = true;
                    if qos > 0 {
                        let id = u16::from_be_bytes([rest[0], rest[1]]);
                        rest = &rest[2..];
                        let answer = if qos == 1 { 0x40 } else { 0x50 };
                        self.send(answer, &id.to_be_bytes());
                        is_new = qos == 1 || known.insert(id);
                    }
                    let payload = String::from_utf8(rest.to_vec()).unwrap();
                    if is_new {
                        return Some((topic, payload, first & 1 == 1));
                    }
                }
                6 => {
                    known.remove(&u16::from_be_bytes([body[0], body[1]]));
                    self.send(0x70, &body);
                }
                _ => {}
            }
        }
    }

    /// Publishes and waits until it is acknowledged.
    fn publish_and_wait(&mut self, topic: &str, payload: &str, qos: u8, flags: u8, id: u16) {
        self.publish(topic, payload, qos, flags, id);
        let (first, body) = self.next(PATIENCE).expect("an answer");
        assert_eq!(
            (first >> 4, body[..2].to_vec()),
            (if qos == 1 { 4 } else { 5 }, id.to_be_bytes().to_vec())
        );
        if qos == 2 {
            self.send(0x62, &id.to_be_bytes());
            assert_eq!(self.next(PATIENCE).map(|(first, _)| first), Some(0x70));
        }
    }
}

/// All that comes until a message of this payload, without those that came before.
fn all_until(
    client: &mut Client,
    last: &str,
    known: &mut BTreeSet<u16>,
) -> Vec<(String, String, bool)> {
    let mut all = Vec::new();
    while let Some(message) = client.message(PATIENCE, known) {
        let is_last = message.1 == last;
        all.push(message);
        if is_last {
            return all;
        }
    }
    panic!("{last} never came, but {all:?}");
}

fn payloads(all: &[(String, String, bool)], topic: &str) -> Vec<String> {
    all.iter().filter(|(of, ..)| of == topic).map(|(_, payload, _)| payload.clone()).collect()
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn start(name: &str, config: &str) -> Node {
    let mut node = Node::start(name, config);
    node.wait_for("ready");
    node
}

const LOCAL: &str = "[[stream]]\nto = []\n";
const DURABLE: &str = "[[stream]]\naccept = \"durable\"\n";

/// A session, what it subscribed to, what waits, what is retained, and a will.
fn survives(name: &str, streams: &str) {
    let folder = Folder::new(name);
    let port = free_port();
    let config = folder.config(port, streams);
    let node = start(name, &config);
    let mut subscriber = Client::connect(port, "subscriber", None);
    for (filter, qos) in [("one/+", 1), ("two/#", 2), ("end", 1)] {
        subscriber.subscribe(filter, qos);
    }
    drop(subscriber);
    let _lost = Client::connect(port, "lost", Some("one/will"));
    let mut publisher = Client::connect(port, "publisher", None);
    for number in 0..50_u16 {
        let payload = number.to_string();
        publisher.publish_and_wait("one/a", &payload, 1, 0, number + 1);
        publisher.publish_and_wait("two/a/b", &payload, 2, 0, number + 1);
    }
    for (topic, payload) in [("kept/a", "old"), ("kept/a", "new"), ("kept/b", "x"), ("kept/b", "")]
    {
        publisher.publish_and_wait(topic, payload, 1, 1, 9);
    }
    // Dropped: killed.
    drop(node);
    let node = start(name, &config);
    let mut publisher = Client::connect(port, "publisher", None);
    assert!(publisher.is_present, "a session that has subscribed to nothing");
    publisher.publish_and_wait("end", "end", 1, 0, 1);
    let mut subscriber = Client::connect(port, "subscriber", None);
    assert!(subscriber.is_present);
    let mut known = BTreeSet::new();
    let all = all_until(&mut subscriber, "end", &mut known);
    assert_eq!(payloads(&all, "one/a"), numbers(50));
    assert_eq!(payloads(&all, "two/a/b"), numbers(50));
    assert_eq!(payloads(&all, "one/will"), ["gone"], "its client went with the node");
    let mut reader = Client::connect(port, "reader", None);
    reader.subscribe("kept/#", 1);
    publisher.publish_and_wait("kept/end", "end", 1, 0, 2);
    let kept = all_until(&mut reader, "end", &mut BTreeSet::new());
    assert_eq!(kept[0], ("kept/a".into(), "new".into(), true), "{kept:?}");
    assert_eq!(kept.len(), 2, "{kept:?}");
    // What was acknowledged does not come again, and the will is over.
    publisher.publish_and_wait("one/last", "last", 1, 0, 3);
    assert_eq!(all_until(&mut subscriber, "last", &mut known).len(), 1);
    subscriber.send(0xC0, &[]);
    while subscriber.next(PATIENCE).expect("a PINGRESP").0 != 0xD0 {}
    drop(node);
    let _node = start(name, &config);
    let mut publisher = Client::connect(port, "publisher", None);
    let mut subscriber = Client::connect(port, "subscriber", None);
    publisher.publish_and_wait("end", "end", 1, 0, 1);
    let all = all_until(&mut subscriber, "end", &mut known);
    assert_eq!(payloads(&all, "two/a/b"), [""; 0], "twice");
    assert_eq!(payloads(&all, "one/will"), [""; 0], "a will twice");
}

#[test]
fn sessions_of_local_topics_survive_a_kill() {
    survives("kept-local", LOCAL);
}

#[test]
fn sessions_of_durable_topics_survive_a_kill() {
    survives("kept-durable", DURABLE);
}

#[test]
fn a_first_publish_of_qos_2_that_is_sent_again_after_a_kill_comes_once() {
    for (name, streams) in [("first-local", LOCAL), ("first-durable", DURABLE)] {
        let folder = Folder::new(name);
        let port = free_port();
        let config = folder.config(port, streams);
        let node = start(name, &config);
        Client::connect(port, "subscriber", None).subscribe("one/#", 2);
        // A session that is new and subscribes to nothing.
        let mut publisher = Client::connect(port, "publisher", None);
        publisher.publish("one/a", "first", 2, 0, 7);
        assert_eq!(publisher.next(PATIENCE).map(|(first, _)| first), Some(0x50));
        drop((publisher, node));
        let _node = start(name, &config);
        let mut publisher = Client::connect(port, "publisher", None);
        publisher.publish_and_wait("one/a", "first", 2, 8, 7);
        publisher.publish_and_wait("one/a", "end", 2, 0, 8);
        let mut subscriber = Client::connect(port, "subscriber", None);
        let all = all_until(&mut subscriber, "end", &mut BTreeSet::new());
        assert_eq!(payloads(&all, "one/a"), ["first", "end"], "{name}");
    }
}

/// What a subscriber that comes and goes has got, by publisher.
type Got = BTreeMap<String, Vec<u32>>;

/// Takes what comes to each client until nothing has come for so long.
fn take<'n>(
    clients: &mut [(&'n str, Client)],
    patience: Duration,
    known: &mut BTreeMap<&'n str, BTreeSet<u16>>,
    got: &mut BTreeMap<&'n str, Got>,
) {
    for (id, client) in clients {
        let (known, got) = (known.entry(id).or_default(), got.entry(id).or_default());
        while let Some((topic, payload, _)) = client.message(patience, known) {
            got.entry(topic).or_default().push(payload.parse().unwrap());
        }
    }
}

#[test]
fn a_kill_under_load_loses_nothing_that_was_acknowledged() {
    const KILLS: usize = 4;
    const ROUND: u32 = 150;
    let name = "kept-load";
    let folder = Folder::new(name);
    let port = free_port();
    let config = folder.config(port, LOCAL);
    let filters = [
        ("all", "load/#", 1),
        ("once", "load/two/+", 2),
        ("group-a", "$share/g/load/one/#", 1),
        ("group-b", "$share/g/load/one/#", 1),
    ];
    let mut got: BTreeMap<&str, Got> = BTreeMap::new();
    let mut known: BTreeMap<&str, BTreeSet<u16>> = BTreeMap::new();
    let mut acknowledged: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    let mut node = start(name, &config);
    for (id, filter, qos) in filters {
        Client::connect(port, id, None).subscribe(filter, qos);
    }
    let mut next = [0_u32; 2];
    // What a client of QoS 2 has sent and not released.
    let mut open: Option<u32> = None;
    for round in 0..=KILLS {
        let is_last = round == KILLS;
        // One after the other: who is away while others publish gets it later.
        let mut clients: Vec<(&str, Client)> = filters
            .iter()
            .filter(|(id, ..)| is_last || (id.len() + round) % 2 == 0)
            .map(|(id, ..)| (*id, Client::connect(port, id, None)))
            .collect();
        let mut one = Client::connect(port, "one", None);
        let mut two = Client::connect(port, "two", None);
        for step in 0..ROUND {
            // Kill in the middle of all that is under way.
            if step == ROUND / 2 && !is_last {
                one.publish("load/one/x", &next[0].to_string(), 1, 0, 77);
                next[0] += 1;
                drop(node);
                node = start(name, &config);
                break;
            }
            let number = next[0];
            one.publish("load/one/x", &number.to_string(), 1, 0, 1 + (number % 60_000) as u16);
            next[0] += 1;
            if one.next(PATIENCE).is_some() {
                acknowledged.entry("load/one/x".into()).or_default().insert(number);
            }
            let number = open.unwrap_or(next[1]);
            let id = 1 + (number % 60_000) as u16;
            if open.is_none() {
                two.publish("load/two/x", &number.to_string(), 2, 0, id);
                assert_eq!(two.next(PATIENCE).map(|(first, _)| first), Some(0x50));
                open = Some(number);
                acknowledged.entry("load/two/x".into()).or_default().insert(number);
            }
            // Every third one is released by a later connection.
            if step % 3 < 2 || step + 1 < ROUND / 2 {
                two.send(0x62, &id.to_be_bytes());
                assert_eq!(two.next(PATIENCE).map(|(first, _)| first), Some(0x70));
                open = None;
                next[1] = number + 1;
            }
            take(&mut clients, Duration::from_millis(1), &mut known, &mut got);
        }
        if is_last {
            take(&mut clients, Duration::from_millis(500), &mut known, &mut got);
        }
    }
    check(&got, &acknowledged);
}

fn check(got: &BTreeMap<&str, Got>, acknowledged: &BTreeMap<String, BTreeSet<u32>>) {
    let of = |id: &str, topic: &str| got[id].get(topic).cloned().unwrap_or_default();
    for topic in ["load/one/x", "load/two/x"] {
        let all: BTreeSet<u32> = of("all", topic).into_iter().collect();
        let lost: Vec<_> = acknowledged[topic].difference(&all).collect();
        assert!(lost.is_empty(), "{topic}: acknowledged and lost: {lost:?}");
    }
    let once = of("once", "load/two/x");
    let set: BTreeSet<u32> = once.iter().copied().collect();
    assert_eq!(once.len(), set.len(), "QoS 2 came twice: {once:?}");
    assert!(acknowledged["load/two/x"].is_subset(&set));
    let group: BTreeSet<u32> =
        [of("group-a", "load/one/x"), of("group-b", "load/one/x")].concat().into_iter().collect();
    assert!(acknowledged["load/one/x"].is_subset(&group), "a group lost messages");
}

#[test]
fn rights_that_end_while_messages_wait_end_their_delivery() {
    let folder = Folder::new("kept-rights");
    let port = free_port();
    let may = |subscribe: &str| {
        let allow =
            format!(", allow = [{{ topics = [\"#\"], subscribe = [\"{subscribe}\"] }}] }}\n");
        folder.config(port, LOCAL).replacen(" }\n", &allow, 1)
    };
    let node = start("kept-rights", &may("#"));
    let mut subscriber = Client::connect(port, "subscriber", None);
    subscriber.subscribe("one/#", 2);
    subscriber.subscribe("+/a", 1);
    drop(subscriber);
    let mut publisher = Client::connect(port, "publisher", None);
    for (topic, id) in [("one/a", 1), ("two/a", 2), ("one/b", 3)] {
        publisher.publish_and_wait(topic, topic, 2, 0, id);
    }
    drop(node);
    let _node = start("kept-rights", &may("one/#"));
    let mut publisher = Client::connect(port, "publisher", None);
    // Right after a start, while the journal may still be read.
    publisher.publish_and_wait("two/a", "two/a", 1, 0, 4);
    publisher.publish_and_wait("one/c", "end", 1, 0, 5);
    let mut subscriber = Client::connect(port, "subscriber", None);
    assert!(subscriber.is_present);
    let all = all_until(&mut subscriber, "end", &mut BTreeSet::new());
    let topics: Vec<&str> = all.iter().map(|(topic, ..)| topic.as_str()).collect();
    assert_eq!(topics, ["one/a", "one/b", "one/c"]);
}

#[test]
fn a_will_that_was_due_while_no_process_ran_comes_once_and_one_that_was_taken_back_never() {
    let folder = Folder::new("kept-wills");
    let port = free_port();
    let config = folder.config(port, DURABLE);
    let node = start("kept-wills", &config);
    Client::connect(port, "subscriber", None).subscribe("will/#", 2);
    let mut polite = Client::connect(port, "polite", Some("will/polite"));
    let _killed = Client::connect(port, "killed", Some("will/killed"));
    polite.send(0xE0, &[]);
    assert!(polite.next(PATIENCE).is_none(), "the node closes");
    drop(node);
    let mut known = BTreeSet::new();
    for (round, wills) in [1, 0, 0].into_iter().enumerate() {
        let node = start("kept-wills", &config);
        let mut publisher = Client::connect(port, "publisher", None);
        publisher.publish_and_wait("will/end", &format!("end {round}"), 2, 0, 1);
        let mut subscriber = Client::connect(port, "subscriber", None);
        let mut all = all_until(&mut subscriber, &format!("end {round}"), &mut known);
        // The will of a client that was killed with the node may come behind what is published at once.
        let is_will = |(topic, ..): &(String, String, bool)| topic == "will/killed";
        if wills == 1 && !all.iter().any(is_will) {
            all.extend(subscriber.message(PATIENCE, &mut known));
        }
        assert_eq!(all.iter().filter(|one| is_will(one)).count(), wills, "{all:?}");
        assert_eq!(payloads(&all, "will/polite"), [""; 0]);
        drop(node);
    }
}

/// `lab bench sessions-kill9` is the same with a hundred subscribers, for longer, and beside others.
#[test]
fn a_crowd_that_comes_and_goes_loses_nothing_and_gets_nothing_twice() {
    for (name, streams, has_groups) in
        [("crowd-local", LOCAL, true), ("crowd-durable", DURABLE, false)]
    {
        let folder = Folder::new(name);
        let port = free_port();
        let config = folder.config(port, streams);
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let (subscribers, per_second, silence) = (24, 400, Duration::from_secs(5));
        let crowd = CrowdOptions { address, subscribers, per_second, has_groups, silence, seed: 1 };
        let start = || Ok(start(name, &config));
        let fall = |node| {
            drop::<Node>(node);
            Ok(())
        };
        let account = kill_under_crowd(crowd, 3, start, fall).unwrap();
        assert!(!account.is_wrong(), "{name}: {account}: {:?}", account.told);
        assert!(account.came > account.accepted && account.accepted > 100, "{account}");
    }
}
