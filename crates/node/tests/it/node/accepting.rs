//! Acceptance: identity, rules, answers, and the table of streams.

use tidegate_log::Entry;
use tidegate_node::io::{Append, Control, Input, OutputId};
use tidegate_node::options::{NodeOptions, OptionsError};
use tidegate_node::rules::{Discipline, FullPolicy, Rule, RuleId};
use tidegate_testing::support::*;
use tidegate_testing::{Wire, offer};
use tidegate_types::limits::STREAMS_MAX;
use tidegate_types::record::{
    AcceptMode, DropReason, Foreign, Identity, Offered, Origin, RefuseReason, SourceId, StreamId,
    Token,
};
use tidegate_types::units::Size;

fn accepting(accept: AcceptMode) -> Vec<Rule> {
    vec![Rule { accept, ..rule("ls", 50) }]
}

#[test]
fn identity_and_seq_are_given_at_acceptance() {
    let mut wire = up(options(rules()));
    wire.open(1, "other");
    wire.offer("ls/a", 1);
    wire.offer("nope", 1); // refused: uses no number
    wire.offer("ls/b", 1);
    wire.offer("lt/c", 1);
    let others = vec![offer(wire.now, 1, "ls/d", 1)];
    wire.offer_all(others);
    let name = |place: usize| {
        let identity = &wire.node.record(wire.history[place].id).unwrap().identity;
        assert_eq!((&*identity.origin.node, identity.origin.incarnation), ("gate-7", 9));
        (identity.stream.0, identity.seq)
    };
    assert_eq!([name(0), name(1), name(2), name(3)], [(1, 1), (1, 2), (2, 1), (3, 1)]);
}

#[test]
fn a_client_that_comes_back_continues_its_stream() {
    let mut wire = up(options(rules()));
    wire.offer("ls/a", 1);
    wire.carry();
    wire.control(Control::Close(SourceId(0)));
    wire.open(5, "sensor");
    let again = vec![offer(wire.now, 5, "ls/a", 1)];
    wire.offer_all(again);
    let record = wire.node.record(wire.history[1].id).unwrap();
    assert_eq!((record.identity.stream.0, record.identity.seq), (1, 2));
}

#[test]
fn an_identity_given_elsewhere_travels_on() {
    let mut wire = up(options(rules()));
    let origin = Origin { node: "camera".into(), incarnation: 3 };
    let identity = Identity { origin: origin.into(), stream: StreamId(9), seq: 99 };
    let foreign = Some(Foreign { identity: identity.clone(), again: false, left: None });
    let offered = Offered { foreign, ..offer(wire.now, 0, "ls/a", 1) };
    wire.offer_all(vec![offered]);
    assert_eq!(wire.node.record(wire.history[0].id).unwrap().identity, identity);
}

#[test]
fn arrival_deadline_and_expiry_count_from_reading() {
    let mut rules = rules();
    rules[0].ttl = Some(ms(300));
    let mut wire = up(options(rules));
    let read_at = wire.now - ms(20);
    let with_ttl = |ttl| Offered { ttl, ..offer(read_at, 0, "ls/a", 1) };
    wire.offer_all(vec![with_ttl(None), with_ttl(Some(ms(200))), with_ttl(Some(ms(900)))]);
    let record = |place: usize| wire.node.record(wire.history[place].id).unwrap();
    assert_eq!((record(0).arrived, record(0).deadline), (read_at, read_at + ms(50)));
    let expires = [0, 1, 2].map(|place| record(place).expires.unwrap().since(read_at));
    assert_eq!(expires, [ms(300), ms(200), ms(300)]);
}

#[test]
fn the_first_rule_that_matches_wins() {
    let mut all = rules();
    all.insert(1, Rule { latency: ms(100), ..rule("ls", 100) });
    let mut wire = down(options(all));
    wire.offer("ls/a", 1);
    wire.offer("nm/a", 1);
    let accepted: Vec<u64> = wire.status().rules.iter().map(|rule| rule.counts.accepted).collect();
    assert_eq!(accepted, [1, 0, 1, 0]);
}

