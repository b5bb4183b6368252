//! A node's part in the fleet: says what it has and wants, holds its grants, and needs nobody to go on.
//!
//! It keeps grants on its own monotonic clock. A receiver counts a lease from when it sent the beat that
//! the directive answers, so a directive that was long under way lengthens nothing; a provider counts from
//! when it heard it, and somewhat longer: whatever the delays, the receiver stops first.

use std::collections::{BTreeMap, VecDeque};

use tidegate_types::class::ClassId;
use tidegate_types::units::{Rate, Size, Time};

use super::held::{HeldGrant, HeldPermits};
use super::message::{CarriedGrant, Directive, Fence, Heartbeat, ReachablePeer};
use super::moving_average::{CarriedFlow, Smooth};
use super::standing;
use tidegate_types::demand::Measured;

use super::{Amount, FencingToken, FleetOptions, Grant, NodeId, Tuple};

/// Beats of which the time of sending is known: more than are under way in any lease.
const BEATS_KNOWN: usize = 32;

/// What a driver tells an agent.
#[derive(Clone, Debug)]
pub enum AgentInput {
    /// New figures.
    Measured(Measured),
    /// The provider's uplink has carried so much of a grant since the last time.
    Carried(FencingToken, Size),
    /// The peers that it reaches have changed.
    Peers(Vec<ReachablePeer>),
    /// The link to a peer is gone: what it lent is worth nothing.
    PeerLost(NodeId),
    /// A leader is there to talk to, or none is any more.
    Leader(bool),
    /// From whoever holds itself to be the leader.
    Directive(Directive),
    /// Time has come.
    Timeout,
}

/// What an agent tells its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentOutput {
    /// To be sent to the leader.
    Beat(Heartbeat),
    /// A grant is new, or its amount has changed: as provider or as receiver.
    Granted(Grant),
    /// A grant is over.
    Ended(Grant),
}

/// The state machine of one node.
#[derive(Debug)]
pub struct Agent {
    node: NodeId,
    incarnation: u64,
    options: FleetOptions,
    /// Averages of what was measured.
    demand: Vec<Smooth>,
    capacity: Smooth,
    output: Smooth,
    tuple: Tuple,
    held: BTreeMap<FencingToken, HeldGrant>,
    /// They outlive leaders and links.
    standing: HeldPermits,
    heard: Fence,
    has_leader: bool,
    peers: Vec<ReachablePeer>,
    /// The first beat that told them, and whether the leader has answered that or a later one.
    peers_told: Option<u64>,
    peers_heard: bool,
    /// Beats so far, and when the last ones were sent.
    number: u64,
    sent: VecDeque<(u64, Time)>,
    /// What the last beat said, and when.
    told: Option<(Time, Tuple)>,
    /// Something that a beat says has changed and cannot wait.
    is_urgent: bool,
    outputs: VecDeque<AgentOutput>,
}

impl Agent {
    /// An agent that has measured nothing. The incarnation is new for each process.
    pub fn new(node: NodeId, incarnation: u64, options: FleetOptions) -> Self {
        let classes = options.classes;
        Agent {
            node,
            incarnation,
            demand: vec![Smooth::default(); classes],
            capacity: Smooth::default(),
            output: Smooth::default(),
            tuple: Tuple { capacity: Amount::ZERO, demand: vec![Amount::ZERO; classes] },
            held: BTreeMap::new(),
            standing: HeldPermits::default(),
            heard: Fence::default(),
            has_leader: false,
            peers: Vec::new(),
            peers_told: None,
            peers_heard: false,
            number: 0,
            sent: VecDeque::new(),
            told: None,
            is_urgent: false,
            outputs: VecDeque::new(),
            options,
        }
    }

    /// Something happened.
    ///
    /// # Panics
    /// On figures of another number of classes.
    pub fn handle(&mut self, now: Time, input: AgentInput) {
        self.expire(now);
        match input {
            AgentInput::Measured(measured) => self.measure(now, &measured),
            AgentInput::Carried(token, size) => {
                if let Some(holding) = self.held.get_mut(&token) {
                    holding.carried.count(size);
                }
            }
            AgentInput::Peers(peers) => {
                self.is_urgent |= self.peers != peers;
                self.peers = peers;
                self.tell_peers();
            }
            AgentInput::PeerLost(peer) => {
                self.end_where(|grant| grant.provider == peer);
                self.is_urgent = true;
            }
            AgentInput::Leader(is_there) => {
                self.has_leader = is_there;
                // A new leader knows nothing: it is told everything at once.
                self.tell_peers();
                self.told = None;
            }
            AgentInput::Directive(directive) => self.obey(now, &directive),
            AgentInput::Timeout => {}
        }
        self.beat(now);
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<AgentOutput> {
        self.outputs.pop_front()
    }

    /// When time alone changes something.
    pub fn next_timeout(&self) -> Option<Time> {
        let held = self.held.values().chain(self.standing.all());
        let ends = held.map(|holding| holding.until).filter(|until| *until < Time::FAR);
        let beat = self.beat_due().filter(|_| self.has_leader);
        ends.chain(beat).min()
    }

    /// Grants by which others' records come here.
    pub fn lent(&self) -> impl Iterator<Item = &HeldGrant> + '_ {
        self.held.values().filter(|holding| holding.grant.provider == self.node)
    }

