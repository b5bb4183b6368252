//! Random fleets: who is near whom, who is short of what, who has something to lend.

use tidegate_evaluation::objective::NetworkNode;
use tidegate_evaluation::optimum::Part;
use tidegate_fleet::{Amount, Candidates, MatchingProblem, Peer, Tuple};
use tidegate_types::units::{Ratio, Size};

use crate::sim::random::Random;

/// Candidates of a node at most.
const CANDIDATES: usize = 16;
/// Nodes of a site.
const SITE: usize = 20;
/// Part of the nodes that are short of something.
const RECEIVERS: f64 = 0.4;
/// What a receiver's classes want together, over what its uplink carries.
const OVERLOAD: (f64, f64) = (1.1, 12.0);
/// What an uplink carries, bytes/s: from a modem of the third generation to fibre.
const CAPACITY: (f64, f64) = (1e5, 2.5e7);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Everybody reaches the sixteen nearest.
    Geo,
    /// Networks of twenty nodes without a way between them.
    Site,
}

/// What a fleet is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    pub(super) nodes: usize,
    pub(super) shape: Shape,
    pub(super) load: f64,
    /// What each class has of a node's demand, most urgent first.
    pub(super) mix: [f64; 3],
}

pub(super) const BULKY: [f64; 3] = [0.1, 0.25, 0.65];
pub(super) const URGENT: [f64; 3] = [0.6, 0.25, 0.15];

/// A fleet at one time.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    pub(super) candidates: Candidates,
    pub(super) tuples: Vec<Tuple>,
    /// When each request was made: any order.
    asked: Vec<u64>,
}

impl Fleet {
    pub(super) fn new(kind: Kind, random: &mut Random) -> Self {
        let candidates = match kind.shape {
            Shape::Geo => nearest(kind.nodes, random),
            Shape::Site => sites(kind.nodes, random),
        };
        let mut tuples: Vec<Tuple> = (0..kind.nodes).map(|_| tuple(&kind.mix, random)).collect();
        let shortage: u64 = tuples.iter().flat_map(Tuple::shortage).map(|amount| amount.0).sum();
        let spare: u64 = tuples.iter().map(|tuple| tuple.spare(Ratio::ZERO).0).sum();
        // Uplinks of those that lend are as large as the load asks for.
        let factor = shortage as f64 / kind.load / spare.max(1) as f64;
        for tuple in &mut tuples {
            let spare = tuple.spare(Ratio::ZERO);
            if !spare.is_zero() {
                tuple.capacity = tuple.total() + spare.times(factor);
            }
        }
        let asked = (0..kind.nodes * kind.mix.len()).map(|_| random.between(0, 1 << 40)).collect();
        Fleet { candidates, tuples, asked }
    }

    pub(super) fn problem(&self) -> MatchingProblem<'_> {
        let wanted = self.tuples.iter().flat_map(Tuple::shortage).collect();
        let spare = self.tuples.iter().map(|tuple| tuple.spare(Ratio::ZERO)).collect();
        MatchingProblem::new(&self.candidates, wanted, spare).asked(self.asked.clone())
    }

    /// The same as the network's objective sees it: nothing waits as yet.
    pub(super) fn network(&self) -> Vec<NetworkNode> {
        let part = |demand: &Amount| Part {
            backlog: Size::ZERO,
            input: demand.rate(),
            bound: std::time::Duration::from_secs(1),
            weight: 0.0,
        };
        let node = |tuple: &Tuple| {
            let short = tuple.demand.iter().zip(tuple.shortage());
            NetworkNode {
                capacity: tuple.capacity.rate(),
                parts: tuple.demand.iter().map(part).collect(),
                own: short.map(|(demand, short)| (*demand - short).rate()).collect(),
            }
        };
        self.tuples.iter().map(node).collect()
    }
}

fn tuple(mix: &[f64; 3], random: &mut Random) -> Tuple {
    let scale = |random: &mut Random, (low, high): (f64, f64)| {
        (f64::ln(low) + random.share() * f64::ln(high / low)).exp()
    };
    let capacity = scale(random, CAPACITY);
    let load =
        if random.happens(RECEIVERS) { scale(random, OVERLOAD) } else { random.share() * 0.9 };
    let shares = mix.map(|part| part * (0.5 + random.share()));
    let whole: f64 = shares.iter().sum();
    let demand = shares.map(|share| Amount((capacity * load * share / whole) as u64));
    Tuple { capacity: Amount(capacity as u64), demand: demand.to_vec() }
}