#[test]
fn what_no_rule_covers_is_refused() {
    let mut wire = down(options(rules()));
    wire.ask(0, 1, "nope", 1);
    let mut foreign = offer(wire.now, 0, "", 1);
    foreign.key = vec![0xff, 0xfe].into();
    foreign.token = Some(Token(2));
    wire.offer_all(vec![foreign]);
    let no_rule = Err(RefuseReason::NoRule);
    assert_eq!(wire.verdicts(), [(1, no_rule), (2, no_rule)]);
    assert_eq!(wire.status().counts.refused, 2);
}

#[test]
fn what_can_never_fit_is_oversize_at_once() {
    let mut options = options(rules());
    let block = FullPolicy::Block(ms(1000));
    options.rules = tidegate_node::rules::Rules::new(vec![
        Rule { bound: Size(500), full: block, ..rule("ls", 50) },
        Rule { full: block, ..rule("lt", 1000) },
    ])
    .unwrap();
    options.record_max = Size(10_000);
    options.memory = Size(5_000);
    let mut wire = down(options);
    wire.ask(0, 1, "ls/a", 497); // 501 with its key: more than the stream may hold
    wire.ask(0, 2, "ls/a", 496);
    wire.ask(0, 3, "lt/a", 10_001); // more than a record may have
    wire.ask(0, 4, "lt/a", 4_600); // more than its class may fill
    let oversize = Err(RefuseReason::Oversize);
    assert_eq!(wire.verdicts(), [(1, oversize), (2, Ok(())), (3, oversize), (4, oversize)]);
}

#[test]
fn memory_mode_answers_at_once() {
    let mut wire = down(options(accepting(AcceptMode::Memory)));
    wire.ask(0, 1, "ls/a", 1);
    assert_eq!(wire.verdicts(), [(1, Ok(()))]);
    wire.up();
    wire.carry();
    assert_eq!(wire.verdicts().len(), 1, "once");
}

#[test]
fn durable_mode_answers_after_the_commit_and_not_before() {
    let mut wire = up(options(accepting(AcceptMode::Durable)));
    for token in 1..=3 {
        wire.ask(0, token, "ls/a", 1);
    }
    wire.carry(); // the far end has them: the log does not
    assert_eq!(wire.verdicts(), []);
    assert_eq!(
        logged(&wire),
        [(3, 1), (4, 2), (5, 3)],
        "behind a checkpoint and the stream's name"
    );
    wire.handle(Input::Appended { upto: 4 });
    assert_eq!(wire.verdicts(), [(1, Ok(())), (2, Ok(()))]);
    wire.handle(Input::Appended { upto: 4 });
    wire.handle(Input::Appended { upto: 5 });
    assert_eq!(wire.verdicts(), [(1, Ok(())), (2, Ok(())), (3, Ok(()))]);
}

/// Number and seq of the records that were given to the log.
fn logged(wire: &Wire) -> Vec<(u64, u64)> {
    let record = |append: &Append| match &append.entry {
        Entry::Record(record) => Some((append.number, record.seq)),
        _ => None,
    };
    wire.appends.iter().filter_map(record).collect()
}

#[test]
fn a_failed_append_promises_nothing_and_keeps_the_record() {
    let mut wire = up(options(accepting(AcceptMode::Durable)));
    wire.ask(0, 1, "ls/a", 1);
    wire.ask(0, 2, "ls/b", 1);
    let reason = RefuseReason::Storage;
    wire.handle(Input::AppendFailed { appends: vec![3], reason });
    wire.handle(Input::Appended { upto: 2 });
    wire.handle(Input::AppendFailed { appends: vec![4], reason });
    assert_eq!(wire.verdicts(), [(1, Err(reason)), (2, Err(reason))]);
    wire.carry();
    assert_eq!(wire.keys(), ["ls/a", "ls/b"]);
}

