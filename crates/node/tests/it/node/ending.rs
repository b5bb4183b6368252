//! Fates: confirmation, refusal, expiry, lost connections, and the end of a node.

use tidegate_node::io::{
    Control, Destination, Event, Input, OutputId, PathId, PathSample, PathState, Refusal, SessionId,
};
use tidegate_node::options::NodeOptions;
use tidegate_node::rules::{Discipline, FullPolicy, Rule};
use tidegate_testing::Wire;
use tidegate_testing::support::*;
use tidegate_types::record::{AcceptMode, DeliveryId, DropReason, RefuseReason, SourceId, WorkId};
use tidegate_types::units::Size;

const CLOUD: Destination = Destination::Output(OutputId(0));

#[test]
fn a_lost_connection_sends_everything_unconfirmed_again_in_its_old_order() {
    for discipline in [Discipline::Fifo, Discipline::Lifo] {
        let mut options = options(vec![Rule { discipline, ..rule("lt", 1000) }, rule("nm", 500)]);
        options.outputs[0].unconfirmed_max = 10;
        let mut wire = up(options);
        (1..=12).for_each(|number| wire.offer(&format!("lt/{number}"), 10));
        wire.offer("nm/other", 10);
        (0..5).for_each(|_| _ = wire.send());
        let first = wire.history[0].id;
        wire.confirm(&[first]);
        let old: Vec<DeliveryId> = wire
            .unconfirmed
            .iter()
            .filter(|(_, path)| *path == lane(LT))
            .map(|(id, _)| *id)
            .collect();
        assert!(old.len() >= 8);
        wire.forget_history();
        wire.path(lane(LT), PathState::Down);
        assert!(wire.history.is_empty(), "nothing goes on a lane that is down");
        wire.path(lane(LT), PathState::Up);
        let again: Vec<DeliveryId> =
            wire.history.iter().filter(|cut| cut.again).map(|cut| cut.id).collect();
        assert_eq!(again, old, "{discipline:?}");
        wire.carry();
        assert_eq!(wire.status().counts.confirmed, 13);
        assert_eq!(wire.status().counts.again, old.len() as u64);
    }
}

#[test]
fn a_record_that_was_half_way_begins_anew() {
    let mut wire = up(narrow(rules()));
    wire.offer("lt/large", 20_000);
    wire.send();
    wire.advance(ms(20));
    assert!(wire.history.len() >= 2 && !wire.history.last().unwrap().is_last());
    wire.down();
    assert_eq!(wire.status().uplinks[0].in_flight, Size::ZERO, "nothing of it is below any more");
    wire.forget_history();
    wire.up();
    wire.run(ms(500));
    assert_eq!(wire.history[0].range.start, 0);
    assert!(wire.history.iter().all(|cut| cut.again));
    assert_eq!(wire.status().counts.confirmed, 1);
}

#[test]
fn up_without_down_is_a_new_connection() {
    let mut wire = up(options(rules()));
    wire.offer("ls/a", 1);
    wire.up();
    assert_eq!(wire.history.iter().map(|cut| cut.again).collect::<Vec<_>>(), [false, true]);
    wire.carry();
    assert_eq!(wire.status().counts.confirmed, 1);
}

#[test]
fn a_destination_is_reported_when_its_state_changes() {
    let mut wire = down(options(rules()));
    wire.up();
    wire.path(lane(LS), PathState::Down);
    wire.path(lane(LS), PathState::Up);
    wire.handle(Input::DestinationState { destination: CLOUD, up: false });
    wire.offer("ls/a", 1);
    assert!(wire.history.is_empty());
    wire.handle(Input::DestinationState { destination: CLOUD, up: true });
    wire.up();
    wire.carry();
    assert_eq!(wire.status().counts.confirmed, 1);
    let states = [true, false, true].map(|up| Event::Destination { destination: CLOUD, up });
    assert_eq!(wire.events, states);
    let status = wire.status();
    assert_eq!((status.outputs[0].lanes_up, status.outputs[0].lanes), (3, 3));
}

#[test]
fn refused_for_now_goes_again_and_refused_for_good_is_dropped() {
    let mut wire = up(options(rules()));
    (1..=3).for_each(|number| wire.offer(&format!("ls/{number}"), 1));
    while wire.send() {}
    let ids: Vec<DeliveryId> = wire.history.iter().map(|cut| cut.id).collect();
    wire.refuse(&ids[..1], Refusal::Retry);
    let last = wire.history.last().unwrap();
    assert_eq!((last.id, last.again), (ids[0], true));
    wire.refuse(&ids[1..2], Refusal::Final(DropReason::Unroutable));
    wire.carry();
    let counts = wire.status().counts;
    assert_eq!((counts.confirmed, counts.again), (2, 0), "no connection was lost");
    assert_eq!(counts.dropped[DropReason::Unroutable.index()], 1);
}

