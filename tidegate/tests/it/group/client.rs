//! Clients of MQTT 3.1.1, as small as they can be.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Publishes that wait for their PUBACK.
const WINDOW: u64 = 64;

fn connect(port: u16, id: &str) -> TcpStream {
    let (client, is_known) = connect_with(port, id, true);
    assert!(!is_known, "a clean session has nothing before it");
    client
}

/// Connects to a session of its own, or goes on with an earlier one; whether there was one.
pub(crate) fn connect_with(port: u16, id: &str, is_clean: bool) -> (TcpStream, bool) {
    let mut client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    client.set_nodelay(true).unwrap();
    let mut packet = vec![0x10, 12 + id.len() as u8];
    packet.extend(b"\x00\x04MQTT\x04");
    packet.extend([u8::from(is_clean) << 1, 0, 0, 0, id.len() as u8]);
    packet.extend(id.as_bytes());
    client.write_all(&packet).unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).unwrap();
    assert_eq!((&answer[..2], answer[3]), (&[0x20, 2][..], 0));
    (client, answer[2] == 1)
}

/// Subscribes before anything else is sent.
pub(crate) fn subscribe(client: &mut TcpStream, filter: &str, qos: u8) {
    let mut subscribe = vec![0x82, 5 + filter.len() as u8, 0, 9, 0, filter.len() as u8];
    subscribe.extend(filter.as_bytes());
    subscribe.push(qos);
    client.write_all(&subscribe).unwrap();
    assert_eq!(packet(client), Some((0x90, vec![0, 9, qos])));
}

/// The next packet: its first byte and its body; `None` at the end.
pub(crate) fn packet(client: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 2];
    client.read_exact(&mut head).ok()?;
    assert!(head[1] < 128, "these tests have short packets");
    let mut body = vec![0; usize::from(head[1])];
    client.read_exact(&mut body).ok()?;
    Some((head[0], body))
}

/// One that publishes numbers with QoS 1, from a thread of its own.
pub(crate) struct Publisher {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    answered: Arc<Mutex<BTreeSet<u64>>>,
    threads: Vec<JoinHandle<()>>,
}

impl Publisher {
    /// Payloads are `name:number`, from 1 on, one each `pause`.
    pub(crate) fn start(port: u16, name: &'static str, pause: Duration) -> Publisher {
        let client = connect(port, name);
        let mut reader = client.try_clone().unwrap();
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let answered = Arc::<Mutex<BTreeSet<u64>>>::default();
        let booked = answered.clone();
        let hearing = std::thread::spawn(move || {
            while let Some((first, body)) = packet(&mut reader) {
                assert_eq!(first, 0x40, "a PUBACK");
                let id = u64::from(u16::from_be_bytes([body[0], body[1]]));
                booked.lock().unwrap().insert(id);
            }
        });
        let (ending, count, open) = (stop.clone(), sent.clone(), answered.clone());
        let sending = std::thread::spawn(move || {
            let mut client = client;
            while !ending.load(Ordering::Relaxed) {
                std::thread::sleep(pause);
                let number = count.load(Ordering::Relaxed) + 1;
                assert!(number < 65_536, "a number is a packet identifier as well");
                if number - open.lock().unwrap().len() as u64 > WINDOW {
                    continue;
                }
                let topic = format!("t/{name}");
                let payload = format!("{name}:{number}");
                let mut packet = vec![0x32, (4 + topic.len() + payload.len()) as u8];
                packet.extend((topic.len() as u16).to_be_bytes());
                packet.extend(topic.as_bytes());
                packet.extend((number as u16).to_be_bytes());
                packet.extend(payload.as_bytes());
                client.write_all(&packet).unwrap();
                count.store(number, Ordering::Relaxed);
            }
        });
        Publisher { stop, sent, answered, threads: vec![hearing, sending] }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(crate) fn answered(&self) -> u64 {
        self.answered.lock().unwrap().len() as u64
    }

    /// Publishes no more; returns how many it has published, when all have their answer.
    pub(crate) fn finish(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let sending = self.threads.pop().unwrap();
        sending.join().unwrap();
        crate::group::wait_until("the last PUBACK", || self.answered() == self.sent());
        self.sent()
    }
}

/// One that subscribes with QoS 1, and writes down what it gets.
pub(crate) struct Subscriber {
    seen: Arc<Mutex<Vec<String>>>,
    stream: TcpStream,
}

impl Subscriber {
    pub(crate) fn start(port: u16, id: &str, filter: &str) -> Subscriber {
        let mut client = connect(port, id);
        subscribe(&mut client, filter, 1);
        let stream = client.try_clone().unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let book = seen.clone();
        std::thread::spawn(move || {
            while let Some((first, body)) = packet(&mut client) {
                assert_eq!(first & 0xF0, 0x30, "a PUBLISH");
                let topic = usize::from(u16::from_be_bytes([body[0], body[1]]));
                let mut at = 2 + topic;
                if first & 6 != 0 {
                    let _ = client.write_all(&[0x40, 2, body[at], body[at + 1]]);
                    at += 2;
                }
                book.lock().unwrap().push(String::from_utf8(body[at..].to_vec()).unwrap());
            }
        });
        Subscriber { seen, stream }
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// Numbers of a publisher, in the order in which they came.
    pub(crate) fn of(&self, name: &str) -> Vec<u64> {
        let all = self.seen();
        let number = |text: &String| text.strip_prefix(name)?.strip_prefix(':')?.parse().ok();
        all.iter().filter_map(number).collect()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
