//! The world of a seed: nodes, links between them, orchestrators, the election's store and the far end.
//!
//! Beats and directives may be lost, come twice, come late and in any order. Links between nodes are
//! reliable while they live; what was under way when a life ends is gone.

use std::collections::{BTreeMap, VecDeque};

use tidegate_fleet::{
    Agent, AgentInput, Directive, FleetOptions, Heartbeat, Orchestrator, OrchestratorInput,
    OrchestratorOutput,
};
use tidegate_types::units::Time;

use super::checks::Checks;
use super::member::{Member, Sent, Wish};
use super::plan::{ORCHESTRATORS, Party, Plan};
use super::random::Random;

mod leaders;
mod links;

/// Milliseconds from a node to the far end, and back.
pub(super) const FAR: u64 = 25;
/// Milliseconds between two tries to be or stay leader; how long the store keeps one.
const ELECTION: u64 = 500;
const LEADER_LEASE: u64 = 2000;

/// Something under way.
#[derive(Clone, Debug)]
enum Mail {
    Beat(usize, Heartbeat),
    Directive(Directive),
    AtFarEnd(usize, u64, Sent),
    Confirm(usize, u64, Sent),
}

/// A link between two nodes, in both directions.
#[derive(Debug)]
struct Link<W> {
    /// Whether the lower and the higher end hold it to be alive.
    is_open: [bool; 2],
    /// Since when it has been unusable.
    broken: Option<u64>,
    /// When each end notices.
    notices: [u64; 2],
    under_way: [VecDeque<(u64, W)>; 2],
}

impl<W> Default for Link<W> {
    fn default() -> Self {
        let under_way = Default::default();
        Link { is_open: [false; 2], broken: None, notices: [0; 2], under_way }
    }
}

#[derive(Debug)]
struct Leader {
    orchestrator: Orchestrator,
    /// Until when it may believe to lead, in ticks.
    believes: u64,
    waiting: Vec<Heartbeat>,
    was_stalled: bool,
}

/// What the store knows.
#[derive(Clone, Copy, Debug, Default)]
struct Store {
    leader: Option<usize>,
    until: u64,
    revision: u64,
}

/// The world.
#[derive(Debug)]
pub struct World<N: Member> {
    plan: Plan,
    random: Random,
    is_fleet: bool,
    tick: u64,
    nodes: Vec<N>,
    alive: Vec<Option<u64>>,
    links: BTreeMap<(usize, usize), Link<N::Word>>,
    leaders: Vec<Leader>,
    store: Store,
    /// The orchestrator that each node talks to, and since when it has heard nothing of it.
    follows: Vec<Option<usize>>,
    mute: Vec<u64>,
    mail: BTreeMap<(u64, u64), Mail>,
    posted: u64,
    checks: Checks,
}

impl<N: Member> World<N> {
    pub fn new(seed: u64, is_fleet: bool) -> Self {
        World::of(N::plan(seed), seed, is_fleet)
    }

    pub fn of(plan: Plan, seed: u64, is_fleet: bool) -> Self {
        let nodes = plan.nodes;
        let pairs = (0..nodes).flat_map(|a| (a + 1..nodes).map(move |b| (a, b)));
        let leader = |_| Leader {
            orchestrator: Orchestrator::new(FleetOptions::default()),
            believes: 0,
            waiting: Vec::new(),
            was_stalled: false,
        };
        World {
            random: Random::new(seed, 2),
            is_fleet,
            tick: 0,
            nodes: (0..nodes).map(|place| N::new(place, &plan)).collect(),
            alive: vec![Some(1); nodes],
            links: pairs.map(|pair| (pair, Link::default())).collect(),
            leaders: (0..ORCHESTRATORS).map(leader).collect(),
            store: Store::default(),
            follows: vec![None; nodes],
            mute: vec![0; nodes],
            mail: BTreeMap::new(),
            posted: 0,
            checks: Checks::new(&plan),
            plan,
        }
    }

