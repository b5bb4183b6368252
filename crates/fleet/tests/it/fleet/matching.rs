//! Matchings on random fleets, against an optimum that is computed in another way.

use proptest::prelude::*;
use tidegate_evaluation::audit::{ClassAudit, MatchingAudit};
use tidegate_fleet::{Amount, Candidates, MatchingName, MatchingProblem, Peer, Redirection};

const CLASSES: usize = 3;

/// A fleet as plain numbers.
#[derive(Clone, Debug)]
struct Fleet {
    rows: Vec<Vec<(u32, u32)>>,
    wanted: Vec<u64>,
    spare: Vec<u64>,
    /// What of the first matching is granted already, in percent.
    held: u64,
}

fn fleets() -> impl Strategy<Value = Fleet> {
    (2..14_usize).prop_flat_map(|nodes| {
        let row = proptest::collection::vec((0..nodes as u32, 1..50_u32), 0..6);
        // Half of the nodes want nothing, so that there is something to lend.
        let wants = proptest::collection::vec(0..30_u64, CLASSES);
        let wanted = proptest::collection::vec(
            prop_oneof![Just(vec![0; CLASSES]), wants.clone(), wants.prop_map(only_some)],
            nodes,
        );
        let spare = proptest::collection::vec(0..40_u64, nodes);
        (proptest::collection::vec(row, nodes), wanted, spare, 0..150_u64).prop_map(
            |(rows, wanted, spare, held)| Fleet { rows, wanted: wanted.concat(), spare, held },
        )
    })
}

fn only_some(mut wants: Vec<u64>) -> Vec<u64> {
    wants[0] = 0;
    wants
}

impl Fleet {
    fn candidates(&self) -> Candidates {
        let mut candidates = Candidates::default();
        for row in &self.rows {
            let peer = |&(place, distance): &(u32, u32)| Peer { place, distance };
            candidates.push(&row.iter().map(peer).collect::<Vec<_>>());
        }
        candidates
    }

    fn problem<'a>(&self, candidates: &'a Candidates) -> MatchingProblem<'a> {
        let amounts = |numbers: &[u64]| numbers.iter().copied().map(Amount).collect();
        MatchingProblem::new(candidates, amounts(&self.wanted), amounts(&self.spare))
    }
}

/// What all classes up to `class` could get together: the largest flow, by paths that a depth-first
/// search finds in a matrix. The volume of a class is by how much it raises that.
fn largest_flow(problem: &MatchingProblem<'_>, class: usize) -> u64 {
    let nodes = problem.nodes();
    let (source, sink) = (2 * nodes, 2 * nodes + 1);
    let mut room = vec![vec![0_u64; 2 * nodes + 2]; 2 * nodes + 2];
    for node in 0..nodes {
        let row = &problem.wanted()[node * CLASSES..=node * CLASSES + class];
        room[source][node] = row.iter().map(|amount| amount.0).sum();
        room[nodes + node][sink] = problem.spare()[node].0;
        for peer in problem.candidates().peers(node) {
            room[node][nodes + peer.place as usize] = u64::MAX / 4;
        }
    }
    let mut volume = 0;
    loop {
        let mut seen = vec![false; room.len()];
        let pushed = push(&mut room, &mut seen, (source, sink), u64::MAX);
        if pushed == 0 {
            return volume;
        }
        volume += pushed;
    }
}

fn push(room: &mut [Vec<u64>], seen: &mut [bool], (at, sink): (usize, usize), most: u64) -> u64 {
    if at == sink {
        return most;
    }
    seen[at] = true;
    for next in 0..room.len() {
        if room[at][next] == 0 || seen[next] {
            continue;
        }
        let pushed = push(room, seen, (next, sink), most.min(room[at][next]));
        if pushed > 0 {
            room[at][next] -= pushed;
            room[next][at] += pushed;
            return pushed;
        }
    }
    0
}

fn optimum(problem: &MatchingProblem<'_>) -> Vec<u64> {
    let up_to: Vec<u64> = (0..CLASSES).map(|class| largest_flow(problem, class)).collect();
    (0..CLASSES)
        .map(|class| up_to[class] - class.checked_sub(1).map_or(0, |below| up_to[below]))
        .collect()
}

fn volumes(audit: &MatchingAudit) -> Vec<u64> {
    audit.classes.iter().map(|class: &ClassAudit| class.served.0).collect()
}

