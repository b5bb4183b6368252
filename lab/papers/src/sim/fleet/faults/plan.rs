//! What happens in the worlds of `fleet-faults-oracle`.

use tidegate_testing::fleets::{Clock, Event, Fault, Level, ORCHESTRATORS, Party, Plan, Random};

/// Milliseconds of a tick, and ticks in which things happen.
pub(super) const TICK: u64 = 5;
const ACTIVE: u64 = 40_000 / TICK;
/// Nodes of a fleet.
const NODES: usize = 4;

/// What the records of a world are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// A few urgent records beside bulk.
    Alarms,
    /// As the fleet's tests have it: up to a half of what comes is urgent.
    Heavy,
}

impl Mix {
    pub(super) const ALL: [Mix; 2] = [Mix::Alarms, Mix::Heavy];

    pub(super) fn name(self) -> &'static str {
        match self {
            Mix::Alarms => "alarms",
            Mix::Heavy => "heavy",
        }
    }

    pub(super) fn about(self) -> &'static str {
        match self {
            Mix::Alarms => {
                "ls is 1 to 3 % of an uplink, nm 5 to 20 %, lt the rest of a load of 0 to 1.6 uplinks"
            }
            Mix::Heavy => "ls is 5 to 55 % of a load of 0 to 2.1 uplinks",
        }
    }

    /// Records a second of each class, of an uplink that carries so many.
    fn rates(self, random: &mut Random, capacity: f64) -> [f64; 3] {
        let is_busy = random.happens(0.4);
        match self {
            Mix::Alarms => {
                let load = if is_busy { 1.1 + 0.5 * random.share() } else { 0.7 * random.share() };
                let urgent = 0.01 + 0.02 * random.share();
                let middle = 0.05 + 0.15 * random.share();
                [urgent, middle, (load - urgent - middle).max(0.0)].map(|part| part * capacity)
            }
            Mix::Heavy => {
                let load = if is_busy { 1.1 + random.share() } else { 0.7 * random.share() };
                let urgent = 0.05 + 0.5 * random.share();
                let middle = (1.0 - urgent) * random.share();
                [urgent, middle, 1.0 - urgent - middle].map(|part| part * load * capacity)
            }
        }
    }
}

/// The plan of a seed: four nodes of 60 to 120 records/s each, two to six faults of 0.5 to 8 s.
pub(super) fn plan(mix: Mix, seed: u64) -> Plan {
    let random = &mut Random::new(seed, 4);
    let capacity: Vec<f64> = (0..NODES).map(|_| random.between(200, 400) as f64).collect();
    let levels = capacity.iter().map(|&capacity| levels(mix, random, capacity)).collect();
    let events = (0..random.between(2, 6)).map(|_| event(random)).collect();
    let clocks = (0..NODES + ORCHESTRATORS).map(|_| Clock::new(random)).collect();
    Plan { nodes: NODES, capacity, levels, events, clocks, says_left: true, told: 1.0, tick: TICK }
}

fn levels(mix: Mix, random: &mut Random, capacity: f64) -> Vec<Level> {
    let mut levels = Vec::new();
    let mut tick = 0;
    while tick < ACTIVE {
        levels.push((tick, mix.rates(random, capacity)));
        tick += random.between(2000, 20_000) / TICK;
    }
    levels
}

/// A stall, a refusal, or the loss of a leader, a lender or a way, as often each.
fn event(random: &mut Random) -> Event {
    let node = random.between(0, NODES as u64 - 1) as usize;
    let leader = Party::Orchestrator(random.between(0, ORCHESTRATORS as u64 - 1) as usize);
    let other = (node + random.between(1, NODES as u64 - 1) as usize) % NODES;
    let fault = match random.between(0, 9) {
        0 | 1 => Fault::Silent(node),
        2 | 3 => Fault::Refused(node),
        4 => Fault::Killed(leader),
        5 => Fault::Stalled(leader),
        6 => Fault::Killed(Party::Node(node)),
        7 => Fault::Stalled(Party::Node(node)),
        8 => Fault::Cut(Party::Node(node), Party::Node(other)),
        _ => Fault::Cut(Party::Node(node), leader),
    };
    let from = random.between(0, ACTIVE - 1);
    let length = random.between(500 / TICK, 8000 / TICK);
    Event { fault, from, until: (from + length).min(ACTIVE) }
}