    /// Runs to the end; answers with what was checked.
    pub fn run(mut self) -> Checks {
        for _ in 0..self.plan.active() + self.plan.quiet() {
            self.step();
            // An idle world does nothing any more.
            if self.tick > self.plan.active() && self.tick.is_multiple_of(40) && self.is_idle() {
                break;
            }
        }
        self.checks.end(self.tick, &self.nodes);
        self.checks
    }

    /// Whether all is delivered and nobody holds anything of anybody.
    fn is_idle(&self) -> bool {
        let holds = |agent: &Agent| agent.lent().next().or(agent.borrowed().next()).is_some();
        self.nodes.iter().all(|node| node.left().is_none() && !holds(node.agent()))
    }

    fn step(&mut self) {
        self.tick += 1;
        self.live_and_die();
        self.deliver();
        if self.is_fleet {
            self.connect();
            self.elect();
            self.lead();
        }
        for place in 0..self.nodes.len() {
            if self.stands(place) {
                continue;
            }
            if self.alive[place].is_some() {
                self.work(place);
            }
            self.obey(place);
        }
        let is_alive: Vec<bool> = self.alive.iter().map(Option::is_some).collect();
        self.checks.tick(self.tick, &self.nodes, &is_alive);
    }

    /// What a party's clock shows.
    fn now(&self, party: Party) -> Time {
        let clock = match party {
            Party::Node(place) => place,
            Party::Orchestrator(place) => self.plan.nodes + place,
            Party::Store => return Time::ZERO,
        };
        Time::from_nanos(self.plan.clocks[clock].shows(self.tick * self.plan.tick * 1_000_000))
    }

    /// Whether a node's process stands still.
    fn stands(&self, place: usize) -> bool {
        self.plan.is_stalled(Party::Node(place), self.tick) && self.alive[place].is_some()
    }

    fn is_up(&self, party: Party) -> bool {
        !self.plan.is_killed(party, self.tick)
    }

    fn is_open(&self, a: Party, b: Party) -> bool {
        self.is_up(a) && self.is_up(b) && !self.plan.is_cut(a, b, self.tick)
    }

    fn post(&mut self, ticks: u64, mail: Mail) {
        self.posted += 1;
        self.mail.insert((self.tick + ticks, self.posted), mail);
    }

    /// Beats and directives: most take some 10 ms, some a second or three, some are lost or come twice.
    fn post_loosely(&mut self, mail: Mail) {
        let copies = match self.random.share() {
            share if share < 0.02 => 0,
            share if share < 0.04 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let most = if self.random.happens(0.02) { 3000 } else { 150 };
            let ticks = self.random.between(1, self.plan.ticks(most));
            self.post(ticks, mail.clone());
        }
    }

