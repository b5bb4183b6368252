//! Stands between an MQTT client and a node, writes down every packet that it passes, and breaks connections
//! where the test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// Kinds of packets that QoS 2 is made of.
pub(crate) const PUBLISH: u8 = 3;
pub(crate) const PUBREC: u8 = 5;
pub(crate) const PUBREL: u8 = 6;
pub(crate) const PUBCOMP: u8 = 7;

/// One packet of a QoS 2 exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// The number of its connection, from 0; those that were refused count too.
    pub(crate) connection: usize,
    pub(crate) kind: u8,
    pub(crate) id: u16,
    /// Only a PUBLISH has it.
    pub(crate) is_dup: bool,
    /// The number that a PUBLISH has at the end of its payload.
    pub(crate) number: Option<u32>,
    /// Else the connection was cut instead.
    pub(crate) is_passed: bool,
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ["PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP"]
            .get(usize::from(self.kind) - 3)
            .unwrap_or(&"other");
        let dup = if self.kind == PUBLISH {
            format!(" DUP {}", u8::from(self.is_dup))
        } else {
            "".into()
        };
        let lost = if self.is_passed { "" } else { " (cut off)" };
        write!(f, "connection {} {name} id {}{dup}{lost}", self.connection, self.id)
    }
}

/// Takes the first packet off `bytes`, if all of it is there.
fn take(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let (mut length, mut place) = (0, 1);
    loop {
        let byte = *bytes.get(place)?;
        length |= usize::from(byte & 0x7F) << (7 * (place - 1));
        place += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let size = place + length;
    (bytes.len() >= size).then(|| bytes.drain(..size).collect())
}

/// What a packet of QoS 2 says; `None` for any other.
fn read(packet: &[u8], connection: usize) -> Option<Packet> {
    let start = 1 + packet[1..].iter().position(|byte| byte & 0x80 == 0)? + 1;
    let (kind, body) = (packet[0] >> 4, &packet[start..]);
    let word = |place: usize| Some(u16::from_be_bytes([*body.get(place)?, *body.get(place + 1)?]));
    let at = match kind {
        PUBLISH if packet[0] & 6 == 4 => 2 + usize::from(word(0)?),
        PUBREC | PUBREL | PUBCOMP => 0,
        _ => return None,
    };
    let number = body.last_chunk::<4>().filter(|_| kind == PUBLISH);
    Some(Packet {
        connection,
        kind,
        id: word(at)?,
        is_dup: kind == PUBLISH && packet[0] & 8 != 0,
        number: number.map(|bytes| u32::from_be_bytes(*bytes)),
        is_passed: true,
    })
}

/// When to break what.
#[derive(Default)]
struct Plan {
    /// PUBCOMPs that are left until the next cut, 0 for none.
    left: usize,
    /// Attempts to connect that are still to fail.
    refusals: usize,
    /// All of them fail.
    is_down: bool,
    is_over: bool,
}

/// What is said between the threads of a relay and its test.
struct Shared {
    node: u16,
    /// Attempts to connect that fail after a cut, at least.
    refusals: usize,
    seen: Mutex<Vec<Packet>>,
    plan: Mutex<Plan>,
    cuts: Mutex<Sender<()>>,
}

impl Shared {
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seen(&self) -> MutexGuard<'_, Vec<Packet>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A relay on a port of its own.
pub(crate) struct Relay {
    pub(crate) port: u16,
    shared: Arc<Shared>,
    cuts: Receiver<()>,
    accepting: Option<JoinHandle<()>>,
}

impl Relay {
    /// In front of a node at this port. After each cut at least `refusals` attempts to connect fail.
    pub(crate) fn start(node: u16, refusals: usize) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, cuts) = channel();
        let (seen, plan, sender) = (Mutex::default(), Mutex::default(), Mutex::new(sender));
        let shared = Arc::new(Shared { node, refusals, seen, plan, cuts: sender });
        let accepting = Some(spawn({
            let shared = shared.clone();
            move || accept(&listener, &shared)
        }));
        Relay { port, shared, cuts, accepting }
    }

    /// The PUBCOMP with this number from now on, from 1, is not passed: the connection ends there, and
    /// no other is let through until [`Relay::go_on`].
    pub(crate) fn cut_at(&self, completions: usize) {
        self.shared.plan().left = completions;
    }

    /// Waits for the cut; false where the client ended before.
    pub(crate) fn wait_for_cut(&self, mut is_done: impl FnMut() -> bool) -> bool {
        const LOOK: Duration = Duration::from_millis(20);
        loop {
            match self.cuts.recv_timeout(LOOK) {
                Ok(()) => return true,
                Err(_) if is_done() => return false,
                Err(_) => {}
            }
        }
    }

    /// The node is there again.
    pub(crate) fn go_on(&self) {
        self.shared.plan().is_down = false;
    }

    /// All packets of QoS 2 so far.
    pub(crate) fn seen(&self) -> Vec<Packet> {
        self.shared.seen().clone()
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.plan().is_over = true;
        // Wakes the accept.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for number in 0.. {
        let Ok((client, _)) = listener.accept() else { return };
        let mut plan = shared.plan();
        if plan.is_over {
            return;
        }
        let is_refused = plan.is_down || plan.refusals > 0;
        plan.refusals = plan.refusals.saturating_sub(1);
        drop(plan);
        if is_refused {
            continue;
        }
        let Ok(node) = TcpStream::connect(("127.0.0.1", shared.node)) else { continue };
        let _ = (client.set_nodelay(true), node.set_nodelay(true));
        for (from, to) in [(&client, &node), (&node, &client)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let shared = shared.clone();
            spawn(move || {
                pass(&from, &to, number, &shared);
                let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
            });
        }
    }
}