    /// Grants by which records go from here.
    pub fn borrowed(&self) -> impl Iterator<Item = &HeldGrant> + '_ {
        self.held.values().filter(|holding| holding.grant.receiver == self.node)
    }

    /// Standing permits, as provider and as receiver.
    pub fn standing(&self) -> impl Iterator<Item = &HeldGrant> + '_ {
        self.standing.all()
    }

    /// Provider and receiver have agreed on a standing permit by their configurations: no leader changes it.
    pub fn agree(&mut self, (provider, receiver): (NodeId, NodeId), amount: Amount) {
        self.standing.agree((provider, receiver), standing::class(self.options.classes), amount);
    }

    /// What it may send by each provider now, by class, and until when: all grants and permits of a pair and a class
    /// together, until the first of them ends.
    pub fn borrowing(&self) -> BTreeMap<(NodeId, ClassId), (Amount, Time)> {
        let mut all = BTreeMap::new();
        let own = |held: &&HeldGrant| held.grant.receiver == self.node;
        for holding in self.held.values().chain(self.standing.all()).filter(own) {
            let key = (holding.grant.provider, holding.grant.class);
            let (amount, until) = all.entry(key).or_insert((Amount::ZERO, Time::FAR));
            *amount += holding.usable;
            *until = holding.until.min(*until);
        }
        all
    }

    /// What is reserved of its uplink for neighbours' records of each class now, the most urgent class first, and until
    /// when.
    pub fn reserved(&self) -> Vec<(Amount, Time)> {
        let mut all = vec![(Amount::ZERO, Time::ZERO); self.options.classes];
        let own = |held: &&HeldGrant| held.grant.provider == self.node;
        for holding in self.held.values().chain(self.standing.all()).filter(own) {
            let Some((amount, until)) = all.get_mut(holding.grant.class.index()) else { continue };
            *amount += holding.usable;
            *until = holding.until.max(*until);
        }
        all
    }

    /// The grant by which records of a receiver and a class come here, if there is one.
    pub fn lent_to(&self, receiver: NodeId, class: ClassId) -> Option<FencingToken> {
        let is_its = |holding: &&HeldGrant| {
            holding.grant.receiver == receiver && holding.grant.class == class
        };
        self.lent().find(is_its).map(|holding| holding.grant.token)
    }

    /// What the next beat would say of it.
    pub fn tuple(&self) -> &Tuple {
        &self.tuple
    }

    /// The newest directive that it obeyed.
    pub fn heard(&self) -> Fence {
        self.heard
    }

    fn measure(&mut self, now: Time, measured: &Measured) {
        assert_eq!(measured.demand.len(), self.options.classes, "one figure a class");
        let constant = self.options.smoothing;
        self.capacity.add(now, measured.capacity.as_f64(), constant);
        // A fall is true at once: what is not there cannot be lent.
        let capacity = self.capacity.value().min(measured.capacity.as_f64());
        self.tuple.capacity = whole(capacity);
        self.output.add(now, measured.output.as_f64(), constant);
        for ((smooth, told), rate) in
            self.demand.iter_mut().zip(&mut self.tuple.demand).zip(&measured.demand)
        {
            smooth.add(now, rate.as_f64(), constant);
            *told = whole(smooth.value());
        }
        self.fit();
    }

    /// The provider's own records go first: what it lends shrinks to what is left, the least urgent of it
    /// first, without asking anybody.
    fn fit(&mut self) {
        let mut left = self.tuple.capacity.saturating_sub(self.tuple.total());
        let lent = self.held.values_mut().filter(|holding| holding.grant.provider == self.node);
        let mut lent: Vec<&mut HeldGrant> = lent.collect();
        lent.sort_by_key(|holding| (holding.grant.class, holding.grant.token));
        for holding in lent {
            holding.usable = holding.grant.amount.min(left);
            left -= holding.usable;
        }
        self.standing.fit(self.node, standing::most(self.tuple.capacity, self.options.standing));
    }

    fn tell_peers(&mut self) {
        (self.peers_told, self.peers_heard) = (None, false);
    }

    fn obey(&mut self, now: Time, directive: &Directive) {
        let is_ours = directive.node == self.node && directive.incarnation == self.incarnation;
        if !is_ours || directive.fence <= self.heard {
            return;
        }
        self.heard = directive.fence;
        self.peers_heard |= self.peers_told.is_some_and(|told| told <= directive.beat);
        let asked = self.sent.iter().find(|(number, _)| *number == directive.beat);
        // The answer to a beat of long ago gives no time at all.
        let borrowed_until = asked.map_or(now, |(_, at)| *at + directive.lease);
        if let Some(standing) = &directive.standing {
            let began = [Some(now + self.options.lease_extra), asked.map(|(_, at)| *at)];
            self.standing.obey((self.node, began), directive.fence.revision, standing);
        }
        let is_listed = |grant: &Grant| directive.grants.iter().any(|one| one.token == grant.token);
        self.end_where(|grant| !is_listed(grant));
        for grant in &directive.grants {
            let until = if grant.provider == self.node {
                now + directive.lease + self.options.lease_extra
            } else {
                borrowed_until
            };
            self.hold(now, *grant, until);
        }
        self.fit();
    }

    fn hold(&mut self, now: Time, grant: Grant, until: Time) {
        let is_party = [grant.provider, grant.receiver].contains(&self.node);
        if !is_party || until <= now {
            return;
        }
        let carried = CarriedFlow::new(now);
        let new = HeldGrant { grant, usable: Amount::ZERO, until, carried };
        let is_known = self.held.contains_key(&grant.token);
        let holding = self.held.entry(grant.token).or_insert(new);
        let has_changed = !is_known || holding.grant.amount != grant.amount;
        holding.grant.amount = grant.amount;
        holding.usable = grant.amount;
        holding.until = holding.until.max(until);
        if has_changed {
            self.outputs.push_back(AgentOutput::Granted(grant));
        }
    }

    fn end_where(&mut self, is_over: impl Fn(&Grant) -> bool) {
        let outputs = &mut self.outputs;
        self.held.retain(|_, holding| {
            let stays = !is_over(&holding.grant);
            if !stays {
                outputs.push_back(AgentOutput::Ended(holding.grant));
            }
            stays
        });
    }

    fn expire(&mut self, now: Time) {
        self.standing.expire(now);
        let over: Vec<FencingToken> = self
            .held
            .values()
            .filter(|holding| holding.until <= now)
            .map(|holding| holding.grant.token)
            .collect();
        if !over.is_empty() {
            self.end_where(|grant| over.contains(&grant.token));
            self.fit();
            self.is_urgent = true;
        }
    }

    /// Whether the tuple is no longer what was told: by a part of the capacity, or from short to not.
    fn has_changed(&self, told: &Tuple) -> bool {
        let most = told.capacity.max(self.tuple.capacity).times(self.options.change.as_f64());
        let differs = |now: Amount, told: Amount| now.0.abs_diff(told.0) > most.0;
        let mut demands = self.tuple.demand.iter().zip(&told.demand);
        differs(self.tuple.capacity, told.capacity)
            || demands.any(|(now, told)| differs(*now, *told))
    }

    fn beat_due(&self) -> Option<Time> {
        let Some((at, tuple)) = &self.told else { return Some(Time::ZERO) };
        let is_soon = self.is_urgent || self.has_changed(tuple);
        let (longest, shortest) = self.options.beats;
        Some(*at + if is_soon { shortest } else { longest })
    }

    fn beat(&mut self, now: Time) {
        let is_due = self.beat_due().is_some_and(|due| due <= now);
        if !self.has_leader || !is_due {
            return;
        }
        self.number += 1;
        self.sent.push_back((self.number, now));
        if self.sent.len() > BEATS_KNOWN {
            self.sent.pop_front();
        }
        self.told = Some((now, self.tuple.clone()));
        self.is_urgent = false;
        let peers = (!self.peers_heard).then(|| self.peers.clone());
        self.peers_told = self.peers_told.or(Some(self.number));
        let constant = self.options.smoothing;
        let node = self.node;
        let tell = |holding: &mut HeldGrant| {
            let carried = holding.carried.rate(now, constant);
            let is_lent = holding.grant.provider == node;
            let carried = if is_lent { Amount::of(carried) } else { Amount::ZERO };
            CarriedGrant { grant: holding.grant, carried }
        };
        let held = self.held.values_mut().map(tell).collect();
        self.outputs.push_back(AgentOutput::Beat(Heartbeat {
            node: self.node,
            incarnation: self.incarnation,
            number: self.number,
            heard: self.heard,
            tuple: self.tuple.clone(),
            output: whole(self.output.value()),
            peers,
            held,
        }));
    }
}

/// The nearest whole amount.
fn whole(bytes_per_second: f64) -> Amount {
    Amount::of(Rate::new(bytes_per_second.round()))
}
