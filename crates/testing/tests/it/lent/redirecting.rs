//! A neighbour's uplink carries what ours does not; ours carries a neighbour's records after our own.

use std::sync::Arc;

use tidegate_capacity::RateControllerName;
use tidegate_node::io::{
    Control, Destination, Event, Input, OutputId, PathId, PathSample, PathState, Refusal,
};
use tidegate_node::options::{FleetSeat, NodeOptions, OptionsError};
use tidegate_node::rules::{Rule, Rules};
use tidegate_testing::support::*;
use tidegate_testing::{Cut, Wire};
use tidegate_types::amount::Amount;
use tidegate_types::class::{ClassId, ClassSpec, Classes, default_classes};
use tidegate_types::record::{AcceptMode, DropReason, RefuseReason};
use tidegate_types::units::{Rate, Ratio, Size};

pub(crate) const PEER: OutputId = OutputId(1);
pub(crate) const RELAYED: ClassId = ClassId(3);
/// Bytes/s of our own uplink.
pub(crate) const OWN: f64 = 100_000.0;

fn fleet_classes() -> Classes {
    let mut specs = default_classes();
    specs.push(ClassSpec::new("relay", ms(2000)));
    specs.iter_mut().for_each(|spec| spec.min_share = Ratio::ZERO);
    Classes::new(specs).unwrap()
}

fn relay(of: ClassId) -> Rule {
    Rule::relay(&fleet_classes(), of, RELAYED, OutputId(0))
}

/// Three streams to `cloud` over 100 kB/s, a neighbour on a line without end, rules of relayed records.
pub(crate) fn fleet_options() -> NodeOptions {
    let mut rules = rules();
    rules.extend([LS, NM, LT].map(relay));
    rules.extend([LS, NM, LT].map(|of| Rule::reserved(&fleet_classes(), of, OutputId(0))));
    NodeOptions {
        classes: fleet_classes(),
        rules: Rules::new(rules).unwrap(),
        uplinks: vec![
            uplink(RateControllerName::Known, Some(Rate::new(OWN))),
            uplink(RateControllerName::Unlimited, None),
        ],
        outputs: vec![output(0), output(1)],
        fleet: Some(FleetSeat { output: OutputId(0), relayed: RELAYED }),
        ..options(Vec::new())
    }
}

pub(crate) fn grant(wire: &mut Wire, class: ClassId, amount: u64) {
    let (peer, amount) = (PEER, Amount(amount));
    wire.control(Control::Grant { peer, class, amount, lease: ms(5000) });
}

/// Bytes of a class that went by an output.
pub(crate) fn bytes(wire: &Wire, output: OutputId, class: ClassId) -> u64 {
    let path = PathId { output, lane: class.0 };
    wire.history
        .iter()
        .filter(|cut| cut.path == path)
        .map(|cut| cut.range.end - cut.range.start)
        .sum()
}

/// So many records of 1,000 bytes a second of a class, for so long.
pub(crate) fn load(wire: &mut Wire, key: &str, per_second: u64, millis: u64) {
    for turn in 0..millis {
        if turn * per_second / 1000 != (turn + 1) * per_second / 1000 {
            wire.offer(key, 1000 - key.len());
        }
        wire.carry();
        wire.advance(ms(1));
    }
}

/// The same, on an uplink that carries 92 kB/s and no more.
fn load_on(wire: &mut Wire, key: &str, per_second: u64, millis: u64) {
    let mut budget = 0;
    for turn in 0..millis {
        if turn * per_second / 1000 != (turn + 1) * per_second / 1000 {
            wire.offer(key, 1000 - key.len());
        }
        budget = (budget + 92).min(1092);
        let size = |cut: &Cut| cut.range.end - cut.range.start;
        while let Some(own) = wire.cuts.iter().find(|cut| cut.path.output != PEER).cloned()
            && size(&own) <= budget
        {
            budget -= size(&own);
            wire.send_on(own.path);
            wire.acknowledge(own.path, ms(1));
            wire.confirm(&[own.id]);
        }
        carry_by_peer(wire);
        wire.advance(ms(1));
    }
}

