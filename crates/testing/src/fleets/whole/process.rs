//! What ends with a node's process, and the content of its records.

use super::*;

/// What is in a record: whose it is, its number there, its class.
pub(super) type Content = (usize, Seq, usize);

/// A neighbour's record that is offered here.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) from: usize,
    pub(super) class: ClassId,
    pub(super) item: Item,
    /// Whom to answer: several, where it came again before its answer.
    pub(super) asked: Vec<(u64, DeliveryId)>,
}

/// What ends with the process.
pub(super) struct Process {
    pub(super) wire: Wire,
    pub(super) began: Time,
    /// Bytes that the uplink can carry now, and for how many ticks it has carried none.
    pub(super) budget: f64,
    pub(super) dark: u64,
    /// Whether the uplink has connections.
    pub(super) is_up: bool,
    /// What left the host and is on an uplink that says nothing.
    pub(super) stuck: Vec<Sent>,
    /// Bytes of the least urgent class that left since each borrowed record of the most urgent one came.
    pub(super) behind: BTreeMap<(usize, Seq), u64>,
    pub(super) epoch: u64,
    /// What was picked and has no fate.
    pub(super) begun: BTreeMap<DeliveryId, (Content, bool)>,
    /// Own records that providers have, by the name by which each knows it: an alarm may be at two.
    pub(super) away: BTreeMap<(DeliveryId, usize), Seq>,
    /// Which life of the link to each provider it is.
    pub(super) links: Vec<u64>,
    /// Neighbours' records, by the number under which they are offered.
    pub(super) tickets: BTreeMap<u64, Ticket>,
    /// Neighbours' records that were picked.
    pub(super) picked: BTreeSet<(usize, Seq)>,
    pub(super) sources: BTreeSet<SourceId>,
    pub(super) taken: Accepted,
    pub(super) last: u64,
    pub(super) told: BTreeSet<(OutputId, ClassId)>,
    /// When the last records were confirmed.
    pub(super) confirmed: VecDeque<Time>,
}

pub(super) fn payload((origin, seq, class): Content) -> Vec<u8> {
    let mut bytes = vec![0; RECORD - 2];
    bytes[..4].copy_from_slice(&(origin as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&seq.to_le_bytes());
    bytes[8] = class as u8;
    bytes
}

pub(super) fn content(bytes: &[u8]) -> Content {
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
    (number(0) as usize, number(4), usize::from(bytes[8]))
}

/// The output by which a node reaches another one.
pub(super) fn output_to(at: usize, peer: usize) -> OutputId {
    OutputId(if peer < at { peer + 1 } else { peer } as u16)
}

pub(super) fn peer_by(at: usize, output: OutputId) -> usize {
    let place = usize::from(output.0) - 1;
    if place < at { place } else { place + 1 }
}

impl Process {
    pub(super) fn new(wire: Wire, nodes: usize) -> Self {
        let mut process = Process {
            began: wire.now,
            wire,
            budget: 0.0,
            dark: 0,
            is_up: true,
            stuck: Vec::new(),
            behind: BTreeMap::new(),
            epoch: 0,
            begun: BTreeMap::new(),
            away: BTreeMap::new(),
            links: vec![0; nodes],
            tickets: BTreeMap::new(),
            picked: BTreeSet::new(),
            sources: BTreeSet::new(),
            taken: Accepted::default(),
            last: 0,
            told: BTreeSet::new(),
            confirmed: VecDeque::new(),
        };
        process.wire.control(Control::Open { source: LOAD, name: "load".into(), relays: None });
        process.set(OWN, PathState::Up);
        process
    }

    /// Connections of an output come up or break.
    pub(super) fn set(&mut self, output: OutputId, state: PathState) {
        for path in self.wire.paths().into_iter().filter(|path| path.output == output) {
            self.wire.path(path, state);
        }
    }

    /// The clock goes on. A process that stood still sees it jump.
    pub(super) fn pass(&mut self, now: Time, tick: u64) {
        let span = now.since(self.wire.now);
        if span > ms(2 * tick) {
            self.wire.now = now;
            self.wire.poll();
        } else {
            self.wire.advance(span);
        }
    }

    /// Deliveries that may have arrived, by an output.
    pub(super) fn open_on(&self, output: OutputId) -> u64 {
        self.wire.unconfirmed_on(output) as u64
    }
}
