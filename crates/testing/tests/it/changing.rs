//! What a node says about itself, and inputs that this version refuses.

use tidegate_node::io::{Destination, Edit, Event, Input, PathState, SessionId};
use tidegate_testing::support::*;
use tidegate_types::units::{Rate, Size};

#[test]
fn the_status_counts_what_waits_and_what_came_and_went() {
    let mut wire = down(narrow(rules()));
    for _ in 0..100 {
        wire.offer("ls/a", 196);
        wire.offer("lt/a", 1_996);
        wire.advance(ms(10));
    }
    let status = wire.status();
    let [ls, _, lt] = &status.classes[..] else { panic!("three classes") };
    assert_eq!((ls.backlog_records, ls.backlog), (100, Size(20_000)));
    assert_eq!((lt.backlog_records, lt.backlog, lt.late_records), (100, Size(200_000), 0));
    assert!(ls.late_records >= 94, "{} are past 50 ms", ls.late_records);
    assert!((ls.input_rate.as_f64() / 20_000.0 - 1.0).abs() < 0.1, "{}", ls.input_rate);
    assert!((ls.input_records_per_second / 100.0 - 1.0).abs() < 0.1);
    assert!(ls.output_rate.is_zero());
    let wanted = ls.input_rate + Rate::of(ls.backlog, ls.bound);
    assert_eq!(ls.wanted_rate, wanted);
    let allocated: Rate = status.classes.iter().map(|class| class.allocated_rate).sum();
    assert!(allocated.as_f64() <= status.uplinks[0].capacity.as_f64() * 1.000_001);
    assert!(lt.queue_delay > ls.queue_delay);
    assert_eq!((status.held, status.held_bytes), (200, Size(220_000)));
    assert_eq!(status.rules.iter().map(|rule| rule.held).sum::<u64>(), 200);
    wire.up();
    wire.run(ms(500));
    let status = wire.status();
    let out: Rate = status.classes.iter().map(|class| class.output_rate).sum();
    assert!(out.as_f64() > 0.7 * status.uplinks[0].capacity.as_f64(), "{out}");
    assert_eq!(status.counts.lost(status.held), 0);
    for rule in &status.rules {
        assert_eq!(rule.counts.lost(rule.held), 0, "{}", rule.name);
    }
}

#[test]
fn a_long_silence_before_the_first_record_is_no_rate() {
    let mut wire = up(options(rules()));
    // A clock that counts from 1970, as a driver may choose.
    wire.now = tidegate_types::units::Time::from_secs_f64(1.7e9);
    wire.offer("ls/a", 196);
    wire.advance(ms(150));
    let rate = wire.status().classes[0].input_rate.as_f64();
    assert!((1.0..3_000.0).contains(&rate), "{rate}");
}

#[test]
fn time_without_records_costs_nothing() {
    let mut wire = up(options(rules()));
    wire.offer("ls/a", 1);
    wire.carry();
    assert_eq!(wire.node.next_timeout(), None, "an idle node sleeps");
    wire.path(lane(LS), PathState::Down);
    wire.offer("ls/a", 1);
    let late = wire.now + ms(50) + ms(100);
    assert_eq!(wire.node.next_timeout(), Some(late), "without paths it only counts what is late");
    wire.advance(ms(150));
    assert_eq!(wire.node.next_timeout(), None, "and sleeps then too");
}

#[test]
fn what_this_version_cannot_do_is_said() {
    let mut wire = up(options(rules()));
    wire.path(lane(LS), PathState::Down);
    wire.offer("ls/a", 1);
    let queue = wire.node.queues().next().unwrap();
    let id = wire.node.waiting(queue).next().unwrap();
    let operations = vec![Edit::Redirect(id, Destination::Session(SessionId(1)))];
    wire.handle(Input::Edits { queue, operations });
    let destination = Destination::Session(SessionId(1));
    wire.handle(Input::DestinationState { destination, up: true });
    let is_refusal = |event: &Event| matches!(event, Event::Unsupported(_));
    assert_eq!(wire.events.len(), 2);
    assert!(wire.events.iter().all(is_refusal));
}
