//! A model of a node: its log, its queues, its agent and its two books of redirected records.

use std::collections::{BTreeMap, VecDeque};

use tidegate_evaluation::custody::{Entrusted, Relayed};
use tidegate_fleet::{
    Agent, AgentInput, AgentOutput, Amount, FencingToken, FleetOptions, Grant, NodeId,
    ReachablePeer,
};
use tidegate_testing::fleets::{self, MEASURE, Member, Plan, Sent, Seq, TICK, Uplink};
use tidegate_types::demand::{Measured, gross_demand};
use tidegate_types::units::{Rate, Size, Time};

use crate::fleet::support::ms;

/// Bytes of every record.
pub(crate) const RECORD: u64 = 1000;
const BOUNDS: [u64; 3] = [50, 500, 1000];

/// What nodes say to each other by a link.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Record(FencingToken, Seq, bool),
    Credit(FencingToken, Size),
    Confirmed(Seq),
    Returned(Seq),
}

type Wish = fleets::Wish<Word>;

/// What a record is, in the log.
#[derive(Clone, Copy, Debug)]
struct Kept {
    class: usize,
    /// Whether it may have arrived.
    again: bool,
}

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    place: usize,
    incarnation: u64,
    agent: Agent,
    /// Accepted and not confirmed: it outlives the process.
    log: BTreeMap<Seq, Kept>,
    next: Seq,
    queues: [VecDeque<Seq>; 3],
    entrusted: Entrusted<Seq>,
    relayed: Relayed<Seq>,
    /// Marks of records that are relayed here.
    marks: BTreeMap<(usize, Seq), bool>,
    grants: BTreeMap<FencingToken, Grant>,
    paces: BTreeMap<FencingToken, f64>,
    /// Records that came in part, and the uplink's time that is not used up.
    coming: [f64; 3],
    budget: f64,
    came: [u64; 3],
    output: u64,
    wishes: VecDeque<Wish>,
}

impl Node {
    fn begin(place: usize) -> Self {
        Node {
            place,
            incarnation: 1,
            agent: Agent::new(NodeId(place as u64), 1, FleetOptions::default()),
            log: BTreeMap::new(),
            next: 0,
            queues: Default::default(),
            entrusted: Entrusted::default(),
            relayed: Relayed::default(),
            marks: BTreeMap::new(),
            grants: BTreeMap::new(),
            paces: BTreeMap::new(),
            coming: [0.0; 3],
            budget: 0.0,
            came: [0; 3],
            output: 0,
            wishes: VecDeque::new(),
        }
    }

    fn sent(&self, origin: usize, seq: Seq, class: usize, again: bool) -> Sent {
        Sent { origin, seq, class, again, ticket: (0, 0) }
    }

    /// So many records a second come to each class.
    fn arrive(&mut self, rates: [f64; 3]) {
        for (class, rate) in rates.into_iter().enumerate() {
            self.coming[class] += rate * TICK as f64 / 1e3;
            while self.coming[class] >= 1.0 {
                self.coming[class] -= 1.0;
                self.came[class] += 1;
                self.log.insert(self.next, Kept { class, again: false });
                self.queues[class].push_back(self.next);
                self.next += 1;
            }
        }
    }

    /// The uplink carries so many records a second: own ones first, then others' by class.
    fn serve(&mut self, now: Time, capacity: f64) {
        self.budget = (self.budget + capacity * TICK as f64 / 1e3).min(capacity * 0.05 + 1.0);
        while self.budget >= 1.0 {
            let own = self.queues.iter_mut().find_map(VecDeque::pop_front);
            let sent = match own {
                Some(seq) => {
                    self.output += 1;
                    let Kept { class, again } = self.log[&seq];
                    Some(self.sent(self.place, seq, class, again))
                }
                None => self.relay(now),
            };
            let Some(sent) = sent else { break };
            self.budget -= 1.0;
            self.wishes.push_back(Wish::Send(sent));
        }
    }