/// Whether the same could be carried by shorter ways: whether the network of what could be moved has a
/// circle of negative length (Bellman and Ford).
fn could_be_shorter(problem: &MatchingProblem<'_>, redirections: &[Redirection]) -> bool {
    let nodes = problem.nodes();
    let sink = nodes;
    let mut lent = vec![0; nodes];
    let mut edges: Vec<(usize, usize, i64)> = Vec::new();
    for redirection in redirections {
        let (receiver, provider) = (redirection.receiver as usize, redirection.provider as usize);
        let way = problem.candidates().way(receiver, provider).expect("a candidate");
        edges.push((provider, receiver, -i64::from(problem.candidates().peer(way).distance)));
        lent[provider] += redirection.amount.0;
    }
    for (node, &lent) in lent.iter().enumerate() {
        let row = &problem.wanted()[node * CLASSES..(node + 1) * CLASSES];
        let wants = row.iter().any(|amount| amount.0 > 0);
        for peer in problem.candidates().peers(node) {
            if wants && problem.spare()[peer.place as usize].0 > 0 {
                edges.push((node, peer.place as usize, i64::from(peer.distance)));
            }
        }
        if lent > 0 {
            edges.push((sink, node, 0));
        }
        if lent < problem.spare()[node].0 {
            edges.push((node, sink, 0));
        }
    }
    let mut length = vec![0_i64; nodes + 1];
    for _ in 0..=nodes + 1 {
        let mut is_shorter = false;
        for &(from, to, step) in &edges {
            if length[from] + step < length[to] {
                length[to] = length[from] + step;
                is_shorter = true;
            }
        }
        if !is_shorter {
            return false;
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn no_matching_lends_more_than_there_is_or_serves_more_than_is_wanted(
        fleet in fleets(), seed in any::<u64>()
    ) {
        let candidates = fleet.candidates();
        let problem = fleet.problem(&candidates);
        let best = optimum(&problem);
        for matching in MatchingName::ALL {
            let audit = MatchingAudit::new(&problem, &matching.solve(&problem, seed));
            prop_assert!(audit.broken.is_empty(), "{}: {:?}", matching.name(), audit.broken);
            let total: u64 = best.iter().sum();
            prop_assert!(audit.served().0 <= total, "{} beats the optimum", matching.name());
        }
    }

    #[test]
    fn augment_and_flow_serve_every_class_as_well_as_can_be(fleet in fleets()) {
        let candidates = fleet.candidates();
        let problem = fleet.problem(&candidates);
        let best = optimum(&problem);
        for matching in [MatchingName::Augment, MatchingName::Flow] {
            let audit = MatchingAudit::new(&problem, &matching.solve(&problem, 1));
            prop_assert_eq!(&volumes(&audit), &best, "{}", matching.name());
        }
    }

    #[test]
    fn what_is_held_costs_no_volume(fleet in fleets(), other in fleets()) {
        let candidates = fleet.candidates();
        let problem = fleet.problem(&candidates);
        // Held is what some other demand on the same fleet was granted, and somewhat more or less.
        let nodes = problem.nodes();
        let mut before = fleet.clone();
        before.wanted = (0..nodes * CLASSES).map(|at| other.wanted[at % other.wanted.len()]).collect();
        before.spare = (0..nodes).map(|at| other.spare[at % other.spare.len()]).collect();
        let mut held = MatchingName::Augment.solve(&before.problem(&candidates), 1);
        held.iter_mut().for_each(|one| one.amount = Amount(one.amount.0 * fleet.held / 100));
        let problem = problem.holding(held);
        let audit = MatchingAudit::new(&problem, &MatchingName::Augment.solve(&problem, 1));
        prop_assert!(audit.broken.is_empty(), "{:?}", audit.broken);
        prop_assert_eq!(volumes(&audit), optimum(&problem));
    }

    #[test]
    fn flow_takes_the_shortest_ways(fleet in fleets()) {
        let candidates = fleet.candidates();
        let problem = fleet.problem(&candidates);
        let redirections = MatchingName::Flow.solve(&problem, 1);
        prop_assert!(!could_be_shorter(&problem, &redirections), "{:?}", redirections);
    }

    #[test]
    fn priorities_are_never_inverted(fleet in fleets()) {
        let candidates = fleet.candidates();
        let problem = fleet.problem(&candidates);
        let keep = [
            MatchingName::Pmrfs, MatchingName::PmrfsText, MatchingName::Augment, MatchingName::Flow
        ];
        for matching in keep {
            let audit = MatchingAudit::new(&problem, &matching.solve(&problem, 1));
            prop_assert_eq!(audit.inversions(), 0, "{}", matching.name());
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_matching(fleet in fleets(), seed in any::<u64>()) {
        let candidates = fleet.candidates();
        let problem = fleet.problem(&candidates);
        for matching in MatchingName::ALL {
            prop_assert_eq!(matching.solve(&problem, seed), matching.solve(&problem, seed));
        }
    }
}

#[test]
fn rivals_do_invert_priorities() {
    // The property above would hold for anything if nothing could break it.
    let mut candidates = Candidates::default();
    let to = [Peer { place: 2, distance: 1 }];
    [&to[..], &to, &[]].into_iter().for_each(|row| candidates.push(row));
    let wanted = [0, 0, 3, 8, 0, 0, 0, 0, 0].map(Amount).to_vec();
    let problem = MatchingProblem::new(&candidates, wanted, [0, 0, 5].map(Amount).to_vec());
    for matching in [MatchingName::Fcfs, MatchingName::Lrfs] {
        let audit = MatchingAudit::new(&problem, &matching.solve(&problem, 1));
        assert_eq!(audit.inversions(), 1, "{}", matching.name());
    }
}
