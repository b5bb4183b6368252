//! Standing permits: given before anything fails, and held without a leader and over a lost link.

use tidegate_fleet::{
    Agent, AgentInput, Amount, Directive, Fence, FencingToken, FleetDigest, FleetOptions, Grant,
    Heartbeat, NodeId, Orchestrator, OrchestratorInput, OrchestratorOutput, ReachablePeer,
    StandingPermits,
};
use tidegate_types::class::ClassId;
use tidegate_types::units::Time;

use crate::fleet::support::{agent, beats, directive, measured, ms};

const NM: ClassId = ClassId(1);
const NOW: Time = Time::from_millis(10_000);

/// A leader that has heard of nodes of these capacities, all of which reach each other and want nothing.
fn leader(capacities: &[u64]) -> (Orchestrator, Vec<Agent>, Vec<Directive>) {
    let mut leader = Orchestrator::new(FleetOptions::default());
    // The first two did not help each other before.
    let apart = vec![(NodeId(0), NodeId(1), ms(60_000)), (NodeId(1), NodeId(0), ms(60_000))];
    let drained = Vec::new();
    leader.handle(NOW, OrchestratorInput::Inherit(FleetDigest { drained, apart }));
    leader.handle(NOW, OrchestratorInput::Elected { revision: 1 });
    let mut agents = Vec::new();
    for (node, &capacity) in (0..).zip(capacities) {
        agents.push(join(&mut leader, NOW, node, capacity));
    }
    let said = decide(&mut leader, NOW + ms(200));
    (leader, agents, said)
}

/// A node comes and reaches the first ten.
fn join(leader: &mut Orchestrator, now: Time, node: u64, capacity: u64) -> Agent {
    let mut agent = Agent::new(NodeId(node), 1, FleetOptions::default());
    let reach = |peer| ReachablePeer { node: NodeId(peer), distance: 1 };
    agent.handle(now, measured(capacity, [10, 10, 10]));
    let peers = (0..10).filter(|peer| *peer != node).map(reach).collect();
    agent.handle(now, AgentInput::Peers(peers));
    agent.handle(now, AgentInput::Leader(true));
    let beat = beats(&mut agent).pop().expect("it says that it is there");
    leader.handle(now, OrchestratorInput::Beat(beat));
    agent
}

fn decide(leader: &mut Orchestrator, now: Time) -> Vec<Directive> {
    leader.handle(now, OrchestratorInput::Timeout);
    let said = std::iter::from_fn(|| leader.poll());
    said.map(|OrchestratorOutput::Directive(directive)| directive).collect()
}

/// What a directive permits: provider, receiver, amount.
fn permits(said: &[Directive], node: u64) -> Vec<(u64, u64, u64)> {
    let own = said.iter().filter(|one| one.node == NodeId(node));
    let all = own.filter_map(|one| one.standing.as_ref()).flat_map(|one| &one.permits);
    all.map(|one| (one.provider.0, one.receiver.0, one.amount.0)).collect()
}

fn permit(revision: u64, amount: u64) -> StandingPermits {
    let token = FencingToken { revision, id: 0 };
    let (provider, receiver) = (NodeId(1), NodeId(2));
    let permits = vec![Grant { token, provider, receiver, class: NM, amount: Amount(amount) }];
    StandingPermits { lease: ms(600_000), permits }
}

#[test]
fn neighbours_hold_a_tenth_of_each_other_before_anything_fails() {
    let (mut leader, _, said) = leader(&[3000, 2000, 1000]);
    let all = permits(&said, 0);
    // 300 of the first are for two others, 200 of the second, 100 of the third.
    let expected = [(0, 1, 150), (0, 2, 150), (1, 0, 100), (2, 0, 50)];
    assert!(expected.iter().all(|one| all.contains(one)) && all.len() == 4, "{all:?}");
    let classes = said.iter().filter_map(|one| one.standing.as_ref()).flat_map(|one| &one.permits);
    assert!(classes.clone().all(|one| one.class == NM), "lt is not urgent");
    let again = decide(&mut leader, NOW + ms(400));
    assert!(again.iter().all(|one| one.standing.is_none()), "{again:?}");
}

#[test]
fn a_permit_is_told_again_when_it_changes_or_was_not_heard_or_half_its_time_is_over() {
    let (mut leader, mut agents, said) = leader(&[3000, 2000]);
    let beat = |agents: &mut [Agent], at: usize, now, capacity| {
        agents[at].handle(now, measured(capacity, [10, 10, 10]));
        beats(&mut agents[at]).pop().expect("its figures are news")
    };
    let obey = |agents: &mut [Agent], said: &[Directive], now| {
        for one in said {
            agents[one.node.0 as usize].handle(now, AgentInput::Directive(one.clone()));
        }
    };
    // Only the first hears it.
    let first: Vec<Directive> = said.into_iter().filter(|one| one.node == NodeId(0)).collect();
    obey(&mut agents, &first, NOW + ms(250));
    let later = NOW + ms(1500);
    for at in 0..2 {
        let beat = beat(&mut agents, at, later, if at == 0 { 3000 } else { 2000 });
        leader.handle(later, OrchestratorInput::Beat(beat));
    }
    let said = decide(&mut leader, later + ms(200));
    assert_eq!((permits(&said, 0).len(), permits(&said, 1).len()), (0, 2), "{said:?}");
    obey(&mut agents, &said, later + ms(250));
    // The first one's uplink falls to nothing: nobody may send by it.
    let fallen = later + ms(1500);
    let news = beat(&mut agents, 0, fallen, 0);
    leader.handle(fallen, OrchestratorInput::Beat(news));
    let said = decide(&mut leader, fallen + ms(200));
    assert_eq!(permits(&said, 1), [(1, 0, 200)]);
    obey(&mut agents, &said, fallen + ms(250));
    let mut told = Vec::new();
    for second in 1..=301 {
        let now = fallen + ms(second * 1000);
        for (at, capacity) in [(0, 0), (1, 2000)] {
            let beat = beat(&mut agents, at, now, capacity);
            leader.handle(now, OrchestratorInput::Beat(beat));
        }
        let said = decide(&mut leader, now);
        let permitted = said.iter().filter(|one| one.standing.is_some());
        told.extend(permitted.map(|one| (second, one.node.0)));
        obey(&mut agents, &said, now);
    }
    assert_eq!(told, [(300, 0), (300, 1)], "half of ten minutes after the last time");
}

