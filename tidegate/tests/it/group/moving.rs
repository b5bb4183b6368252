//! Moves under load.

use std::time::Duration;

use crate::group::client::{Publisher, Subscriber};
use crate::group::{NAMES, Trio, told, wait_until};
use crate::support::process::Node;

/// Results go back to the unit's own topics; the records themselves carry no output.
const OPERATOR: &str = "[[stream]]\nto = []\n\
    [[operator]]\nname = \"twice\"\nfrom = [\"t/a\", \"t/b\", \"t/c\"]\nto = \"t/done/%2\"\n\
    do = [{ spin = \"100us\" }]\n";

#[test]
fn records_and_results_come_once_and_in_order_while_topics_move() {
    let trio = Trio::new("moving", OPERATOR);
    let nodes: Vec<_> = (0..3).map(|place| trio.start(place)).collect();
    let raw = ["raw-a", "raw-b", "raw-c"];
    let subscribers: Vec<_> = (0..3)
        .map(|place| {
            let port = trio.mqtt(place);
            let raw = Subscriber::start(port, raw[place], "t/+");
            (raw, Subscriber::start(port, &format!("done-{place}"), "t/done/+"))
        })
        .collect();
    let publishers: Vec<_> = (0..3)
        .map(|place| Publisher::start(trio.mqtt(place), NAMES[place], Duration::from_millis(2)))
        .collect();
    let flows = |count| publishers.iter().all(|publisher| publisher.answered() >= count);
    wait_until("records to flow", || flows(50));
    for (turn, to) in [1, 2, 0, 2].into_iter().enumerate() {
        assert!(trio.give(to, &[]), "to {}", NAMES[to]);
        let least = publishers.iter().map(Publisher::answered).max().unwrap() + 50;
        wait_until(&format!("records after move {turn}"), || flows(least));
    }
    let counts: Vec<u64> = publishers.into_iter().map(Publisher::finish).collect();
    for (place, (raw, done)) in subscribers.iter().enumerate() {
        let all: u64 = counts.iter().sum();
        wait_until("all records", || raw.seen().len() as u64 >= all);
        wait_until("all results", || done.seen().len() as u64 >= all);
        for (name, count) in NAMES.iter().zip(&counts) {
            assert!(
                raw.of(name).into_iter().eq(1..=*count),
                "{name} at {place}: {:?}",
                raw.of(name)
            );
            assert!(done.of(name).into_iter().eq(1..=*count), "results of {name} at {place}");
        }
    }
    drop(nodes);
}

#[test]
fn what_cannot_be_moved_stays_and_says_why() {
    let trio = Trio::new("refused", "");
    let node = trio.start(0);
    let file = format!("group-{}-b.toml", trio.name);
    let file = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(file);
    std::fs::write(file, trio.config(1)).unwrap();
    assert!(!trio.give(1, &[]), "b does not run");
    drop(node);
}

#[test]
fn topics_do_not_go_to_a_node_that_has_gone() {
    let trio = Trio::new("gone", "");
    let mut a = Node::start("group-gone-a", &trio.config(0));
    a.wait_for("ready;");
    let b = trio.start(1);
    a.wait_for("connected to a member of the group member=b");
    drop(b);
    a.wait_for("member=b");
    let (is_done, _, errors) = told(trio.order(1, &[]));
    assert!(!is_done && errors.contains("the other node is away"), "{errors}");
}