/// Whether the first output refuses, as the status tells, and what was said of it since the last time.
fn refusing(wire: &mut Wire) -> (bool, Vec<Event>) {
    (wire.status().outputs[0].is_refusing, std::mem::take(&mut wire.events))
}

#[test]
fn an_output_that_refuses_all_is_not_open_until_it_confirms_something() {
    let mut wire = up(options(rules()));
    wire.offer("ls/1", 1);
    while wire.send() {}
    wire.events.clear();
    let id = wire.history[0].id;
    wire.refuse(&[id], Refusal::Retry);
    assert_eq!(refusing(&mut wire), (false, vec![]), "for a moment");
    wire.advance(ms(1000));
    assert_eq!(refusing(&mut wire), (true, vec![]));
    // Its connection is lost, and lost again: that is one story.
    for is_first in [true, false] {
        wire.path(lane(LS), PathState::Down);
        let down = Event::Destination { destination: CLOUD, up: false };
        let told = if is_first { vec![down] } else { vec![] };
        assert_eq!(refusing(&mut wire), (true, told));
        wire.path(lane(LS), PathState::Up);
        wire.advance(ms(10));
        while wire.send() {}
        wire.refuse(&[id], Refusal::Retry);
    }
    assert_eq!(refusing(&mut wire), (true, vec![]));
    wire.carry();
    let up = Event::Destination { destination: CLOUD, up: true };
    assert_eq!(refusing(&mut wire), (false, vec![up]));
}

#[test]
fn an_output_that_refused_and_has_nothing_to_do_refuses_nothing() {
    let mut wire = up(options(vec![Rule { ttl: Some(ms(100)), ..rule("ls", 50) }]));
    wire.offer("ls/1", 1);
    while wire.send() {}
    let id = wire.history[0].id;
    wire.refuse(&[id], Refusal::Retry);
    wire.run(ms(2000));
    assert!(!wire.status().outputs[0].is_refusing, "the record expired");
}

#[test]
fn a_confirmation_may_overtake_the_report_of_the_last_cut() {
    let mut wire = up(narrow(rules()));
    wire.offer("ls/1", 100);
    wire.offer("ls/2", 100);
    let first = wire.history[0].id;
    wire.confirm(&[first]); // before `Sent`
    let times = wire.status().classes[0].stages.clone();
    assert_eq!((times.residence.count(), times.confirm.count()), (1, 1));
    wire.carry();
    for number in 3..30 {
        wire.offer(&format!("ls/{number}"), 100);
        wire.carry();
    }
    let status = wire.status();
    assert_eq!((status.counts.confirmed, status.uplinks[0].in_flight), (29, Size::ZERO));
    assert_eq!(status.classes[0].stages.residence.count(), 29);
    assert_eq!(wire.events, [], "no report was out of place");
}

#[test]
fn a_refusal_may_overtake_the_report_of_the_last_cut() {
    for reason in [Refusal::Retry, Refusal::Final(DropReason::Refused)] {
        let mut wire = up(options(rules()));
        wire.offer("ls/1", 100);
        let first = wire.history[0].id;
        wire.refuse(&[first], reason);
        wire.offer("ls/2", 100);
        wire.carry();
        let counts = wire.status().counts;
        assert_eq!(counts.confirmed + counts.dropped_all(), 2);
        assert_eq!(wire.events, []);
        let residence = &wire.status().classes[0].stages.residence;
        assert_eq!(residence.count(), counts.confirmed, "an attempt that was cut short has none");
    }
}

