//! Nodes as queues of bytes, in steps of 10 ms: what they carry for themselves and for each other, with the
//! agents and the orchestrator of the product between them.
//!
//! A node serves its own classes first, most urgent first; what is left of its uplink carries what others
//! sent it. A receiver sends what its own uplink did not take in a step, the least urgent grant first,
//! no faster than granted and no more than it has credit for.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tidegate_evaluation::credit::{Borrower, Lender};
use tidegate_fleet::{
    Agent, AgentInput, AgentOutput, FencingToken, FleetOptions, Grant, MatchingRound, NodeId,
    Orchestrator, OrchestratorInput, OrchestratorOutput, ReachablePeer,
};
use tidegate_types::demand::{Measured, gross_demand};
use tidegate_types::units::{Rate, Size, Time};

use super::tally::Tally;

pub(super) const STEP: Duration = Duration::from_millis(10);
/// Steps between two measurements.
const MEASURE: u64 = 10;
/// One way between two nodes.
const LINK: Duration = Duration::from_millis(10);
/// What clears the backlog of each class in good time, as the node's rules bound it.
const BOUNDS: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_millis(1000)];

/// Bytes that came together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    /// When its node got it, and when it came here.
    pub(super) born: Time,
    pub(super) came: Time,
    pub(super) bytes: f64,
}

/// A first-in, first-out queue of bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    chunks: VecDeque<Chunk>,
    bytes: f64,
}

impl Queue {
    fn push(&mut self, chunk: Chunk) {
        if chunk.bytes > 0.0 {
            self.bytes += chunk.bytes;
            self.chunks.push_back(chunk);
        }
    }

    /// Takes up to so many bytes from the front.
    fn take(&mut self, mut most: f64, mut each: impl FnMut(Chunk)) -> f64 {
        let mut taken = 0.0;
        while most > 1e-9 {
            let Some(front) = self.chunks.front_mut() else { break };
            let bytes = front.bytes.min(most);
            each(Chunk { bytes, ..*front });
            front.bytes -= bytes;
            (most, taken) = (most - bytes, taken + bytes);
            if front.bytes <= 1e-9 {
                self.chunks.pop_front();
            }
        }
        self.bytes = if self.chunks.is_empty() { 0.0 } else { self.bytes - taken };
        taken
    }

    pub(super) fn bytes(&self) -> f64 {
        self.bytes
    }
}

/// What comes to a provider by a grant.
#[derive(Debug)]
struct Relay {
    grant: Grant,
    lender: Lender,
    queue: Queue,
    /// Parts of a byte that are not told yet.
    told: f64,
}

/// What goes from a receiver by a grant.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    borrower: Borrower,
    /// What the pace allows now.
    pace: f64,
}

/// A node of the world.
#[derive(Debug)]
pub(super) struct FluidNode {
    pub(super) capacity: f64,
    agent: Agent,
    pub(super) own: [Queue; 3],
    relays: BTreeMap<FencingToken, Relay>,
    ways: BTreeMap<FencingToken, Way>,
    /// Since the last measurement: what came, by class, and what its own records used of its uplink.
    came: [f64; 3],
    output: f64,
    /// What its law holds the uplink to carry.
    estimate: f64,
    busy: f64,
}

#[derive(Debug)]
enum Mail {
    ToOrchestrator(OrchestratorInput),
    ToAgent(usize, AgentInput),
    Credit(usize, FencingToken, Size),
    Records(usize, Grant, Chunk),
}

/// Whose uplink is whose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Uplinks {
    /// Each node has its own.
    Apart,
    /// All have one of so many bytes/s together, in equal parts where all want it.
    Shared(f64),
}

#[derive(Debug)]
pub(super) struct Fluid {
    pub(super) nodes: Vec<FluidNode>,
    uplinks: Uplinks,
    orchestrator: Orchestrator,
    options: FleetOptions,
    /// One way between a node and the orchestrator.
    delay: Duration,
    mail: BTreeMap<(Time, u64), Mail>,
    sent: u64,
    now: Time,
    round: MatchingRound,
    pub(super) tally: Tally,
}

