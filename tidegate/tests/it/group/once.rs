//! QoS 2 from a publisher to subscribers, while the topic moves back and forth between nodes that are not the publisher's:
//! each record comes once and in order, also where the publisher's connections break.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::group::client::{connect_with, packet, subscribe};
use crate::group::{Trio, wait_until};

/// Publishes that are not complete; their packet identifiers are used again and again.
const WINDOW: u64 = 24;
/// Records between two ends of a connection.
const LIFE: u64 = 41;
/// Between two publishes.
const PAUSE: Duration = Duration::from_millis(1);

const DURABLE: &str = "[[stream]]\naccept = \"durable\"\n";

/// What the test and its publisher know of each other.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    complete: AtomicU64,
    /// Connections that ended.
    cuts: AtomicU64,
}

/// One that publishes numbers with QoS 2, in a session that goes on at the same node.
struct Publisher {
    port: u16,
    stream: TcpStream,
    /// Connections of which the node was not told that they ended.
    left: Vec<TcpStream>,
    sent: u64,
    /// Of those that are not complete, whether their PUBREC was seen.
    open: BTreeMap<u64, bool>,
    shared: Arc<Shared>,
}

fn id(number: u64) -> [u8; 2] {
    ((number % WINDOW) as u16 + 1).to_be_bytes()
}

impl Publisher {
    fn start(port: u16, is_cut: bool, shared: Arc<Shared>) -> JoinHandle<u64> {
        let (stream, is_known) = connect_with(port, "once", false);
        assert!(!is_known);
        let (left, open) = (Vec::new(), BTreeMap::new());
        let publisher = Publisher { port, stream, left, sent: 0, open, shared };
        std::thread::spawn(move || publisher.run(is_cut))
    }

    /// Until it is to stop and all is complete; returns how many it has published.
    fn run(mut self, is_cut: bool) -> u64 {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let oldest = self.open.keys().next().copied().unwrap_or(self.sent + 1);
            if self.sent + 1 - oldest >= WINDOW {
                self.hear();
                continue;
            }
            self.sent += 1;
            self.open.insert(self.sent, false);
            self.publish(self.sent, false);
            if is_cut && self.sent.is_multiple_of(LIFE) {
                self.cut();
            }
            std::thread::sleep(PAUSE);
        }
        while !self.open.is_empty() {
            self.hear();
        }
        self.sent
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn publish(&mut self, number: u64, is_again: bool) {
        let payload = format!("once:{number}");
        let first = if is_again { 0x3C } else { 0x34 };
        let mut packet = vec![first, (10 + payload.len()) as u8, 0, 6];
        packet.extend(b"t/once");
        packet.extend(id(number));
        packet.extend(payload.as_bytes());
        self.write(&packet);
    }

    fn hear(&mut self) {
        let (first, body) = packet(&mut self.stream).unwrap();
        let number = self.open.keys().copied().find(|number| id(*number) == body[..2]);
        let number = number.unwrap_or_else(|| panic!("{first:#x} of a publish that is complete"));
        match first {
            0x50 => {
                self.open.insert(number, true);
                self.write(&[0x62, 2, body[0], body[1]]);
            }
            0x70 => {
                assert_eq!(self.open.remove(&number), Some(true), "a PUBCOMP without a PUBREL");
                self.shared.complete.fetch_add(1, Ordering::Relaxed);
            }
            _ => panic!("{first:#x} is no answer"),
        }
    }

    /// Ends the connection with answers unread, or leaves it to the node to see that a newer one is there.
    fn cut(&mut self) {
        let (stream, is_known) = if (self.sent / LIFE).is_multiple_of(2) {
            // Unread answers make this a reset.
            self.stream.shutdown(Shutdown::Both).unwrap();
            connect_with(self.port, "once", false)
        } else {
            self.left.push(self.stream.try_clone().unwrap());
            connect_with(self.port, "once", false)
        };
        assert!(is_known, "its session is there");
        self.stream = stream;
        for (number, is_received) in self.open.clone() {
            match is_received {
                true => self.write(&[0x62, 2, id(number)[0], id(number)[1]]),
                false => self.publish(number, true),
            }
        }
        self.shared.cuts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Subscribes with QoS 2, and writes down the numbers that it gets.
fn subscriber(port: u16, id: &str) -> Arc<Mutex<Vec<u64>>> {
    let (mut client, _) = connect_with(port, id, true);
    subscribe(&mut client, "t/+", 2);
    let seen = Arc::<Mutex<Vec<u64>>>::default();
    let book = seen.clone();
    std::thread::spawn(move || {
        let mut unreleased = BTreeSet::new();
        while let Some((first, body)) = packet(&mut client) {
            if first == 0x62 {
                assert!(unreleased.remove(&[body[0], body[1]]));
                let _ = client.write_all(&[0x70, 2, body[0], body[1]]);
                continue;
            }
            assert_eq!(first & 0xF6, 0x34, "a PUBLISH with QoS 2");
            let (id, text) = ([body[8], body[9]], std::str::from_utf8(&body[10..]).unwrap());
            assert!(unreleased.insert(id), "an identifier that is in use");
            book.lock().unwrap().push(text.strip_prefix("once:").unwrap().parse().unwrap());
            let _ = client.write_all(&[0x50, 2, id[0], id[1]]);
        }
    });
    seen
}

/// The topic goes to and fro between `a` and `b`, the publisher is at `c`.
fn moved(name: &'static str, more: &'static str, is_cut: bool) {
    let trio = Trio::new(name, more);
    let nodes: Vec<_> = (0..3).map(|place| trio.start(place)).collect();
    let subscribers: Vec<_> =
        (0..3).map(|place| subscriber(trio.mqtt(place), &format!("all-{place}"))).collect();
    let shared = Arc::<Shared>::default();
    let publisher = Publisher::start(trio.mqtt(2), is_cut, shared.clone());
    let flows = |count| {
        wait_until("publishes to be complete", || {
            assert!(!publisher.is_finished(), "the publisher panicked");
            shared.complete.load(Ordering::Relaxed) >= count
        });
    };
    flows(100);
    for to in [1, 0, 1, 0, 1, 0] {
        assert!(trio.give(to, &[]), "to {to}");
        flows(shared.complete.load(Ordering::Relaxed) + 100);
    }
    shared.stop.store(true, Ordering::Relaxed);
    let count = publisher.join().unwrap();
    assert_eq!(shared.complete.load(Ordering::Relaxed), count);
    assert_eq!(shared.cuts.load(Ordering::Relaxed), if is_cut { count / LIFE } else { 0 });
    for (place, seen) in subscribers.iter().enumerate() {
        wait_until("all records", || seen.lock().unwrap().len() as u64 >= count);
        let seen = seen.lock().unwrap();
        assert!(seen.iter().copied().eq(1..=count), "at {place}: {seen:?}");
    }
    // And once in the files of whoever owned the topic.
    wait_until("the files", || trio.written().len() as u64 >= count);
    let mut written = trio.written();
    written.sort_by_key(|text| (text.len(), text.clone()));
    assert!(written.into_iter().eq((1..=count).map(|number| format!("once:{number}"))));
    drop(nodes);
}

#[test]
fn each_record_comes_once_and_in_order_while_its_topic_moves_to_and_fro() {
    moved("once", "", false);
}

#[test]
fn a_session_goes_on_over_broken_connections_while_its_topic_moves() {
    moved("once-cut", "", true);
    moved("once-durable", DURABLE, true);
}