#[test]
fn what_names_nothing_is_harmless() {
    let mut wire = up(narrow(rules()));
    wire.offer("ls/a", 10);
    wire.offer("lt/large", 20_000);
    wire.advance(ms(5));
    wire.carry();
    let (done, large) = (wire.history[0].id, wire.history[1].id);
    let unknown = [DeliveryId(0), DeliveryId(u64::MAX), DeliveryId(1 << 32), DeliveryId(77), done];
    for id in unknown {
        wire.handle(Input::Sent { id, bytes: Size(10) });
        for destination in
            [CLOUD, Destination::Output(OutputId(9)), Destination::Output(OutputId(1))]
        {
            let ids = vec![id, id];
            wire.handle(Input::Confirmed { destination, ids: ids.clone() });
            let reason = Refusal::Retry;
            wire.handle(Input::Refused { destination, ids, reason });
        }
        assert!(wire.node.record(id).is_none() && wire.node.size_of(id).is_none());
    }
    // Half of it is picked: it cannot be confirmed or refused yet.
    wire.handle(Input::Confirmed { destination: CLOUD, ids: vec![large] });
    let reason = Refusal::Final(DropReason::Refused);
    wire.handle(Input::Refused { destination: CLOUD, ids: vec![large], reason });
    for path in [PathId { output: OutputId(9), lane: 0 }, PathId { output: OutputId(0), lane: 99 }]
    {
        wire.handle(Input::PathState { path, state: PathState::Up });
        wire.handle(Input::PathSample { path, sample: PathSample::default() });
    }
    for up in [false, true] {
        let destination = Destination::Output(OutputId(9));
        wire.handle(Input::DestinationState { destination, up });
    }
    wire.handle(Input::Transformed { work: WorkId(99), payload: Some("x".into()) });
    wire.handle(Input::Appended { upto: u64::MAX });
    let reason = RefuseReason::Storage;
    wire.handle(Input::AppendFailed { appends: vec![0, 99], reason });
    wire.control(Control::Close(SourceId(99)));
    wire.run(ms(500));
    let counts = wire.status().counts;
    assert_eq!((counts.accepted, counts.confirmed, counts.again), (2, 2, 0));
}

#[test]
fn only_the_destination_itself_confirms() {
    let mut rules = rules();
    rules[0].to = vec![OutputId(0), OutputId(1)];
    let mut wire = up(NodeOptions { outputs: vec![output(0), output(0)], ..options(rules) });
    wire.offer("ls/a", 1);
    while wire.send() {}
    let ids: Vec<DeliveryId> = wire.history.iter().map(|cut| cut.id).collect();
    wire.handle(Input::Confirmed { destination: CLOUD, ids: ids.clone() });
    wire.handle(Input::Confirmed { destination: CLOUD, ids });
    assert_eq!(wire.status().counts.confirmed, 1);
}

#[test]
fn a_record_expires_while_it_waits_and_not_while_it_is_under_way() {
    let mut wire = up(options(vec![Rule { ttl: Some(ms(100)), ..rule("ls", 50) }]));
    wire.offer("ls/under-way", 1);
    wire.down();
    wire.offer("ls/waits", 1);
    assert_eq!(wire.node.next_timeout(), Some(wire.now + ms(100)));
    wire.up();
    wire.down();
    wire.advance(ms(50));
    wire.path(lane(LS), PathState::Up);
    wire.advance(ms(50));
    assert_eq!(wire.status().counts.dropped_all(), 0, "both are under way");
    wire.confirm_all();
    assert_eq!(wire.status().counts.confirmed, 2);
    wire.down();
    wire.offer("ls/late", 1);
    wire.advance(ms(99));
    assert_eq!(wire.status().held, 1);
    wire.advance(ms(1));
    assert_eq!(wire.status().counts.dropped[DropReason::Expired.index()], 1);
}

#[test]
fn a_record_that_expired_on_its_way_is_not_sent_again() {
    for is_lost in [true, false] {
        let mut wire = up(options(vec![Rule { ttl: Some(ms(100)), ..rule("ls", 50) }]));
        wire.offer("ls/a", 1);
        while wire.send() {}
        wire.advance(ms(200));
        let id = wire.history[0].id;
        match is_lost {
            true => wire.up(),
            false => wire.refuse(&[id], Refusal::Retry),
        }
        assert_eq!(wire.history.len(), 1, "it is not sent again");
        assert_eq!(wire.status().counts.dropped[DropReason::Expired.index()], 1);
    }
}

#[test]
fn a_bound_is_violated_once_whatever_happens_later() {
    let mut wire = up(options(rules()));
    wire.offer("ls/a", 1);
    wire.advance(ms(60));
    while wire.send() {}
    wire.up(); // the connection is a new one: it goes again
    wire.carry();
    wire.offer("ls/b", 1);
    wire.carry();
    let status = wire.status();
    assert_eq!((status.counts.violated, status.counts.confirmed), (1, 2));
    assert_eq!(status.classes[0].stages.residence.count(), 3, "each attempt took its time");
}

#[test]
fn a_bound_is_violated_when_it_passes_though_nothing_moves() {
    let mut wire = down(options(rules()));
    wire.offer("ls/a", 1);
    wire.offer("ls/b", 1);
    wire.offer("lt/a", 1);
    let violated = |wire: &mut Wire| {
        let status = wire.status();
        (status.counts.violated, status.classes[0].late_records)
    };
    wire.advance(ms(50));
    assert_eq!(violated(&mut wire), (0, 0), "they are still in time");
    wire.advance(ms(100));
    assert_eq!(violated(&mut wire), (2, 2), "no connection ever came up");
    assert_eq!(wire.status().classes[0].overdue_records, 2);
    wire.advance(ms(2000));
    assert_eq!(violated(&mut wire), (3, 2));
    wire.up();
    wire.carry();
    let status = wire.status();
    assert_eq!((status.counts.violated, status.counts.confirmed), (3, 3), "each once");
}

