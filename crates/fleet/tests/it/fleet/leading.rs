//! The orchestrator: when it decides, what it keeps, and how one takes over from another.

use tidegate_fleet::{
    Directive, EndReason, Fence, FleetDigest, FleetOptions, GrantDecision, MatchingName, NodeId,
    Orchestrator, OrchestratorInput,
};
use tidegate_types::units::Ratio;

use crate::fleet::support::{Leader, at, beat, holding, ms, to};

fn leader() -> Leader {
    let options = FleetOptions { headroom: Ratio::ZERO, ..FleetOptions::default() };
    Leader::new(1, options)
}

/// Node 1 is short of 50 of the last class, node 2 has 80 to lend.
fn one_grant(leader: &mut Leader) -> Vec<Directive> {
    leader.hear(at(0), beat(2, 1, 300, [100, 100, 20]));
    leader.hear(at(10), beat(1, 1, 300, [100, 100, 150]));
    leader.wait(at(200))
}

#[test]
fn a_request_is_granted_and_both_hear_of_it() {
    // Fig. 4, times ten: E_1 wants [100, 100, 150] of 300, E_2 has 80 of 300 to lend.
    let mut leader = leader();
    let directives = one_grant(&mut leader);
    assert_eq!(leader.grants(), [(2, 1, 2, 50)]);
    assert_eq!(to(&directives, 1).grants, to(&directives, 2).grants);
    assert_eq!(
        (to(&directives, 1).fence, to(&directives, 1).beat),
        (Fence { revision: 1, round: 2 }, 1)
    );
    let round = leader.orchestrator.round();
    assert_eq!((round.granted.0, round.changed.0, round.new, round.wanted.0), (50, 50, 1, 50));
}

#[test]
fn people_hear_why_a_grant_was_given_and_why_it_ended() {
    let mut leader = leader();
    one_grant(&mut leader);
    let given: Vec<GrantDecision> = leader.orchestrator.given(NodeId(1)).cloned().collect();
    assert_eq!((given.len(), given[0].grant.amount.0, given[0].until), (1, 50, None));
    assert_eq!((given[0].spare.0, given[0].receiver.total().0), (80, 350));
    leader.hear(at(1000), beat(1, 2, 300, [100, 100, 100]));
    let given: Vec<GrantDecision> = leader.orchestrator.given(NodeId(1)).cloned().collect();
    assert_eq!((given.len(), given[0].until), (1, Some(at(1000))));
    let totals = leader.orchestrator.totals();
    assert_eq!((totals.beats, totals.given, totals.decisions), (3, 1, 3));
    assert_eq!(totals.ended[EndReason::Unwanted.index()], 1);
    assert_eq!(totals.ended.iter().sum::<u64>(), 1);
    // Another leader follows: this one's counters go on, what it knew of nodes is gone.
    leader.orchestrator.handle(at(1100), OrchestratorInput::Deposed);
    assert_eq!(leader.orchestrator.totals(), totals);
    assert_eq!(leader.orchestrator.given(NodeId(1)).count(), 0);
}

#[test]
fn who_goes_on_wanting_goes_on_getting() {
    let mut leader = leader();
    let told = one_grant(&mut leader);
    // Beats are gross: what is granted does not make the want smaller, and small drifts change nothing.
    for (number, wants) in (2..12).zip([150, 151, 149, 152, 148].into_iter().cycle()) {
        let now = number * 1000;
        let of_2 = holding(beat(2, number, 300, [100, 100, 20]), to(&told, 2));
        let of_1 = holding(beat(1, number, 300, [100, 100, wants]), to(&told, 1));
        leader.hear(at(now), of_2);
        leader.hear(at(now + 250), of_1);
        assert_eq!(leader.grants(), [(2, 1, 2, 50)], "at {now}");
        assert_eq!(leader.orchestrator.round().changed.0, 0);
    }
    leader.hear(at(13_000), beat(1, 13, 300, [100, 100, 100]));
    assert_eq!(leader.grants(), []);
}

#[test]
fn decisions_keep_their_distance() {
    let mut leader = leader();
    let rounds = |leader: &Leader| leader.orchestrator.round().number;
    leader.hear(at(0), beat(1, 1, 300, [0, 0, 0]));
    for millis in 1..200 {
        leader.hear(at(millis), beat(1, 1 + millis, 300, [0, 0, millis]));
    }
    assert_eq!(rounds(&leader), 1);
    leader.hear(at(200), beat(1, 300, 300, [0, 0, 9]));
    assert_eq!(rounds(&leader), 2);
    // A solver that took 300 ms is not asked again before 600 are over.
    leader.orchestrator.handle(at(250), OrchestratorInput::Took(ms(300)));
    leader.wait(at(799));
    assert_eq!((rounds(&leader), leader.orchestrator.next_timeout()), (2, Some(at(800))));
    leader.wait(at(800));
    assert_eq!(rounds(&leader), 3);
}