impl Fluid {
    /// Everybody reaches everybody. Without a fleet nobody leads.
    pub(super) fn new(
        capacities: &[f64],
        uplinks: Uplinks,
        options: &FleetOptions,
        delay: Duration,
        is_fleet: bool,
    ) -> Self {
        let mut orchestrator = Orchestrator::new(options.clone());
        if is_fleet {
            orchestrator.handle(Time::ZERO, OrchestratorInput::Elected { revision: 1 });
        }
        let node = |(place, &capacity): (usize, &f64)| {
            let mut agent = Agent::new(NodeId(place as u64), 1, options.clone());
            let reach = |peer: u64| ReachablePeer { node: NodeId(peer), distance: 1 };
            let peers = (0..capacities.len() as u64).filter(|peer| *peer != place as u64);
            agent.handle(Time::ZERO, AgentInput::Peers(peers.map(reach).collect()));
            agent.handle(Time::ZERO, AgentInput::Leader(is_fleet));
            FluidNode {
                capacity,
                agent,
                own: Default::default(),
                relays: BTreeMap::new(),
                ways: BTreeMap::new(),
                came: [0.0; 3],
                output: 0.0,
                estimate: capacity,
                busy: 0.0,
            }
        };
        Fluid {
            nodes: capacities.iter().enumerate().map(node).collect(),
            uplinks,
            orchestrator,
            options: options.clone(),
            delay,
            mail: BTreeMap::new(),
            sent: 0,
            now: Time::ZERO,
            round: MatchingRound::default(),
            tally: Tally::new(capacities.len()),
        }
    }

