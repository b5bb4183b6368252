//! What must hold in every world.

use std::collections::VecDeque;
use std::ops::Range;

use tidegate_fleet::NodeId;

use super::member::{Member, Sent};
use super::plan::Plan;

/// How long receivers may together hold more than a provider has: until their leases are over. A second is
/// the provider's extra time, half a second what is under way.
const OVERGRANT: u64 = 5000 + 1000 + 500;
/// By how much a class may be later than it would be alone: a lease, and what it takes to notice.
const LAG: u64 = 5000 + 1000 + 500;
/// The part of a provider's capacity for which it has given standing permits.
const STANDING: f64 = 0.1;
/// Between two looks at what has arrived, in milliseconds.
const LOOK: u64 = 500;

/// Copies of a record at the far end.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    /// Those without a mark, and all.
    plain: u8,
    all: u8,
    /// When the first one came, and by whose uplink.
    first: Option<(u64, usize)>,
}

/// A record of a world.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Whose it is.
    pub node: usize,
    /// Its class.
    pub class: usize,
    /// The tick in which it came to its node.
    pub came: u64,
    /// The tick in which it came to the far end, and by whose uplink.
    pub arrived: Option<(u64, usize)>,
}

/// What was seen of a world.
#[derive(Debug)]
pub struct Checks {
    /// Milliseconds of a tick.
    tick: u64,
    pub broken: Vec<String>,
    /// Arrivals at the far end of each record of each node.
    arrivals: Vec<Vec<Arrivals>>,
    /// When each record of each node came, and its class.
    came: Vec<Vec<(u64, usize)>>,
    /// Bytes of the least urgent class behind which each borrowed record of the most urgent one waited at its
    /// lender, and of a cut there.
    pub behind: Vec<(u64, u64)>,
    /// Records of each class of each node that have arrived, once each, at each look.
    served: Vec<Vec<[u64; 3]>>,
    distinct: Vec<[u64; 3]>,
    /// Others' records of each class that each node's uplink carried, at each look and so far.
    carried: Vec<Vec<[u64; 3]>>,
    carrying: Vec<[u64; 3]>,
    /// Records that each node's standing permits are worth between two looks, all together.
    permitted: Vec<f64>,
    /// What each provider could lend lately, and since when receivers hold more.
    lendable: Vec<VecDeque<u64>>,
    over_since: Vec<Option<u64>>,
    pub redirected: u64,
    pub duplicates: u64,
    pub elections: u64,
    /// Directives of deposed leaders that reached a node.
    pub refused: u64,
    pub overgranted: u64,
}

impl Checks {
    /// For the nodes of a plan.
    pub fn new(plan: &Plan) -> Self {
        let (nodes, capacity) = (plan.nodes, &plan.capacity);
        let span = LOOK as f64 / 1e3;
        Checks {
            tick: plan.tick,
            broken: Vec::new(),
            arrivals: vec![Vec::new(); nodes],
            came: vec![Vec::new(); nodes],
            behind: Vec::new(),
            served: vec![Vec::new(); nodes],
            distinct: vec![[0; 3]; nodes],
            carried: vec![Vec::new(); nodes],
            carrying: vec![[0; 3]; nodes],
            permitted: capacity.iter().map(|capacity| capacity * STANDING * span).collect(),
            lendable: vec![VecDeque::new(); nodes],
            over_since: vec![None; nodes],
            redirected: 0,
            duplicates: 0,
            elections: 0,
            refused: 0,
            overgranted: 0,
        }
    }

    /// Records came to a node.
    pub fn came(&mut self, tick: u64, node: usize, classes: &[usize]) {
        self.came[node].extend(classes.iter().map(|class| (tick, *class)));
    }