#[test]
fn grants_are_renewed_in_answer_to_beats() {
    let mut leader = leader();
    let told = one_grant(&mut leader);
    assert!(leader.wait(at(900)).is_empty() && leader.wait(at(1100)).is_empty());
    let answer = leader.hear(at(1400), holding(beat(1, 2, 300, [100, 100, 150]), to(&told, 1)));
    assert_eq!((answer.len(), answer[0].beat, answer[0].grants.len()), (1, 2, 1));
    leader.hear(at(1450), holding(beat(2, 2, 300, [100, 100, 20]), to(&told, 2)));
    // Who holds nothing and has obeyed is left in peace.
    let mut idle = beat(3, 1, 300, [0, 0, 0]);
    let greeted = leader.hear(at(1700), idle.clone());
    idle = holding(idle, to(&greeted, 3));
    (idle.number, idle.peers) = (2, None);
    let later = leader.hear(at(2700), idle);
    assert!(later.iter().all(|one| one.node != NodeId(3)), "{later:?}");
}

#[test]
fn who_falls_silent_is_gone_and_who_comes_back_anew_holds_nothing() {
    let mut leader = leader();
    let told = one_grant(&mut leader);
    let of_1 = holding(beat(1, 2, 300, [100, 100, 150]), to(&told, 1));
    let mut restarted = beat(2, 1, 300, [100, 100, 20]);
    restarted.incarnation = 2;
    leader.hear(at(1000), of_1.clone());
    let directives = leader.hear(at(1500), restarted);
    // Its grant is over and is given anew in the same decision.
    assert_eq!(leader.grants(), [(2, 1, 2, 50)]);
    assert_ne!(to(&directives, 2).grants[0].token, to(&told, 2).grants[0].token);
    for number in 3..8 {
        let mut of_1 = of_1.clone();
        of_1.number = number;
        leader.hear(at(number * 1000), of_1);
    }
    assert_eq!(leader.grants(), []);
    assert_eq!(leader.orchestrator.members().count(), 1);
}

#[test]
fn a_provider_that_ended_a_grant_ends_it_for_all() {
    let mut leader = leader();
    let told = one_grant(&mut leader);
    let mut of_2 = holding(beat(2, 2, 300, [100, 100, 200]), to(&told, 2));
    of_2.held.clear();
    let directives = leader.hear(at(1000), of_2);
    assert_eq!((leader.grants(), to(&directives, 1).grants.len()), (vec![], 0));
}

#[test]
fn a_new_leader_goes_on_with_what_the_nodes_hold() {
    for order in [[1, 2], [2, 1]] {
        let mut old = leader();
        let told = one_grant(&mut old);
        let mut new = Leader::new(9, FleetOptions::default());
        for (place, node) in order.into_iter().enumerate() {
            let demand = if node == 1 { [100, 100, 150] } else { [100, 100, 20] };
            let first = holding(beat(node, 7, 300, demand), to(&told, node));
            let peers = beat(node, 1, 0, [0, 0, 0]).peers;
            let now = at(3000 + place as u64 * 1000);
            let answers = new.hear(now, tidegate_fleet::Heartbeat { peers, ..first });
            // The same token all the time: the nodes notice nothing but the fence.
            let answer = to(&answers, node);
            assert_eq!(answer.grants, to(&told, node).grants, "{order:?}");
            assert_eq!(answer.fence.revision, 9);
        }
        assert_eq!(new.grants(), [(2, 1, 2, 50)]);
        assert_eq!(new.orchestrator.round().changed.0, 0);
    }
}

#[test]
fn a_grant_whose_other_side_never_comes_ends() {
    let mut old = leader();
    let told = one_grant(&mut old);
    let mut new = Leader::new(9, FleetOptions::default());
    let of_2 = |number| holding(beat(2, number, 300, [100, 100, 20]), to(&told, 2));
    new.hear(at(0), of_2(7));
    for number in 8..11 {
        new.hear(at((number - 7) * 999), of_2(number));
    }
    assert_eq!(new.grants().len(), 1);
    new.hear(at(3300), of_2(11));
    assert_eq!(new.grants(), []);
}

#[test]
fn a_receiver_cannot_bring_back_what_its_provider_ended() {
    let mut old = leader();
    let told = one_grant(&mut old);
    let mut new = Leader::new(9, FleetOptions::default());
    new.hear(at(0), beat(2, 7, 300, [100, 100, 190]));
    new.hear(at(300), holding(beat(1, 7, 300, [100, 100, 150]), to(&told, 1)));
    assert_eq!(new.grants(), []);
}

#[test]
fn who_does_not_lead_says_nothing() {
    let mut leader = leader();
    leader.orchestrator.handle(at(0), OrchestratorInput::Deposed);
    assert!(one_grant(&mut leader).is_empty());
    assert_eq!((leader.orchestrator.next_timeout(), leader.orchestrator.revision()), (None, None));
}

#[test]
fn a_drained_node_is_left_by_its_borrowers() {
    let mut leader = leader();
    one_grant(&mut leader);
    leader.orchestrator.handle(at(300), OrchestratorInput::Drain(NodeId(2), true));
    leader.wait(at(500));
    assert_eq!(leader.grants(), []);
    leader.orchestrator.handle(at(600), OrchestratorInput::Drain(NodeId(2), false));
    leader.wait(at(800));
    assert_eq!(leader.grants(), [(2, 1, 2, 50)]);
}