#[test]
fn confirmed_mode_answers_after_every_destination() {
    let mut rules = accepting(AcceptMode::Confirmed);
    rules[0].to = vec![OutputId(0), OutputId(1)];
    let options = NodeOptions { outputs: vec![output(0), output(0)], ..options(rules) };
    let mut wire = up(options);
    wire.ask(0, 1, "ls/a", 1);
    while wire.send() {}
    let [first, second] = [wire.history[0].id, wire.history[1].id];
    wire.confirm(&[first]);
    assert_eq!(wire.verdicts(), []);
    wire.confirm(&[second]);
    assert_eq!(wire.verdicts(), [(1, Ok(()))]);
}

#[test]
fn confirmed_mode_tells_of_a_drop_when_all_is_decided() {
    let mut rules = accepting(AcceptMode::Confirmed);
    rules[0].to = vec![OutputId(0), OutputId(1)];
    let options = NodeOptions { outputs: vec![output(0), output(0)], ..options(rules) };
    let mut wire = up(options);
    wire.ask(0, 1, "ls/a", 1);
    while wire.send() {}
    let [first, second] = [wire.history[0].id, wire.history[1].id];
    let reason = DropReason::Unroutable;
    wire.refuse(&[second], tidegate_node::io::Refusal::Final(reason));
    assert_eq!(wire.verdicts(), []);
    wire.confirm(&[first]);
    assert_eq!(wire.verdicts(), [(1, Err(RefuseReason::Dropped(reason)))]);
    let counts = wire.status().counts;
    assert_eq!((counts.records, counts.accepted, counts.confirmed), (1, 2, 1));
    assert_eq!(counts.dropped[reason.index()], 1);
}

#[test]
fn an_answer_never_reaches_the_next_connection_of_the_same_number() {
    for accept in [AcceptMode::Confirmed, AcceptMode::Durable] {
        let mut wire = up(options(accepting(accept)));
        wire.ask(0, 1, "ls/a", 1);
        wire.control(Control::Close(SourceId(0)));
        wire.open(0, "another");
        wire.carry();
        wire.sync();
        assert_eq!(wire.verdicts(), [], "{accept:?}");
    }
}

#[test]
fn what_was_about_to_be_said_to_a_closed_connection_is_not_said() {
    let mut rules = accepting(AcceptMode::Memory);
    rules[0] = Rule { bound: Size(10), full: FullPolicy::Block(ms(9)), ..rules[0].clone() };
    let mut wire = down(options(rules));
    let now = wire.now;
    let ask = |token| Offered { token: Some(Token(token)), ..offer(now, 0, "ls/a", 4) };
    // The driver takes several arrivals before it polls.
    wire.node.handle(now, Input::Arrived(vec![ask(1), ask(2)]));
    wire.node.handle(now, Input::Control(Control::Close(SourceId(0))));
    let next = Control::Open { source: SourceId(0), name: "another".into(), relays: None };
    wire.node.handle(now, Input::Control(next));
    wire.poll();
    assert_eq!((wire.verdicts(), wire.pauses.len()), (vec![], 0));
}

#[test]
fn a_connection_that_is_not_open_offers_in_vain() {
    let mut wire = down(options(rules()));
    wire.ask(3, 1, "ls/a", 1);
    wire.ask(u32::MAX, 2, "ls/a", 1);
    wire.open(u32::MAX, "far beyond"); // no table of four thousand million connections
    wire.ask(u32::MAX, 3, "ls/a", 1);
    assert_eq!(wire.verdicts(), []);
    assert_eq!((wire.status().counts.refused, wire.status().held), (3, 0));
}

#[test]
fn a_record_whose_sender_is_gone_is_given_up_unless_it_is_under_way() {
    let mut wire = down(options(accepting(AcceptMode::Confirmed)));
    wire.ask(0, 1, "ls/a", 1);
    let waiting = wire.node.newest().unwrap();
    assert_eq!(wire.node.waits_for(waiting), Some(OutputId(0)));
    wire.control(Control::Withdraw(waiting));
    assert_eq!(wire.verdicts(), [(1, Err(RefuseReason::Dropped(DropReason::Withdrawn)))]);
    wire.up();
    wire.ask(0, 2, "ls/a", 1);
    let under_way = wire.node.newest().unwrap();
    wire.control(Control::Withdraw(under_way));
    wire.control(Control::Withdraw(waiting)); // a stale handle is harmless
    let status = wire.status();
    assert_eq!((status.held, status.counts.dropped[DropReason::Withdrawn.index()]), (1, 1));
    wire.carry();
    assert_eq!((wire.status().held, wire.status().counts.confirmed), (0, 1));
}