/// Figures of our own uplink: its newest round trip, and what is below on the connection of a class.
pub(crate) fn report(wire: &mut Wire, class: ClassId, rtt: u64, in_flight: u64) {
    let (rtt, in_flight) = (Some(ms(rtt)), Size(in_flight));
    let sample = PathSample { rtt, in_flight, ..PathSample::default() };
    wire.handle(Input::PathSample { path: lane(class), sample });
}

#[test]
fn what_is_granted_goes_by_the_neighbour_at_its_pace() {
    let mut wire = up(fleet_options());
    load(&mut wire, "lt/a", 200, 2000);
    assert_eq!(bytes(&wire, PEER, LT), 0, "nothing is granted");
    let before = bytes(&wire, OutputId(0), LT);
    grant(&mut wire, LT, 50_000);
    load(&mut wire, "lt/a", 200, 4000);
    let (by_peer, by_us) = (bytes(&wire, PEER, LT), bytes(&wire, OutputId(0), LT) - before);
    assert!((195_000..=205_000).contains(&by_peer), "{by_peer}");
    assert!(by_us >= 360_000, "our own uplink stays full: {by_us}");
    let status = wire.node.status(wire.now);
    assert_eq!(status.outputs[1].redirected, Size(by_peer));
}

/// The same where records of the most urgent class and the least urgent one are lent to these neighbours alone.
fn lent_to(peers: &[OutputId]) -> NodeOptions {
    let only = |mut rule: Rule| {
        rule.lent_to = Some(peers.into()).filter(|_| rule.class != NM);
        rule
    };
    let options = fleet_options();
    let own = rules().into_iter().map(only);
    let others = options.rules.iter().map(|(_, rule)| rule.clone());
    let others = others.filter(|rule| rule.relays.is_some());
    NodeOptions { rules: Rules::new(own.chain(others).collect()).unwrap(), ..options }
}

#[test]
fn records_whose_far_end_is_not_the_neighbours_are_not_lent() {
    for (peers, is_lent) in [(&[PEER][..], true), (&[OutputId(7)], false), (&[], false)] {
        let mut wire = up(lent_to(peers));
        [LS, NM, LT].into_iter().for_each(|class| grant(&mut wire, class, 50_000));
        load(&mut wire, "lt/a", 200, 2000);
        assert_eq!(bytes(&wire, PEER, LT) > 0, is_lent, "{peers:?}");
        load(&mut wire, "nm/a", 200, 2000);
        assert!(bytes(&wire, PEER, NM) > 0, "others are");
        // Our own uplink is silent from now on: all that may leaves.
        for _ in 0..400 {
            wire.offer("ls/a", 100);
            carry_by_peer(&mut wire);
            wire.advance(ms(10));
        }
        assert_eq!(bytes(&wire, PEER, LS) > 0, is_lent, "{peers:?}");
    }
}

/// A rule of this bound beside that of `class`, whose records no neighbour may carry: frames are such ones, and go first.
fn with_own(class: ClassId, topic: &str) -> NodeOptions {
    let options = fleet_options();
    let classes = &options.classes;
    let own = Rule { lent_to: Some([].into()), class, ..rules()[usize::from(class.0)].clone() };
    let own = own.for_topics(classes, topic, &[&format!("{topic}/#")], ms(40)).unwrap();
    let own = Rule { class, ..own };
    let others = options.rules.iter().map(|(_, rule)| rule.clone());
    NodeOptions {
        rules: Rules::new(std::iter::once(own).chain(others).collect()).unwrap(),
        ..options
    }
}

/// Keys of what the neighbour was handed.
fn keys_by_peer(wire: &Wire) -> Vec<String> {
    let by_peer = wire.history.iter().filter(|cut| cut.path.output == PEER);
    by_peer.map(|cut| cut.key.clone()).collect()
}

