//! The inbound limit: a node that lets in no more than a rate, and loses nothing by it.

use tidegate_node::options::{NodeOptions, OptionsError};
use tidegate_node::rules::{FullPolicy, Rule};
use tidegate_testing::Wire;
use tidegate_testing::support::*;
use tidegate_types::record::SourceId;
use tidegate_types::units::{Rate, Size};

/// 10 kB/s.
fn limited(rules: Vec<Rule>) -> Wire {
    let inbound = Some(Rate::new(10_000.0));
    up(NodeOptions { inbound, ..options(rules) })
}

#[test]
fn more_than_the_limit_waits_and_nothing_is_refused() {
    // Whatever the streams' policies are: they are for want of room, and there is room.
    for full in [FullPolicy::Reject, FullPolicy::DropOldest, FullPolicy::DropNewest] {
        let rules = rules().into_iter().map(|rule| Rule { full, ..rule }).collect();
        let mut wire = limited(rules);
        for token in 0..100 {
            wire.ask(0, token, "lt/a", 996);
        }
        assert_eq!(wire.pauses, [(SourceId(0), true)]);
        // 100 kB are ten seconds of the limit; a tenth came in at once.
        wire.run(ms(4_950));
        let accepted = wire.status().counts.accepted;
        assert!((48..=52).contains(&accepted), "{full:?}: {accepted}");
        wire.run(ms(6_000));
        let status = wire.status();
        assert_eq!((status.counts.accepted, status.counts.confirmed), (100, 100), "{full:?}");
        assert_eq!((status.counts.refused, status.held), (0, 0), "{full:?}");
        assert!(wire.verdicts().iter().map(|(token, _)| *token).eq(0..100), "in order");
        assert_eq!(wire.pauses.last(), Some(&(SourceId(0), false)));
    }
}

#[test]
fn connections_take_turns() {
    let mut wire = limited(rules());
    wire.open(1, "other");
    for token in 0..50 {
        wire.ask(0, token, "lt/a", 996);
        wire.ask(1, 100 + token, "lt/b", 996);
    }
    wire.run(ms(5_000));
    let of = |source| wire.answers.iter().filter(|(other, ..)| *other == SourceId(source)).count();
    let (first, second) = (of(0), of(1));
    assert!(first >= 20 && second >= 20, "{first} {second}");
}

#[test]
fn a_blocked_stream_keeps_its_patience_behind_the_limit() {
    let full = FullPolicy::Block(ms(500));
    let rules = rules().into_iter().map(|rule| Rule { full, ..rule }).collect();
    let inbound = Some(Rate::new(10_000.0));
    let mut wire = down(NodeOptions { inbound, memory: Size(3_500), ..options(rules) });
    for token in 0..5 {
        wire.ask(0, token, "ls/a", 996);
    }
    // The third kilobyte fills the memory 0.2 s later; half a second after that its successor is refused.
    wire.advance(ms(2_000));
    let verdicts: Vec<bool> = wire.verdicts().iter().map(|(_, verdict)| verdict.is_ok()).collect();
    assert_eq!(verdicts, [true, true, true, false, false]);
}

#[test]
fn a_node_that_stops_answers_those_who_wait() {
    let mut wire = limited(rules());
    for token in 0..10 {
        wire.ask(0, token, "lt/a", 996);
    }
    wire.control(tidegate_node::io::Control::Stop);
    wire.carry();
    assert_eq!(wire.verdicts().len(), 10);
}

#[test]
fn a_limit_of_zero_is_an_error() {
    let options = NodeOptions { inbound: Some(Rate::ZERO), ..options(rules()) };
    assert_eq!(options.check(), Err(OptionsError::NoInbound));
}