#[test]
fn a_bound_connection_is_of_its_rule_whatever_its_keys() {
    let mut wire = up(options(rules()));
    wire.open(1, "bound");
    wire.control(Control::Bind { source: SourceId(1), rule: RuleId(1) });
    wire.ask(1, 1, "no rule covers this", 1);
    assert_eq!(wire.verdicts().len(), 1);
    let counts: Vec<u64> = wire.status().rules.iter().map(|rule| rule.counts.records).collect();
    assert_eq!(counts[..2], [0, 1]);
}

/// Connections `from..to` come, offer one record each, and stay open.
fn fill(wire: &mut Wire, from: u32, to: u32) {
    for source in from..to {
        wire.open(source, &format!("client {source}"));
        wire.ask(source, u64::from(source), "ls/a", 0);
    }
}

#[test]
fn the_table_of_streams_is_bounded_and_idle_ones_make_room() {
    let mut rules = rules();
    rules[0].discipline = Discipline::Fifo;
    let mut wire = up(options(rules));
    let all = STREAMS_MAX as u32;
    // One client comes and goes more often than the table has places.
    for _ in 0..=all {
        wire.open(0, "restless");
        let offers = vec![offer(wire.now, 0, "ls/a", 0)];
        wire.offer_all(offers);
        wire.carry();
        wire.control(Control::Close(SourceId(0)));
    }
    wire.forget_history();
    fill(&mut wire, 1, all);
    wire.carry();
    assert!(wire.answers.iter().all(|(.., result)| result.is_ok()));
    (1..=10).for_each(|source| wire.control(Control::Close(SourceId(source))));
    // "restless" and ten others are idle: eleven places.
    fill(&mut wire, all, all + 12);
    let (last, earlier) = wire.answers.split_last().unwrap();
    assert!(earlier.iter().all(|(.., result)| result.is_ok()));
    assert_eq!(last.2, Err(RefuseReason::TooManyStreams));
    // Numbers go on: every identity there ever was is another one.
    let streams: Vec<u64> = wire
        .history
        .iter()
        .rev()
        .take(11)
        .collect::<Vec<_>>()
        .iter()
        .rev()
        .map(|cut| wire.node.record(cut.id).unwrap().identity.stream.0)
        .collect();
    assert_eq!(streams, (u64::from(all) + 1..=u64::from(all) + 11).collect::<Vec<_>>());
    // One that was forgotten comes back under a new number.
    (20..=20).for_each(|source| wire.control(Control::Close(SourceId(source))));
    fill(&mut wire, 1, 2);
    let record = wire.node.record(wire.history.last().unwrap().id).unwrap();
    assert_eq!((record.identity.stream.0, record.identity.seq), (u64::from(all) + 12, 1));
}

#[test]
fn options_that_lead_nowhere_are_named() {
    let error = |change: fn(&mut NodeOptions)| {
        let mut options = options(rules());
        change(&mut options);
        tidegate_node::node::Node::new(options).unwrap_err()
    };
    assert_eq!(error(|options| options.outputs.clear()), OptionsError::NoOutput);
    let no_window = OptionsError::NoWindow("cloud".into());
    assert_eq!(error(|options| options.outputs[0].unconfirmed_max = 0), no_window);
    let few = error(|options| {
        let one = vec![tidegate_types::class::ClassSpec::new("only", ms(50))];
        options.classes = tidegate_types::class::Classes::new(one).unwrap();
    });
    assert_eq!(few, OptionsError::NoClass("nm".into()));
}