#[test]
fn one_that_may_not_be_lent_holds_up_none_of_its_class() {
    // Too much for the uplink.
    let mut wire = up(with_own(LT, "frames"));
    grant(&mut wire, LT, 50_000);
    (0..100).for_each(|_| wire.offer("frames/a", 996));
    (0..10).for_each(|_| wire.offer("lt/a", 996));
    assert!(!keys_by_peer(&wire).is_empty());
    assert!(keys_by_peer(&wire).iter().all(|key| key == "lt/a"), "lent");
    // The uplink is silent, with one of each on the wire.
    for class in [LS, NM] {
        let mut wire = up(with_own(class, "frames"));
        grant(&mut wire, class, 50_000);
        let other = ["ls/a", "nm/a"][usize::from(class.0)];
        wire.offer("frames/a", 20);
        wire.offer(other, 20);
        while wire.send() {}
        fall_silent(&mut wire, Size::ZERO);
        wire.advance(ms(1000));
        for _ in 0..100 {
            wire.offer("frames/a", 20);
            wire.offer(other, 20);
            carry_by_peer(&mut wire);
            wire.advance(ms(10));
        }
        let gone = keys_by_peer(&wire);
        assert!(gone.len() > 90 && gone.iter().all(|key| key == other), "evacuated: {gone:?}");
    }
    // An alarm that a queue below makes late.
    let mut options = with_own(LS, "frames");
    options.uplinks[0] = uplink(RateControllerName::Tide, Some(Rate::new(OWN)));
    let mut wire = up(options);
    grant(&mut wire, NM, 50_000);
    report(&mut wire, LT, 10, 0);
    wire.offer("frames/a", 20);
    wire.offer("frames/a", 20);
    report(&mut wire, LT, 60, 5000);
    wire.offer("ls/a", 20);
    assert_eq!(keys_by_peer(&wire), ["ls/a"], "hurried");
}

#[test]
fn what_one_neighbour_may_not_carry_goes_by_another_one() {
    let peers = [PEER, OutputId(2)];
    for only in peers {
        let mut options = lent_to(&[only]);
        options.uplinks.push(uplink(RateControllerName::Unlimited, None));
        options.outputs.push(output(2));
        let mut wire = up(options);
        for peer in peers {
            let (class, amount, lease) = (LS, Amount(50_000), ms(5000));
            wire.control(Control::Grant { peer, class, amount, lease });
        }
        fall_silent(&mut wire, Size::ZERO);
        wire.advance(ms(1000));
        wire.offer("ls/a", 20);
        let by = |peer: OutputId| wire.history.iter().any(|cut| cut.path.output == peer);
        assert_eq!(peers.map(by), peers.map(|peer| peer == only), "{only:?}");
    }
}

#[test]
fn what_the_uplink_carries_soon_stays_here() {
    let mut wire = up(fleet_options());
    [LS, NM, LT].into_iter().for_each(|class| grant(&mut wire, class, 50_000));
    load(&mut wire, "lt/a", 80, 3000);
    let redirected: u64 = [LS, NM, LT].iter().map(|&class| bytes(&wire, PEER, class)).sum();
    assert_eq!(redirected, 0);
}

#[test]
fn the_least_urgent_leaves_first_and_only_what_is_granted() {
    let mut wire = up(fleet_options());
    [NM, LT].into_iter().for_each(|class| grant(&mut wire, class, 500_000));
    for _ in 0..1000 {
        wire.offer("lt/a", 1000);
        wire.offer("ls/a", 20);
        wire.offer("nm/a", 40);
        wire.carry();
        wire.advance(ms(5));
    }
    assert!(bytes(&wire, PEER, LT) > 300_000, "{}", bytes(&wire, PEER, LT));
    assert_eq!([LS, NM].map(|class| bytes(&wire, PEER, class)), [0, 0]);
    let status = wire.node.status(wire.now);
    assert_eq!(status.classes[0].counts.violated, 0);
}

