//! `tidegate move --plan`: topics go to where a plan has them.

use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::group::client::Publisher;
use crate::group::{Trio, told, wait_until};

/// Two more placed topics beside `t`.
const MORE: &str = "[[placed]]\nname = \"u\"\ntopics = [\"u/#\"]\nowner = \"a\"\n\
    [[placed]]\nname = \"v\"\ntopics = [\"v/#\"]\nowner = \"a\"\n";

/// Moves to where a plan has the topics: nodes, each with topics. What was said, and whether all are there.
fn bring(trio: &Trio, nodes: &[(&str, &[&str])], more: &[&str]) -> (bool, String, String) {
    let named = |topic: &&str| json!({ "name": topic });
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(name, topics)| json!({ "name": name, "topics": topics.iter().map(named).collect::<Vec<_>>() }))
        .collect();
    let plan = trio.folder.join("plan.json");
    std::fs::write(&plan, json!({ "nodes": nodes }).to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(["move", "--plan"]).arg(plan).args(more).arg("-c").arg(trio.file(0));
    told(command)
}

/// Publishers at these nodes, whose records flow: the nodes have found each other.
fn publishers(trio: &Trio, places: &[usize]) -> Vec<Publisher> {
    let start = |place: &usize| {
        Publisher::start(trio.mqtt(*place), crate::group::NAMES[*place], Duration::from_millis(2))
    };
    let all: Vec<_> = places.iter().map(start).collect();
    wait_until("records to flow", || all.iter().all(|publisher| publisher.answered() >= 20));
    all
}

#[test]
fn a_plan_brings_topics_to_their_nodes_and_no_more_than_are_allowed() {
    let trio = Trio::new("planned", MORE);
    let _nodes: Vec<_> = (0..3).map(|place| trio.start(place)).collect();
    let publishers = publishers(&trio, &[0, 1, 2]);
    let plan: [(&str, &[&str]); 3] = [("a", &[]), ("b", &["t", "u"]), ("c", &["v"])];
    let first = bring(&trio, &plan, &["--max-moves", "2"]);
    let said = "t is at b now\nu is at b now\nv is not looked at: 2 were moved\n";
    assert_eq!(first, (true, said.into(), String::new()));
    let second = bring(&trio, &plan, &[]);
    assert_eq!(second, (true, "t is at b\nu is at b\nv is at c now\n".into(), String::new()));
    let counts: Vec<u64> = publishers.into_iter().map(Publisher::finish).collect();
    let all: u64 = counts.iter().sum();
    wait_until("all records", || trio.written().len() as u64 >= all);
    assert_eq!(trio.written().len() as u64, all, "each once");
}

#[test]
fn what_a_plan_cannot_move_is_named_and_does_not_keep_the_rest() {
    let trio = Trio::new("unplanned", MORE);
    // There is no `c`.
    let _nodes: Vec<_> = (0..2).map(|place| trio.start(place)).collect();
    let publishers = publishers(&trio, &[0, 1]);
    let (is_done, out, errors) =
        bring(&trio, &[("c", &["u"]), ("d", &["v"]), ("b", &["x", "t"])], &[]);
    assert!(!is_done, "{out}{errors}");
    assert_eq!(out, "t is at b now\n", "{errors}");
    let stays: Vec<&str> = errors.lines().collect();
    let away = "tidegate: u stays where it is: a: the other node is away";
    assert_eq!(stays.first(), Some(&away), "{errors}");
    assert_eq!(stays.len(), 3, "{errors}");
    for (line, topic, node) in [(stays[1], "v", "d"), (stays[2], "x", "b")] {
        let why = format!("a: there is no placed topic {topic:?}, or no member {node:?}");
        assert_eq!(line, format!("tidegate: {topic} stays where it is: {why}"));
    }
    publishers.into_iter().map(Publisher::finish).for_each(drop);
}
