//! The first phase of picking: bodies that are not here yet.

use bytes::Bytes;
use tidegate_log::Entry;
use tidegate_node::io::{Input, OutputId, PrepareError, PrepareTask};
use tidegate_node::options::NodeOptions;
use tidegate_node::rules::Rule;
use tidegate_testing::{Wire, offer};
use tidegate_types::limits::PREPARING_MAX;
use tidegate_types::record::{
    AcceptMode, Body, DropReason, FrameId, LogPosition, Offered, RefuseReason, Token, WorkId,
};
use tidegate_types::units::Size;

use crate::node::support::*;

fn stored(position: u64, size: u64) -> Body {
    Body::Stored { position: LogPosition(position), size: Size(size) }
}

fn frame(frame: u64, size: u64) -> Body {
    Body::Frame { frame: FrameId(frame), size: Size(size) }
}

fn offer_body(wire: &mut Wire, key: &str, body: Body) {
    let offered = Offered { body, ..offer(wire.now, 0, key, 0) };
    wire.offer_all(vec![offered]);
}

fn prepared(wire: &mut Wire, work: WorkId, result: Result<Vec<u8>, PrepareError>) {
    wire.handle(Input::Prepared { work, result: result.map(Bytes::from) });
}

#[test]
fn what_is_not_here_is_asked_for_and_goes_when_it_is() {
    let mut wire = up(options(rules()));
    offer_body(&mut wire, "ls/stored", stored(7, 100));
    offer_body(&mut wire, "nm/frame", frame(8, 100));
    offer_body(&mut wire, "lt/work", Body::Pending { work: WorkId(99), size: Size(100) });
    let tasks: Vec<PrepareTask> = wire.prepares.iter().map(|(.., task)| *task).collect();
    let encode = PrepareTask::Encode { frame: FrameId(8), rung: 0 };
    assert_eq!(tasks, [PrepareTask::Load(LogPosition(7)), encode, PrepareTask::Operate]);
    assert!(wire.history.is_empty());
    let works: Vec<WorkId> = wire.prepares.iter().map(|(work, ..)| *work).collect();
    for (work, size) in works.into_iter().zip([100, 30, 250]) {
        prepared(&mut wire, work, Ok(vec![1; size]));
    }
    let sizes: Vec<u64> = wire.history.iter().map(|cut| cut.size).collect();
    assert_eq!(sizes, [109, 38, 257], "key and what it became");
    assert_eq!(wire.status().held_bytes, Size(109 + 38 + 257));
    wire.carry();
    assert_eq!((wire.status().counts.confirmed, wire.status().held_bytes), (3, Size::ZERO));
}

#[test]
fn an_unready_record_holds_up_its_own_queue_only() {
    let mut wire = up(options(rules()));
    wire.open(1, "other");
    offer_body(&mut wire, "ls/frame", frame(1, 100));
    wire.offer("ls/behind", 1);
    wire.ask(1, 1, "ls/other", 1);
    wire.offer("lt/bulk", 1);
    assert_eq!(wire.keys(), ["ls/other", "lt/bulk"]);
    let (work, ..) = wire.prepares[0];
    prepared(&mut wire, work, Ok(vec![0; 10]));
    assert_eq!(wire.keys()[2..], ["ls/frame", "ls/behind"]);
}

#[test]
fn preparation_is_bounded_and_each_is_asked_for_once() {
    let mut wire = up(options(rules()));
    let many = PREPARING_MAX as u32 + 20;
    for source in 1..=many {
        wire.open(source, &format!("camera {source}"));
        for _ in 0..3 {
            let body = frame(u64::from(source), 10);
            let offered = Offered { body, ..offer(wire.now, source, "ls/frame", 0) };
            wire.offer_all(vec![offered]);
        }
    }
    assert_eq!(wire.prepares.len(), PREPARING_MAX);
    let mut answered = 0;
    while answered < wire.prepares.len() {
        let (work, ..) = wire.prepares[answered];
        prepared(&mut wire, work, Ok(vec![0; 5]));
        answered += 1;
        assert!(wire.prepares.len() - answered <= PREPARING_MAX);
    }
    assert_eq!(answered, 3 * many as usize, "once each");
    wire.carry();
    assert_eq!(wire.status().counts.confirmed, 3 * u64::from(many));
}

