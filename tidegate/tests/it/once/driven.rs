//! A QoS 2 publisher that keeps to the standard, and a seed that says where its node dies.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use tidegate_testbed::free_port;
use tidegate_types::random::SplitMix;

use crate::support::process::Node;

use super::Folder;
use crate::support::PATIENCE;

const COUNT: u32 = 400;
const WINDOW: usize = 8;
/// A node dies after so many packets of its client at most.
const LIFE: u32 = 160;

/// One publish that is not complete: its number, and whether its PUBREC came.
type Flights = BTreeMap<u16, (u32, bool)>;

/// What a client keeps through the deaths of its node.
struct Publisher {
    random: SplitMix,
    next: u32,
    open: Flights,
    last_id: u16,
    dups: u32,
}

impl Publisher {
    /// Publishes until all is complete or the connection has moved `life` packets; true at the end of all.
    fn live(&mut self, port: u16, mut life: u32) -> bool {
        let mut link = connect(port);
        let mut send = |link: &mut TcpStream, packet: &[u8]| {
            life = life.saturating_sub(1);
            link.write_all(packet).is_ok() && life > 0
        };
        for (id, (number, is_received)) in &self.open {
            let again = if *is_received { release(*id) } else { publish(*id, *number, true) };
            self.dups += u32::from(!is_received);
            if !send(&mut link, &again) {
                return false;
            }
        }
        loop {
            // Mostly full, and sometimes one after the other.
            let window = if self.random.below(8) == 0 { 1 } else { WINDOW };
            while self.next < COUNT && self.open.len() < window {
                // Soon used again, and in no order.
                self.last_id = self.last_id % 11 + 1 + self.random.below(2) as u16;
                let (id, number) = (self.last_id, self.next);
                if self.open.contains_key(&id) {
                    continue;
                }
                self.open.insert(id, (number, false));
                self.next += 1;
                if !send(&mut link, &publish(id, number, false)) {
                    return false;
                }
            }
            if self.open.is_empty() {
                return true;
            }
            let mut answer = [0; 4];
            if link.read_exact(&mut answer).is_err() {
                return false;
            }
            let id = u16::from_be_bytes([answer[2], answer[3]]);
            match (answer[0], self.open.get_mut(&id)) {
                (0x50, Some((_, is_received))) => {
                    *is_received = true;
                    if !send(&mut link, &release(id)) {
                        return false;
                    }
                }
                (0x70, Some(_)) => drop(self.open.remove(&id)),
                // The answer to a publish that came twice.
                (0x50 | 0x70, None) => {}
                (kind, _) => panic!("a packet {kind:#x} that no publisher expects"),
            }
        }
    }
}

/// Connects with the session that there is.
fn connect(port: u16) -> TcpStream {
    let mut link = TcpStream::connect(("127.0.0.1", port)).unwrap();
    link.set_read_timeout(Some(PATIENCE)).unwrap();
    link.set_nodelay(true).unwrap();
    link.write_all(b"\x10\x10\0\x04MQTT\x04\0\0\0\0\x04seed").unwrap();
    let mut answer = [0; 4];
    link.read_exact(&mut answer).unwrap();
    assert_eq!((answer[0], answer[3]), (0x20, 0));
    link
}

fn publish(id: u16, number: u32, is_dup: bool) -> Vec<u8> {
    let first = if is_dup { 0x3C } else { 0x34 };
    [&[first, 9, 0, 1, b't'][..], &id.to_be_bytes(), &number.to_be_bytes()].concat()
}

fn release(id: u16) -> Vec<u8> {
    [&[0x62, 2][..], &id.to_be_bytes()].concat()
}

/// With each seed the node dies at other packets of its client: between two of them, as it pleases SIGKILL.
#[test]
fn a_seeded_publisher_is_heard_once_by_a_node_that_dies_at_any_packet() {
    for seed in 1..=3 {
        let name = format!("once-driven-{seed}");
        let folder = Folder::new(&name);
        let port = free_port();
        let config = folder.config(&format!("mqtt = {{ listen = \"127.0.0.1:{port}\" }}"));
        let open = Flights::new();
        let mut client = Publisher { random: SplitMix(seed), next: 0, open, last_id: 0, dups: 0 };
        let mut kills = 0;
        let node = loop {
            let mut node = Node::start(&name, &config);
            node.wait_for("ready");
            let life = 1 + client.random.below(LIFE as usize) as u32;
            if client.live(port, life) {
                break node;
            }
            kills += 1;
            // Dropped: killed by SIGKILL.
        };
        let dups = client.dups;
        println!(
            "seed {seed}: {COUNT} publishes, the node killed {kills} times, {dups} published again"
        );
        assert!(kills > 2 && dups > 0, "seed {seed} shows nothing");
        folder.check(COUNT);
        drop(node);
    }
}
