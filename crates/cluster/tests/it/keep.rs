//! The loop that keeps placed units where their bounds hold, in virtual time: loads drift, nodes come, drain and die; what
//! nodes measure follows a law of their own, which the loop's model knows only in part.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::handover::loads::{MemberLoads, UnitCounts, UnitLoad};
use tidegate_cluster::handover::{Member, UnitOwner};
use tidegate_cluster::place::rebalance::{
    BIAS, MoveReason, PlannedMove, RebalanceOptions, RebalanceRemark, RebalanceRound, Rebalancer,
    StayReason,
};
use tidegate_cluster::place::{LatencyModel, Machine, Physics, Topic};
use tidegate_types::random::SplitMix;
use tidegate_types::units::Time;

const PERIOD: Duration = Duration::from_secs(10);
/// Latencies that are told apart in a period.
const SPANS: u64 = 40;

struct Unit {
    topic: Topic,
    owner: UnitOwner,
    counts: UnitCounts,
    moves: Vec<u64>,
}

struct Node {
    is_here: bool,
    is_draining: bool,
    life: u64,
    /// How much longer records take than the physics say.
    bias: f64,
    /// What has waited, in seconds of a processor.
    waits: f64,
}

struct World {
    random: SplitMix,
    /// One, or two that know nothing of each other.
    keepers: Vec<Rebalancer>,
    options: RebalanceOptions,
    cores: u32,
    nodes: Vec<Node>,
    units: Vec<Unit>,
    round: u64,
    moves: usize,
}

fn node_name(place: usize) -> Arc<str> {
    format!("node-{place}").into()
}

fn unit_name(place: usize) -> Arc<str> {
    format!("unit-{place:02}").into()
}

impl World {
    /// Units of these loads (of a processor) and bounds in milliseconds, all at the first of so many nodes of four processors.
    fn new(seed: u64, nodes: usize, loads: &[(f64, u64)], options: RebalanceOptions) -> World {
        let unit = |&(load, bound): &(f64, u64)| Unit {
            topic: Topic {
                work: Duration::from_millis(10),
                work_cv: 0.1,
                rate: load * 100.0,
                subscribers: 1,
                bound: Duration::from_millis(bound),
                is_serial: false,
            },
            owner: UnitOwner { epoch: 0, member: Member(0) },
            counts: UnitCounts::default(),
            moves: Vec::new(),
        };
        let node = |_| Node { is_here: true, is_draining: false, life: 1, bias: 1.0, waits: 0.0 };
        World {
            random: SplitMix(seed),
            keepers: vec![Rebalancer::new(options.clone())],
            options,
            cores: 4,
            nodes: (0..nodes).map(node).collect(),
            units: loads.iter().map(unit).collect(),
            round: 0,
            moves: 0,
        }
    }

    fn at(&self, node: usize) -> Vec<usize> {
        let own = |unit: &usize| usize::from(self.units[*unit].owner.member.0) == node;
        (0..self.units.len()).filter(own).collect()
    }

    /// The 90th percentiles that units of a node really have, seconds.
    fn truth(&self, node: usize) -> Vec<f64> {
        let own = self.at(node);
        let topics: Vec<&Topic> = own.iter().map(|&unit| &self.units[unit].topic).collect();
        let bias = self.nodes[node].bias;
        let machine = Machine { cores: self.cores.into(), speed: 1.0, contention: 0.03, bias };
        let mut answer = Vec::new();
        Physics.p90(&machine, &topics, &mut answer);
        answer
    }

    /// Units that miss their bounds, in truth.
    fn missed(&self) -> Vec<usize> {
        let of = |node: usize| {
            let own = self.at(node);
            let late = self
                .truth(node)
                .into_iter()
                .zip(own)
                .filter(|(p90, unit)| *p90 > self.units[*unit].topic.bound.as_secs_f64());
            late.map(|(_, unit)| unit).collect::<Vec<_>>()
        };
        (0..self.nodes.len()).filter(|&node| self.nodes[node].is_here).flat_map(of).collect()
    }

