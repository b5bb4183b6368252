//! A whole node in a world: its queues, its log on a disk in memory, redirection and custody as they
//! are shipped. What stands for the runtime here does what `tidegate` does, and decides nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_fleet::{Agent, AgentInput, AgentOutput, Amount, FleetOptions, NodeId, ReachablePeer};
use tidegate_node::io::{Control, Destination, Input, OutputId, PathId, PathState, Refusal};
use tidegate_node::node::Node;
use tidegate_node::options::NodeOptions;
use tidegate_testing::{Disk, Wire, offer};
use tidegate_types::accepted::Accepted;
use tidegate_types::class::ClassId;
use tidegate_types::limits::RELAY_TAKE_BACK;
use tidegate_types::record::{DeliveryId, Foreign, Identity, Offered, SourceId, Token};
use tidegate_types::units::{Size, Time};

use super::member::{Member, Sent, Seq};
use super::plan::{Plan, TICK};
use super::random::Random;
use super::whole_options::{CLASSES, options};
use crate::fleet::support::ms;

/// Bytes of every record, its key included.
const RECORD: usize = 1000;
/// The output that is the node's own.
const OWN: OutputId = OutputId(0);
/// The source of the node's own records; neighbours' follow.
const LOAD: SourceId = SourceId(0);
/// An uplink that carries nothing for so long has lost its connections.
const BROKEN: u64 = 4000 / TICK;
/// Until the fate of a record is in the log: what waits to be told of together, and the log's commit.
const FATES: u64 = 150;

/// What nodes say to each other.
#[derive(Clone, Debug)]
pub(crate) enum Word {
    /// In which life of the link, under which name there, a record of a class.
    Record(u64, DeliveryId, ClassId, Item),
    /// The provider's answer to it, and whether it was picked there.
    Answer(u64, DeliveryId, bool, bool),
}

/// A record as a link carries it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    identity: Identity,
    again: bool,
    content: Content,
}

/// What is in a record: whose it is, its number there, its class.
type Content = (usize, Seq, usize);

type Wish = super::member::Wish<Word>;

/// A neighbour's record that is offered here.
#[derive(Debug)]
struct Ticket {
    from: usize,
    class: ClassId,
    item: Item,
    /// Whom to answer: several, where it came again before its answer.
    asked: Vec<(u64, DeliveryId)>,
}

/// A node.
pub(crate) struct Whole {
    place: usize,
    nodes: usize,
    /// Bytes/s that its uplink is configured to carry.
    capacity: f64,
    lives: u64,
    process: Process,
    agent: Agent,
    next: Seq,
    accepted: Vec<Seq>,
    coming: [f64; 3],
    may_repeat: u64,
    wishes: VecDeque<Wish>,
}

/// What ends with the process.
struct Process {
    wire: Wire,
    began: Time,
    /// Bytes that the uplink can carry now, and for how many ticks it has carried none.
    budget: f64,
    dark: u64,
    epoch: u64,
    /// What was picked and has no fate.
    begun: BTreeMap<DeliveryId, (Content, bool)>,
    /// Own records that providers have.
    away: BTreeMap<Seq, usize>,
    /// Which life of the link to each provider it is.
    links: Vec<u64>,
    /// Neighbours' records, by the number under which they are offered.
    tickets: BTreeMap<u64, Ticket>,
    /// Neighbours' records that were picked.
    picked: BTreeSet<(usize, Seq)>,
    sources: BTreeSet<SourceId>,
    taken: Accepted,
    last: u64,
    told: BTreeSet<(OutputId, ClassId)>,
    /// When the last records were confirmed.
    confirmed: VecDeque<Time>,
}

fn payload((origin, seq, class): Content) -> Vec<u8> {
    let mut bytes = vec![0; RECORD - 2];
    bytes[..4].copy_from_slice(&(origin as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&seq.to_le_bytes());
    bytes[8] = class as u8;
    bytes
}

fn content(bytes: &[u8]) -> Content {
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[at + byte]));
    (number(0) as usize, number(4), usize::from(bytes[8]))
}

/// The output by which a node reaches another one.
fn output_to(at: usize, peer: usize) -> OutputId {
    OutputId(if peer < at { peer + 1 } else { peer } as u16)
}

fn peer_by(at: usize, output: OutputId) -> usize {
    let place = usize::from(output.0) - 1;
    if place < at { place } else { place + 1 }
}