    /// All records that came, each node's in their order.
    pub fn records(&self) -> impl Iterator<Item = Seen> + '_ {
        let of_node = |(node, came): (usize, &Vec<(u64, usize)>)| {
            let arrivals = &self.arrivals[node];
            let seen = move |(seq, &(came, class)): (usize, &(u64, usize))| {
                let arrived = arrivals.get(seq).and_then(|one| one.first);
                Seen { node, class, came, arrived }
            };
            came.iter().enumerate().map(seen).collect::<Vec<Seen>>()
        };
        self.came.iter().enumerate().flat_map(of_node)
    }

    fn complain(&mut self, tick: u64, what: String) {
        if self.broken.len() < 20 {
            self.broken.push(format!("at {:.3} s: {what}", (tick * self.tick) as f64 / 1e3));
        }
    }

    /// A record is at the far end.
    pub fn arrived(&mut self, tick: u64, by: usize, sent: Sent) {
        let of_node = &mut self.arrivals[sent.origin];
        let seq = sent.seq as usize;
        if of_node.len() <= seq {
            of_node.resize(seq + 1, Arrivals::default());
        }
        let Arrivals { plain, all, first } = &mut of_node[seq];
        *plain += u8::from(!sent.again);
        *all = all.saturating_add(1);
        let (plain, all) = (*plain, *all);
        first.get_or_insert((tick, by));
        self.duplicates += u64::from(all > 1);
        self.distinct[sent.origin][sent.class] += u64::from(all == 1);
        self.carrying[by][sent.class] += u64::from(sent.origin != by);
        if plain > 1 {
            self.complain(tick, format!("{sent:?} came again by {by} without a mark"));
        }
    }

    pub fn tick<N: Member>(&mut self, tick: u64, nodes: &[N], is_alive: &[bool]) {
        for (place, node) in nodes.iter().enumerate() {
            if (tick * self.tick).is_multiple_of(LOOK) {
                self.served[place].push(self.distinct[place]);
                self.carried[place].push(self.carrying[place]);
            }
            let tuple = node.agent().tuple();
            let own = tuple.capacity.saturating_sub(tuple.total()).0;
            let usable: u64 = node.agent().lent().map(|one| one.usable.0).sum();
            if usable > own {
                self.complain(tick, format!("node {place} lends {usable} of {own}"));
            }
            let history = &mut self.lendable[place];
            history.push_back(if is_alive[place] { own } else { u64::MAX });
            if history.len() as u64 > OVERGRANT / self.tick {
                history.pop_front();
            }
            let most = history.iter().copied().max().unwrap_or_default();
            let provider = NodeId(place as u64);
            let borrowed = nodes.iter().flat_map(|node| node.agent().borrowed());
            let borrowed = borrowed.filter(|one| one.grant.provider == provider);
            let held: u64 = borrowed.map(|one| one.grant.amount.0).sum();
            if held <= most {
                self.over_since[place] = None;
                continue;
            }
            self.overgranted += 1;
            let since = *self.over_since[place].get_or_insert(tick);
            if tick - since == OVERGRANT / self.tick {
                self.complain(tick, format!("{held} of {most} of node {place} held since {since}"));
            }
        }
    }

    /// A provider sent what its receiver had taken back.
    pub fn unfenced(&mut self, tick: u64, by: usize, sent: Sent) {
        self.complain(tick, format!("{sent:?} is sent by {by}, which it was taken back from"));
    }

    pub fn end<N: Member>(&mut self, tick: u64, nodes: &[N]) {
        let mut may_repeat = 0_u64;
        for (place, node) in nodes.iter().enumerate() {
            let arrivals = &self.arrivals[place];
            let is_lost = |seq: &u32| arrivals.get(*seq as usize).is_none_or(|one| one.all == 0);
            let lost: Vec<u32> = node.accepted().filter(is_lost).take(5).collect();
            if !lost.is_empty() {
                self.complain(tick, format!("{lost:?} and more of node {place} are lost"));
            }
            if let Some(left) = node.left() {
                self.complain(tick, format!("node {place} {left}"));
            }
            let held = node.agent().lent().count() + node.agent().borrowed().count();
            if held > 0 {
                self.complain(tick, format!("node {place} holds {held} grants of an idle fleet"));
            }
            may_repeat = may_repeat.saturating_add(node.may_repeat());
        }
        if self.duplicates > may_repeat {
            let duplicates = self.duplicates;
            self.complain(tick, format!("{duplicates} records came twice, {may_repeat} might"));
        }
    }

    /// No class is worse off than alone by more than a lease, but for what is owed to standing permits. What is sent
    /// twice costs an uplink some time, and records are whole: so few may be missing.
    pub fn compare(&mut self, alone: &Checks) {
        const FEW: u64 = 2;
        let lag = (LAG / LOOK) as usize;
        for (place, served) in self.served.clone().into_iter().enumerate() {
            let alone = &alone.served[place];
            let Some(last) = alone.len().checked_sub(1) else { continue };
            for class in 0..3 {
                // When neither it nor a more urgent class was behind at all.
                let mut even = 0;
                // A world that is idle has nothing more to deliver.
                for (look, with) in served.iter().enumerate().take(alone.len() + lag) {
                    let ahead = with.iter().zip(&alone[look.min(last)]).take(class + 1);
                    if ahead.into_iter().all(|(with, without)| with >= without) {
                        even = look;
                    }
                    let with = with[class];
                    let Some(before) = look.checked_sub(lag) else { continue };
                    let without = alone[before][class];
                    let owed = self.owed(place, class, even..look);
                    if with + FEW + owed < without {
                        let what = format!(
                            "class {class} of node {place}: {with} arrived, {without} alone a lease ago, {owed} owed"
                        );
                        self.complain(look as u64 * LOOK / self.tick, what);
                        break;
                    }
                }
            }
        }
    }

    /// How many records of its own a class of a node may have sent less between two looks, for others' that have their
    /// deadline within a reservation. Its bulk gives way to all of them, a more urgent class to none that is less urgent;
    /// others' bulk has no reservation. What was granted was spare: so this is no more than standing permits are worth.
    fn owed(&self, place: usize, class: usize, looks: Range<usize>) -> u64 {
        let sum = |look: usize| self.carried[place][look][..=class.min(1)].iter().sum::<u64>();
        let carried = sum(looks.end) - sum(looks.start);
        carried.min((self.permitted[place] * looks.len() as f64).ceil() as u64)
    }
}
