//! Nodes that die while a topic moves. What was accepted is in the files of their outputs at the end.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::group::client::Publisher;
use crate::group::{Trio, wait_until};

const DURABLE: &str = "[[stream]]\naccept = \"durable\"\n";

/// Kills a node so long after a move from `a` to `b` has begun, and starts it again.
fn killed(name: &'static str, victim: usize, after: Duration) {
    let trio = Trio::new(name, DURABLE);
    let mut nodes: Vec<_> = (0..3).map(|place| Some(trio.start(place))).collect();
    let publisher = Publisher::start(trio.mqtt(2), "p", Duration::from_millis(1));
    wait_until("records to flow", || publisher.answered() >= 100);
    std::thread::scope(|scope| {
        // It may be the end of it.
        let moving = scope.spawn(|| trio.give(1, &[]));
        std::thread::sleep(after);
        // Dropped is killed.
        nodes[victim] = None;
        nodes[victim] = Some(trio.start(victim));
        moving.join().unwrap();
    });
    let answered = publisher.answered();
    wait_until("records to flow again", || publisher.answered() >= answered + 100);
    let count = publisher.finish();
    let mut written = BTreeSet::new();
    wait_until("the records that were accepted", || {
        written = trio.written().into_iter().collect();
        written.len() as u64 >= count
    });
    let all: BTreeSet<String> = (1..=count).map(|number| format!("p:{number}")).collect();
    assert_eq!(written, all);
}

#[test]
fn an_owner_that_dies_while_it_gives_loses_nothing() {
    killed("giver-soon", 0, Duration::from_millis(4));
    killed("giver-later", 0, Duration::from_millis(30));
}

#[test]
fn an_owner_that_dies_while_it_takes_loses_nothing() {
    killed("taker-soon", 1, Duration::from_millis(4));
    killed("taker-later", 1, Duration::from_millis(30));
}

#[test]
fn a_topic_is_taken_from_an_owner_that_is_gone() {
    let trio = Trio::new("seized", DURABLE);
    let mut nodes: Vec<_> = (0..3).map(|place| Some(trio.start(place))).collect();
    let publisher = Publisher::start(trio.mqtt(2), "p", Duration::from_millis(1));
    wait_until("records to flow", || publisher.answered() >= 100);
    nodes[0] = None;
    assert!(trio.give(1, &["--seize"]));
    let answered = publisher.answered();
    wait_until("records to flow again", || publisher.answered() >= answered + 100);
    let count = publisher.finish();
    nodes[0] = Some(trio.start(0));
    let mut written = BTreeSet::new();
    wait_until("the records that were accepted", || {
        written = trio.written().into_iter().collect();
        written.len() as u64 >= count
    });
}
