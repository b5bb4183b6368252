//! A whole node in a world: its queues, its log on a disk in memory, redirection and custody as they
//! are shipped. What stands for the runtime here does what `tidegate` does, and decides nothing.

mod driving;
mod options;
mod process;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tidegate_fleet::{Agent, AgentInput, AgentOutput, Amount, FleetOptions, NodeId, ReachablePeer};
use tidegate_node::io::{Control, Destination, Input, OutputId, PathId, PathState, Refusal};
use tidegate_node::node::Node;
use tidegate_node::options::NodeOptions;
use tidegate_types::accepted::Accepted;
use tidegate_types::class::ClassId;
use tidegate_types::limits::RELAY_TAKE_BACK;
use tidegate_types::record::{DeliveryId, Foreign, Identity, Offered, SourceId, Token};
use tidegate_types::units::{Size, Time};

use self::options::{CLASSES, options};
use self::process::{Content, Process, Ticket, content, output_to, payload, peer_by};
use super::member::{Member, Sent, Seq};
use super::ms;
use super::plan::{Plan, Uplink};
use super::random::Random;
use crate::{Cut, Disk, Wire, offer};

/// Bytes of every record, its key included.
const RECORD: usize = 1000;
/// The output that is the node's own.
const OWN: OutputId = OutputId(0);
/// The source of the node's own records; neighbours' follow.
const LOAD: SourceId = SourceId(0);
/// An uplink that carries nothing for so long has lost its connections.
const BROKEN: u64 = 4000;
/// Until the fate of a record is in the log: what waits to be told of together, and the log's commit.
const FATES: u64 = 150;

/// What nodes say to each other.
#[derive(Clone, Debug)]
pub enum Word {
    /// In which life of the link, under which name there, a record of a class.
    Record(u64, DeliveryId, ClassId, Item),
    /// The provider's answer to it, and whether it was picked there.
    Answer(u64, DeliveryId, bool, bool),
}

/// A record as a link carries it.
#[derive(Clone, Debug)]
pub struct Item {
    identity: Identity,
    again: bool,
    /// What is left of its bound, where links say so.
    left: Option<Duration>,
    content: Content,
}

type Wish = super::member::Wish<Word>;

/// A node.
pub struct Whole {
    place: usize,
    nodes: usize,
    /// Bytes/s that its uplink carries, and that it is configured to carry.
    capacity: f64,
    told: f64,
    lives: u64,
    process: Process,
    agent: Agent,
    next: Seq,
    accepted: Vec<Seq>,
    coming: [f64; 3],
    may_repeat: u64,
    wishes: VecDeque<Wish>,
    says_left: bool,
    /// Milliseconds of a tick.
    tick: u64,
    /// Whether its uplink says nothing about what leaves.
    is_silent: bool,
    /// Classes of what came, and what borrowed records waited behind, since either was asked for.
    came: Vec<usize>,
    behind: Vec<(u64, u64)>,
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
        let told = capacity * plan.told;
        let node = Node::new(options(place, nodes, told, 1)).expect("good options");
        Whole {
            place,
            nodes,
            capacity,
            told,
            lives: 1,
            process: Process::new(Wire::new(node), nodes),
            agent: Agent::new(NodeId(place as u64), 1, FleetOptions::default()),
            next: 0,
            accepted: Vec::new(),
            coming: [0.0; 3],
            may_repeat: 0,
            wishes: VecDeque::new(),
            says_left: plan.says_left,
            tick: plan.tick,
            is_silent: false,
            came: Vec::new(),
            behind: Vec::new(),
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

    fn work(&mut self, now: Time, rates: [f64; 3], uplink: Uplink, is_measure: bool) {
        self.process.pass(now, self.tick);
        self.shine(uplink);
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
        self.process.pass(now, self.tick);
        match word {
            Word::Record(life, id, class, item) => self.relay(from, (life, id), class, item),
            Word::Answer(life, ..) if life != self.process.links[from] => {}
            Word::Answer(_, id, is_confirmed, was_picked) => {
                self.process.away.remove(&(id, from));
                self.may_repeat += u64::from(!is_confirmed && was_picked);
                self.settle(output_to(self.place, from), id, is_confirmed);
            }
        }
    }

    fn is_record(word: &Word) -> bool {
        matches!(word, Word::Record(..))
    }

    fn lose(&mut self, now: Time, peer: usize) {
        self.process.pass(now, self.tick);
        self.note_picked();
        let output = output_to(self.place, peer);
        self.may_repeat += self.process.open_on(output);
        self.process.links[peer] += 1;
        self.process.away.retain(|(_, other), _| *other != peer);
        self.process.set(output, PathState::Down);
        self.agent.handle(now, AgentInput::PeerLost(NodeId(peer as u64)));
    }

    fn meet(&mut self, now: Time, peer: usize) {
        self.process.pass(now, self.tick);
        self.process.set(output_to(self.place, peer), PathState::Up);
    }

    fn reach(&mut self, now: Time, peers: &[usize]) {
        let reach = |peer: &usize| ReachablePeer { node: NodeId(*peer as u64), distance: 1 };
        self.agent.handle(now, AgentInput::Peers(peers.iter().map(reach).collect()));
    }

    fn confirmed(&mut self, now: Time, sent: Sent) {
        let (id, epoch) = sent.ticket;
        if epoch == self.process.epoch {
            self.process.pass(now, self.tick);
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
        let mut away = self.process.away.iter();
        is_young || away.any(|((_, at), one)| (*at, *one) == (provider, seq))
    }

    fn take_came(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.came)
    }

    fn take_behind(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.behind)
    }

    fn may_repeat(&self) -> u64 {
        self.may_repeat
    }
}
