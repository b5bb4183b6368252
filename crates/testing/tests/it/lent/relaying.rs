//! A neighbour's record is the neighbour's: it goes back unsent, or it is sent, or nobody can know. It comes
//! twice only in the last case, and then one of the two is marked.

use tidegate_node::io::{Control, Input, OutputId, PathId, PathState};
use tidegate_node::options::NodeOptions;
use tidegate_testing::support::*;
use tidegate_testing::{Wire, offer};
use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;
use tidegate_types::limits::{RELAY_ANSWER_MAX, RELAY_HOLD_MAX};
use tidegate_types::record::{
    DropReason, Foreign, Identity, Offered, Origin, RefuseReason, SourceId, StreamId, Token,
};
use tidegate_types::units::{Rate, Size};

use crate::lent::redirecting::{
    PEER, RELAYED, fall_silent, fleet_options, grant, neighbour, offer_relayed,
};

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
    // Another class's connection is there: the uplink as a whole is not known to fail.
    wire.path(lane(RELAYED), PathState::Down);
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
    let foreign = Some(Foreign { identity, again, left: None });
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

/// So much is reserved for neighbours' records of a class, for long.
fn reserve(wire: &mut Wire, class: ClassId, amount: u64) {
    wire.control(Control::Reserve { class, amount: Amount(amount), lease: ms(60_000) });
}

/// A neighbour's record with so much left of its bound.
fn offer_with(wire: &mut Wire, token: u64, left: u64, size: usize) {
    let origin = Origin { node: "gate-9".into(), incarnation: 7 }.into();
    let identity = Identity { origin, stream: StreamId(4), seq: token };
    let foreign = Some(Foreign { identity, again: false, left: Some(ms(left)) });
    let (source, token) = (SourceId(1), Some(Token(token)));
    let plain = offer(wire.now, 1, "any/key", size);
    wire.handle(Input::Arrived(vec![Offered { source, token, foreign, ..plain }]));
}

/// The keys of what leaves by our uplink, in order, while it carries all that waits.
fn order(wire: &mut Wire) -> Vec<String> {
    wire.forget_history();
    wire.run(ms(2000));
    let first = wire.history.iter().filter(|cut| cut.range.start == 0);
    first.map(|cut| cut.key.to_string()).collect()
}

/// Keys of our own records and of a neighbour's, all of `ls`, in the order of their sending.
fn mixed(reserved: u64, left: u64) -> Vec<String> {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LS);
    reserve(&mut wire, LS, reserved);
    // The uplink is busy, so that what comes next waits.
    (0..5).for_each(|_| wire.offer("ls/first", 5000));
    (0..3).for_each(|token| offer_with(&mut wire, token, left, 996));
    (0..3).for_each(|_| wire.offer("ls/own", 990));
    let mut keys = order(&mut wire);
    keys.retain(|key| key != "ls/first");
    keys
}

#[test]
fn within_a_reservation_the_deadline_decides_and_not_the_owner() {
    const OWN: &str = "ls/own";
    const LENT: &str = "any/key";
    assert_eq!(mixed(1_000_000, 40), [LENT, LENT, LENT, OWN, OWN, OWN], "theirs are due before");
    assert_eq!(mixed(1_000_000, 60)[..3], [OWN; 3], "ours are");
    assert_eq!(mixed(0, 40)[..3], [OWN; 3], "nothing is reserved");
}

#[test]
fn an_alarm_without_a_reservation_goes_back_at_once_where_it_would_wait() {
    for (class, is_busy, is_back) in [(LS, true, true), (LS, false, false), (NM, true, false)] {
        let mut wire = up(fleet_options());
        neighbour(&mut wire, class);
        if is_busy {
            (0..5).for_each(|_| wire.offer("lt/own", 5000));
        }
        offer_with(&mut wire, 1, 40, 996);
        assert_eq!(answered(&wire).len(), usize::from(is_back), "{class:?} {is_busy}");
    }
}

#[test]
fn a_burst_of_a_neighbour_delays_our_own_by_one_record_at_most() {
    // 20 records' worth are reserved a second: each has its turn 50 ms after the one before.
    let keys = mixed(20_000, 40);
    let before = keys.iter().position(|key| key == "ls/own");
    assert_eq!(before, Some(1), "{keys:?}");
}

#[test]
fn a_record_that_is_refused_has_no_part_of_a_reservation() {
    let mut wire = up(NodeOptions { record_max: Size(6000), ..fleet_options() });
    neighbour(&mut wire, LS);
    reserve(&mut wire, LS, 20_000);
    (0..5).for_each(|_| wire.offer("ls/first", 5000));
    offer_with(&mut wire, 1, 40, 8000);
    assert_eq!(answered(&wire), [Err(RefuseReason::Oversize)]);
    offer_with(&mut wire, 2, 40, 996);
    (0..3).for_each(|_| wire.offer("ls/own", 990));
    let keys = order(&mut wire);
    let next = keys.iter().find(|key| *key != "ls/first");
    assert_eq!(next.map(String::as_str), Some("any/key"), "{keys:?}");
}

#[test]
fn a_record_that_waits_for_the_inbound_limit_takes_its_part_of_a_reservation_once() {
    let mut wire = up(NodeOptions { inbound: Some(Rate::new(10_000.0)), ..fleet_options() });
    neighbour(&mut wire, LS);
    // One record's worth in half a second: another one has no place at once.
    reserve(&mut wire, LS, 2_000);
    wire.offer("ls/own", 1490);
    offer_with(&mut wire, 1, 900, 993);
    let went = |wire: &Wire| -> Vec<PathId> {
        let lent = wire.history.iter().filter(|cut| cut.key == "any/key");
        lent.map(|cut| cut.path).collect()
    };
    assert_eq!(went(&wire), [], "it waits to come in");
    wire.run(ms(200));
    assert_eq!(went(&wire), [lane(LS)], "as our own of its class");
}