/// Points in a square, each with those around it. A microsecond is a thousandth of the square's side.
fn nearest(nodes: usize, random: &mut Random) -> Candidates {
    let points: Vec<(f64, f64)> = (0..nodes).map(|_| (random.share(), random.share())).collect();
    // Cells with some nodes each: rings of them around a node's own are looked at until nothing outside
    // can be nearer.
    let side = ((nodes as f64 / 8.0).sqrt() as usize).max(1);
    let cell = |(x, y): (f64, f64)| ((x * side as f64) as usize, (y * side as f64) as usize);
    let mut cells = vec![Vec::new(); side * side];
    for (node, point) in points.iter().enumerate() {
        let (column, row) = cell(*point);
        cells[row * side + column].push(node);
    }
    let mut candidates = Candidates::default();
    for (node, point) in points.iter().enumerate() {
        let distance = |&other: &usize| {
            let (x, y) = (points[other].0 - point.0, points[other].1 - point.1);
            (x * x + y * y).sqrt()
        };
        let (column, row) = cell(*point);
        let mut near: Vec<usize> = Vec::new();
        for ring in 1..=side {
            let around = |at: usize| at.saturating_sub(ring)..(at + ring + 1).min(side);
            near.clear();
            for row in around(row) {
                let cells = around(column).map(|column| &cells[row * side + column]);
                near.extend(cells.flatten().filter(|&&other| other != node));
            }
            near.sort_unstable_by(|a, b| distance(a).total_cmp(&distance(b)));
            near.truncate(CANDIDATES);
            let seen = ring as f64 / side as f64;
            if near.len() == CANDIDATES && near.last().is_none_or(|last| distance(last) <= seen) {
                break;
            }
        }
        let micros = |other: &usize| (distance(other) * 1000.0) as u32;
        let peer = |other: &usize| Peer { place: *other as u32, distance: micros(other) };
        candidates.push(&near.iter().map(peer).collect::<Vec<_>>());
    }
    candidates
}

/// Networks of a few nodes, of which each reaches some at any distance.
fn sites(nodes: usize, random: &mut Random) -> Candidates {
    let mut candidates = Candidates::default();
    for node in 0..nodes {
        let first = node / SITE * SITE;
        let mut others: Vec<usize> = (first..(first + SITE).min(nodes)).collect();
        others.retain(|&other| other != node);
        while others.len() > CANDIDATES {
            others.swap_remove(random.between(0, others.len() as u64 - 1) as usize);
        }
        let peer =
            |other: usize| Peer { place: other as u32, distance: random.between(1, 50) as u32 };
        candidates.push(&others.into_iter().map(peer).collect::<Vec<_>>());
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet(nodes: usize, shape: Shape) -> Fleet {
        Fleet::new(Kind { nodes, shape, load: 1.0, mix: BULKY }, &mut Random::new(1, 0))
    }

    #[test]
    fn the_nearest_are_the_nearest_wherever_a_cell_ends() {
        let found = nearest(300, &mut Random::new(3, 0));
        // The same points again, and every distance between them.
        let random = &mut Random::new(3, 0);
        let points: Vec<(f64, f64)> = (0..300).map(|_| (random.share(), random.share())).collect();
        for (node, at) in points.iter().enumerate() {
            let distance = |to: &(f64, f64)| (to.0 - at.0).hypot(to.1 - at.1);
            let mut all: Vec<f64> = points.iter().map(distance).collect();
            all.sort_by(f64::total_cmp);
            let peers = found.peers(node);
            assert_eq!(peers.len(), CANDIDATES);
            let farthest = peers.iter().map(|peer| distance(&points[peer.place as usize]));
            let farthest = farthest.fold(0.0, f64::max);
            // The node itself is the first of all.
            assert!(farthest <= all[CANDIDATES] + 1e-12, "{farthest} {}", all[CANDIDATES]);
        }
    }

    #[test]
    fn a_fleet_has_the_load_it_is_asked_for() {
        for shape in [Shape::Geo, Shape::Site] {
            let fleet = fleet(1000, shape);
            let problem = fleet.problem();
            let wanted: u64 = problem.wanted().iter().map(|amount| amount.0).sum();
            let spare: u64 = problem.spare().iter().map(|amount| amount.0).sum();
            assert!((wanted as f64 / spare as f64 - 1.0).abs() < 0.01, "{wanted} {spare}");
            let receivers = problem.requests().map(|request| problem.node_of(request));
            let receivers: std::collections::BTreeSet<usize> = receivers.collect();
            assert!((350..450).contains(&receivers.len()), "{}", receivers.len());
        }
    }

    #[test]
    fn a_site_is_closed() {
        let fleet = fleet(100, Shape::Site);
        for node in 0..100 {
            assert_eq!(fleet.candidates.peers(node).len(), CANDIDATES);
            let inside = |peer: &Peer| peer.place as usize / SITE == node / SITE;
            assert!(fleet.candidates.peers(node).iter().all(inside));
        }
    }
}
