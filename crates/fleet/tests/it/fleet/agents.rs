//! The agent: when it speaks, whom it obeys, how long it believes.

use tidegate_fleet::{
    Agent, AgentInput, AgentOutput, Amount, Fence, FleetOptions, NodeId, ReachablePeer,
};
use tidegate_types::units::{Size, Time};

use crate::fleet::support::{
    LS, LT, NM, agent, at, beats, directive, grant, measured, ms, outputs,
};

/// Feeds the same figures until the averages are there.
fn settle(agent: &mut Agent, from: u64, capacity: u64, demand: [u64; 3]) -> u64 {
    let until = from + 10_000;
    for millis in (from..until).step_by(100) {
        agent.handle(at(millis), measured(capacity, demand));
    }
    outputs(agent);
    until
}

#[test]
fn it_speaks_once_a_second_and_on_change() {
    let (mut agent, first) = agent(1, at(0));
    assert_eq!((first.number, first.node), (1, NodeId(1)));
    let now = settle(&mut agent, 0, 1000, [100, 100, 100]);
    let mut said = Vec::new();
    for millis in (now..now + 3000).step_by(50) {
        agent.handle(at(millis), measured(1000, [100, 100, 104]));
        said.extend(beats(&mut agent).into_iter().map(|_| millis - now));
    }
    let apart: Vec<u64> = said.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(apart, [1000, 1000], "{said:?}");
    // A jump is told when its average has moved by a tenth of the capacity, and 200 ms apart at least.
    let mut jumped = Vec::new();
    for millis in (now + 3000..now + 5000).step_by(50) {
        agent.handle(at(millis), measured(1000, [100, 100, 900]));
        jumped.extend(beats(&mut agent).into_iter().map(|_| millis - now - 3000));
    }
    assert!(jumped.len() > 4, "{jumped:?}");
    assert!(jumped.windows(2).all(|pair| pair[1] - pair[0] >= 200), "{jumped:?}");
}

#[test]
fn without_a_leader_it_is_silent_and_a_new_one_hears_all_at_once() {
    let (mut agent, _) = agent(1, at(0));
    let peers = vec![ReachablePeer { node: NodeId(2), distance: 7 }];
    agent.handle(at(300), AgentInput::Peers(peers.clone()));
    assert_eq!(beats(&mut agent)[0].peers, Some(peers.clone()));
    agent.handle(at(400), AgentInput::Directive(directive(1, 1, 2, &[])));
    agent.handle(at(1400), AgentInput::Timeout);
    assert_eq!(beats(&mut agent)[0].peers, None);
    agent.handle(at(1500), AgentInput::Leader(false));
    assert_eq!(agent.next_timeout(), None);
    agent.handle(at(9000), AgentInput::Timeout);
    assert!(beats(&mut agent).is_empty());
    agent.handle(at(9001), AgentInput::Leader(true));
    let beat = beats(&mut agent).remove(0);
    assert_eq!((beat.peers, beat.number), (Some(peers), 4));
    assert_eq!(beat.heard, Fence { revision: 1, round: 1 });
}

#[test]
fn a_directive_is_all_that_holds() {
    let (mut agent, beat) = agent(1, at(0));
    let (lent, borrowed) = (grant(1, 1, 2, LT, 50), grant(2, 3, 1, NM, 70));
    agent.handle(at(10), AgentInput::Directive(directive(1, 1, beat.number, &[lent, borrowed])));
    let granted = [AgentOutput::Granted(lent), AgentOutput::Granted(borrowed)];
    assert_eq!(outputs(&mut agent), granted);
    let more = grant(2, 3, 1, NM, 90);
    agent.handle(at(20), AgentInput::Directive(directive(1, 2, beat.number, &[more])));
    assert_eq!(outputs(&mut agent), [AgentOutput::Ended(lent), AgentOutput::Granted(more)]);
    // An older one, the same again, one for somebody else, one for an earlier life: nothing happens.
    let mut other_life = directive(1, 9, beat.number, &[]);
    other_life.incarnation = 2;
    let others = [
        directive(1, 1, beat.number, &[lent]),
        directive(1, 2, beat.number, &[]),
        directive(2, 9, beat.number, &[]),
        other_life,
    ];
    for other in others {
        agent.handle(at(30), AgentInput::Directive(other));
    }
    assert!(outputs(&mut agent).is_empty());
    assert_eq!(agent.borrowed().count(), 1);
}

#[test]
fn a_deposed_leader_is_refused() {
    let (mut agent, beat) = agent(1, at(0));
    let mut of_new = directive(1, 1, beat.number, &[]);
    of_new.fence = Fence { revision: 7, round: 1 };
    agent.handle(at(10), AgentInput::Directive(of_new));
    let late = directive(1, 900, beat.number, &[grant(1, 2, 1, LS, 10)]);
    agent.handle(at(20), AgentInput::Directive(late));
    assert_eq!((outputs(&mut agent), agent.borrowed().count()), (vec![], 0));
    assert_eq!(agent.heard(), Fence { revision: 7, round: 1 });
}