    /// What happens at the nodes in a period.
    fn pass(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].is_here {
                self.pass_at(node);
            }
        }
    }

    fn pass_at(&mut self, node: usize) {
        let (truth, own) = (self.truth(node), self.at(node));
        let slower = 1.0 + 0.03 * (own.len() as f64 - 1.0);
        let period = PERIOD.as_secs_f64();
        let load: f64 = own.iter().map(|&unit| self.units[unit].topic.load() * slower).sum();
        // Processor seconds: what comes, what can be done, and what has waited.
        let (comes, can) = (load * period, f64::from(self.cores) * period);
        let waited = &mut self.nodes[node].waits;
        let done = can.min(comes + *waited);
        *waited += comes - done;
        // Late records come behind: what is done beyond what comes is of those that have waited.
        let (live, late) = (comes.min(done), (done - comes).max(0.0));
        for (p90, unit) in truth.into_iter().zip(own) {
            let noise = 0.9 + 0.2 * self.random.share();
            let Unit { topic, counts, .. } = &mut self.units[unit];
            let bound = topic.bound.as_secs_f64();
            let records = topic.rate * period;
            counts.bound = topic.bound;
            counts.lanes = 8;
            counts.records += records as u64;
            let p90 = if p90.is_finite() { p90 * noise } else { 20.0 * bound };
            let worked = (records * live / comes.max(1e-9)) as u64;
            let waited = (records * late / comes.max(1e-9)) as u64;
            count(counts, topic, 20.0 * bound, waited);
            count(counts, topic, p90, worked);
        }
    }

    fn loads(&self, node: usize) -> Option<MemberLoads> {
        let Node { is_here, is_draining, life, .. } = self.nodes[node];
        let unit = |(place, unit): (usize, &Unit)| {
            let is_open = usize::from(unit.owner.member.0) == node;
            let counts = is_open.then(|| unit.counts.clone());
            UnitLoad { name: unit_name(place), owner: unit.owner, is_open, counts }
        };
        is_here.then(|| MemberLoads {
            node: node_name(node),
            life,
            age: PERIOD * self.round as u32,
            threads: self.cores,
            processors: self.cores,
            is_draining,
            remembers: true,
            members: (0..self.nodes.len()).map(node_name).collect(),
            units: self.units.iter().enumerate().map(unit).collect(),
        })
    }

    fn now(&self) -> Time {
        Time::ZERO + PERIOD * self.round as u32
    }

    /// A period and a round; does what the round says.
    fn step(&mut self) -> RebalanceRound {
        self.pass();
        self.round += 1;
        let answers = (0..self.nodes.len()).map(|node| (node_name(node), self.loads(node)));
        let answers: Vec<_> = answers.collect();
        let mut rounds = Vec::new();
        for keeper in 0..self.keepers.len() {
            let now = self.now();
            let round = self.keepers[keeper].round(now, answers.clone(), &Physics);
            assert!(round.steps.len() <= self.options.moves_max, "{:?}", round.steps);
            rounds.push(round);
        }
        for (keeper, round) in rounds.iter().enumerate() {
            round.steps.iter().for_each(|step| self.order(keeper, step));
        }
        rounds.remove(0)
    }

    /// Does what one of them orders, if the owner is who it was.
    fn order(&mut self, keeper: usize, step: &PlannedMove) {
        let unit = (0..self.units.len()).find(|&unit| unit_name(unit) == step.unit);
        let unit = unit.expect("a unit of this world");
        let to = (0..self.nodes.len()).find(|&node| node_name(node) == step.to);
        let to = to.expect("a node of this world");
        let (round, now) = (self.round, self.now());
        let it = &mut self.units[unit];
        if node_name(it.owner.member.0.into()) != step.from {
            assert!(self.keepers.len() > 1, "{step:?}");
            return;
        }
        assert!(self.nodes[to].is_here && !self.nodes[to].is_draining, "{step:?}");
        if let Some(before) = it.moves.last().filter(|_| self.keepers.len() == 1) {
            let passed = PERIOD * (round - before) as u32;
            assert!(passed >= self.options.rest, "{step:?} after {passed:?}");
        }
        it.owner = UnitOwner { epoch: it.owner.epoch + 1, member: Member(to as u16) };
        // Another process counts it from now on.
        it.counts = UnitCounts::default();
        it.moves.push(round);
        self.moves += 1;
        self.keepers[keeper].moved(now, step);
    }

    fn run(&mut self, rounds: usize) -> Vec<RebalanceRound> {
        (0..rounds).map(|_| self.step()).collect()
    }
}

