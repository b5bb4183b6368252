//! What happens in the world of a seed: loads, uplinks and faults, in whole ticks.

use super::random::Random;

/// Milliseconds of a tick in the worlds of tests.
pub const TICK: u64 = 25;
/// Ticks of theirs in which things happen.
pub const ACTIVE: u64 = 40_000 / TICK;
/// Ticks of theirs between a node's measurements.
pub const MEASURE: u64 = 4;
/// Orchestrators.
pub const ORCHESTRATORS: usize = 3;

/// Somebody who can be cut off, stopped or killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Node(usize),
    Orchestrator(usize),
    /// The election's store, as its majority.
    Store,
}

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed, and starts anew at the end.
    Killed(Party),
    /// A process stands still; what comes meanwhile waits for it.
    Stalled(Party),
    /// Nothing passes between two parties.
    Cut(Party, Party),
    /// A node's uplink carries nothing: nothing leaves the host.
    Dark(usize),
    /// A node's uplink takes bytes and says nothing about them.
    Silent(usize),
    /// A node's uplink refuses every connection.
    Refused(usize),
}

/// What a node's uplink does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Uplink {
    /// It carries so many records a second.
    Carries(f64),
    /// Nothing leaves the host.
    Dark,
    /// What leaves the host stays on the way until the uplink carries again or its connection breaks.
    Silent,
    /// There is no connection.
    Refused,
}

impl Uplink {
    /// Records a second that reach the far end.
    pub fn carries(self) -> f64 {
        match self {
            Uplink::Carries(records) => records,
            Uplink::Dark | Uplink::Silent | Uplink::Refused => 0.0,
        }
    }
}

/// A fault, its first tick and the first after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub fault: Fault,
    pub from: u64,
    pub until: u64,
}

/// A party's clock: what it shows is an offset and a little too fast or slow.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    offset_ms: u64,
    parts_per_million: i64,
}

impl Clock {
    /// A random one.
    pub fn new(random: &mut Random) -> Self {
        let parts_per_million = random.between(0, 400) as i64 - 200;
        Clock { offset_ms: random.between(0, 600_000), parts_per_million }
    }

    /// Nanoseconds that it shows at a true time in nanoseconds.
    pub fn shows(&self, true_nanos: u64) -> u64 {
        let drift = true_nanos as i128 * i128::from(self.parts_per_million) / 1_000_000;
        (i128::from(self.offset_ms) * 1_000_000 + true_nanos as i128 + drift) as u64
    }
}

/// A load level of a node from a tick on: records a second of each class.
pub type Level = (u64, [f64; 3]);

/// The plan of a seed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub nodes: usize,
    /// Records a second.
    pub capacity: Vec<f64>,
    pub levels: Vec<Vec<Level>>,
    pub events: Vec<Event>,
    /// By node, then by orchestrator.
    pub clocks: Vec<Clock>,
    /// Whether a link says what is left of a record's bound.
    pub says_left: bool,
    /// What nodes are told of their uplinks, over what these carry. A node uses 0.92 of what it is told.
    pub told: f64,
    /// Milliseconds of a tick.
    pub tick: u64,
}

impl Plan {
    /// The plan of the worlds that tests play.
    pub fn new(seed: u64) -> Self {
        let random = &mut Random::new(seed, 1);
        let nodes = random.between(2, 5) as usize;
        let capacity: Vec<f64> = (0..nodes).map(|_| random.between(10, 30) as f64).collect();
        let levels = capacity.iter().map(|&capacity| levels(random, capacity)).collect();
        let events = (0..random.between(0, 7)).map(|_| event(random, nodes)).collect();
        let clocks = (0..nodes + ORCHESTRATORS).map(|_| Clock::new(random)).collect();
        Plan {
            nodes,
            capacity,
            levels,
            events,
            clocks,
            says_left: false,
            told: 1.0 / 0.92,
            tick: TICK,
        }
    }

