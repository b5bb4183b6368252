//! New rules for a node that holds records.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use tidegate_node::io::{Control, Event, OutputId};
use tidegate_node::options::{NodeOptions, OptionsError};
use tidegate_node::rules::{FullPolicy, Rule, Rules};
use tidegate_testing::Wire;
use tidegate_types::record::{AcceptMode, DropReason, RefuseReason};
use tidegate_types::units::Size;

use crate::node::support::*;

fn set(wire: &mut Wire, rules: Vec<Rule>) {
    wire.forget_history();
    wire.control(Control::Rules(Rules::new(rules).unwrap().into()));
}

fn two_outputs(rules: Vec<Rule>) -> NodeOptions {
    let mut options = options(rules);
    options.outputs.push(output(0));
    options.outputs[1].name = "archive".into();
    options
}

#[test]
fn what_waits_is_classed_anew_and_keeps_its_order() {
    let mut wire = down(options(rules()));
    for key in ["lt/1", "nm/1", "lt/2", "lt/3"] {
        wire.offer(key, 100);
    }
    let mut new = rules();
    // What was bulk is urgent now; what was normal is under another name, and bulk.
    new[2] = Rule { name: "lt".into(), class: LS, latency: ms(50), ..new[2].clone() };
    new[1] = Rule { name: "other".into(), class: LT, latency: ms(1000), ..new[1].clone() };
    set(&mut wire, new);
    assert_eq!(wire.events, [Event::NewRules { moved: 4 }]);
    wire.offer("lt/4", 100);
    let status = wire.status();
    let backlog: Vec<u64> = status.classes.iter().map(|class| class.backlog_records).collect();
    assert_eq!(backlog, [4, 0, 1]);
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["lt/1", "lt/2", "lt/3", "lt/4", "nm/1"]);
    let status = wire.status();
    for rule in &status.rules {
        assert_eq!(rule.counts.lost(rule.held), 0, "{}", rule.name);
    }
    let confirmed: Vec<(&str, u64)> =
        status.rules.iter().map(|rule| (&*rule.name, rule.counts.confirmed)).collect();
    assert_eq!(confirmed, [("ls", 0), ("nm", 0), ("lt", 4), ("other", 1)]);
}

#[test]
fn rules_that_lead_nowhere_change_nothing() {
    let mut wire = down(NodeOptions { log: None, ..options(rules()) });
    wire.offer("ls/a", 1);
    let refused = |wire: &mut Wire, rule: Rule| {
        set(wire, vec![rule]);
        wire.events.pop()
    };
    let nowhere = Rule { to: vec![OutputId(7)], ..rule("ls", 50) };
    let error = OptionsError::NoDestination("ls".into());
    assert_eq!(refused(&mut wire, nowhere), Some(Event::RulesRefused(error)));
    let durable = Rule { accept: AcceptMode::Durable, ..rule("ls", 50) };
    let error = OptionsError::NoLog("ls".into());
    assert_eq!(refused(&mut wire, durable), Some(Event::RulesRefused(error)));
    wire.ask(0, 1, "nm/a", 1);
    assert_eq!(wire.verdicts(), [(1, Ok(()))], "the old rules are in force");
    set(&mut wire, vec![rule("ls", 50)]);
    wire.ask(0, 2, "nm/a", 1);
    assert_eq!(wire.verdicts().pop(), Some((2, Err(RefuseReason::NoRule))));
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["ls/a", "nm/a"], "what was accepted is sent");
}

#[test]
fn what_goes_elsewhere_now_goes_there_and_what_is_under_way_is_finished() {
    let both = Rule { to: vec![OutputId(0), OutputId(1)], ..rule("ls", 50) };
    let mut wire = down(two_outputs(vec![both.clone(), rule("lt", 1000)]));
    wire.offer("ls/a", 100);
    wire.offer("lt/a", 100);
    // One destination less, and another one.
    let one = Rule { to: vec![OutputId(1)], ..both };
    let other = Rule { to: vec![OutputId(1)], ..rule("lt", 1000) };
    set(&mut wire, vec![one, other]);
    assert_eq!(wire.status().counts.dropped[DropReason::Unroutable.index()], 1);
    wire.up();
    wire.poll();
    let outputs: Vec<u16> = wire.history.iter().map(|cut| cut.path.output.0).collect();
    assert_eq!(outputs, [1, 1]);
    // Sent and not confirmed: it stays where it is.
    set(&mut wire, vec![rule("ls", 50), rule("lt", 1000)]);
    assert_eq!(wire.events, [Event::NewRules { moved: 0 }]);
    wire.carry();
    assert_eq!((wire.status().counts.confirmed, wire.node.held()), (2, 0));
}

#[test]
fn rules_that_change_often_leave_no_queues_behind() {
    let mut wire = down(two_outputs(vec![rule("ls", 50)]));
    wire.offer("ls/a", 100);
    let queues = wire.node.queues().count();
    for round in 1..=10 {
        set(&mut wire, vec![Rule { to: vec![OutputId(round % 2)], ..rule("ls", 50) }]);
    }
    assert_eq!(wire.node.queues().count(), queues);
    assert_eq!(wire.node.held(), 1);
}

#[test]
fn a_larger_bound_lets_in_who_waits() {
    let block = Rule { full: FullPolicy::Block(ms(10_000)), bound: Size(150), ..rule("ls", 50) };
    let mut wire = down(options(vec![block.clone()]));
    wire.ask(0, 1, "ls/a", 96);
    wire.ask(0, 2, "ls/a", 96);
    assert_eq!(wire.verdicts(), [(1, Ok(()))]);
    set(&mut wire, vec![Rule { bound: Size(1_000), ..block }]);
    wire.poll();
    assert_eq!(wire.verdicts().pop(), Some((2, Ok(()))));
}

#[test]
fn a_backlog_on_disk_is_classed_anew() {
    let durable = |rule: Rule| Rule { accept: AcceptMode::Durable, ..rule };
    let old = durable(Rule { bound: Size::from_mib(8), ..rule("lt", 1000) });
    let mut wire = down(NodeOptions { memory: Size(2_000), ..options(vec![old.clone()]) });
    for _ in 0..60 {
        wire.offer("lt/a", 96);
        wire.sync();
    }
    assert!(wire.node.held_bytes() <= Size(2_000));
    set(&mut wire, vec![Rule { class: LS, latency: ms(50), ..old }]);
    wire.up();
    while wire.node.held() > 0 {
        wire.carry();
        wire.sync();
        if !wire.read_back() {
            wire.advance(ms(100));
        }
    }
    assert!(wire.history.iter().all(|cut| cut.path == lane(LS)), "all of it is urgent now");
    assert_eq!(wire.status().counts.confirmed, 60);
}