/// So many records were worked on, with this 90th percentile of an exponential.
fn count(counts: &mut UnitCounts, topic: &Topic, p90: f64, records: u64) {
    counts.worked += records;
    counts.results += records;
    counts.deliveries += records;
    counts.cpu += topic.work * records as u32;
    let work = topic.work.as_secs_f64();
    counts.cpu_squares += records as f64 * work * work * 1.01;
    for nth in 0..SPANS {
        let share = (nth as f64 + 0.95) / SPANS as f64;
        let took = p90 * (1.0 - share).ln() / 0.1_f64.ln();
        let count = records / SPANS + u64::from(nth < records % SPANS);
        let micros = (took * 1e6) as u64;
        counts.done.add(micros, count);
        counts.delivered.add(micros, count);
        let late = if took > topic.bound.as_secs_f64() { count } else { 0 };
        counts.done_late += late;
        counts.delivered_late += late;
    }
}

fn moved(rounds: &[RebalanceRound]) -> usize {
    rounds.iter().map(|round| round.steps.len()).sum()
}

#[test]
fn a_bound_that_is_missed_is_kept_again_after_a_few_rounds_and_then_nothing_moves() {
    // 6 processors' work on 4.
    let mut world = World::new(1, 3, &[(1.0, 100); 6], RebalanceOptions::default());
    assert_eq!(moved(&world.run(2)), 0, "one miss is none: {:?}", world.keepers);
    let rounds = world.run(10);
    assert_eq!(world.missed(), [0_usize; 0]);
    assert!(world.at(2).is_empty(), "one of the two empty nodes was enough");
    assert!((2..=4).contains(&moved(&rounds)), "{}", moved(&rounds));
    assert!(world.nodes[0].waits > 0.0, "what has waited is still late");
    let remarks = &rounds.last().unwrap().remarks;
    assert!(
        matches!(&remarks[..], [RebalanceRemark::Behind { node }] if **node == *"node-0"),
        "{remarks:?}"
    );
    let more = world.run(50);
    assert_eq!((moved(&more), world.nodes[0].waits > 0.0), (0, false), "and moves nothing");
    let first = rounds.iter().flat_map(|round| &round.steps).next().unwrap();
    assert!(matches!(first.reason, MoveReason::Missed { .. }), "{first:?}");
}

#[test]
fn a_node_that_is_slower_than_the_model_says_is_learnt_and_mended() {
    // The physics alone call this fine.
    let mut world =
        World::new(2, 2, &[(1.0, 60), (0.9, 60), (0.9, 60)], RebalanceOptions::default());
    assert_eq!(moved(&world.run(10)), 0);
    world.nodes[0].bias = 3.5;
    assert!(!world.missed().is_empty(), "{:?}", world.truth(0));
    let rounds = world.run(12);
    assert_eq!(world.missed(), [0_usize; 0], "{:?}", world.truth(0));
    assert!(moved(&rounds) > 0);
    let bias = rounds.last().unwrap().nodes[0].bias;
    assert!(bias > 1.3 && bias <= BIAS.1 + 1e-9, "{bias}");
    assert_eq!(moved(&world.run(50)), 0);
}

