//! What operators remember moves with its topics: nobody can tell from the results that they moved.

use std::process::Command;
use std::time::Duration;

use crate::group::client::{Publisher, Subscriber};
use crate::group::{NAMES, Trio, wait_until};
use crate::support::process::Node;

/// Sums of ten records of a topic, and, by an operator that works on one record after another, of seven of a publisher.
const OPERATORS: &str = "[[stream]]\nto = []\n\
    [[operator]]\nname = \"tens\"\nfrom = [\"t/a\", \"t/b\"]\nto = \"t/tens/%2\"\n\
    do = [{ parse = { csv = { columns = [\"of\", \"x\"], separator = \":\" } } }, \
    { window = { field = \"x\", of = \"sum\", rows = 10 } }]\n\
    [[operator]]\nname = \"sevens\"\nfrom = [\"t/a\", \"t/b\"]\nto = \"t/sevens\"\norder = \"serial\"\n\
    do = [{ parse = { csv = { columns = [\"of\", \"x\"], separator = \":\" } } }, \
    { window = { field = \"x\", of = \"sum\", rows = 7, by = \"of\" } }]\n";

/// Sums of so many numbers each, from 1 to `last`.
fn sums(size: u64, last: u64) -> Vec<u64> {
    (0..last / size).map(|block| (1..=size).map(|number| block * size + number).sum()).collect()
}

fn expected(before: &str, size: u64, last: u64) -> Vec<String> {
    sums(size, last).iter().map(|sum| format!("{{{before}\"x\":{sum}}}")).collect()
}

#[test]
fn windows_go_on_at_the_next_owner_again_and_again() {
    let trio = Trio::new("remembering", OPERATORS);
    let nodes: Vec<_> = (0..3).map(|place| trio.start(place)).collect();
    let tens: Vec<_> = ["a", "b"]
        .map(|of| Subscriber::start(trio.mqtt(2), of, &format!("t/tens/{of}")))
        .into_iter()
        .collect();
    let sevens = Subscriber::start(trio.mqtt(1), "sevens", "t/sevens");
    let publishers: Vec<_> = (0..2)
        .map(|place| Publisher::start(trio.mqtt(place), NAMES[place], Duration::from_millis(2)))
        .collect();
    let flows = |count| publishers.iter().all(|publisher| publisher.answered() >= count);
    wait_until("records to flow", || flows(25));
    for (turn, to) in [1, 2, 0, 2, 1, 0].into_iter().enumerate() {
        assert!(trio.give(to, &[]), "to {}", NAMES[to]);
        let least = publishers.iter().map(Publisher::answered).max().unwrap() + 23;
        wait_until(&format!("records after move {turn}"), || flows(least));
    }
    let counts: Vec<u64> = publishers.into_iter().map(Publisher::finish).collect();
    for (tens, count) in tens.iter().zip(&counts) {
        let all = expected("", 10, *count);
        wait_until("sums of ten", || tens.seen().len() >= all.len());
        assert_eq!(tens.seen(), all);
    }
    let all = counts.iter().map(|count| *count as usize / 7).sum();
    wait_until("sums of seven", || sevens.seen().len() >= all);
    for (name, count) in NAMES.iter().zip(&counts) {
        let its = format!("\"of\":\"{name}\",");
        let seen: Vec<_> = sevens.seen().into_iter().filter(|row| row.contains(&its)).collect();
        assert_eq!(seen, expected(&its, 7, *count));
    }
    drop(nodes);
}

#[test]
fn an_owner_whose_successor_never_took_over_goes_on_with_what_it_remembers() {
    let trio = Trio::new("kept", OPERATORS);
    let mut owner = Node::start("group-kept-a", &trio.config(0));
    owner.wait_for("ready;");
    let mut successor = trio.start(1);
    let third = trio.start(2);
    let tens = Subscriber::start(trio.mqtt(0), "tens", "t/tens/a");
    let publisher = Publisher::start(trio.mqtt(0), "a", Duration::from_millis(2));
    wait_until("records to flow", || publisher.answered() >= 25);
    // It hears nothing any more.
    let id = successor.process.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    let mut order = trio.order(1, &[]).spawn().unwrap();
    owner.wait_for("epoch=1");
    let _ = order.kill();
    let _ = order.wait();
    let _ = successor.process.kill();
    drop(successor);
    let errors = owner.take_log();
    std::thread::spawn(move || std::io::copy(&mut { errors }, &mut std::io::sink()));
    assert!(trio.give(0, &["--seize"]));
    let answered = publisher.answered();
    wait_until("records to flow again", || publisher.answered() >= answered + 25);
    let all = expected("", 10, publisher.finish());
    wait_until("sums of ten", || tens.seen().len() >= all.len());
    assert_eq!(tens.seen(), all);
    drop((owner, third));
}