    fn live_and_die(&mut self) {
        for place in 0..self.nodes.len() {
            let is_up = self.is_up(Party::Node(place));
            let now = self.now(Party::Node(place));
            match self.alive[place] {
                Some(life) if !is_up => {
                    self.nodes[place].die();
                    self.alive[place] = None;
                    self.follows[place] = None;
                    self.mute[place] = life;
                }
                None if is_up => {
                    self.nodes[place].start(now);
                    self.alive[place] = Some(self.mute[place] + 1);
                }
                _ => {}
            }
        }
        for place in 0..ORCHESTRATORS {
            if !self.is_up(Party::Orchestrator(place)) {
                let leader = &mut self.leaders[place];
                leader.orchestrator = Orchestrator::new(FleetOptions::default());
                leader.waiting.clear();
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.mail.first_entry() {
            if entry.key().0 > self.tick {
                break;
            }
            match entry.remove() {
                Mail::Beat(to, beat) => {
                    let from = Party::Node(beat.node.0 as usize);
                    if self.is_open(from, Party::Orchestrator(to)) {
                        self.leaders[to].waiting.push(beat);
                    }
                }
                Mail::Directive(directive) if self.stands(directive.node.0 as usize) => {
                    self.post(1, Mail::Directive(directive));
                }
                Mail::Confirm(by, life, sent) if self.stands(by) => {
                    self.post(1, Mail::Confirm(by, life, sent));
                }
                Mail::Directive(directive) => {
                    let place = directive.node.0 as usize;
                    if self.alive[place].is_some() {
                        let now = self.now(Party::Node(place));
                        let agent = self.nodes[place].agent_mut();
                        let is_late = directive.fence.revision < agent.heard().revision;
                        self.checks.refused += u64::from(is_late);
                        agent.handle(now, AgentInput::Directive(directive));
                    }
                }
                Mail::AtFarEnd(by, life, sent) => {
                    self.checks.arrived(self.tick, by, sent);
                    self.post(self.plan.ticks(FAR), Mail::Confirm(by, life, sent));
                }
                Mail::Confirm(by, life, sent) => {
                    if self.alive[by] == Some(life) {
                        let now = self.now(Party::Node(by));
                        self.nodes[by].confirmed(now, sent);
                    }
                }
            }
        }
        let mut words = Vec::new();
        for (&(a, b), link) in &mut self.links {
            let is_cut = self.plan.is_cut(Party::Node(a), Party::Node(b), self.tick);
            for (end, queue) in link.under_way.iter_mut().enumerate() {
                let (from, to) = if end == 0 { (a, b) } else { (b, a) };
                // What is said to a process that died, or to an end that gave the link up, nobody hears.
                if !link.is_open[1 - end] {
                    queue.clear();
                }
                let is_cut = is_cut || self.plan.is_stalled(Party::Node(to), self.tick);
                while queue.front().is_some_and(|(due, _)| *due <= self.tick && !is_cut) {
                    let word = queue.pop_front().map(|(_, word)| word);
                    words.extend(word.map(|word| (from, to, word)));
                }
            }
        }
        for (from, to, word) in words {
            if self.alive[to].is_some() {
                let now = self.now(Party::Node(to));
                self.nodes[to].hear(now, from, word);
            }
        }
    }

    fn work(&mut self, place: usize) {
        let now = self.now(Party::Node(place));
        let uplink = self.plan.uplink(place, self.tick);
        let rates = self.plan.level(place, self.tick);
        let is_measure = self.tick.is_multiple_of(self.plan.measure());
        self.nodes[place].work(now, rates, uplink, is_measure);
        let came = self.nodes[place].take_came();
        self.checks.came(self.tick, place, &came);
        self.checks.behind.extend(self.nodes[place].take_behind());
    }

    fn obey(&mut self, place: usize) {
        let now = self.now(Party::Node(place));
        self.nodes[place].obey(now);
        let Some(life) = self.alive[place] else {
            self.nodes[place].wishes().clear();
            return;
        };
        while let Some(wish) = self.nodes[place].wishes().pop_front() {
            match wish {
                Wish::Beat(beat) => {
                    if let Some(leader) = self.follows[place] {
                        self.post_loosely(Mail::Beat(leader, beat));
                    }
                }
                Wish::Say(peer, word) => {
                    self.checks.redirected += u64::from(N::is_record(&word));
                    let due = self.tick + self.random.between(1, 2);
                    let end = usize::from(place > peer);
                    let pair = (place.min(peer), place.max(peer));
                    if let Some(link) = self.links.get_mut(&pair).filter(|one| one.is_open[end]) {
                        let last = link.under_way[end].back().map_or(0, |(due, _)| *due);
                        link.under_way[end].push_back((due.max(last), word));
                    }
                }
                Wish::Pick(sent) => self.check_fence(place, sent),
                Wish::Send(sent) => {
                    self.post(self.plan.ticks(FAR), Mail::AtFarEnd(place, life, sent))
                }
            }
        }
    }

    /// What a receiver took back its provider sends no more, unless the receiver was a process that died.
    fn check_fence(&mut self, by: usize, sent: Sent) {
        let Sent { origin, seq, .. } = sent;
        let is_own = origin == by || self.alive[origin].is_none();
        if !N::IS_FENCED || is_own || self.nodes[origin].is_away(seq, by) {
            return;
        }
        self.checks.unfenced(self.tick, by, sent);
    }
}