/// The longest wait of our own `ls` beside our own bulk, in milliseconds; with bursts of a neighbour's `ls`, which are
/// due before ours, or without.
fn longest_wait(has_neighbour: bool) -> u64 {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LS);
    reserve(&mut wire, LS, 10_000);
    let (mut longest, mut waits, mut token) = (0, None, 0);
    for turn in 0..4000 {
        if turn % 10 == 0 {
            wire.offer("lt/own", 1994);
        }
        // Just after the burst came, and in between.
        if turn % 70 == 1 {
            wire.offer("ls/own", 194);
            waits = Some(turn);
        }
        if turn % 200 == 0 && has_neighbour {
            for _ in 0..10 {
                token += 1;
                offer_with(&mut wire, token, 5, 193);
            }
        }
        wire.carry();
        wire.advance(ms(1));
        if wire.history.iter().any(|cut| cut.key == "ls/own") {
            longest = waits.take().map_or(longest, |since| longest.max(turn - since));
        }
        wire.forget_history();
    }
    longest
}

#[test]
fn our_own_alarm_waits_at_most_one_cut_longer_beside_a_neighbours() {
    // 1,400 bytes at 92 kB/s.
    const CUT: u64 = 16;
    let (without, with) = (longest_wait(false), longest_wait(true));
    assert!(with <= without + CUT, "{without} {with}");
}

#[test]
fn a_neighbours_records_within_a_reservation_are_nobodys_demand_and_make_one_hop() {
    let mut wire = up(fleet_options());
    [LS, NM, LT].into_iter().for_each(|class| grant(&mut wire, class, 50_000));
    neighbour(&mut wire, NM);
    reserve(&mut wire, NM, 10_000_000);
    (0..100).for_each(|token| offer_with(&mut wire, token, 900, 996));
    assert_eq!(wire.node.measured(wire.now).unwrap().demand, [Rate::ZERO; 3]);
    wire.run(ms(1500));
    assert!(wire.history.iter().all(|cut| cut.path.output != PEER));
    let measured = wire.node.measured(wire.now).unwrap();
    assert_eq!((measured.output, wire.node.held()), (Rate::ZERO, 0));
}

#[test]
fn what_is_reserved_serves_a_late_record_before_our_own_bulk() {
    for (reserved, first) in [(1_000_000, "any/key"), (0, "lt/own")] {
        let mut wire = up(fleet_options());
        neighbour(&mut wire, NM);
        reserve(&mut wire, NM, reserved);
        (0..5).for_each(|_| wire.offer("lt/first", 5000));
        (0..40).for_each(|token| offer_with(&mut wire, token, 0, 996));
        (0..3).for_each(|_| wire.offer("lt/own", 990));
        let mut keys = order(&mut wire);
        keys.retain(|key| key != "lt/first");
        assert!(keys.len() > 3 && keys[..3].iter().all(|key| key == first), "{keys:?}");
        let bulk = keys.iter().rposition(|key| key == "lt/own");
        assert_eq!(bulk == Some(keys.len() - 1), reserved > 0, "all before it, or after: {keys:?}");
    }
}

#[test]
fn neighbours_bulk_goes_after_our_own_whatever_is_reserved() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LT);
    reserve(&mut wire, LT, 1_000_000);
    (0..5).for_each(|_| wire.offer("lt/first", 5000));
    offer_with(&mut wire, 1, 10, 996);
    (0..3).for_each(|_| wire.offer("lt/own", 990));
    assert_eq!(order(&mut wire).last().map(String::as_str), Some("any/key"));
}

#[test]
fn what_a_reservation_does_not_carry_in_time_goes_back() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LS);
    reserve(&mut wire, LS, 1_000_000);
    // Our own records that are due before hold the uplink for long.
    (0..60).for_each(|_| wire.offer("ls/own", 996));
    offer_with(&mut wire, 1, 300, 996);
    offer_with(&mut wire, 2, 0, 996);
    wire.advance(ms(249));
    assert_eq!(answered(&wire), []);
    wire.advance(ms(1));
    assert_eq!(answered(&wire), [Err(GIVEN_BACK)], "one that came late has its bound anew");
    wire.advance(ms(49));
    assert_eq!(answered(&wire).len(), 1);
    wire.advance(ms(1));
    assert_eq!(answered(&wire), [Err(GIVEN_BACK); 2]);
    let given_back = wire.node.counts().dropped[DropReason::GivenBack.index()];
    assert_eq!(given_back, 2);
}

#[test]
fn an_uplink_that_fails_gives_back_what_neighbours_sent_and_takes_no_more() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, NM);
    reserve(&mut wire, NM, 1_000_000);
    (0..5).for_each(|token| offer_with(&mut wire, token, 1500, 996));
    while wire.send() {}
    fall_silent(&mut wire, Size::ZERO);
    wire.advance(ms(999));
    assert_eq!(answered(&wire), []);
    wire.advance(ms(1));
    assert_eq!(answered(&wire), [Err(GIVEN_BACK); 5], "at once, those on the wire as well");
    offer_with(&mut wire, 9, 900, 996);
    assert_eq!(answered(&wire).len(), 6);
    assert_eq!(wire.node.held(), 0);
}