#[test]
fn what_cannot_be_prepared_is_dropped_and_holds_up_nothing() {
    let rules = vec![Rule { accept: AcceptMode::Confirmed, ..rule("ls", 50) }];
    let mut wire = up(options(rules));
    let body = stored(7, 100);
    let offered = Offered { body, token: Some(Token(1)), ..offer(wire.now, 0, "ls/gone", 0) };
    wire.offer_all(vec![offered]);
    wire.offer("ls/behind", 1);
    let (work, ..) = wire.prepares[0];
    prepared(&mut wire, work, Err(PrepareError::Unreadable));
    assert_eq!(wire.keys(), ["ls/behind"]);
    let dropped = RefuseReason::Dropped(DropReason::Unprepared);
    assert_eq!(wire.verdicts(), [(1, Err(dropped))]);
    prepared(&mut wire, work, Ok(vec![0; 5])); // twice is harmless
    wire.carry();
    assert_eq!(wire.status().counts.confirmed, 1);
}

#[test]
fn a_record_for_two_destinations_is_prepared_for_both() {
    let mut rules = rules();
    rules[0].to = vec![OutputId(0), OutputId(1)];
    let outputs =
        vec![output(0), tidegate_node::options::OutputOptions { overhead: Size(40), ..output(0) }];
    let mut wire = up(NodeOptions { outputs, ..options(rules) });
    // Large first, small second: a size made of differences would go below zero.
    offer_body(&mut wire, "ls/a", frame(1, 10));
    let works: Vec<WorkId> = wire.prepares.iter().map(|(work, ..)| *work).collect();
    for (work, size) in works.into_iter().zip([5_000, 0]) {
        prepared(&mut wire, work, Ok(vec![0; size]));
    }
    let sizes: Vec<u64> = wire.history.iter().map(|cut| cut.size).collect();
    assert_eq!(sizes, [5_004, 5_044], "one record has one payload");
    wire.carry();
    assert_eq!((wire.status().counts.confirmed, wire.status().held_bytes), (2, Size::ZERO));
}

#[test]
fn the_second_destination_needs_no_work_of_its_own() {
    let mut rules = rules();
    rules[0].to = vec![OutputId(0), OutputId(1)];
    let mut wire = up(NodeOptions { outputs: vec![output(0), output(0)], ..options(rules) });
    // Only the second queue has another record before this one: it becomes a head later.
    wire.path(
        tidegate_node::io::PathId { output: OutputId(1), lane: 0 },
        tidegate_node::io::PathState::Down,
    );
    wire.offer("ls/before", 1);
    wire.carry();
    offer_body(&mut wire, "ls/frame", frame(1, 10));
    assert_eq!(wire.prepares.len(), 1, "behind another record it is not asked for yet");
    let (work, ..) = wire.prepares[0];
    prepared(&mut wire, work, Ok(vec![0; 10]));
    wire.up();
    wire.carry();
    assert_eq!((wire.prepares.len(), wire.status().counts.confirmed), (1, 4));
}

#[test]
fn what_expires_under_preparation_is_gone() {
    let mut wire = up(options(vec![Rule { ttl: Some(ms(10)), ..rule("ls", 50) }]));
    offer_body(&mut wire, "ls/frame", frame(1, 10));
    wire.advance(ms(20));
    let (work, ..) = wire.prepares[0];
    prepared(&mut wire, work, Ok(vec![0; 10]));
    assert!(wire.history.is_empty());
    assert_eq!(wire.status().counts.dropped[DropReason::Expired.index()], 1);
}

#[test]
fn a_durable_frame_goes_to_the_log_when_it_is_encoded() {
    let mut wire = up(options(vec![Rule { accept: AcceptMode::Durable, ..rule("ls", 50) }]));
    let body = frame(1, 10);
    let offered = Offered { body, token: Some(Token(1)), ..offer(wire.now, 0, "ls/frame", 0) };
    wire.offer_all(vec![offered]);
    assert_eq!((wire.verdicts(), wire.appends.len()), (vec![], 1), "only a checkpoint");
    let (work, ..) = wire.prepares[0];
    prepared(&mut wire, work, Ok(vec![7; 3]));
    let Entry::Record(record) = &wire.appends[2].entry else { panic!("a record") };
    assert_eq!(record.payload.as_ref(), [7; 3]);
    assert_eq!(wire.verdicts(), []);
    wire.sync();
    assert_eq!(wire.verdicts(), [(1, Ok(()))]);
}

#[test]
fn a_frame_that_shrinks_makes_room() {
    let full = tidegate_node::rules::FullPolicy::Block(ms(100_000));
    let mut wire = down(options(vec![Rule { bound: Size(1_000), full, ..rule("ls", 50) }]));
    offer_body(&mut wire, "ls/frame", frame(1, 900));
    wire.ask(0, 1, "ls/next", 500);
    assert_eq!(wire.verdicts(), []);
    let (work, ..) = wire.prepares[0];
    prepared(&mut wire, work, Ok(vec![0; 100]));
    assert_eq!(wire.verdicts(), [(1, Ok(()))]);
}