/// Passes packets from one side to the other until one of them is gone, or a cut is due.
fn pass(mut from: &TcpStream, mut to: &TcpStream, connection: usize, shared: &Shared) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        match from.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
        while let Some(packet) = take(&mut bytes) {
            if let Some(mut known) = read(&packet, connection) {
                known.is_passed = known.kind != PUBCOMP || !is_due(shared);
                let is_passed = known.is_passed;
                shared.seen().push(known);
                if !is_passed {
                    let cuts = shared.cuts.lock().unwrap_or_else(PoisonError::into_inner);
                    let _ = cuts.send(());
                    return;
                }
            }
            if to.write_all(&packet).is_err() {
                return;
            }
        }
    }
}

/// Counts a PUBCOMP; true for the one that is to be cut off.
fn is_due(shared: &Shared) -> bool {
    let mut plan = shared.plan();
    let is_due = plan.left == 1;
    plan.left = plan.left.saturating_sub(1);
    if is_due {
        (plan.is_down, plan.refusals) = (true, shared.refusals);
    }
    is_due
}

/// All that was said of each number.
fn by_number(seen: &[Packet]) -> BTreeMap<u32, Vec<Packet>> {
    let mut by_id: BTreeMap<u16, u32> = BTreeMap::new();
    let mut said: BTreeMap<u32, Vec<Packet>> = BTreeMap::new();
    for packet in seen {
        if let Some(number) = packet.number {
            by_id.insert(packet.id, number);
        }
        if let Some(number) = by_id.get(&packet.id) {
            said.entry(*number).or_default().push(packet.clone());
        }
    }
    said
}

/// The numbers that the client published after it had released them, each with all that was said of it.
///
/// MQTT 3.1.1 and 5, 4.3.3: the sender "MUST NOT re-send the PUBLISH once it has sent the corresponding
/// PUBREL packet". The receiver has forgotten the packet identifier by then, as the same section wants.
pub(crate) fn published_after_release(seen: &[Packet]) -> BTreeMap<u32, Vec<Packet>> {
    let mut said = by_number(seen);
    said.retain(|_, packets| {
        let released = packets.iter().position(|packet| packet.kind == PUBREL);
        released.is_some_and(|at| packets[at..].iter().any(|packet| packet.kind == PUBLISH))
    });
    said
}

/// The numbers whose PUBCOMP did not come through once.
pub(crate) fn cut_off(seen: &[Packet]) -> BTreeSet<u32> {
    let is_cut = |packets: &Vec<Packet>| packets.iter().any(|packet| !packet.is_passed);
    by_number(seen).into_iter().filter(|(_, packets)| is_cut(packets)).map(|(n, _)| n).collect()
}