#[test]
fn a_lease_ends_by_itself_and_a_grant_by_nothing() {
    let mut wire = up(fleet_options());
    grant(&mut wire, LT, 50_000);
    load(&mut wire, "lt/a", 300, 5100);
    let at_end = bytes(&wire, PEER, LT);
    assert!((240_000..=255_000).contains(&at_end), "five seconds of it: {at_end}");
    load(&mut wire, "lt/a", 300, 1000);
    assert_eq!(bytes(&wire, PEER, LT), at_end);
    grant(&mut wire, LT, 50_000);
    load(&mut wire, "lt/a", 300, 1000);
    let again = bytes(&wire, PEER, LT);
    assert!(again >= at_end + 45_000);
    grant(&mut wire, LT, 0);
    load(&mut wire, "lt/a", 300, 500);
    assert_eq!(bytes(&wire, PEER, LT), again);
}

#[test]
fn what_has_no_answer_holds_the_next_back() {
    let mut wire = up(fleet_options());
    grant(&mut wire, LT, 40_000);
    (0..200).for_each(|_| wire.offer("lt/a", 996));
    // Our own uplink goes on; the neighbour takes and says nothing.
    for _ in 0..300 {
        while wire.send() {}
        wire.acknowledge(lane(LT), ms(1));
        let own = wire.unconfirmed.iter().filter(|(_, path)| path.output != PEER);
        let own: Vec<_> = own.map(|(id, _)| *id).collect();
        wire.confirm(&own);
        wire.advance(ms(1));
    }
    assert_eq!(bytes(&wire, PEER, LT), 10_000, "a quarter of a second of the grant");
}

#[test]
fn a_lost_neighbour_gives_all_back_in_order_and_marked() {
    let mut wire = up(fleet_options());
    grant(&mut wire, LT, 40_000);
    (0..100).for_each(|_| wire.offer("lt/a", 996));
    wire.advance(ms(300));
    let gone: Vec<_> = wire.history.iter().filter(|cut| cut.path.output == PEER).cloned().collect();
    assert_eq!(gone.len(), 10);
    wire.destination(PEER, false);
    wire.run(ms(3000));
    let marked: Vec<_> =
        wire.history.iter().filter(|cut| cut.again && cut.range.start == 0).collect();
    let ids = |cuts: &[tidegate_testing::Cut]| cuts.iter().map(|cut| cut.id).collect::<Vec<_>>();
    let marked: Vec<_> = marked.into_iter().cloned().collect();
    assert_eq!(ids(&marked), ids(&gone), "in their old order, before what came later");
    assert!(marked.iter().all(|cut| cut.path == lane(LT)));
    assert_eq!((wire.node.held(), wire.node.counts().confirmed), (0, 100));
}

#[test]
fn a_record_that_a_neighbour_refuses_has_no_other_fate_here() {
    let mut wire = up(fleet_options());
    grant(&mut wire, LT, 40_000);
    (0..100).for_each(|_| wire.offer("lt/a", 996));
    let by_peer = |wire: &Wire| {
        let open = wire.unconfirmed.iter().filter(|(_, path)| path.output == PEER);
        open.map(|(id, _)| *id).collect::<Vec<_>>()
    };
    wire.advance(ms(100));
    let refused = by_peer(&wire);
    wire.refuse(&refused[..1], Refusal::Retry);
    wire.refuse(&refused[1..2], Refusal::Final(DropReason::Oversize));
    wire.run(ms(3000));
    let counts = wire.node.counts();
    assert_eq!((wire.node.held(), counts.confirmed, counts.dropped_all()), (0, 99, 1));
}

#[test]
fn a_durable_record_is_forgotten_when_the_neighbour_has_the_answer() {
    let mut options = fleet_options();
    let mut rules: Vec<Rule> = options.rules.iter().map(|(_, rule)| rule.clone()).collect();
    rules[2].accept = AcceptMode::Durable;
    options.rules = Rules::new(rules).unwrap();
    let mut wire = up(options);
    grant(&mut wire, LT, 1_000_000);
    (0..50).for_each(|_| wire.offer("lt/a", 996));
    wire.sync();
    assert!(wire.unconfirmed.iter().any(|(_, path)| path.output == PEER));
    wire.run(ms(2000));
    wire.sync();
    assert_eq!((wire.node.held(), wire.node.counts().confirmed), (0, 50));
}