    /// The same, with nodes' processes that stand still for seconds.
    pub fn with_stalls(mut self, seed: u64) -> Plan {
        let random = &mut Random::new(seed, 3);
        for _ in 0..random.between(0, 2) {
            let node = Party::Node(random.between(0, self.nodes as u64 - 1) as usize);
            let from = random.between(0, ACTIVE - 1);
            let until = (from + random.between(1, 8000 / TICK)).min(ACTIVE);
            self.events.push(Event { fault: Fault::Stalled(node), from, until });
        }
        self
    }

    /// How many ticks so many milliseconds are.
    pub fn ticks(&self, millis: u64) -> u64 {
        millis / self.tick
    }

    /// Ticks in which things happen.
    pub fn active(&self) -> u64 {
        self.ticks(40_000)
    }

    /// Ticks after that, in which all is well and the rest is delivered.
    pub(super) fn quiet(&self) -> u64 {
        self.ticks(60_000)
    }

    /// Ticks between two measurements of a node.
    pub(super) fn measure(&self) -> u64 {
        self.ticks(MEASURE * TICK)
    }

    /// Records a second that come to a node.
    pub fn level(&self, node: usize, tick: u64) -> [f64; 3] {
        if tick >= self.active() {
            return [0.0; 3];
        }
        let before = self.levels[node].iter().rev().find(|(from, _)| *from <= tick);
        before.map_or([0.0; 3], |(_, rates)| *rates)
    }

    fn happens(&self, tick: u64, is_it: impl Fn(Fault) -> bool) -> bool {
        self.events
            .iter()
            .any(|event| (event.from..event.until).contains(&tick) && is_it(event.fault))
    }

    pub fn is_killed(&self, party: Party, tick: u64) -> bool {
        self.happens(tick, |fault| fault == Fault::Killed(party))
    }

    pub fn is_stalled(&self, party: Party, tick: u64) -> bool {
        self.happens(tick, |fault| fault == Fault::Stalled(party))
    }

    /// What a node's uplink does.
    pub fn uplink(&self, node: usize, tick: u64) -> Uplink {
        let has = |fault| self.happens(tick, |other| other == fault);
        if has(Fault::Refused(node)) {
            Uplink::Refused
        } else if has(Fault::Silent(node)) {
            Uplink::Silent
        } else if has(Fault::Dark(node)) {
            Uplink::Dark
        } else {
            Uplink::Carries(self.capacity[node])
        }
    }

    pub fn is_cut(&self, a: Party, b: Party, tick: u64) -> bool {
        self.happens(tick, |fault| fault == Fault::Cut(a, b) || fault == Fault::Cut(b, a))
    }
}

/// A node is busy or idle for some seconds, then something else.
fn levels(random: &mut Random, capacity: f64) -> Vec<Level> {
    let mut levels = Vec::new();
    let mut tick = 0;
    while tick < ACTIVE {
        let load = if random.happens(0.4) { 1.1 + random.share() } else { 0.7 * random.share() };
        let urgent = 0.05 + 0.5 * random.share();
        let middle = (1.0 - urgent) * random.share();
        let mix = [urgent, middle, 1.0 - urgent - middle];
        levels.push((tick, mix.map(|part| part * load * capacity)));
        tick += random.between(2000, 20_000) / TICK;
    }
    levels
}

fn event(random: &mut Random, nodes: usize) -> Event {
    let node = |random: &mut Random| Party::Node(random.between(0, nodes as u64 - 1) as usize);
    let orchestrator = |random: &mut Random| {
        Party::Orchestrator(random.between(0, ORCHESTRATORS as u64 - 1) as usize)
    };
    let any = |random: &mut Random| match random.between(0, 5) {
        0 => Party::Store,
        1 | 2 => orchestrator(random),
        _ => node(random),
    };
    let fault = match random.between(0, 9) {
        0 | 1 => Fault::Killed(node(random)),
        2 | 3 => Fault::Killed(orchestrator(random)),
        4 => Fault::Killed(Party::Store),
        5 => Fault::Stalled(orchestrator(random)),
        6 => Fault::Dark(random.between(0, nodes as u64 - 1) as usize),
        _ => Fault::Cut(any(random), any(random)),
    };
    let from = random.between(0, ACTIVE - 1);
    let length = random.between(1, 15_000 / TICK);
    Event { fault, from, until: (from + length).min(ACTIVE) }
}
