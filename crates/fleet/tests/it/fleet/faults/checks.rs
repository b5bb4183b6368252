//! What must hold in every world.

use std::collections::VecDeque;

use tidegate_fleet::NodeId;

use super::member::{Member, Sent};
use super::plan::TICK;

/// How long receivers may together hold more than a provider has: until their leases are over. A second is
/// the provider's extra time, half a second what is under way.
const OVERGRANT: u64 = (5000 + 1000 + 500) / TICK;
/// By how much a class may be later than it would be alone: a lease, and what it takes to notice.
pub(crate) const LAG: u64 = (5000 + 1000 + 500) / TICK;
/// Ticks between two looks at what has arrived.
pub(crate) const LOOK: u64 = 500 / TICK;

/// What was seen of a world.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) broken: Vec<String>,
    /// Arrivals at the far end of each record of each node: those without a mark, and all.
    arrivals: Vec<Vec<(u8, u8)>>,
    /// Records of each class of each node that have arrived, once each, at each look.
    served: Vec<Vec<[u64; 3]>>,
    distinct: Vec<[u64; 3]>,
    /// Urgent records of others that each node's uplink carried, at each look and so far: its own bulk pays for them,
    /// a tenth of its capacity at most.
    carried: Vec<Vec<u64>>,
    carrying: Vec<u64>,
    /// What each provider could lend lately, and since when receivers hold more.
    lendable: Vec<VecDeque<u64>>,
    over_since: Vec<Option<u64>>,
    pub(crate) redirected: u64,
    pub(crate) duplicates: u64,
    pub(crate) elections: u64,
    /// Directives of deposed leaders that reached a node.
    pub(crate) refused: u64,
    pub(crate) overgranted: u64,
}

impl Checks {
    pub(crate) fn new(nodes: usize) -> Self {
        Checks {
            broken: Vec::new(),
            arrivals: vec![Vec::new(); nodes],
            served: vec![Vec::new(); nodes],
            distinct: vec![[0; 3]; nodes],
            carried: vec![Vec::new(); nodes],
            carrying: vec![0; nodes],
            lendable: vec![VecDeque::new(); nodes],
            over_since: vec![None; nodes],
            redirected: 0,
            duplicates: 0,
            elections: 0,
            refused: 0,
            overgranted: 0,
        }
    }

    fn complain(&mut self, tick: u64, what: String) {
        if self.broken.len() < 20 {
            self.broken.push(format!("at {:.3} s: {what}", (tick * TICK) as f64 / 1e3));
        }
    }

    /// A record is at the far end.
    pub(crate) fn arrived(&mut self, tick: u64, by: usize, sent: Sent) {
        let of_node = &mut self.arrivals[sent.origin];
        let seq = sent.seq as usize;
        if of_node.len() <= seq {
            of_node.resize(seq + 1, (0, 0));
        }
        let (plain, all) = &mut of_node[seq];
        *plain += u8::from(!sent.again);
        *all = all.saturating_add(1);
        let (plain, all) = (*plain, *all);
        self.duplicates += u64::from(all > 1);
        self.distinct[sent.origin][sent.class] += u64::from(all == 1);
        self.carrying[by] += u64::from(sent.origin != by && sent.class < 2);
        if plain > 1 {
            self.complain(tick, format!("{sent:?} came again by {by} without a mark"));
        }
    }

    pub(crate) fn tick<N: Member>(&mut self, tick: u64, nodes: &[N], is_alive: &[bool]) {
        for (place, node) in nodes.iter().enumerate() {
            if tick.is_multiple_of(LOOK) {
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
            if history.len() as u64 > OVERGRANT {
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
            if tick - since == OVERGRANT {
                self.complain(tick, format!("{held} of {most} of node {place} held since {since}"));
            }
        }
    }

    /// A provider sent what its receiver had taken back.
    pub(crate) fn unfenced(&mut self, tick: u64, by: usize, sent: Sent) {
        self.complain(tick, format!("{sent:?} is sent by {by}, which it was taken back from"));
    }

    pub(crate) fn end<N: Member>(&mut self, tick: u64, nodes: &[N]) {
        let mut may_repeat = 0_u64;
        for (place, node) in nodes.iter().enumerate() {
            let arrivals = &self.arrivals[place];
            let is_lost = |seq: &u32| arrivals.get(*seq as usize).is_none_or(|(_, all)| *all == 0);
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

    /// No class is worse off than alone by more than a lease, but bulk for what was carried of others' urgent records. What is sent twice costs an uplink some time,
    /// and records are whole: so few may be missing.
    pub(crate) fn compare(&mut self, alone: &Checks) {
        const FEW: u64 = 2;
        let lag = (LAG / LOOK) as usize;
        for (place, served) in self.served.clone().into_iter().enumerate() {
            for class in 0..3 {
                let before = |look: usize| alone.served[place][look - lag][class];
                let carried = |look: usize| if class == 2 { self.carried[place][look] } else { 0 };
                let is_late =
                    |look: &usize| served[*look][class] + FEW + carried(*look) < before(*look);
                // A world that is idle has nothing more to deliver.
                let looks = lag..served.len().min(alone.served[place].len() + lag);
                if let Some(look) = looks.into_iter().find(is_late) {
                    let (with, without) = (served[look][class], before(look));
                    let what = format!(
                        "class {class} of node {place}: {with} arrived, {without} alone a lease ago"
                    );
                    self.complain(look as u64 * LOOK, what);
                }
            }
        }
    }
}
