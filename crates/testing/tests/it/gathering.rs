//! Sets of records with one bound on the last of them (co-flows).

use bytes::Bytes;
use tidegate_node::io::{Control, OutputId};
use tidegate_node::rules::{Rule, Rules};
use tidegate_node::status::CoflowStatus;
use tidegate_testing::support::*;
use tidegate_testing::{Wire, offer};
use tidegate_types::record::{Offered, Properties};

/// A connection offers a record of a set.
fn member(wire: &mut Wire, source: u32, key: &str, set: &'static str) {
    let pair = (Bytes::from_static(b"coflow"), Bytes::from_static(set.as_bytes()));
    let properties = Properties::new(vec![pair]);
    let offered = offer(wire.now, source, key, 1);
    wire.offer_all(vec![Offered { properties, ..offered }]);
}

fn sets(wire: &mut Wire) -> CoflowStatus {
    wire.status().classes[NM.index()].coflows.clone()
}

/// Sets that are open, began, were late and were given up.
fn counts(wire: &mut Wire) -> [u64; 4] {
    let CoflowStatus { open, begun, late, given_up, .. } = sets(wire);
    [open, begun, late, given_up]
}

#[test]
fn all_records_of_a_set_are_due_with_its_first() {
    let mut wire = down(options(rules()));
    for source in 1..4 {
        wire.open(source, &format!("sensor-{source}"));
    }
    member(&mut wire, 0, "nm/first", "run-1");
    wire.advance(ms(100));
    let offered = offer(wire.now, 1, "nm/alone", 1);
    wire.offer_all(vec![offered]);
    wire.advance(ms(100));
    member(&mut wire, 2, "nm/last", "run-1");
    member(&mut wire, 3, "nm/other", "run-2");
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["nm/first", "nm/last", "nm/alone", "nm/other"]);
}

#[test]
fn a_set_of_known_size_ends_with_its_last_record_any_other_at_its_deadline() {
    let mut wire = up(options(rules()));
    member(&mut wire, 0, "nm/a", "known/2");
    member(&mut wire, 0, "nm/a", "unknown");
    wire.carry();
    assert_eq!(counts(&mut wire), [2, 2, 0, 0]);
    wire.advance(ms(300));
    member(&mut wire, 0, "nm/a", "known");
    wire.carry();
    assert_eq!(counts(&mut wire), [1, 2, 0, 0], "one of its records said how many there are");
    assert_eq!(sets(&mut wire).times.quantile(1.0).as_millis() / 10, 30);
    wire.advance(ms(200));
    assert_eq!(counts(&mut wire), [0, 2, 0, 0]);
    assert_eq!(sets(&mut wire).times.count(), 2);
    // The name is free again.
    member(&mut wire, 0, "nm/a", "unknown");
    wire.carry();
    assert_eq!(counts(&mut wire), [1, 3, 0, 0]);
}

#[test]
fn a_set_is_late_at_its_deadline_though_nothing_moves_and_once() {
    let mut wire = down(options(rules()));
    member(&mut wire, 0, "nm/a", "waits");
    wire.advance(ms(499));
    assert_eq!(counts(&mut wire), [1, 1, 0, 0]);
    wire.advance(ms(1));
    assert_eq!(counts(&mut wire), [1, 1, 1, 0]);
    wire.advance(ms(400));
    // What comes later has its own bound: nothing is gained by haste.
    member(&mut wire, 0, "nm/b", "waits");
    wire.up();
    wire.carry();
    assert_eq!((counts(&mut wire), sets(&mut wire).times.count()), ([0, 1, 1, 0], 1));
    assert_eq!(wire.status().counts.violated, 1);
}

#[test]
fn a_set_whose_records_do_not_come_is_late_and_given_up() {
    let mut wire = up(options(rules()));
    member(&mut wire, 0, "nm/a", "short/3");
    member(&mut wire, 0, "nm/b", "short");
    wire.carry();
    wire.advance(ms(500));
    assert_eq!(counts(&mut wire), [1, 1, 1, 0]);
    wire.advance(ms(1000));
    assert_eq!((counts(&mut wire), sets(&mut wire).times.count()), ([0, 1, 1, 1], 0));
}

#[test]
fn a_set_of_which_a_record_is_dropped_is_late() {
    let mut wire = down(options(rules()));
    member(&mut wire, 0, "nm/a", "broken");
    member(&mut wire, 0, "nm/b", "broken");
    let first = wire.node.newest().unwrap();
    wire.control(Control::Withdraw(first));
    wire.up();
    wire.carry();
    wire.advance(ms(500));
    assert_eq!(counts(&mut wire), [1, 1, 1, 0]);
}

#[test]
fn what_goes_again_keeps_its_set_open() {
    let mut wire = up(options(rules()));
    member(&mut wire, 0, "nm/a", "again");
    while wire.send() {}
    wire.down();
    wire.advance(ms(500));
    assert_eq!(counts(&mut wire), [1, 1, 1, 0]);
    wire.up();
    wire.carry();
    assert_eq!((counts(&mut wire), sets(&mut wire).times.count()), ([0, 1, 1, 0], 1));
}

#[test]
fn an_open_set_keeps_its_deadline_when_rules_change() {
    let mut wire = down(options(rules()));
    member(&mut wire, 0, "nm/a", "run/2");
    let quicker = [("ls", 50), ("nm", 400), ("lt", 1000)].map(|(name, bound)| rule(name, bound));
    wire.control(Control::Rules(Rules::new(quicker.to_vec()).unwrap().into()));
    member(&mut wire, 0, "nm/b", "run/2");
    wire.advance(ms(499));
    assert_eq!(counts(&mut wire), [1, 1, 0, 0]);
    wire.advance(ms(1));
    assert_eq!(counts(&mut wire), [1, 1, 1, 0]);
    wire.up();
    wire.carry();
    assert_eq!(counts(&mut wire), [0, 1, 1, 0]);
}

#[test]
fn sets_of_two_classes_are_apart_and_a_sooner_bound_stays() {
    let all = Rule::catch_all(&classes(), vec![OutputId(0)]);
    let quick = all.for_topics(&classes(), "nm", &["quick/#"], ms(100)).unwrap();
    let mut wire = down(options([vec![quick], rules()].concat()));
    member(&mut wire, 0, "nm/a", "run/2");
    member(&mut wire, 0, "lt/a", "run/2");
    member(&mut wire, 0, "quick/b", "run/2");
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["quick/b", "nm/a", "lt/a"]);
    assert_eq!(counts(&mut wire), [0, 1, 0, 0]);
    let lt = wire.status().classes[LT.index()].coflows.clone();
    assert_eq!((lt.begun, lt.open), (1, 1), "one of its two has not come");
}