/// A neighbour's connection: number 1.
pub(crate) fn neighbour(wire: &mut Wire, class: ClassId) {
    let name: Arc<str> = "gate-9/4".into();
    let source = tidegate_types::record::SourceId(1);
    wire.control(Control::Open { source, name, relays: Some(class) });
}

pub(crate) fn offer_relayed(wire: &mut Wire, token: u64) {
    let mut offered = tidegate_testing::offer(wire.now, 1, "any/key", 996);
    offered.token = Some(tidegate_types::record::Token(token));
    wire.handle(tidegate_node::io::Input::Arrived(vec![offered]));
}

#[test]
fn a_neighbours_records_go_last_and_are_answered_when_the_far_end_has_them() {
    let mut wire = up(fleet_options());
    // An alarm without a reservation would go back at once.
    neighbour(&mut wire, NM);
    (0..20).for_each(|_| wire.offer("lt/a", 996));
    (0..5).for_each(|token| offer_relayed(&mut wire, token));
    (0..20).for_each(|_| wire.offer("lt/a", 996));
    wire.forget_history();
    assert!(wire.answers.is_empty());
    wire.run(ms(1000));
    let keys: Vec<&str> = wire.history.iter().map(|cut| cut.key.as_str()).collect();
    let first = keys.iter().position(|key| *key == "any/key").unwrap();
    assert!(keys[first..].iter().all(|key| *key == "any/key"), "our own go first: {keys:?}");
    let relayed = wire.answers.iter().filter(|(source, ..)| source.0 == 1);
    assert!(relayed.clone().all(|(_, _, result)| result.is_ok()));
    assert_eq!(relayed.count(), 5);
}

#[test]
fn a_neighbours_records_count_as_nobodys_demand_and_go_no_further() {
    let mut wire = up(fleet_options());
    [LS, NM, LT].into_iter().for_each(|class| grant(&mut wire, class, 50_000));
    neighbour(&mut wire, LT);
    (0..100).for_each(|token| offer_relayed(&mut wire, token));
    let measured = wire.node.measured(wire.now).unwrap();
    assert_eq!(measured.demand, [Rate::ZERO; 3]);
    wire.run(ms(2000));
    assert!(wire.history.iter().all(|cut| cut.path.output != PEER), "one hop");
    assert_eq!(wire.node.held(), 0);
}

#[test]
fn what_an_agent_hears_is_gross() {
    let mut wire = up(fleet_options());
    grant(&mut wire, LT, 80_000);
    load(&mut wire, "lt/a", 150, 4000);
    let measured = wire.node.measured(wire.now).unwrap();
    let lt = measured.demand[2].as_f64();
    assert!((145_000.0..=175_000.0).contains(&lt), "150 kB/s come, 10 kB may wait: {lt}");
    assert!((measured.output.as_f64() / OWN - 0.92).abs() < 0.1, "{:?}", measured.output);
}

#[test]
fn an_idle_uplink_is_believed_to_carry_what_is_configured() {
    let mut options = fleet_options();
    options.uplinks[0] = uplink(RateControllerName::Tide, Some(Rate::new(1e6)));
    let mut wire = up(options);
    let told = |wire: &mut Wire| wire.node.measured(wire.now).unwrap().capacity;
    assert_eq!(told(&mut wire), Rate::new(1e6));
    // It is asked for more than it carries: what it shows counts.
    (0..500).for_each(|_| wire.offer("lt/a", 996));
    assert!(told(&mut wire) < Rate::new(1e6), "{:?}", told(&mut wire));
}

#[test]
fn new_rules_leave_a_neighbours_records_where_they_are() {
    let mut wire = up(fleet_options());
    neighbour(&mut wire, LT);
    (0..20).for_each(|token| offer_relayed(&mut wire, token));
    let mut all = fleet_options().rules.iter().map(|(_, rule)| rule.clone()).collect::<Vec<_>>();
    let everything = Rule::catch_all(&fleet_classes(), vec![OutputId(0)]);
    all.insert(0, Rule { class: LS, ..everything });
    wire.control(Control::Rules(Arc::new(Rules::new(all).unwrap())));
    let classes = wire.node.status(wire.now).classes;
    assert_eq!(classes[0].backlog_records, 0);
    assert!(classes[3].backlog_records > 10);
}