    fn relay(&mut self, now: Time) -> Option<Sent> {
        let mut tokens: Vec<FencingToken> = self.relayed.tokens().collect();
        tokens.sort_by_key(|token| (self.grants.get(token).map(|grant| grant.class), *token));
        let token = tokens.into_iter().find(|token| self.relayed.next(*token).is_some())?;
        let (receiver, seq) = self.relayed.send(token)?;
        self.agent.handle(now, AgentInput::Carried(token, Size(RECORD)));
        let origin = receiver.0 as usize;
        let again = self.marks.remove(&(origin, seq)).unwrap_or(true);
        let class = self.grants.get(&token)?.class.index();
        Some(self.sent(origin, seq, class, again))
    }

    /// What the own uplink cannot take soon goes by grants, bulk first.
    fn redirect(&mut self, capacity: f64) {
        let mut grants: Vec<Grant> = self.agent.borrowed().map(|one| one.grant).collect();
        grants.sort_by_key(|grant| (std::cmp::Reverse(grant.class), grant.token));
        for grant in grants {
            let class = usize::from(grant.class.0);
            let rate = grant.amount.0 as f64 / RECORD as f64;
            let pace = self.paces.entry(grant.token).or_insert(1.0);
            *pace = (*pace + rate * TICK as f64 / 1e3).min(rate * 0.1 + 1.0);
            let soon = (capacity * 0.1) as usize + 1;
            while *pace >= 1.0 {
                let ahead: usize = self.queues[..=class].iter().map(VecDeque::len).sum();
                let Some(&seq) = self.queues[class].front().filter(|_| ahead > soon) else { break };
                let Some(provider) = self.entrusted.entrust(grant.token, seq, Size(RECORD)) else {
                    break;
                };
                self.queues[class].pop_front();
                *pace -= 1.0;
                let word = Word::Record(grant.token, seq, self.log[&seq].again);
                self.wishes.push_back(Wish::Say(provider.0 as usize, word));
            }
        }
    }

    fn measure(&mut self, now: Time, capacity: f64, span_ms: u64) {
        let a_second = |records: u64| Rate::new((records * RECORD) as f64 * 1e3 / span_ms as f64);
        let demand = |class: usize| {
            let backlog = Size(self.queues[class].len() as u64 * RECORD);
            gross_demand(a_second(self.came[class]), backlog, ms(BOUNDS[class]))
        };
        let measured = Measured {
            capacity: Rate::new(capacity * RECORD as f64),
            demand: (0..3).map(demand).collect(),
            output: a_second(self.output),
        };
        (self.came, self.output) = ([0; 3], 0);
        self.agent.handle(now, AgentInput::Measured(measured));
        let lent: Vec<(FencingToken, u64, Amount)> = self
            .agent
            .lent()
            .map(|one| (one.grant.token, one.grant.receiver.0, one.usable))
            .collect();
        for (token, receiver, usable) in lent {
            let window = FleetOptions::default().credit;
            if let Some(limit) = self.relayed.limit(token, usable, window) {
                self.wishes.push_back(Wish::Say(receiver as usize, Word::Credit(token, limit)));
            }
        }
    }

    fn granted(&mut self, grant: Grant) {
        self.grants.insert(grant.token, grant);
        if grant.provider.0 == self.place as u64 {
            self.relayed.begin(grant.token, grant.receiver);
        } else {
            self.entrusted.begin(grant.token, grant.provider);
        }
    }

    fn end(&mut self, grant: Grant) {
        self.grants.remove(&grant.token);
        self.paces.remove(&grant.token);
        self.entrusted.end(grant.token);
        let receiver = grant.receiver.0 as usize;
        for seq in self.relayed.end(grant.token) {
            self.marks.remove(&(receiver, seq));
            self.wishes.push_back(Wish::Say(receiver, Word::Returned(seq)));
        }
    }

    /// The oldest of its class goes first.
    fn requeue(&mut self, seq: Seq) {
        let queue = &mut self.queues[self.log[&seq].class];
        let place = queue.partition_point(|other| *other < seq);
        queue.insert(place, seq);
    }
}

impl Member for Node {
    type Word = Word;
    const PATIENCE: u64 = 0;
    const IS_FENCED: bool = false;

    fn new(place: usize, _: &Plan) -> Self {
        Node::begin(place)
    }

    fn agent(&self) -> &Agent {
        &self.agent
    }

    fn agent_mut(&mut self) -> &mut Agent {
        &mut self.agent
    }

