//! A neighbour's record is the neighbour's: it goes back unsent, or it is sent, or nobody can know. It comes
//! twice only in the last case, and then one of the two is marked.

use tidegate_node::io::{Input, OutputId, PathState};
use tidegate_testing::{Wire, offer};
use tidegate_types::limits::{RELAY_ANSWER_MAX, RELAY_HOLD_MAX};
use tidegate_types::record::{
    DropReason, Foreign, Identity, Offered, Origin, RefuseReason, SourceId, StreamId, Token,
};

use crate::node::redirecting::{PEER, fleet_options, grant, neighbour, offer_relayed};
use crate::node::support::*;

const GIVEN_BACK: RefuseReason = RefuseReason::Dropped(DropReason::GivenBack);

/// Answers for the neighbour's records.
fn answered(wire: &Wire) -> Vec<Result<(), RefuseReason>> {
    let relayed = wire.answers.iter().filter(|(source, ..)| source.0 == 1);
    relayed.map(|(.., result)| *result).collect()
}

#[test]
fn what_the_uplink_does_not_take_in_time_goes_back_and_is_never_sent() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LT);
    wire.down();
    (0..5).for_each(|token| offer_relayed(&mut wire, token));
    wire.advance(RELAY_HOLD_MAX - ms(1));
    assert_eq!(answered(&wire), []);
    wire.advance(ms(1));
    assert_eq!(answered(&wire), [Err(GIVEN_BACK); 5]);
    wire.up();
    wire.run(ms(2000));
    assert!(wire.history.is_empty() && wire.node.held() == 0);
}

#[test]
fn a_provider_that_stood_still_sends_nothing_that_its_receiver_took_back() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LT);
    wire.path(lane(LT), PathState::Down);
    wire.down();
    offer_relayed(&mut wire, 1);
    // The whole process stood still: the connection comes up before the timer is heard of.
    wire.now += RELAY_ANSWER_MAX;
    wire.up();
    assert!(wire.history.is_empty());
    assert_eq!(answered(&wire), [Err(GIVEN_BACK)]);
}

#[test]
fn without_the_far_ends_answer_it_goes_back_when_a_lease_is_over() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LT);
    offer_relayed(&mut wire, 1);
    let id = wire.history[0].id;
    while wire.send() {}
    wire.advance(RELAY_ANSWER_MAX - ms(1));
    assert_eq!(answered(&wire), []);
    wire.advance(ms(1));
    assert_eq!(answered(&wire), [Err(GIVEN_BACK)]);
    assert_eq!(wire.node.held(), 0);
    // The word comes after all, and changes nothing.
    wire.confirm(&[id]);
    assert_eq!((answered(&wire).len(), wire.node.counts().confirmed), (1, 0));
}

#[test]
fn what_was_sent_when_the_uplink_broke_goes_back_when_its_time_is_over() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LT);
    offer_relayed(&mut wire, 1);
    while wire.send() {}
    wire.advance(RELAY_HOLD_MAX + ms(500));
    wire.down();
    assert_eq!(answered(&wire), [Err(GIVEN_BACK)]);
    wire.up();
    assert_eq!(wire.history.len(), 1, "it is not sent again from here");
}

#[test]
fn our_own_records_wait_for_ever() {
    let mut wire = up(fleet_options());
    wire.down();
    wire.offer("lt/a", 100);
    wire.advance(ms(60_000));
    wire.up();
    wire.run(ms(1000));
    assert_eq!((wire.node.held(), wire.node.counts().confirmed), (0, 1));
}

/// A neighbour's record, which may have arrived before or not.
fn relayed(wire: &Wire, again: bool) -> Offered {
    let origin = Origin { node: "gate-9".into(), incarnation: 7 }.into();
    let identity = Identity { origin, stream: StreamId(4), seq: 1 };
    let foreign = Some(Foreign { identity, again });
    let (source, token) = (SourceId(1), Some(Token(1)));
    Offered { source, token, foreign, ..offer(wire.now, 1, "any/key", 100) }
}

#[test]
fn the_far_end_hears_of_the_class_that_a_record_has_at_its_own_node() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LT);
    let offered = relayed(&wire, false);
    wire.handle(Input::Arrived(vec![offered]));
    assert_eq!(wire.node.class_of(wire.history[0].id), Some(LT));
}

#[test]
fn a_mark_crosses_the_link() {
    for again in [false, true] {
        let mut wire = up(fleet_options());
        neighbour(&mut wire, LT);
        let offered = relayed(&wire, again);
        wire.handle(Input::Arrived(vec![offered]));
        assert_eq!(wire.history[0].again, again);
    }
}

#[test]
fn a_record_that_may_have_arrived_goes_by_a_neighbour_with_its_mark() {
    let mut wire = up(fleet_options());
    (0..100).for_each(|_| wire.offer("lt/a", 996));
    let under_way = wire.history.len();
    assert!(under_way > 0);
    // Our own connections break; what was on them may have arrived.
    for path in wire.paths().into_iter().filter(|path| path.output == OutputId(0)) {
        wire.path(path, PathState::Down);
    }
    wire.forget_history();
    grant(&mut wire, LT, 40_000);
    wire.run(ms(1000));
    let by_peer: Vec<bool> =
        wire.history.iter().filter(|cut| cut.path.output == PEER).map(|cut| cut.again).collect();
    assert!(by_peer.len() > under_way);
    assert!(by_peer[..under_way].iter().all(|again| *again));
    assert!(by_peer[under_way..].iter().all(|again| !again));
}