#[test]
fn who_is_no_part_of_a_fleet_takes_part_in_none() {
    let mut wire = up(options(rules()));
    grant(&mut wire, LT, 1000);
    assert!(matches!(wire.events[..], [Event::Unsupported(_)]), "{:?}", wire.events);
    neighbour(&mut wire, LT);
    offer_relayed(&mut wire, 1);
    assert_eq!(wire.answers[0].2, Err(RefuseReason::NoRule));
    assert_eq!(wire.node.measured(wire.now), None);
    let wrong = FleetSeat { output: OutputId(0), relayed: LT };
    let options = NodeOptions { fleet: Some(wrong), ..fleet_options() };
    assert_eq!(options.check(), Err(OptionsError::NoSeat));
    let mut wire = down(fleet_options());
    grant(&mut wire, LT, 1000);
    wire.path(lane(LT), PathState::Up);
    (0..30).for_each(|_| wire.offer("lt/a", 996));
    assert!(wire.history.iter().all(|cut| cut.path.output != PEER), "the neighbour is not there");
}

/// Our own uplink's connections have bytes on the wire that nobody acknowledges, since now; the first of them are
/// `unsent` ones.
pub(crate) fn fall_silent(wire: &mut Wire, unsent: Size) {
    for class in [LS, NM, LT] {
        let path = PathId { output: OutputId(0), lane: class.0 };
        let (rtt, in_flight) = (None, Size(5_000));
        let sample = PathSample { rtt, in_flight, unsent, ..PathSample::default() };
        wire.handle(Input::PathSample { path, sample });
    }
}

/// The neighbour takes and confirms what it was handed.
pub(crate) fn carry_by_peer(wire: &mut Wire) {
    for class in [LS, NM, LT] {
        while wire.send_on(PathId { output: PEER, lane: class.0 }) {}
    }
    let by_peer = wire.history.iter().filter(|cut| cut.path.output == PEER);
    let ids: Vec<_> = by_peer.map(|cut| cut.id).collect();
    wire.confirm(&ids);
}

/// The classes of the records that the neighbour was handed, in order.
pub(crate) fn classes_by_peer(wire: &Wire) -> Vec<u8> {
    let by_peer = wire.history.iter().filter(|cut| cut.path.output == PEER);
    by_peer.map(|cut| cut.path.lane).collect()
}

#[test]
fn a_silent_uplink_lets_the_most_urgent_go_by_any_permit() {
    for is_refused in [false, true] {
        let mut wire = up(fleet_options());
        grant(&mut wire, LT, 50_000);
        match is_refused {
            true => wire.destination(OutputId(0), false),
            false => fall_silent(&mut wire, Size::ZERO),
        }
        wire.advance(ms(999));
        wire.offer("ls/early", 20);
        assert_eq!(classes_by_peer(&wire).len(), usize::from(is_refused), "a second's patience");
        wire.advance(ms(1));
        wire.forget_history();
        for turn in 0..30 {
            wire.offer(&format!("lt/{turn}"), 996);
            wire.offer(&format!("ls/{turn}"), 20);
            wire.offer(&format!("nm/{turn}"), 200);
        }
        for _ in 0..1000 {
            carry_by_peer(&mut wire);
            wire.advance(ms(1));
        }
        // The burst of the grant took some while records still came; from then on they go in order.
        let classes = classes_by_peer(&wire);
        let (burst, rest) = classes.split_at(2 * 3);
        assert!(burst.contains(&LT.0) && rest.is_sorted(), "{is_refused} {classes:?}");
        let sent = |class: ClassId| classes.iter().filter(|of| **of == class.0).count();
        assert_eq!([LS, NM].map(sent), [30, 30], "{classes:?}");
        assert!(sent(LT) > 20, "{classes:?}");
    }
}