impl Process {
    fn new(wire: Wire, nodes: usize) -> Self {
        let mut process = Process {
            began: wire.now,
            wire,
            budget: 0.0,
            dark: 0,
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

    fn set(&mut self, output: OutputId, state: PathState) {
        for path in self.wire.paths().into_iter().filter(|path| path.output == output) {
            self.wire.path(path, state);
        }
    }

    /// The clock goes on. A process that stood still sees it jump.
    fn pass(&mut self, now: Time) {
        let span = now.since(self.wire.now);
        if span > ms(2 * TICK) {
            self.wire.now = now;
            self.wire.poll();
        } else {
            self.wire.advance(span);
        }
    }

    /// Deliveries that may have arrived, by an output.
    fn open_on(&self, output: OutputId) -> u64 {
        self.wire.unconfirmed_on(output) as u64
    }
}

impl Whole {
    fn options(&self) -> NodeOptions {
        options(self.place, self.nodes, self.capacity, self.lives)
    }

    /// What the node wants to send goes, as far as the uplink takes it.
    fn pump(&mut self) {
        loop {
            self.note_picked();
            let Process { wire, budget, .. } = &mut self.process;
            let is_own = |path: PathId| path.output == OWN;
            let to_peer = wire.cuts.iter().find(|cut| !is_own(cut.path));
            let own = wire.cuts.iter().find(|cut| is_own(cut.path));
            let fits = |size: u64| size as f64 <= *budget;
            let own = own.filter(|cut| fits(cut.range.end - cut.range.start));
            let Some(cut) = to_peer.or(own).cloned() else { break };
            let (path, bytes) = (cut.path, cut.range.end - cut.range.start);
            wire.send_on(path);
            if is_own(path) {
                *budget -= bytes as f64;
                wire.acknowledge(path, ms(1));
            }
            if cut.is_last() {
                self.went(cut.id, path.output);
            }
        }
    }

    /// What is in the records that the node picked since the last call.
    fn note_picked(&mut self) {
        let Process { wire, begun, away, picked, .. } = &mut self.process;
        for cut in std::mem::take(&mut wire.history) {
            let Some(record) = wire.node.record(cut.id).filter(|_| cut.range.start == 0) else {
                continue;
            };
            let content @ (origin, seq, class) = content(&record.payload);
            begun.insert(cut.id, (content, cut.again));
            if origin != self.place {
                picked.insert((origin, seq));
                let again = cut.again;
                let sent = Sent { origin, seq, class, again, ticket: (cut.id.0, 0) };
                self.wishes.push_back(Wish::Pick(sent));
            } else if cut.path.output != OWN {
                away.insert(seq, peer_by(self.place, cut.path.output));
            }
        }
        wire.appends.clear();
    }

    /// The last byte of a record left.
    fn went(&mut self, id: DeliveryId, output: OutputId) {
        let Process { wire, begun, links, epoch, .. } = &mut self.process;
        let Some(&(content, again)) = begun.get(&id) else { return };
        let (origin, seq, class) = content;
        if output == OWN {
            let ticket = (id.0, *epoch);
            self.wishes.push_back(Wish::Send(Sent { origin, seq, class, again, ticket }));
            return;
        }
        let Some(record) = wire.node.record(id) else { return };
        let item = Item { identity: record.identity.clone(), again, content };
        let class = wire.node.class_of(id).expect("its record is held");
        let peer = peer_by(self.place, output);
        let word = Word::Record(links[peer], id, class, item);
        self.wishes.push_back(Wish::Say(peer, word));
    }

    /// Records come.
    fn arrive(&mut self, rates: [f64; 3]) {
        let mut offers = Vec::new();
        for (class, rate) in rates.into_iter().enumerate() {
            self.coming[class] += rate * TICK as f64 / 1e3;
            while self.coming[class] >= 1.0 {
                self.coming[class] -= 1.0;
                let plain = offer(self.process.wire.now, LOAD.0, CLASSES[class], 0);
                let payload = payload((self.place, self.next, class)).into();
                let token = Some(Token(u64::from(self.next)));
                offers.push(Offered { payload, token, ..plain });
                self.next += 1;
            }
        }
        if !offers.is_empty() {
            self.process.wire.handle(Input::Arrived(offers));
        }
    }

    /// The log makes safe what it has; who waits for an answer gets it.
    fn answer(&mut self) {
        let wire = &mut self.process.wire;
        wire.sync();
        while wire.read_back() {}
        for (source, Token(number), result) in std::mem::take(&mut wire.answers) {
            if source == LOAD {
                self.accepted.extend(result.is_ok().then_some(number as Seq));
                continue;
            }
            let Some(ticket) = self.process.tickets.remove(&number) else { continue };
            let Ticket { from, class, item, asked } = ticket;
            let (origin, seq, _) = item.content;
            if result.is_ok() {
                self.process.taken.insert(&item.identity);
                if let Some(token) = self.agent.lent_to(NodeId(from as u64), class) {
                    let size = Size(RECORD as u64);
                    self.agent.handle(self.process.wire.now, AgentInput::Carried(token, size));
                }
            }
            let was_picked = self.process.picked.contains(&(origin, seq));
            for (life, id) in asked {
                let word = Word::Answer(life, id, result.is_ok(), was_picked);
                self.wishes.push_back(Wish::Say(from, word));
            }
        }
    }

    /// What it may send by others.
    fn grant(&mut self, now: Time) {
        let mut over = std::mem::take(&mut self.process.told);
        let mut orders = Vec::new();
        for ((provider, class), (amount, until)) in self.agent.borrowing() {
            let peer = output_to(self.place, provider.0 as usize);
            over.remove(&(peer, class));
            self.process.told.insert((peer, class));
            orders.push(Control::Grant { peer, class, amount, lease: until.since(now) });
        }
        for (peer, class) in over {
            orders.push(Control::Grant { peer, class, amount: Amount::ZERO, lease: ms(100) });
        }
        for (class, (amount, until)) in (0..).map(ClassId).zip(self.agent.reserved()) {
            orders.push(Control::Reserve { class, amount, lease: until.since(now) });
        }
        orders.into_iter().for_each(|order| self.process.wire.control(order));
    }

    /// A neighbour's record, for our uplink.
    fn relay(&mut self, from: usize, asked: (u64, DeliveryId), class: ClassId, item: Item) {
        let process = &mut self.process;
        if process.taken.contains(&item.identity) {
            let word = Word::Answer(asked.0, asked.1, true, true);
            return self.wishes.push_back(Wish::Say(from, word));
        }
        let is_same = |ticket: &&mut Ticket| ticket.item.identity == item.identity;
        if let Some(known) = process.tickets.values_mut().find(is_same) {
            return known.asked.push(asked);
        }
        let source = SourceId(1 + from as u32 * 3 + u32::from(class.0));
        if process.sources.insert(source) {
            let name = format!("{from}/{}", class.0).into();
            process.wire.control(Control::Open { source, name, relays: Some(class) });
        }
        process.last += 1;
        let token = process.last;
        let left = None;
        let identity = item.identity.clone();
        let foreign = Some(Foreign { identity, again: item.again, left });
        let payload = payload(item.content).into();
        let plain = offer(process.wire.now, source.0, CLASSES[class.index()], 0);
        let offered = Offered { token: Some(Token(token)), payload, foreign, ..plain };
        let ticket = Ticket { from, class, item, asked: vec![asked] };
        process.tickets.insert(token, ticket);
        process.wire.handle(Input::Arrived(vec![offered]));
    }

    /// A delivery has its fate, or comes back.
    fn settle(&mut self, output: OutputId, id: DeliveryId, is_confirmed: bool) {
        let Process { wire, begun, confirmed, .. } = &mut self.process;
        begun.remove(&id);
        wire.unconfirmed.retain(|(other, path)| *other != id || path.output != output);
        let (destination, ids) = (Destination::Output(output), vec![id]);
        wire.handle(match is_confirmed {
            true => Input::Confirmed { destination, ids },
            false => Input::Refused { destination, ids, reason: Refusal::Retry },
        });
        confirmed.extend(is_confirmed.then_some(wire.now));
    }

    /// The uplink's light goes out and on.
    fn shine(&mut self, capacity: f64) {
        let process = &mut self.process;
        if capacity > 0.0 {
            if process.dark >= BROKEN {
                process.set(OWN, PathState::Up);
            }
            process.dark = 0;
        } else {
            process.dark += 1;
            if process.dark == BROKEN {
                self.may_repeat += process.open_on(OWN);
                process.epoch += 1;
                process.set(OWN, PathState::Down);
            }
        }
        let a_tick = capacity * RECORD as f64 * TICK as f64 / 1e3;
        let most = a_tick + RECORD as f64;
        process.budget = (process.budget + a_tick).min(most);
    }
}

impl Member for Whole {
    type Word = Word;
    const PATIENCE: u64 = RELAY_TAKE_BACK.as_millis() as u64;
    const IS_FENCED: bool = true;

    fn plan(seed: u64) -> Plan {
        Plan::new(seed).with_stalls(seed)
    }

    fn new(place: usize, plan: &Plan) -> Self {
        let (nodes, capacity) = (plan.nodes, plan.capacity[place] * RECORD as f64);
        let node = Node::new(options(place, nodes, capacity, 1)).expect("good options");
        Whole {
            place,
            nodes,
            capacity,
            lives: 1,
            process: Process::new(Wire::new(node), nodes),
            agent: Agent::new(NodeId(place as u64), 1, FleetOptions::default()),
            next: 0,
            accepted: Vec::new(),
            coming: [0.0; 3],
            may_repeat: 0,
            wishes: VecDeque::new(),
        }
    }

    fn agent(&self) -> &Agent {
        &self.agent
    }

    fn agent_mut(&mut self) -> &mut Agent {
        &mut self.agent
    }

    fn die(&mut self) {
        let process = &self.process;
        let outputs = (0..self.nodes as u16).map(OutputId);
        self.may_repeat += outputs.map(|output| process.open_on(output)).sum::<u64>();
        let is_young = |at: &&Time| **at + ms(FATES) > process.wire.now;
        self.may_repeat += process.confirmed.iter().filter(is_young).count() as u64;
        self.lives += 1;
        self.agent = Agent::new(NodeId(self.place as u64), self.lives, FleetOptions::default());
    }

    fn start(&mut self, now: Time) {
        let empty = Disk::new(Wire::log_name(&self.process.wire.node), Vec::new());
        let mut disk = std::mem::replace(&mut self.process.wire.disk, empty);
        let mut random = Random::new(self.place as u64, self.lives);
        disk.crash(|unsynced| random.between(0, unsynced as u64) as usize);
        let recovery = disk.recover().expect("the log can be used");
        let node = Node::resume(self.options(), recovery).expect("good options");
        let name = Wire::log_name(&node);
        let mut wire = Wire::on(node, disk.boot(name));
        wire.now = now;
        wire.poll();
        self.process = Process::new(wire, self.nodes);
    }

    fn work(&mut self, now: Time, rates: [f64; 3], capacity: f64, is_measure: bool) {
        self.process.pass(now);
        self.shine(capacity);
        self.arrive(rates);
        self.pump();
        let measured = self.process.wire.node.measured(now).filter(|_| is_measure);
        self.agent.handle(now, measured.map_or(AgentInput::Timeout, AgentInput::Measured));
        if is_measure {
            self.grant(now);
        }
        self.answer();
        self.pump();
    }

    fn obey(&mut self, _: Time) {
        while let Some(output) = self.agent.poll() {
            match output {
                AgentOutput::Beat(beat) => self.wishes.push_back(Wish::Beat(beat)),
                AgentOutput::Granted(_) | AgentOutput::Ended(_) => {}
            }
        }
    }

    fn hear(&mut self, now: Time, from: usize, word: Word) {
        self.process.pass(now);
        match word {
            Word::Record(life, id, class, item) => self.relay(from, (life, id), class, item),
            Word::Answer(life, ..) if life != self.process.links[from] => {}
            Word::Answer(_, id, is_confirmed, was_picked) => {
                if let Some(((_, seq, _), _)) = self.process.begun.get(&id) {
                    self.process.away.remove(seq);
                }
                self.may_repeat += u64::from(!is_confirmed && was_picked);
                self.settle(output_to(self.place, from), id, is_confirmed);
            }
        }
    }

    fn is_record(word: &Word) -> bool {
        matches!(word, Word::Record(..))
    }

    fn lose(&mut self, now: Time, peer: usize) {
        self.process.pass(now);
        let output = output_to(self.place, peer);
        self.may_repeat += self.process.open_on(output);
        self.process.links[peer] += 1;
        self.process.away.retain(|_, other| *other != peer);
        self.process.set(output, PathState::Down);
        self.agent.handle(now, AgentInput::PeerLost(NodeId(peer as u64)));
    }

    fn meet(&mut self, now: Time, peer: usize) {
        self.process.pass(now);
        self.process.set(output_to(self.place, peer), PathState::Up);
    }

    fn reach(&mut self, now: Time, peers: &[usize]) {
        let reach = |peer: &usize| ReachablePeer { node: NodeId(*peer as u64), distance: 1 };
        self.agent.handle(now, AgentInput::Peers(peers.iter().map(reach).collect()));
    }

    fn confirmed(&mut self, now: Time, sent: Sent) {
        let (id, epoch) = sent.ticket;
        if epoch == self.process.epoch {
            self.process.pass(now);
            self.settle(OWN, DeliveryId(id), true);
        }
    }

    fn wishes(&mut self) -> &mut VecDeque<Wish> {
        &mut self.wishes
    }

    fn accepted(&self) -> impl Iterator<Item = Seq> + '_ {
        self.accepted.iter().copied()
    }

    fn left(&self) -> Option<String> {
        let Process { wire, away, tickets, .. } = &self.process;
        let open: Vec<u64> =
            (0..self.nodes as u16).map(|at| self.process.open_on(OutputId(at))).collect();
        let (held, away, others) = (wire.node.held(), away.len(), tickets.len());
        let told = || {
            format!("holds {held} records: {open:?} unconfirmed, {away} away, {others} of others")
        };
        (held > 0).then(told)
    }

    /// For a while after its start a node does not know what it sent before.
    fn is_away(&self, seq: Seq, provider: usize) -> bool {
        let is_young = self.process.wire.now < self.process.began + RELAY_TAKE_BACK;
        is_young || self.process.away.get(&seq) == Some(&provider)
    }

    fn may_repeat(&self) -> u64 {
        self.may_repeat
    }
}