#[test]
fn what_only_the_leader_knows_outlives_it() {
    let mut old = leader();
    one_grant(&mut old);
    old.orchestrator.handle(at(300), OrchestratorInput::Drain(NodeId(2), true));
    let digest = old.orchestrator.digest(at(400));
    assert_eq!(digest.drained, [NodeId(2)]);
    // A standby hears it, and what it hears while it leads itself changes nothing.
    let mut new = Orchestrator::new(FleetOptions { headroom: Ratio::ZERO, ..Default::default() });
    let apart = vec![(NodeId(1), NodeId(3), ms(30_000))];
    new.handle(at(0), OrchestratorInput::Inherit(FleetDigest { apart, ..digest }));
    new.handle(at(1000), OrchestratorInput::Elected { revision: 9 });
    new.handle(at(1000), OrchestratorInput::Inherit(FleetDigest::default()));
    let mut new = Leader { orchestrator: new };
    new.hear(at(1000), beat(2, 1, 300, [100, 100, 20]));
    new.hear(at(1100), beat(3, 1, 300, [100, 100, 20]));
    new.hear(at(1200), beat(1, 1, 300, [100, 100, 150]));
    new.wait(at(1500));
    assert_eq!(new.grants(), [], "one is drained, the other did not help");
    new.orchestrator.handle(at(1600), OrchestratorInput::Drain(NodeId(2), false));
    new.wait(at(1800));
    assert_eq!(new.grants(), [(2, 1, 2, 50)]);
    // A leader that is elected again, with nobody in between, knows it still.
    old.orchestrator.handle(at(500), OrchestratorInput::Deposed);
    old.orchestrator.handle(at(600), OrchestratorInput::Elected { revision: 11 });
    assert_eq!(old.orchestrator.digest(at(600)).drained, [NodeId(2)]);
}

#[test]
fn lenders_are_named_to_who_is_short() {
    let mut leader = leader();
    leader.hear(at(0), beat(1, 1, 300, [100, 100, 500]));
    for (node, bulk) in [(2, 0), (3, 90), (4, 100), (5, 0), (6, 0)] {
        leader.hear(at(0), beat(node, 1, 300, [100, 100, bulk]));
    }
    leader.orchestrator.handle(at(100), OrchestratorInput::Drain(NodeId(5), true));
    let lenders = |leader: &Leader, of: u64| -> Vec<u64> {
        let named = leader.orchestrator.lenders(at(100), NodeId(of), |node| node != NodeId(6));
        named.into_iter().map(|node| node.0).collect()
    };
    // 100 of 400 are a quarter, 10 are not; 4 has nothing, 5 is drained, 6 is far away.
    assert_eq!(lenders(&leader, 1), [2, 3]);
    assert_eq!(lenders(&leader, 9), [0; 0], "nobody knows it");
    leader.wait(at(200));
    assert_eq!(leader.grants(), [(2, 1, 2, 100), (3, 1, 2, 10)]);
    assert_eq!(lenders(&leader, 1), [0; 0], "everything is lent");
}

#[test]
fn with_any_matching_grants_stay_and_urgent_requests_get_their_place() {
    for matching in MatchingName::ALL {
        let options = FleetOptions { headroom: Ratio::ZERO, matching, ..FleetOptions::default() };
        let mut leader = Leader::new(1, options);
        let told = one_grant(&mut leader);
        // Node 3 wants 70 of the most urgent class; 80 are there, of which bulk has 50.
        leader.hear(at(300), beat(3, 1, 100, [170, 0, 0]));
        leader.wait(at(500));
        let name = matching.name();
        assert_eq!(leader.grants(), [(2, 1, 2, 10), (2, 3, 0, 70)], "{name}");
        let tokens: Vec<u64> = leader.orchestrator.grants().map(|one| one.grant.token.id).collect();
        assert_eq!(tokens[0], to(&told, 1).grants[0].token.id, "{name}");
    }
}

#[test]
fn a_node_that_claims_more_than_any_uplink_has_lends_and_borrows_nothing() {
    let mut leader = leader();
    let huge = 1 << 62;
    leader.hear(at(0), beat(2, 1, huge, [0, 0, 0]));
    leader.hear(at(10), beat(1, 1, 300, [100, 100, 150]));
    leader.wait(at(200));
    assert_eq!(leader.grants(), [], "nobody is given the records of others by a lie");
    assert_eq!(leader.orchestrator.totals().false_claims, 1);
    assert_eq!(leader.orchestrator.members().count(), 1);
    // A backlog may ask for what no uplink carries, in every class: it is given what there is, and sums have a number.
    leader.hear(at(1000), beat(2, 2, 300, [100, 100, 20]));
    leader.hear(at(1010), beat(1, 2, 300, [huge, huge, huge]));
    leader.wait(at(1210));
    assert_eq!(leader.grants().iter().map(|grant| grant.3).sum::<u64>(), 80);
    assert_eq!(leader.orchestrator.totals().false_claims, 1);
}