#[test]
fn units_of_a_node_that_drains_go_elsewhere_and_none_comes() {
    let mut world = World::new(3, 3, &[(0.4, 200); 7], RebalanceOptions::default());
    world.run(3);
    world.nodes[0].is_draining = true;
    let rounds = world.run(8);
    assert!(world.at(0).is_empty(), "{:?}", rounds.last());
    assert!(
        rounds.iter().flat_map(|round| &round.steps).all(|step| step.reason == MoveReason::Drains)
    );
    assert_eq!(world.missed(), [0_usize; 0]);
    // The others become too full: the node that drains is no way out, and a node more is asked for.
    world.nodes[2].is_draining = true;
    world.units.iter_mut().for_each(|unit| unit.topic.rate *= 1.9);
    let rounds = world.run(20);
    assert!(world.at(0).is_empty());
    let asks = |remark: &RebalanceRemark| {
        matches!(remark, RebalanceRemark::Missed { why: StayReason::NoRoom { .. }, .. })
    };
    assert!(
        rounds.last().unwrap().remarks.iter().any(asks),
        "{:?}",
        rounds.last().unwrap().remarks
    );
    assert_eq!(moved(&rounds[10..]), 0, "what helps nobody is not done");
    // The node is back: that is the help that was asked for.
    world.nodes[0].is_draining = false;
    world.run(20);
    assert_eq!(world.missed(), [0_usize; 0]);
}

#[test]
fn a_node_that_dies_keeps_its_units_until_they_may_be_seized() {
    let mut world = World::new(4, 3, &[(0.4, 200); 6], RebalanceOptions::default());
    world.run(3);
    world.nodes[0].is_here = false;
    let rounds = world.run(30);
    assert_eq!(moved(&rounds), 0);
    let remark = &rounds.last().unwrap().remarks[0];
    assert!(
        matches!(remark, RebalanceRemark::Away { units, .. } if units.len() == 6),
        "{remark:?}"
    );
    let after = Some(Duration::from_secs(60));
    let mut world = World::new(
        4,
        3,
        &[(0.4, 200); 6],
        RebalanceOptions { seize_after: after, ..RebalanceOptions::default() },
    );
    world.run(3);
    world.nodes[0].is_here = false;
    assert_eq!(moved(&world.run(6)), 0, "not before its time");
    let rounds = world.run(4);
    assert!(world.at(0).is_empty());
    let seized = rounds.iter().flat_map(|round| &round.steps);
    assert!(seized.into_iter().all(|step| step.seizes), "by force");
    world.nodes[0] = Node { is_here: true, is_draining: false, life: 2, bias: 1.0, waits: 0.0 };
    assert_eq!(moved(&world.run(30)), 0, "one that is back is needed by nobody");
}

#[test]
fn a_node_that_was_added_is_used_when_it_is_asked_for() {
    let mut world = World::new(5, 2, &[(0.4, 300); 6], RebalanceOptions::default());
    assert_eq!(moved(&world.run(20)), 0, "all bounds are kept");
    let options = RebalanceOptions { spreads: true, ..RebalanceOptions::default() };
    let mut world = World::new(5, 2, &[(0.4, 300); 6], options);
    let rounds = world.run(20);
    assert_eq!((world.at(0).len(), world.at(1).len()), (3, 3));
    assert_eq!(moved(&rounds), 3, "each went once");
}

#[test]
fn what_no_move_helps_is_named_once_with_what_would() {
    // One unit with nearly all that a node can do.
    let mut world = World::new(6, 2, &[(3.5, 20)], RebalanceOptions::default());
    let rounds = world.run(10);
    assert_eq!(moved(&rounds), 0);
    let remark = rounds.last().unwrap().remarks.first().unwrap();
    assert!(
        matches!(remark, RebalanceRemark::Missed { why: StayReason::Alone { .. }, .. }),
        "{remark:?}"
    );
    let told = remark.to_string();
    assert!(told.contains("unit-00") && told.contains("records/s"), "{told}");
    assert_eq!(remark.key(), rounds[rounds.len() - 2].remarks[0].key());
}

