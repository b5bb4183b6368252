//! Small fleets whose matchings can be worked out by hand.

use tidegate_evaluation::audit::MatchingAudit;
use tidegate_fleet::{Amount, Candidates, MatchingName, MatchingProblem, Peer, Redirection};

/// Nodes whose peers are those listed, at those distances.
fn candidates(rows: &[&[(u32, u32)]]) -> Candidates {
    let mut candidates = Candidates::default();
    for row in rows {
        let peer = |&(place, distance): &(u32, u32)| Peer { place, distance };
        candidates.push(&row.iter().map(peer).collect::<Vec<_>>());
    }
    candidates
}

fn problem<'a>(
    candidates: &'a Candidates,
    wanted: &[[u64; 3]],
    spare: &[u64],
) -> MatchingProblem<'a> {
    let wanted = wanted.iter().flatten().copied().map(Amount).collect();
    MatchingProblem::new(candidates, wanted, spare.iter().copied().map(Amount).collect())
}

/// As (receiver, class, provider, amount), in order.
fn solve(matching: MatchingName, problem: &MatchingProblem<'_>) -> Vec<(u32, u8, u32, u64)> {
    let redirections = matching.solve(problem, 1);
    let audit = MatchingAudit::new(problem, &redirections);
    assert!(audit.broken.is_empty(), "{}: {:?}", matching.name(), audit.broken);
    let plain = |one: &Redirection| (one.receiver, one.class, one.provider, one.amount.0);
    let mut found: Vec<_> = redirections.iter().map(plain).collect();
    found.sort_unstable();
    found
}

fn served(matching: MatchingName, problem: &MatchingProblem<'_>) -> Vec<u64> {
    let audit = MatchingAudit::new(problem, &matching.solve(problem, 1));
    audit.classes.iter().map(|class| class.served.0).collect()
}

#[test]
fn every_matching_agrees_on_the_working_example() {
    // Fig. 4: E_1 asks for [0, 0, -5], E_2 has [8, 0, 0] to lend.
    let candidates = candidates(&[&[(1, 1)], &[(0, 1)]]);
    let problem = problem(&candidates, &[[0, 0, 5], [0; 3]], &[0, 8]);
    for matching in MatchingName::ALL {
        assert_eq!(solve(matching, &problem), [(0, 2, 1, 5)], "{}", matching.name());
    }
}

#[test]
fn the_printed_loop_serves_a_provider_at_a_time_and_the_text_a_request() {
    // Providers 2 (10) and 3 (8); node 0 wants 6 urgently, node 1 wants 7.
    let all: &[(u32, u32)] = &[(2, 1), (3, 1)];
    let candidates = candidates(&[all, all, &[], &[]]);
    let problem = problem(&candidates, &[[6, 0, 0], [0, 7, 0], [0; 3], [0; 3]], &[0, 0, 10, 8]);
    let printed = [(0, 0, 2, 6), (1, 1, 2, 4), (1, 1, 3, 3)];
    assert_eq!(solve(MatchingName::Pmrfs, &problem), printed);
    let text = [(0, 0, 2, 6), (1, 1, 3, 7)];
    assert_eq!(solve(MatchingName::PmrfsText, &problem), text);
}

#[test]
fn rivals_order_requests_as_their_names_say() {
    // One provider of 10; requests of 4 (first, bulk), 9 (urgent) and 6.
    let to: &[(u32, u32)] = &[(3, 1)];
    let candidates = candidates(&[to, to, to, &[]]);
    let wanted = [[0, 0, 4], [9, 0, 0], [0, 6, 0], [0; 3]];
    let problem = problem(&candidates, &wanted, &[0, 0, 0, 10]);
    assert_eq!(served(MatchingName::Pmrfs, &problem), [9, 1, 0]);
    assert_eq!(served(MatchingName::Fcfs, &problem), [6, 0, 4]);
    assert_eq!(served(MatchingName::Lrfs, &problem), [0, 6, 4]);
    assert_eq!(served(MatchingName::BestFit, &problem), [9, 0, 1]);
    let asked = (0..12).rev().collect();
    assert_eq!(served(MatchingName::Fcfs, &problem.clone().asked(asked)), [4, 6, 0]);
    let audit = MatchingAudit::new(&problem, &MatchingName::Fcfs.solve(&problem, 1));
    assert_eq!(audit.inversions(), 2, "{audit:?}");
}