#[test]
fn a_seventh_that_has_nothing_to_lend_is_told_of_to_the_six_that_it_reaches() {
    let (mut leader, _, _) = leader(&[3000; 6]);
    let later = NOW + ms(1500);
    join(&mut leader, later, 6, 0);
    // The share of each falls by a sixth: too little to be told by itself.
    let said = decide(&mut leader, later + ms(200));
    for provider in 0..6 {
        let own: Vec<_> = permits(&said, provider);
        assert!(own.contains(&(provider, 6, 50)), "{provider}: {own:?}");
    }
    assert_eq!(permits(&said, 6).len(), 6);
    let again = decide(&mut leader, later + ms(400));
    assert!(again.iter().all(|one| one.standing.is_none()), "{again:?}");
}

#[test]
fn what_was_obeyed_of_an_earlier_leader_is_no_answer_to_a_later_one() {
    let (mut leader, mut agents, _) = leader(&[3000, 2000]);
    // Both have obeyed a late round of the first leader, and nothing of this one.
    let mut both = |leader: &mut Orchestrator, now| {
        for (agent, capacity) in agents.iter_mut().zip([3000, 2000]) {
            agent.handle(now, measured(capacity, [10, 10, 10]));
            let beat = beats(agent).pop().expect("a second has passed");
            let heard = Fence { revision: 1, round: 1000 };
            leader.handle(now, OrchestratorInput::Beat(Heartbeat { heard, ..beat }));
        }
        decide(leader, now + ms(200))
    };
    let later = NOW + ms(1500);
    leader.handle(later, OrchestratorInput::Deposed);
    leader.handle(later, OrchestratorInput::Elected { revision: 2 });
    for turn in 0..3 {
        let said = both(&mut leader, later + ms(turn * 1500));
        assert_eq!([0, 1].map(|node| permits(&said, node).len()), [2, 2], "{turn}: {said:?}");
    }
}

#[test]
fn a_permit_outlives_the_leader_and_the_link_and_ends_with_its_time() {
    let (mut agent, _) = agent(2, NOW);
    let first = Directive { standing: Some(permit(1, 100)), ..directive(2, 1, 1, &[]) };
    agent.handle(NOW, AgentInput::Directive(first));
    agent.handle(NOW, AgentInput::Leader(false));
    agent.handle(NOW, AgentInput::PeerLost(NodeId(1)));
    let almost = NOW + ms(599_999);
    agent.handle(almost, AgentInput::Timeout);
    assert_eq!(agent.borrowing()[&(NodeId(1), NM)], (Amount(100), NOW + ms(600_000)));
    assert_eq!(agent.next_timeout(), Some(NOW + ms(600_000)));
    agent.handle(NOW + ms(600_000), AgentInput::Timeout);
    assert!(agent.borrowing().is_empty());
}

#[test]
fn the_same_leader_ends_a_permit_and_a_later_one_replaces_it() {
    let (mut agent, _) = agent(2, NOW);
    let mut say = |revision: u64, round: u64, standing: Option<StandingPermits>| {
        let mut said = Directive { standing, ..directive(2, round, 1, &[]) };
        said.fence.revision = revision;
        agent.handle(NOW, AgentInput::Directive(said));
        agent.borrowing().values().map(|(amount, _)| amount.0).collect::<Vec<_>>()
    };
    assert_eq!(say(1, 1, Some(permit(1, 100))), [100]);
    assert_eq!(say(1, 2, None), [100], "it says nothing of them");
    assert_eq!(say(2, 1, Some(StandingPermits::default())), [100], "it does not know them");
    assert_eq!(say(2, 2, Some(permit(2, 70))), [70]);
    assert_eq!(say(2, 3, Some(StandingPermits::default())), [0; 0]);
}

#[test]
fn a_provider_reserves_a_tenth_of_what_it_measures_at_most() {
    let mut agent = Agent::new(NodeId(1), 1, FleetOptions::default());
    for receiver in 2..5 {
        agent.agree((NodeId(1), NodeId(receiver)), Amount(40));
        agent.agree((NodeId(receiver), NodeId(1)), Amount(40));
    }
    agent.handle(NOW, measured(1000, [300, 300, 900]));
    let reserved = agent.reserved().iter().map(|(amount, _)| amount.0).collect::<Vec<_>>();
    assert_eq!(reserved, [0, 100, 0], "though its own classes are short");
    assert_eq!(agent.borrowing().len(), 3, "no leader is needed");
    agent.handle(NOW, measured(0, [300, 300, 900]));
    assert_eq!(agent.reserved()[1].0, Amount::ZERO);
}