#[test]
fn an_alarm_does_not_wait_for_less_urgent_records_that_went_by_its_permit() {
    let mut wire = up(fleet_options());
    grant(&mut wire, NM, 10_000);
    wire.destination(OutputId(0), false);
    (0..3).for_each(|turn| wire.offer(&format!("nm/{turn}"), 996));
    assert_eq!(classes_by_peer(&wire), [NM.0], "a record is a tenth of a second of the permit");
    wire.offer("ls/alarm", 20);
    assert_eq!(classes_by_peer(&wire), [NM.0, LS.0]);
    (0..20).for_each(|turn| wire.offer(&format!("ls/{turn}"), 992));
    let early = classes_by_peer(&wire).len();
    assert_eq!(early, 4, "a quarter of a second may be without an answer, and it is overdrawn");
}

#[test]
fn what_the_uplink_has_too_much_of_leaves_by_the_permit_of_a_less_urgent_class() {
    for (permit, goes) in [(NM, true), (LT, false)] {
        let mut wire = up(fleet_options());
        grant(&mut wire, permit, 50_000);
        load_on(&mut wire, "ls/a", 130, 3000);
        let by_peer = bytes(&wire, PEER, LS);
        // Nothing is reserved for the least urgent class there.
        assert_eq!(by_peer > 60_000, goes, "{permit:?} {by_peer}");
        let waited = wire.node.status(wire.now).classes[0].counts.violated;
        assert!(!goes || waited < 20, "half of the bound is what may wait here: {waited}");
    }
}

#[test]
fn what_a_silent_connection_was_handed_goes_again_and_is_marked() {
    let mut wire = up(fleet_options());
    grant(&mut wire, LS, 50_000);
    wire.offer("ls/handed", 20);
    while wire.send() {}
    fall_silent(&mut wire, Size::ZERO);
    wire.advance(ms(1000));
    wire.offer("ls/fresh", 20);
    while wire.send() {}
    let by_peer: Vec<(String, bool)> = wire
        .history
        .iter()
        .filter(|cut| cut.path.output == PEER)
        .map(|cut| (wire.key_of(cut.id).unwrap(), cut.again))
        .collect();
    assert_eq!(by_peer, [("ls/handed".into(), true), ("ls/fresh".into(), false)]);
    let ids: Vec<_> = wire.history.iter().map(|cut| cut.id).collect();
    // The connection comes to life: its late answer for what the neighbour carries ends nothing.
    let destination = Destination::Output(OutputId(0));
    wire.handle(Input::Confirmed { destination, ids });
    assert_eq!(wire.status().counts.confirmed, 0);
    wire.confirm_all();
    let counts = wire.status().counts;
    assert_eq!((counts.confirmed, counts.dropped_all()), (2, 0), "each once");
}

#[test]
fn a_far_end_that_does_not_read_is_no_dead_uplink() {
    let mut wire = up(fleet_options());
    [LS, NM, LT].into_iter().for_each(|class| grant(&mut wire, class, 50_000));
    wire.offer("ls/a", 20);
    while wire.send() {}
    fall_silent(&mut wire, Size(5_000));
    wire.offer("ls/b", 20);
    wire.advance(ms(20_000));
    assert_eq!(classes_by_peer(&wire), [0; 0]);
    assert!(wire.node.measured(wire.now).unwrap().capacity > Rate::ZERO);
}

#[test]
fn an_uplink_that_was_dead_lends_nothing_and_then_what_it_shows() {
    let mut wire = up(fleet_options());
    let lent = |wire: &mut Wire| wire.node.measured(wire.now).unwrap().capacity.as_f64();
    let before = lent(&mut wire);
    assert!(before > 0.0);
    wire.destination(OutputId(0), false);
    assert_eq!(lent(&mut wire), 0.0);
    wire.destination(OutputId(0), true);
    wire.up();
    wire.advance(ms(100));
    assert_eq!(lent(&mut wire), 0.0, "it has carried nothing yet");
    load(&mut wire, "lt/a", 50, 1000);
    let shown = lent(&mut wire);
    assert!((20_000.0..70_000.0).contains(&shown), "50 kB/s of {before}: {shown}");
    load(&mut wire, "lt/a", 50, 1500);
    assert_eq!(lent(&mut wire), before);
}