#[test]
fn a_request_that_has_one_provider_pushes_another_aside() {
    // Node 0 reaches 2 and 3, node 1 only 2; both providers have 5. The larger request takes 2 first.
    let candidates = candidates(&[&[(2, 1), (3, 9)], &[(2, 1)], &[], &[]]);
    let problem = problem(&candidates, &[[5, 0, 0], [4, 0, 0], [0; 3], [0; 3]], &[0, 0, 5, 5]);
    assert_eq!(served(MatchingName::PmrfsText, &problem), [5, 0, 0]);
    for matching in [MatchingName::Augment, MatchingName::Flow] {
        assert_eq!(served(matching, &problem), [9, 0, 0], "{}", matching.name());
    }
    assert_eq!(solve(MatchingName::Flow, &problem), [(0, 0, 2, 1), (0, 0, 3, 4), (1, 0, 2, 4)]);
}

#[test]
fn augment_takes_the_smallest_provider_that_can_serve_all() {
    let candidates = candidates(&[&[(1, 1), (2, 1), (3, 1)], &[], &[], &[]]);
    let problem = problem(&candidates, &[[0, 0, 5], [0; 3], [0; 3], [0; 3]], &[0, 4, 9, 6]);
    assert_eq!(solve(MatchingName::Augment, &problem), [(0, 2, 3, 5)]);
}

#[test]
fn flow_takes_the_nearest_provider() {
    let candidates = candidates(&[&[(1, 7), (2, 3), (3, 5)], &[], &[], &[]]);
    let problem = problem(&candidates, &[[2, 0, 5], [0; 3], [0; 3], [0; 3]], &[0, 9, 3, 9]);
    assert_eq!(solve(MatchingName::Flow, &problem), [(0, 0, 2, 2), (0, 2, 2, 1), (0, 2, 3, 4)]);
}

#[test]
fn what_is_held_stays_where_it_fits() {
    let held = |receiver, class, provider, amount| Redirection {
        receiver,
        class,
        provider,
        amount: Amount(amount),
    };
    let both: &[(u32, u32)] = &[(2, 1), (3, 1)];
    let candidates = candidates(&[both, both, &[], &[]]);
    let wanted = [[0, 0, 5], [0, 3, 0], [0; 3], [0; 3]];
    let problem = problem(&candidates, &wanted, &[0, 0, 6, 9]);
    // Anew, the middle request takes 2, which fits it best. What bulk holds there stays there.
    assert_eq!(solve(MatchingName::Augment, &problem), [(0, 2, 3, 5), (1, 1, 2, 3)]);
    let kept = problem.clone().holding(vec![held(0, 2, 2, 5)]);
    assert_eq!(solve(MatchingName::Augment, &kept), [(0, 2, 2, 5), (1, 1, 3, 3)]);
    // What is more than is wanted shrinks.
    let shrunk = problem.holding(vec![held(0, 2, 3, 8), held(1, 1, 2, 9)]);
    assert_eq!(solve(MatchingName::Augment, &shrunk), [(0, 2, 3, 5), (1, 1, 2, 3)]);
}

#[test]
fn an_urgent_request_takes_what_bulk_holds_only_if_it_must() {
    let held = vec![Redirection { receiver: 0, class: 2, provider: 2, amount: Amount(6) }];
    let to: &[(u32, u32)] = &[(2, 1)];
    let narrow = candidates(&[to, to, &[], &[]]);
    let wanted = [[0, 0, 6], [4, 0, 0], [0; 3], [0; 3]];
    let spare = [0, 0, 6, 5];
    let problem_of = |candidates| problem(candidates, &wanted, &spare).holding(held.clone());
    assert_eq!(solve(MatchingName::Augment, &problem_of(&narrow)), [(0, 2, 2, 2), (1, 0, 2, 4)]);
    let wide = candidates(&[to, &[(2, 1), (3, 1)], &[], &[]]);
    assert_eq!(solve(MatchingName::Augment, &problem_of(&wide)), [(0, 2, 2, 6), (1, 0, 3, 4)]);
}

#[test]
fn nobody_and_nothing_are_fleets_too() {
    let nobody = Candidates::default();
    let alone = candidates(&[&[]]);
    for matching in MatchingName::ALL {
        assert!(solve(matching, &problem(&nobody, &[], &[])).is_empty());
        assert!(solve(matching, &problem(&alone, &[[1, 0, 0]], &[0])).is_empty());
        assert_eq!(matching.name().parse(), Ok(matching));
    }
    assert!("janus".parse::<MatchingName>().unwrap_err().contains("pmrfs-text"));
}
