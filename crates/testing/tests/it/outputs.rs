//! Outputs that come and go while records wait.

use tidegate_node::io::{Control, Destination, Edit, Event, Input, OutputId};
use tidegate_node::options::{NodeOptions, OutputOptions};
use tidegate_node::rules::{Rule, Rules};
use tidegate_testing::Wire;
use tidegate_testing::support::*;
use tidegate_types::record::DropReason;

fn set_outputs(wire: &mut Wire, change: impl FnOnce(&mut NodeOptions)) {
    let mut options = wire.node.options().clone();
    change(&mut options);
    wire.control(Control::Outputs(Box::new((options.outputs, options.uplinks))));
}

fn set_rules(wire: &mut Wire, rules: Vec<Rule>) {
    wire.control(Control::Rules(Rules::new(rules).unwrap().into()));
}

fn archive(uplink: u16) -> OutputOptions {
    OutputOptions { name: "archive".into(), ..output(uplink) }
}

/// A rule of all, to these outputs.
fn to(outputs: &[u16]) -> Vec<Rule> {
    let to = outputs.iter().copied().map(OutputId).collect();
    vec![durable(Rule { to, ..rule("ls", 50) })]
}

/// Where records went and are confirmed.
fn drain(wire: &mut Wire) -> Vec<(String, u16)> {
    wire.forget_history();
    wire.up();
    while wire.node.held() > 0 {
        wire.carry();
        wire.sync();
        if !wire.read_back() {
            wire.advance(ms(100));
        }
    }
    let mut went: Vec<(String, u16)> =
        wire.keys().into_iter().zip(wire.history.iter().map(|cut| cut.path.output.0)).collect();
    went.sort();
    went
}

#[test]
fn an_output_comes_with_an_uplink_and_the_log_knows_what_is_for_whom() {
    let mut wire = down(options(to(&[0])));
    wire.offer("ls/a", 100);
    wire.sync();
    set_outputs(&mut wire, |options| {
        options.uplinks.push(options.uplinks[0].clone());
        options.uplinks[1].name = "lte".into();
        options.outputs.push(archive(1));
    });
    set_rules(&mut wire, to(&[0, 1]));
    wire.offer("ls/b", 100);
    wire.sync();
    // The next process has them the other way round.
    let mut turned = options(to(&[0, 1]));
    turned.outputs.insert(0, archive(0));
    let mut again = restart(wire, turned);
    let went = |key: &str, output| (key.to_owned(), output);
    assert_eq!(drain(&mut again), [went("ls/a", 1), went("ls/b", 0), went("ls/b", 1)]);
    let counts = again.status().counts;
    assert_eq!((counts.confirmed, counts.dropped_all()), (3, 0));
}

#[test]
fn what_waits_for_an_output_that_goes_goes_by_what_is_left() {
    let mut options = options(to(&[0]));
    options.outputs.push(archive(0));
    let mut wire = up(options);
    // One is under way by the first, one is for both.
    wire.offer("ls/a", 100);
    wire.poll();
    set_rules(&mut wire, to(&[0, 1]));
    wire.offer("ls/b", 100);
    wire.sync();
    wire.destination(OutputId(0), false);
    set_rules(&mut wire, to(&[1]));
    set_outputs(&mut wire, |options| options.outputs[0].is_gone = true);
    let went = |key: &str, output| (key.to_owned(), output);
    assert_eq!(wire.status().outputs.len(), 1);
    assert_eq!(drain(&mut wire), [went("ls/a", 1), went("ls/b", 1)]);
    let counts = wire.status().counts;
    assert_eq!((counts.confirmed, counts.dropped[DropReason::Unroutable.index()]), (2, 1));
    // It comes back to its place.
    set_outputs(&mut wire, |options| options.outputs[0].is_gone = false);
    set_rules(&mut wire, to(&[0]));
    wire.offer("ls/c", 100);
    assert_eq!(drain(&mut wire), [went("ls/c", 0)]);
}

#[test]
fn a_delivery_of_which_another_part_is_under_way_does_not_wait_for_an_output_that_is_gone() {
    let mut options = options(to(&[0, 1]));
    options.outputs.push(archive(0));
    let mut wire = up(options);
    wire.destination(OutputId(0), false);
    wire.offer("ls/a", 100);
    wire.sync();
    set_rules(&mut wire, to(&[1]));
    set_outputs(&mut wire, |options| options.outputs[0].is_gone = true);
    wire.carry();
    assert_eq!((wire.status().counts.confirmed, wire.node.held()), (1, 0));
}

#[test]
fn outputs_that_leave_their_places_change_nothing() {
    let mut wire = down(options(to(&[0])));
    wire.forget_history();
    set_outputs(&mut wire, |options| options.outputs[0].one_lane = true);
    set_outputs(&mut wire, |options| options.outputs[0].is_gone = true);
    set_outputs(&mut wire, |options| options.outputs.push(archive(7)));
    let is_refused = |event: &Event| matches!(event, Event::Unsupported(_));
    assert_eq!(wire.events.iter().filter(|event| is_refused(event)).count(), 3);
    assert_eq!(wire.node.options().outputs.len(), 1);
}

#[test]
fn what_a_script_sent_to_an_output_that_goes_does_not_wait_where_its_home_takes_it_no_more() {
    let mut options = options(to(&[0, 1]));
    options.outputs.extend([archive(0), OutputOptions { name: "edge".into(), ..output(0) }]);
    let mut wire = up(options);
    wire.destination(OutputId(0), false);
    wire.destination(OutputId(2), false);
    wire.offer("ls/a", 100);
    wire.sync();
    // One copy is under way, the other one is sent elsewhere.
    let queues: Vec<_> = wire.node.queues().collect();
    for queue in queues {
        let waiting: Vec<_> = wire.node.waiting(queue).collect();
        for id in waiting {
            let edit = Edit::Redirect(id, Destination::Output(OutputId(2)));
            wire.handle(Input::Edits { queue, operations: vec![edit] });
        }
    }
    set_rules(&mut wire, to(&[1]));
    set_outputs(&mut wire, |options| options.outputs[2].is_gone = true);
    wire.carry();
    let counts = wire.status().counts;
    assert_eq!((counts.confirmed, counts.dropped[DropReason::Unroutable.index()]), (1, 1));
    assert_eq!(wire.node.held(), 0);
}