#[test]
fn times_of_the_stages_are_those_of_the_record() {
    let mut wire = down(narrow(rules()));
    wire.offer("nm/a", 1_000);
    wire.advance(ms(100));
    wire.up();
    wire.advance(ms(20));
    while wire.send() {}
    wire.advance(ms(300));
    wire.confirm_all();
    let stages = wire.status().rules[1].stages.clone();
    let millis = |times: &tidegate_node::status::StageTimes| times.sum().as_millis();
    let near = |value: u128, wanted: u128| value.abs_diff(wanted) <= wanted / 64 + 1;
    assert!(near(millis(&stages.wait), 100), "{}", millis(&stages.wait));
    assert!(near(millis(&stages.transmit), 20), "{}", millis(&stages.transmit));
    assert!(near(millis(&stages.residence), 120), "{}", millis(&stages.residence));
    assert!(near(millis(&stages.confirm), 300), "{}", millis(&stages.confirm));
}

#[test]
fn a_stop_drains_and_takes_nothing_more() {
    let mut wire = up(options(rules()));
    wire.ask(0, 1, "ls/a", 1);
    wire.control(Control::Stop);
    wire.ask(0, 2, "ls/b", 1);
    assert_eq!(wire.verdicts(), [(1, Ok(())), (2, Err(RefuseReason::Stopping))]);
    assert_eq!(wire.events, []);
    wire.carry();
    assert_eq!(wire.events, [Event::Drained]);
    wire.control(Control::Stop);
    assert_eq!(wire.events, [Event::Drained], "once");
}

#[test]
fn an_empty_node_is_drained_at_once() {
    let mut wire = up(options(rules()));
    wire.control(Control::Stop);
    assert_eq!(wire.events, [Event::Drained]);
}

#[test]
fn a_stop_refuses_what_waits_for_room() {
    for order in [Control::Stop, Control::Discard] {
        let full = FullPolicy::Block(ms(100_000));
        let mut wire = down(options(vec![Rule { bound: Size(100), full, ..rule("ls", 50) }]));
        (1..=3).for_each(|token| wire.ask(0, token, "ls/a", 90));
        wire.control(order);
        let stopping = Err(RefuseReason::Stopping);
        assert_eq!(wire.verdicts(), [(1, Ok(())), (2, stopping), (3, stopping)]);
        assert_eq!(wire.pauses, [(SourceId(0), true), (SourceId(0), false)]);
    }
}

#[test]
fn a_discard_gives_up_everything_and_cancels_what_is_under_way() {
    let rules = vec![Rule { accept: AcceptMode::Confirmed, ..rule("ls", 50) }, rule("lt", 1000)];
    let mut wire = up(narrow(rules));
    wire.ask(0, 1, "ls/a", 10);
    while wire.send() {}
    wire.offer("lt/large", 20_000);
    wire.offer("lt/waits", 10);
    wire.advance(ms(2));
    let [handed, large] = [wire.history[0].id, wire.history[1].id];
    wire.control(Control::Stop);
    assert_eq!(wire.events, []);
    wire.control(Control::Discard);
    assert_eq!(wire.events, [Event::Drained]);
    let dropped = RefuseReason::Dropped(DropReason::Stopped);
    assert_eq!(wire.verdicts(), [(1, Err(dropped))]);
    assert_eq!(wire.cancels, [large], "{handed:?} is on the wire, the last was never picked");
    assert_eq!(wire.status().counts.dropped[DropReason::Stopped.index()], 3);
    while wire.send() {}
    assert_eq!(wire.events, [Event::Drained]);
}

#[test]
fn reports_are_bounded_and_lost_ones_are_counted() {
    let mut wire = up(options(rules()));
    for _ in 0..tidegate_types::limits::REPORTS_MAX + 7 {
        let destination = Destination::Session(SessionId(1));
        wire.node.handle(wire.now, Input::DestinationState { destination, up: true });
    }
    wire.control(Control::Stop);
    assert_eq!(wire.events[0], Event::Overflow(8));
    assert_eq!(wire.events.len(), tidegate_types::limits::REPORTS_MAX + 1);
    assert_eq!(wire.events.last(), Some(&Event::Drained));
}