#[test]
fn subscribers_that_are_slow_move_nothing() {
    let mut world = World::new(7, 2, &[(0.5, 100), (0.5, 100)], RebalanceOptions::default());
    for _ in 0..10 {
        world.step();
        // All results of this unit lie about at their subscribers.
        let counts = &mut world.units[0].counts;
        counts.delivered_late = counts.deliveries;
    }
    let round = world.step();
    assert_eq!(world.moves, 0);
    assert!(round.remarks.iter().any(|remark| matches!(remark, RebalanceRemark::Slow { .. })));
}

#[test]
fn a_move_that_does_not_help_is_made_ever_more_seldom() {
    // Every node is slow in a way that no model can say: a unit misses its bound wherever others are.
    let mut world = World::new(8, 2, &[(0.5, 60), (0.5, 60)], RebalanceOptions::default());
    world.nodes.iter_mut().for_each(|node| node.bias = 5.5);
    let first = moved(&world.run(60));
    let later = moved(&world.run(240));
    assert!(later <= first + 8, "{first} in ten minutes, {later} in forty");
}

#[test]
fn two_of_them_do_no_harm() {
    let mut world = World::new(9, 4, &[(1.0, 100); 8], RebalanceOptions::default());
    let other = world.keepers[0].clone();
    world.keepers.push(other);
    world.run(30);
    assert_eq!(world.missed(), [0_usize; 0]);
    let before = world.moves;
    assert!(before <= 8, "{before} moves of 8 units");
    world.run(60);
    assert_eq!(world.moves, before, "and then it is calm");
}

/// Everything at once, by chance: few moves, and bounds that are kept again when it is calm.
fn storm(seed: u64) {
    let mut random = SplitMix(seed);
    let bounds = [60, 150, 500];
    let mut load = || (0.1 + 0.5 * random.share(), bounds[random.below(3)]);
    let loads: Vec<(f64, u64)> = (0..16).map(|_| load()).collect();
    let after = Some(Duration::from_secs(60));
    let options = RebalanceOptions { seize_after: after, ..RebalanceOptions::default() };
    let mut world = World::new(seed, 5, &loads, options);
    world.nodes.iter_mut().for_each(|node| node.bias = 0.8 + 0.8 * random.share());
    world.run(25);
    assert_eq!(world.missed(), [0_usize; 0], "seed {seed}: at the start");
    let mut before = world.moves;
    for turn in 0..8 {
        match random.below(4) {
            0 => {
                let node = random.below(5);
                let is_draining = (0..5).all(|other| !world.nodes[other].is_draining);
                world.nodes[node].is_draining = is_draining && world.nodes[node].is_here;
            }
            1 => {
                let node = random.below(5);
                let all_here = world.nodes.iter().all(|node| node.is_here);
                let it = &mut world.nodes[node];
                it.is_here = !all_here;
                it.life += u64::from(!all_here);
                world.nodes.iter_mut().filter(|_| !all_here).for_each(|node| node.is_here = true);
            }
            _ => {
                for unit in &mut world.units {
                    if random.below(4) == 0 {
                        unit.topic.rate =
                            (unit.topic.rate * (0.6 + 0.9 * random.share())).min(80.0);
                    }
                }
            }
        }
        let rounds = world.run(40);
        assert_eq!(world.missed(), [0_usize; 0], "seed {seed}, turn {turn}: {:?}", rounds.last());
        assert_eq!(moved(&rounds[30..]), 0, "seed {seed}, turn {turn}: it is calm");
        assert!(world.moves - before <= 16, "seed {seed}, turn {turn}: few moves");
        before = world.moves;
        for node in
            (0..5).filter(|&node| world.nodes[node].is_draining || !world.nodes[node].is_here)
        {
            assert!(world.at(node).is_empty(), "seed {seed}, turn {turn}: {:?}", rounds.last());
        }
    }
    let counts: BTreeMap<usize, usize> = (0..5).map(|node| (node, world.at(node).len())).collect();
    assert_eq!(counts.values().sum::<usize>(), 16);
}

#[test]
fn bounds_are_kept_again_after_whatever_happens() {
    (1..=6).for_each(storm);
}
