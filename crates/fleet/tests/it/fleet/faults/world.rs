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
use super::plan::{ACTIVE, MEASURE, ORCHESTRATORS, Party, Plan, QUIET, TICK};
use super::random::Random;

/// Ticks from a node to the far end, and back.
const FAR: u64 = 1;
/// Ticks between two tries to be or stay leader; how long the store keeps one.
const ELECTION: u64 = 500 / TICK;
const LEADER_LEASE: u64 = 2000 / TICK;

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
pub(crate) struct World<N: Member> {
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
    pub(crate) fn new(seed: u64, is_fleet: bool) -> Self {
        World::of(N::plan(seed), seed, is_fleet)
    }

    pub(crate) fn of(plan: Plan, seed: u64, is_fleet: bool) -> Self {
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
            checks: Checks::new(&plan.capacity),
            plan,
        }
    }

    /// Runs to the end; answers with what was checked.
    pub(crate) fn run(mut self) -> Checks {
        for _ in 0..ACTIVE + QUIET {
            self.step();
            // An idle world does nothing any more.
            if self.tick > ACTIVE && self.tick.is_multiple_of(40) && self.is_idle() {
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
        Time::from_nanos(self.plan.clocks[clock].shows(self.tick * TICK * 1_000_000))
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
            let ticks = self.random.between(1, most / TICK);
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
                    self.post(FAR, Mail::Confirm(by, life, sent));
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

    /// Links live, break, are noticed to be broken, and are made anew.
    fn connect(&mut self) {
        let mut changed = vec![false; self.nodes.len()];
        for pair in self.links.keys().copied().collect::<Vec<_>>() {
            let ends = [pair.0, pair.1];
            let stands = ends.map(|place| self.stands(place));
            let is_usable =
                stands == [false; 2] && self.is_open(Party::Node(pair.0), Party::Node(pair.1));
            let mut notices = [0, 1];
            for notice in &mut notices {
                let detection = self.random.between(500 / TICK, 2000 / TICK);
                *notice = self.tick + detection + N::PATIENCE / TICK;
            }
            let tick = self.tick;
            let link = self.links.get_mut(&pair).expect("it is one of them");
            if is_usable {
                link.broken = None;
            } else if link.broken.is_none() {
                (link.broken, link.notices) = (Some(tick), notices);
            }
            let mut lost = Vec::new();
            for (end, place) in ends.into_iter().enumerate() {
                let is_dead = self.alive[place].is_none();
                let has_noticed =
                    link.broken.is_some() && link.notices[end] <= tick && !stands[end];
                if link.is_open[end] && (is_dead || has_noticed) {
                    link.is_open[end] = false;
                    lost.push(place);
                }
            }
            let is_new = is_usable && link.is_open != [true, true];
            if is_new {
                // Whoever still held the old life to be alive hears now that it is over.
                let open = ends.into_iter().zip(link.is_open).filter(|(_, is_open)| *is_open);
                lost.extend(open.map(|(place, _)| place));
                link.is_open = [true, true];
            }
            if !lost.is_empty() || is_new {
                link.under_way = Default::default();
            }
            for place in &lost {
                let now = self.now(Party::Node(*place));
                let peer = if *place == pair.0 { pair.1 } else { pair.0 };
                if self.alive[*place].is_some() {
                    self.nodes[*place].lose(now, peer);
                }
            }
            if is_new {
                for (place, peer) in [pair, (pair.1, pair.0)] {
                    let now = self.now(Party::Node(place));
                    self.nodes[place].meet(now, peer);
                }
            }
            ends.into_iter().for_each(|place| changed[place] |= is_new || !lost.is_empty());
        }
        for place in (0..self.nodes.len()).filter(|&place| changed[place]) {
            let peers: Vec<usize> =
                (0..self.nodes.len()).filter(|&peer| self.is_linked(place, peer)).collect();
            let now = self.now(Party::Node(place));
            self.nodes[place].reach(now, &peers);
        }
        (0..self.nodes.len()).for_each(|place| self.follow(place));
    }

    fn is_linked(&self, place: usize, peer: usize) -> bool {
        let link = self.links.get(&(place.min(peer), place.max(peer)));
        link.is_some_and(|link| link.is_open[usize::from(place > peer)])
    }

    /// A node finds a leader, and finds out that it has none.
    fn follow(&mut self, place: usize) {
        if self.alive[place].is_none() || self.stands(place) {
            return;
        }
        let now = self.now(Party::Node(place));
        if let Some(leader) = self.follows[place] {
            let is_open = self.is_open(Party::Node(place), Party::Orchestrator(leader));
            let leads = self.leaders[leader].orchestrator.revision().is_some();
            self.mute[place] = if is_open { self.tick } else { self.mute[place] };
            let is_mute = self.tick - self.mute[place] >= 1000 / TICK;
            if is_mute || is_open && !leads {
                self.follows[place] = None;
                self.mute[place] = self.alive[place].unwrap_or_default();
                self.nodes[place].agent_mut().handle(now, AgentInput::Leader(false));
            }
        } else if self.tick.is_multiple_of(10) {
            let one = self.random.between(0, ORCHESTRATORS as u64 - 1) as usize;
            let is_open = self.is_open(Party::Node(place), Party::Orchestrator(one));
            let is_stalled = self.plan.is_stalled(Party::Orchestrator(one), self.tick);
            let leads = self.leaders[one].orchestrator.revision().is_some();
            if is_open && leads && !is_stalled {
                self.follows[place] = Some(one);
                self.mute[place] = self.tick;
                self.nodes[place].agent_mut().handle(now, AgentInput::Leader(true));
            }
        }
    }

    /// The store's lease: who holds it leads, under a revision of its own.
    fn elect(&mut self) {
        let is_store_up = self.is_up(Party::Store);
        for place in 0..ORCHESTRATORS {
            let party = Party::Orchestrator(place);
            let is_due = (self.tick + place as u64 * 7).is_multiple_of(ELECTION);
            let is_able = self.is_up(party) && !self.plan.is_stalled(party, self.tick);
            let is_open = is_store_up && self.is_open(party, Party::Store);
            if !is_due || !is_able || !is_open {
                continue;
            }
            let now = self.now(party);
            let leads = self.leaders[place].orchestrator.revision();
            let is_free = self.store.leader.is_none() || self.store.until <= self.tick;
            let is_own = self.store.leader == Some(place) && !is_free;
            if is_own && leads == Some(self.store.revision) {
                self.store.until = self.tick + LEADER_LEASE;
                self.leaders[place].believes = self.store.until;
            } else if is_free {
                self.store.revision += 1;
                self.store.leader = Some(place);
                self.store.until = self.tick + LEADER_LEASE;
                self.leaders[place].believes = self.store.until;
                self.checks.elections += 1;
                let elected = OrchestratorInput::Elected { revision: self.store.revision };
                self.leaders[place].orchestrator.handle(now, elected);
            } else if leads.is_some() {
                self.leaders[place].orchestrator.handle(now, OrchestratorInput::Deposed);
            }
        }
    }

    /// Leaders hear and decide. One that stood still goes on with what waits, as if no time had passed,
    /// and only then sees that it leads no more.
    fn lead(&mut self) {
        for place in 0..ORCHESTRATORS {
            let party = Party::Orchestrator(place);
            if self.plan.is_stalled(party, self.tick) || !self.is_up(party) {
                self.leaders[place].was_stalled = true;
                continue;
            }
            let now = self.now(party);
            let leader = &mut self.leaders[place];
            if leader.orchestrator.revision().is_some()
                && leader.believes <= self.tick
                && !leader.was_stalled
            {
                leader.orchestrator.handle(now, OrchestratorInput::Deposed);
            }
            leader.was_stalled = false;
            for beat in std::mem::take(&mut leader.waiting) {
                leader.orchestrator.handle(now, OrchestratorInput::Beat(beat));
            }
            leader.orchestrator.handle(now, OrchestratorInput::Timeout);
            let mut directives = Vec::new();
            while let Some(OrchestratorOutput::Directive(directive)) = leader.orchestrator.poll() {
                directives.push(directive);
            }
            for directive in directives {
                let to = Party::Node(directive.node.0 as usize);
                if self.is_open(party, to) {
                    self.post_loosely(Mail::Directive(directive));
                }
            }
        }
    }

    fn work(&mut self, place: usize) {
        let now = self.now(Party::Node(place));
        let is_dark = self.plan.is_dark(place, self.tick);
        let capacity = if is_dark { 0.0 } else { self.plan.capacity[place] };
        let rates = self.plan.level(place, self.tick);
        let is_measure = self.tick.is_multiple_of(MEASURE);
        self.nodes[place].work(now, rates, capacity, is_measure);
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
                Wish::Send(sent) => self.post(FAR, Mail::AtFarEnd(place, life, sent)),
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