    /// One step in which so many bytes come to each class of each node.
    pub(super) fn step(&mut self, arrivals: &[[f64; 3]]) {
        self.now += STEP;
        let now = self.now;
        while let Some(entry) = self.mail.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let mail = entry.remove();
            self.deliver(mail);
        }
        for (node, bytes) in self.nodes.iter_mut().zip(arrivals) {
            for (class, &bytes) in bytes.iter().enumerate() {
                node.own[class].push(Chunk { born: now, came: now, bytes });
                node.came[class] += bytes;
                self.tally.came += bytes;
            }
        }
        let budgets = self.budgets();
        for (place, budget) in budgets.into_iter().enumerate() {
            self.serve(place, budget);
            self.redirect(place);
        }
        if (now.as_nanos() / STEP.as_nanos() as u64).is_multiple_of(MEASURE) {
            (0..self.nodes.len()).for_each(|place| self.measure(place));
        }
        self.orchestrator.handle(now, OrchestratorInput::Timeout);
        self.collect();
        let backlog = self.nodes.iter().flat_map(|node| &node.own).map(Queue::bytes).sum();
        self.tally.backlog(backlog);
    }

    fn post(&mut self, delay: Duration, mail: Mail) {
        self.sent += 1;
        self.mail.insert((self.now + delay, self.sent), mail);
    }

    fn deliver(&mut self, mail: Mail) {
        match mail {
            Mail::ToOrchestrator(input) => self.orchestrator.handle(self.now, input),
            Mail::ToAgent(place, input) => {
                self.nodes[place].agent.handle(self.now, input);
            }
            Mail::Credit(place, token, limit) => {
                if let Some(way) = self.nodes[place].ways.get_mut(&token) {
                    way.borrower.allow(limit);
                }
            }
            Mail::Records(place, grant, chunk) => {
                // A relay whose grant is over still carries what was within its credit.
                if let Some(relay) = self.nodes[place].relays.get_mut(&grant.token) {
                    relay.lender.take(Size(chunk.bytes as u64));
                    relay.queue.push(Chunk { came: self.now, ..chunk });
                }
            }
        }
    }

    /// What each node may send in this step.
    fn budgets(&self) -> Vec<f64> {
        let step = STEP.as_secs_f64();
        let Uplinks::Shared(all) = self.uplinks else {
            return self.nodes.iter().map(|node| node.capacity * step).collect();
        };
        // Max-min: who wants less than an equal part leaves the rest to the others.
        let wants = |node: &FluidNode| {
            let own: f64 = node.own.iter().map(Queue::bytes).sum();
            own + node.relays.values().map(|relay| relay.queue.bytes()).sum::<f64>()
        };
        let mut order: Vec<(f64, usize)> =
            self.nodes.iter().map(wants).enumerate().map(|(place, wants)| (wants, place)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut budgets = vec![0.0; order.len()];
        let mut left = all * step;
        for (done, (wants, place)) in order.iter().enumerate() {
            budgets[*place] = wants.min(left / (order.len() - done) as f64);
            left -= budgets[*place];
        }
        budgets
    }

    fn serve(&mut self, place: usize, mut budget: f64) {
        let (now, whole) = (self.now, budget);
        let node = &mut self.nodes[place];
        for (class, queue) in node.own.iter_mut().enumerate() {
            let sent = queue.take(budget, |chunk| self.tally.own(class, now, chunk));
            budget -= sent;
            node.output += sent;
        }
        let mut tokens: Vec<(u8, FencingToken)> =
            node.relays.iter().map(|(token, relay)| (relay.grant.class.0, *token)).collect();
        tokens.sort_unstable();
        let mut news = Vec::new();
        for (class, token) in tokens {
            let Some(relay) = node.relays.get_mut(&token) else { continue };
            let receiver = relay.grant.receiver.0 as usize;
            let class = usize::from(class);
            let each = |chunk| self.tally.redirected(class, now, chunk);
            let sent = relay.queue.take(budget, each);
            budget -= sent;
            relay.told += sent;
            let whole = Size(relay.told as u64);
            relay.told -= whole.as_f64();
            relay.lender.sent(whole);
            let held = node.agent.lent().find(|one| one.grant.token == token);
            let usable = held.map(|one| one.usable);
            if let Some(usable) = usable {
                let limit = relay.lender.limit(usable, self.options.credit);
                news.push((receiver, token, whole, limit));
            } else if relay.queue.bytes() <= 0.0 {
                node.relays.remove(&token);
            }
        }
        let used = whole - budget;
        // A law knows what it was able to send while something waited; else what it knew.
        let waits = node.own.iter().chain(node.relays.values().map(|relay| &relay.queue));
        let is_full = waits.map(Queue::bytes).sum::<f64>() > 0.0;
        if is_full {
            let step = STEP.as_secs_f64();
            node.estimate += (used / step - node.estimate) * 0.05;
        }
        node.busy += used;
        for (receiver, token, sent, limit) in news {
            self.nodes[place].agent.handle(now, AgentInput::Carried(token, sent));
            self.post(LINK, Mail::Credit(receiver, token, limit));
        }
    }

    /// What the own uplink has not taken goes by grants, bulk first: what is urgent leaves the node last.
    fn redirect(&mut self, place: usize) {
        let step = STEP.as_secs_f64();
        let mut sends = Vec::new();
        let FluidNode { agent, own, ways, .. } = &mut self.nodes[place];
        let mut grants: Vec<Grant> = agent.borrowed().map(|one| one.grant).collect();
        grants.sort_by_key(|grant| (std::cmp::Reverse(grant.class), grant.token));
        for grant in grants {
            let way = ways.entry(grant.token).or_default();
            let rate = grant.amount.0 as f64;
            way.pace = (way.pace + rate * step).min(rate * 0.05);
            let most = way.pace.min(way.borrower.room().as_f64()).floor();
            let queue = &mut own[usize::from(grant.class.0)];
            let sent = queue.take(most, |chunk| sends.push((grant, chunk)));
            way.pace -= sent;
            if sent > 0.0 {
                way.borrower.send(Size(sent.round() as u64));
            }
        }
        for (grant, chunk) in sends {
            let to = grant.provider.0 as usize;
            self.post(LINK, Mail::Records(to, grant, chunk));
        }
    }

    fn measure(&mut self, place: usize) {
        let span = STEP.as_secs_f64() * MEASURE as f64;
        let node = &mut self.nodes[place];
        let demand = |class: usize| {
            let backlog = Size(node.own[class].bytes() as u64);
            gross_demand(Rate::new(node.came[class] / span), backlog, BOUNDS[class])
        };
        let measured = Measured {
            capacity: Rate::new(node.estimate),
            demand: (0..3).map(demand).collect(),
            output: Rate::new(node.output / span),
        };
        (node.came, node.output) = ([0.0; 3], 0.0);
        node.agent.handle(self.now, AgentInput::Measured(measured));
    }

    /// What everybody has to say.
    fn collect(&mut self) {
        for place in 0..self.nodes.len() {
            while let Some(output) = self.nodes[place].agent.poll() {
                match output {
                    AgentOutput::Beat(beat) => {
                        let mail = Mail::ToOrchestrator(OrchestratorInput::Beat(beat));
                        self.post(self.delay, mail);
                    }
                    AgentOutput::Granted(grant) if grant.provider == NodeId(place as u64) => {
                        let new = || Relay {
                            grant,
                            lender: Lender::default(),
                            queue: Queue::default(),
                            told: 0.0,
                        };
                        self.nodes[place].relays.entry(grant.token).or_insert_with(new);
                    }
                    AgentOutput::Granted(_) => {}
                    AgentOutput::Ended(grant) => {
                        self.nodes[place].ways.remove(&grant.token);
                    }
                }
            }
        }
        while let Some(OrchestratorOutput::Directive(directive)) = self.orchestrator.poll() {
            let place = directive.node.0 as usize;
            self.post(self.delay, Mail::ToAgent(place, AgentInput::Directive(directive)));
        }
        let round = self.orchestrator.round();
        if round.number != self.round.number {
            self.round = round;
            self.tally.round(round);
        }
    }

    /// What is granted now, all together, in bytes/s.
    pub(super) fn granted(&self) -> f64 {
        let amounts = self.orchestrator.grants().map(|status| status.grant.amount.0);
        amounts.sum::<u64>() as f64
    }
}