    fn die(&mut self) {
        let mut new = Node::begin(self.place);
        new.incarnation = self.incarnation + 1;
        new.agent = Agent::new(NodeId(self.place as u64), new.incarnation, FleetOptions::default());
        new.next = self.next;
        new.log = std::mem::take(&mut self.log);
        for (seq, kept) in &mut new.log {
            // The log does not say what was sent.
            kept.again = true;
            new.queues[kept.class].push_back(*seq);
        }
        *self = new;
    }

    fn start(&mut self, _: Time) {}

    fn work(&mut self, now: Time, rates: [f64; 3], uplink: Uplink, is_measure: bool) {
        let capacity = uplink.carries();
        self.arrive(rates);
        self.serve(now, capacity);
        self.redirect(capacity);
        if is_measure {
            self.measure(now, capacity, MEASURE * TICK);
        } else {
            self.agent.handle(now, AgentInput::Timeout);
        }
    }

    fn obey(&mut self, _: Time) {
        while let Some(output) = self.agent.poll() {
            match output {
                AgentOutput::Beat(beat) => self.wishes.push_back(Wish::Beat(beat)),
                AgentOutput::Granted(grant) => self.granted(grant),
                AgentOutput::Ended(grant) => self.end(grant),
            }
        }
    }

    fn hear(&mut self, _: Time, from: usize, word: Word) {
        let peer = NodeId(from as u64);
        match word {
            Word::Record(token, seq, again) if self.relayed.take(token, seq, Size(RECORD)) => {
                self.marks.insert((from, seq), again);
            }
            Word::Record(_, seq, _) => self.wishes.push_back(Wish::Say(from, Word::Returned(seq))),
            Word::Credit(token, limit) => self.entrusted.allow(token, limit),
            Word::Confirmed(seq) => {
                if self.entrusted.answered(peer, seq) {
                    self.log.remove(&seq);
                }
            }
            Word::Returned(seq) => {
                if self.entrusted.answered(peer, seq) {
                    self.requeue(seq);
                }
            }
        }
    }

    fn is_record(word: &Word) -> bool {
        matches!(word, Word::Record(..))
    }

    /// A life of a link is over, in this order at both ends.
    fn lose(&mut self, now: Time, peer: usize) {
        for seq in self.entrusted.take_back(NodeId(peer as u64)) {
            if let Some(kept) = self.log.get_mut(&seq) {
                kept.again = true;
                self.requeue(seq);
            }
        }
        self.relayed.forget(NodeId(peer as u64));
        self.marks.retain(|(origin, _), _| *origin != peer);
        self.agent.handle(now, AgentInput::PeerLost(NodeId(peer as u64)));
    }

    /// A new life of a link begins: credits of what is lent count from here.
    fn meet(&mut self, _: Time, peer: usize) {
        let its = |grant: &&Grant| grant.receiver.0 == peer as u64;
        let lent: Vec<Grant> = self.grants.values().filter(its).copied().collect();
        lent.into_iter().for_each(|grant| self.granted(grant));
    }

    fn reach(&mut self, now: Time, peers: &[usize]) {
        let reach = |peer: &usize| ReachablePeer { node: NodeId(*peer as u64), distance: 1 };
        self.agent.handle(now, AgentInput::Peers(peers.iter().map(reach).collect()));
    }

    fn confirmed(&mut self, _: Time, sent: Sent) {
        if sent.origin == self.place {
            // A record that was sent twice is confirmed twice.
            self.log.remove(&sent.seq);
        } else if self.relayed.confirmed(NodeId(sent.origin as u64), sent.seq) {
            self.wishes.push_back(Wish::Say(sent.origin, Word::Confirmed(sent.seq)));
        }
    }

    fn wishes(&mut self) -> &mut VecDeque<Wish> {
        &mut self.wishes
    }

    fn accepted(&self) -> impl Iterator<Item = Seq> + '_ {
        0..self.next
    }

    fn left(&self) -> Option<String> {
        let (log, away) = (self.log.len(), self.entrusted.len());
        (log + away > 0).then(|| format!("waits for {log} records, {away} away"))
    }

    fn is_away(&self, _: Seq, _: usize) -> bool {
        true
    }

    fn may_repeat(&self) -> u64 {
        u64::MAX
    }
}