#[test]
fn the_receiver_stops_before_the_provider_however_long_a_directive_takes() {
    // The clocks have nothing in common.
    let (start, ours) = (Time::from_secs_f64(1e6), Time::from_secs_f64(3.0));
    let (mut receiver, beat) = agent(2, start);
    let (mut provider, its_beat) = agent(1, ours);
    let lent = grant(1, 1, 2, LT, 50);
    let late = ms(2500);
    let told = directive(2, 1, beat.number, &[lent]);
    receiver.handle(start + late, AgentInput::Directive(told));
    let told = directive(1, 1, its_beat.number, &[lent]);
    provider.handle(ours + late, AgentInput::Directive(told));
    let ends = |agent: &Agent, start: Time| {
        let held: Vec<Time> = agent.lent().chain(agent.borrowed()).map(|one| one.until).collect();
        held[0].since(start)
    };
    assert_eq!((ends(&receiver, start), ends(&provider, ours)), (ms(5000), ms(8500)));
    receiver.handle(start + ms(5000), AgentInput::Timeout);
    assert!(outputs(&mut receiver).contains(&AgentOutput::Ended(lent)));
    // It came when the lease was over: it gives nothing.
    let told = directive(2, 2, beat.number, &[lent]);
    receiver.handle(start + ms(5001), AgentInput::Directive(told));
    assert_eq!(receiver.borrowed().count(), 0);
}

#[test]
fn a_provider_that_needs_its_uplink_lends_less_without_asking() {
    let (mut agent, beat) = agent(1, at(0));
    let now = settle(&mut agent, 0, 1000, [100, 100, 100]);
    let told = [grant(1, 1, 2, LT, 300), grant(2, 1, 3, LS, 300)];
    agent.handle(at(now), AgentInput::Directive(directive(1, 1, beat.number, &told)));
    let usable = |agent: &Agent| -> Vec<u64> { agent.lent().map(|one| one.usable.0).collect() };
    assert_eq!(usable(&agent), [300, 300]);
    // 500 of its own leave 500: the urgent grant keeps all, bulk the rest.
    let now = settle(&mut agent, now, 1000, [100, 100, 300]);
    let renewed = agent.lent().count();
    assert_eq!(renewed, 0, "ten seconds without a renewal");
    let beat = {
        agent.handle(at(now + 1000), AgentInput::Timeout);
        beats(&mut agent).remove(0)
    };
    agent.handle(at(now + 1000), AgentInput::Directive(directive(1, 2, beat.number, &told)));
    assert_eq!(usable(&agent), [200, 300]);
    // A capacity that falls is believed at once.
    agent.handle(at(now + 1100), measured(600, [100, 100, 300]));
    assert_eq!(usable(&agent), [0, 100]);
}

#[test]
fn what_is_carried_is_told_and_a_lost_peer_lends_nothing() {
    let (mut agent, beat) = agent(1, at(0));
    let (lent, borrowed) = (grant(1, 1, 2, LT, 50_000), grant(2, 3, 1, NM, 70));
    let told = directive(1, 1, beat.number, &[lent, borrowed]);
    agent.handle(at(0), AgentInput::Directive(told));
    for millis in (100..=4000).step_by(100) {
        agent.handle(at(millis), AgentInput::Carried(lent.token, Size(5000)));
    }
    let beat = beats(&mut agent).pop().unwrap();
    let carried = beat.held.iter().map(|held| held.carried.0).collect::<Vec<_>>();
    assert!((45_000..=50_000).contains(&carried[0]) && carried[1] == 0, "{carried:?}");
    agent.handle(at(4100), AgentInput::PeerLost(NodeId(3)));
    assert_eq!(outputs(&mut agent), [AgentOutput::Ended(borrowed)]);
    // The leader hears of it as soon as a beat may go.
    assert_eq!(agent.next_timeout(), Some(at(4200)));
}

#[test]
fn averages_are_gross_and_of_a_second() {
    let options = FleetOptions::default();
    let mut agent = Agent::new(NodeId(1), 1, options);
    agent.handle(at(0), measured(1000, [0, 0, 0]));
    for millis in (100..=1000).step_by(100) {
        agent.handle(at(millis), measured(1000, [0, 0, 2000]));
    }
    let wanted = agent.tuple().demand[2];
    assert!((1250..1280).contains(&wanted.0), "63 % of 2000: {wanted:?}");
    assert_eq!(agent.tuple().capacity, Amount(1000));
}
