//! What scripts do to waiting records beside moving and dropping them: sending them elsewhere, replacing
//! them, adding to them, having them transformed; and that a record waits for its script.

use bytes::Bytes;
use tidegate_node::adapt::{QueueState, Verdicts};
use tidegate_node::io::{
    Content, Destination, Edit, Input, Output, OutputId, PathId, PathSample, PathState, QueueId,
    TcpState,
};
use tidegate_node::node::Node;
use tidegate_node::options::{NodeOptions, OutputOptions};
use tidegate_node::rules::{Rule, Rules, ScriptId};
use tidegate_testing::support::*;
use tidegate_testing::{Wire, offer};
use tidegate_types::record::{AcceptMode, DeliveryId, DropReason, Offered, SourceId};
use tidegate_types::units::{Rate, Size};

const CLOUD: OutputId = OutputId(0);
const EDGE: OutputId = OutputId(1);

/// The cloud, and an edge server beside it with larger headers, on one uplink.
fn two_outputs(rules: Vec<Rule>) -> NodeOptions {
    let options = options(rules);
    let mut outputs = options.outputs.clone();
    outputs.push(outputs[0].clone());
    (outputs[1].name, outputs[1].overhead) = ("edge".into(), Size(10));
    NodeOptions { outputs, ..options }
}

/// The cloud's paths are down, so that records wait for it.
fn cut_off(options: NodeOptions) -> Wire {
    let mut wire = up(options);
    cloud(&mut wire, PathState::Down);
    wire
}

fn cloud(wire: &mut Wire, state: PathState) {
    let of_cloud: Vec<PathId> =
        wire.paths().into_iter().filter(|path| path.output == CLOUD).collect();
    of_cloud.into_iter().for_each(|path| wire.path(path, state));
}

/// Everything that waits, by queue.
fn waiting(wire: &Wire) -> Vec<(QueueId, DeliveryId)> {
    let of = |queue| wire.node.waiting(queue).map(move |id| (queue, id));
    wire.node.queues().flat_map(of).collect()
}

fn edit(wire: &mut Wire, change: impl Fn(DeliveryId) -> Edit) {
    for (queue, id) in waiting(wire) {
        wire.handle(Input::Edits { queue, operations: vec![change(id)] });
    }
}

fn redirect(wire: &mut Wire, to: OutputId) {
    edit(wire, |id| Edit::Redirect(id, Destination::Output(to)));
}

fn payload(size: usize) -> Content {
    Content { payload: Some(Bytes::from(vec![1; size])), ..Content::default() }
}

/// What went, by output: its key and payload bytes.
fn went(wire: &Wire) -> Vec<(u16, String, u64)> {
    let whole = wire.history.iter().filter(|cut| cut.is_last());
    whole.map(|cut| (cut.path.output.0, cut.key.clone(), cut.size)).collect()
}

#[test]
fn a_redirected_record_goes_by_the_other_output_and_ends_once() {
    let mut wire = cut_off(two_outputs(rules()));
    wire.offer("ls/frame", 100);
    redirect(&mut wire, EDGE);
    assert_eq!(went(&wire), [(1, "ls/frame".to_owned(), 118)], "with the edge's own overhead");
    wire.carry();
    let counts = wire.status().counts;
    assert_eq!((counts.accepted, counts.confirmed, counts.dropped_all()), (1, 1, 0));
}

#[test]
fn a_redirected_record_finds_its_way_home() {
    let mut wire = down(two_outputs(rules()));
    wire.offer("ls/frame", 100);
    let home = waiting(&wire);
    redirect(&mut wire, EDGE);
    assert_ne!(waiting(&wire), home);
    redirect(&mut wire, CLOUD);
    assert_eq!(waiting(&wire), home);
    // New rules of the same shape move it nowhere; others send it where they want.
    redirect(&mut wire, EDGE);
    let seat = waiting(&wire);
    wire.control(tidegate_node::io::Control::Rules(Rules::new(rules()).unwrap().into()));
    assert_eq!(waiting(&wire), seat);
    let later: Vec<Rule> = vec![rule("ls", 80)];
    wire.control(tidegate_node::io::Control::Rules(Rules::new(later).unwrap().into()));
    wire.up();
    wire.carry();
    assert_eq!(wire.status().counts.confirmed, 1);
}

#[test]
fn nothing_goes_twice_where_it_goes_anyway() {
    let both = Rule { to: vec![CLOUD, EDGE], ..rule("ls", 50) };
    let mut wire = cut_off(two_outputs(vec![both]));
    wire.offer("ls/frame", 1);
    redirect(&mut wire, EDGE);
    wire.carry();
    let counts = wire.status().counts;
    assert_eq!((counts.confirmed, counts.dropped[DropReason::Script.index()]), (1, 1));
    assert_eq!(went(&wire).len(), 1);
}

#[test]
fn a_redirection_to_nowhere_changes_nothing() {
    let mut wire = cut_off(two_outputs(rules()));
    wire.offer("ls/frame", 1);
    let (before, events) = (waiting(&wire), wire.events.len());
    redirect(&mut wire, OutputId(7));
    assert_eq!((waiting(&wire), wire.events.len()), (before, events + 1));
}

#[test]
fn a_replaced_record_keeps_its_identity_and_counts_what_it_holds() {
    let mut wire = cut_off(two_outputs(rules()));
    wire.offer("ls/frame", 1000);
    let (_, id) = waiting(&wire)[0];
    let before = wire.node.record(id).unwrap().clone();
    edit(&mut wire, |id| {
        Edit::Replace(id, Content { key: Some("ls/small".into()), ..payload(20) })
    });
    let after = wire.node.record(id).unwrap().clone();
    assert_eq!((after.identity.clone(), after.size()), (before.identity.clone(), Size(28)));
    assert_eq!(wire.node.held_bytes(), before.size() + after.size());
    // Once more: the first replacement is gone.
    edit(&mut wire, |id| Edit::Replace(id, payload(30)));
    assert_eq!(wire.node.held_bytes(), before.size() + Size(38));
    cloud(&mut wire, PathState::Up);
    assert_eq!(went(&wire), [(0, "ls/small".to_owned(), 38)]);
    wire.carry();
    assert_eq!((wire.status().counts.confirmed, wire.node.held_bytes()), (1, Size::ZERO));
}

#[test]
fn a_replacement_that_no_bound_allows_is_none() {
    let mut options = two_outputs(rules());
    options.record_max = Size(500);
    let mut wire = cut_off(options);
    wire.offer("ls/frame", 100);
    edit(&mut wire, |id| Edit::Replace(id, payload(600)));
    cloud(&mut wire, PathState::Up);
    assert_eq!(went(&wire), [(0, "ls/frame".to_owned(), 108)]);
}

#[test]
fn other_destinations_get_the_record_as_it_was() {
    let both = Rule { to: vec![CLOUD, EDGE], ..rule("ls", 50) };
    let mut wire = down(two_outputs(vec![both]));
    wire.offer("ls/frame", 100);
    let (queue, id) = waiting(&wire)[0];
    let operations = vec![Edit::Replace(id, payload(20))];
    wire.handle(Input::Edits { queue, operations });
    wire.up();
    let mut sizes: Vec<(u16, u64)> = went(&wire).iter().map(|(to, _, size)| (*to, *size)).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [(0, 28), (1, 118)]);
}

#[test]
fn an_inserted_record_goes_after_the_one_it_was_made_from() {
    let both = Rule { to: vec![CLOUD, EDGE], ..rule("ls", 50) };
    let mut wire = down(two_outputs(vec![both]));
    ["ls/1", "ls/2"].iter().for_each(|key| wire.offer(key, 1));
    let (queue, first) = waiting(&wire)[0];
    let new = Content { key: Some("ls/new".into()), ..payload(5) };
    let operations = vec![Edit::Insert(first, new)];
    wire.handle(Input::Edits { queue, operations });
    let identities: std::collections::BTreeSet<String> = waiting(&wire)
        .iter()
        .map(|(_, id)| wire.node.record(*id).unwrap().identity.to_string())
        .collect();
    assert_eq!(identities.len(), 3, "a record of its own");
    wire.up();
    let to = |output| {
        let all = went(&wire).into_iter().filter(move |(to, ..)| *to == output);
        all.map(|(_, key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(to(0), ["ls/1", "ls/new", "ls/2"]);
    assert_eq!(to(1), ["ls/1", "ls/2"], "by the way of the one it was made from only");
    wire.carry();
    assert_eq!(wire.status().counts.confirmed, 5);
}

#[test]
fn an_inserted_record_follows_a_redirected_one() {
    let mut wire = cut_off(two_outputs(rules()));
    wire.path(PathId { output: EDGE, lane: 0 }, PathState::Down);
    wire.offer("ls/1", 1);
    redirect(&mut wire, EDGE);
    edit(&mut wire, |id| Edit::Insert(id, payload(5)));
    wire.up();
    assert_eq!(went(&wire).iter().map(|(to, ..)| *to).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn what_is_in_transformation_may_be_passed_or_holds_its_queue() {
    for ordered in [false, true] {
        let mut wire = cut_off(two_outputs(rules()));
        wire.offer("ls/1", 100);
        let (queue, id) = waiting(&wire)[0];
        let operations = vec![Edit::Transform { id, endpoint: 3, ordered }];
        wire.handle(Input::Edits { queue, operations });
        wire.offer("ls/2", 1);
        let &(work, asked, endpoint) = wire.transforms.last().unwrap();
        assert_eq!((asked, endpoint), (id, 3));
        cloud(&mut wire, PathState::Up);
        wire.handle(Input::Transformed { work, payload: Some(Bytes::from(vec![1; 10])) });
        let went: Vec<(String, u64)> =
            went(&wire).into_iter().map(|(_, key, size)| (key, size)).collect();
        let mut wanted = [("ls/2".to_owned(), 5), ("ls/1".to_owned(), 14)];
        if ordered {
            wanted.reverse();
        }
        assert_eq!(went, wanted);
        wire.carry();
        assert_eq!((wire.status().counts.confirmed, wire.node.held_bytes()), (2, Size::ZERO));
    }
}

#[test]
fn without_an_answer_the_original_goes() {
    for ordered in [false, true] {
        let mut wire = cut_off(two_outputs(rules()));
        wire.offer("ls/1", 100);
        edit(&mut wire, |id| Edit::Transform { id, endpoint: 0, ordered });
        cloud(&mut wire, PathState::Up);
        assert!(wire.history.is_empty());
        let (work, ..) = wire.transforms[0];
        wire.handle(Input::Transformed { work, payload: None });
        assert_eq!(went(&wire), [(0, "ls/1".to_owned(), 104)]);
    }
}

#[test]
fn what_expires_in_transformation_is_not_sent() {
    let mut wire = cut_off(two_outputs(vec![Rule { ttl: Some(ms(100)), ..rule("ls", 50) }]));
    wire.offer("ls/1", 100);
    edit(&mut wire, |id| Edit::Transform { id, endpoint: 0, ordered: false });
    wire.advance(ms(200));
    cloud(&mut wire, PathState::Up);
    let (work, ..) = wire.transforms[0];
    wire.handle(Input::Transformed { work, payload: Some(Bytes::from_static(b"late")) });
    assert!(wire.history.is_empty());
    assert_eq!(wire.status().counts.dropped[DropReason::Expired.index()], 1);
}

#[test]
fn a_script_sees_its_own_verdicts_and_stale_handles_are_harmless() {
    // Table I: `drop()` answers with the new length, and with the old one where it has no effect. Fig. 9
    // drops one message twice.
    let mut wire = down(two_outputs(rules()));
    (1..=4).for_each(|number| wire.offer(&format!("ls/{number}"), 1));
    let queue = waiting(&wire)[0].0;
    let ids: Vec<DeliveryId> = wire.node.waiting(queue).collect();
    let (queues, mut verdicts) = (wire.node.waiting_queues(), Verdicts::default());
    assert_eq!(verdicts.length(queues, queue), 4);
    assert_eq!(
        (verdicts.drop(queues, queue, ids[0]), verdicts.drop(queues, queue, ids[0])),
        (3, 3)
    );
    assert_eq!(verdicts.insert(queues, queue, ids[0], payload(1)), 3, "after one that is gone");
    assert_eq!(verdicts.insert(queues, queue, ids[1], payload(1)), 4);
    verdicts.redirect(queues, queue, ids[2], EDGE);
    verdicts.move_to_front(queues, queue, ids[3]);
    assert_eq!(verdicts.length(queues, queue), 3);
    assert_eq!(verdicts.messages(queues, queue).collect::<Vec<_>>(), [ids[1], ids[3]]);
    let inputs = verdicts.inputs();
    assert_eq!(inputs.len(), 1, "one queue, one input");
    inputs.into_iter().for_each(|input| wire.handle(input));
    assert_eq!(wire.node.queue_length(queue), 3);
    let keys = wire.node.waiting(queue).map(|id| wire.key_of(id).unwrap());
    assert_eq!(keys.collect::<Vec<_>>(), ["ls/4", "ls/2", "ls/2"]);
}

#[test]
fn a_queue_is_down_when_its_path_is_or_when_nothing_is_acknowledged() {
    let mut wire = up(narrow(rules()));
    wire.offer("lt/large", 10_000);
    let queue = wire.node.queues().next().unwrap();
    let state = |wire: &mut Wire| wire.node.queue_facts(wire.now, queue).unwrap().state;
    let report = |wire: &mut Wire, class, delivered, in_flight| {
        let (delivered, in_flight) = (Size(delivered), Size(in_flight));
        let rtt = Some(ms(60));
        let sample = PathSample { rtt, delivered, in_flight, ..PathSample::default() };
        wire.handle(Input::PathSample { path: lane(class), sample });
    };
    assert_eq!(state(&mut wire), QueueState::Up);
    report(&mut wire, LT, 100, 5000);
    wire.advance(ms(150));
    report(&mut wire, LT, 200, 5000); // acknowledged again: the patience begins anew
    wire.advance(ms(199));
    report(&mut wire, LT, 200, 5000);
    assert_eq!(state(&mut wire), QueueState::Up);
    wire.advance(ms(1));
    assert_eq!(state(&mut wire), QueueState::Down);
    report(&mut wire, LS, 1, 300); // another connection gets through
    assert_eq!(state(&mut wire), QueueState::Degraded);
    report(&mut wire, LT, 5200, 0);
    assert_eq!(state(&mut wire), QueueState::Up, "nothing is owed");
    wire.path(lane(NM), PathState::Down);
    assert_eq!(state(&mut wire), QueueState::Degraded);
    wire.down();
    let facts = wire.node.queue_facts(wire.now, queue).unwrap();
    assert_eq!((facts.state, facts.bandwidth), (QueueState::Down, Some(Rate::ZERO)));
}

#[test]
fn before_anything_is_measured_a_queue_knows_what_is_known() {
    let bandwidth = |cap: Option<f64>, remembered: Option<f64>, tcp: Option<TcpState>| {
        let mut options = options(rules());
        for uplink in &mut options.uplinks {
            uplink.controller = tidegate_capacity::RateControllerName::Tide;
            (uplink.cap, uplink.remembered) = (cap.map(Rate::new), remembered.map(Rate::new));
        }
        let mut wire = up(options);
        wire.handle(Input::PathSample {
            path: lane(LT),
            sample: PathSample { tcp, ..PathSample::default() },
        });
        wire.offer("lt/1", 1);
        let queue = wire.node.queues().next().unwrap();
        let facts = wire.node.queue_facts(wire.now, queue).unwrap();
        assert_eq!(facts.connection, tcp);
        facts.bandwidth.map(|rate| rate.as_f64().round())
    };
    let tcp = TcpState { window: Size(14_480), srtt: ms(100), ..TcpState::default() };
    assert_eq!(bandwidth(None, None, None), None, "nothing is known");
    assert_eq!(bandwidth(None, None, Some(tcp)), Some(144_800.0), "a window in each round trip");
    let measured = TcpState { delivery_rate: 50_000, ..tcp };
    assert_eq!(bandwidth(None, None, Some(measured)), Some(50_000.0));
    assert_eq!(bandwidth(Some(9000.0), None, Some(tcp)), Some(9000.0), "as it is configured");
}

#[test]
fn a_connection_that_was_handed_something_a_moment_ago_does_not_speak_for_a_silent_one() {
    let mut wire = up(narrow(rules()));
    wire.offer("lt/large", 10_000);
    let queue = wire.node.queues().next().unwrap();
    let state = |wire: &mut Wire| wire.node.queue_facts(wire.now, queue).unwrap().state;
    let hand = |wire: &mut Wire, class| {
        let sample =
            PathSample { rtt: Some(ms(60)), in_flight: Size(300), ..PathSample::default() };
        wire.handle(Input::PathSample { path: lane(class), sample });
    };
    hand(&mut wire, LT);
    wire.advance(ms(150));
    hand(&mut wire, LS);
    wire.advance(ms(49));
    assert_eq!(state(&mut wire), QueueState::Up);
    wire.advance(ms(1));
    assert_eq!(state(&mut wire), QueueState::Down, "200 ms after the first, not after the last");
}

#[test]
fn a_queue_knows_its_average_latency() {
    let mut wire = up(options(vec![scripted(rule("ls", 50))]));
    let queue = |wire: &Wire| wire.node.queues().next().unwrap();
    wire.offer("ls/1", 1);
    let before = wire.now;
    let first = queue(&wire);
    assert_eq!(wire.node.queue_facts(before, first).unwrap().latency, None);
    wire.advance(ms(80));
    wire.confirm_all();
    assert_eq!(wire.node.queue_facts(wire.now, first).unwrap().latency, Some(ms(80)));
    wire.offer("ls/2", 1);
    wire.confirm_all();
    assert_eq!(wire.node.queue_facts(wire.now, first).unwrap().latency, Some(ms(70)));
}

fn scripted(rule: Rule) -> Rule {
    Rule { script: Some(ScriptId(0)), ..rule }
}

/// What a node says until it has nothing more to say, but for what is not asked about.
fn said(node: &mut Node, wire: &Wire) -> Vec<Output> {
    let all = std::iter::from_fn(|| node.poll(wire.now));
    all.filter(|output| matches!(output, Output::Transmit { .. } | Output::RunScript { .. }))
        .collect()
}

#[test]
fn a_record_waits_for_its_script_and_delays_nobody_else() {
    let mut wire = up(options(vec![scripted(rule("ls", 50)), rule("lt", 1000)]));
    let mut node = std::mem::replace(&mut wire.node, Node::new(options(rules())).unwrap());
    let offers = ["ls/1", "lt/1", "ls/2"].map(|key| offer(wire.now, 0, key, 1));
    node.handle(wire.now, Input::Arrived(offers.to_vec()));
    let said = said(&mut node, &wire);
    let is_script = |output: &Output| matches!(output, Output::RunScript { .. });
    let scripts: Vec<bool> = said.iter().map(is_script).collect();
    assert_eq!(scripts, [false, true, false, true, false], "others first, each after its script");
}

#[test]
fn a_verdict_comes_before_the_record_goes() {
    let mut wire = up(options(vec![scripted(rule("ls", 50))]));
    // The script of the test driver drops the fifth record that it sees.
    (1..=6).for_each(|number| wire.offer(&format!("ls/{number}"), 1));
    assert_eq!(wire.keys(), ["ls/1", "ls/2", "ls/3", "ls/4", "ls/6"]);
    assert_eq!(wire.status().counts.dropped[DropReason::Script.index()], 1);
}

#[test]
fn what_a_script_makes_it_does_not_meet_again() {
    let mut wire = down(options(vec![scripted(rule("ls", 50))]));
    wire.offer("ls/1", 1);
    let (queue, id) = waiting(&wire)[0];
    let operations = vec![Edit::Insert(id, payload(5))];
    wire.handle(Input::Edits { queue, operations });
    assert_eq!((waiting(&wire).len(), wire.seen.len()), (2, 1));
    wire.up();
    assert_eq!(wire.keys(), ["ls/1", "ls/1"], "and it goes all the same");
}

#[test]
fn what_waits_can_be_gone_through_one_by_one() {
    let mut wire = down(options(vec![scripted(rule("ls", 50)), rule("lt", 1000)]));
    (1..=3).for_each(|number| wire.offer(&format!("ls/{number}"), 1));
    wire.advance(ms(60)); // they are late now
    wire.offer("ls/1", 1);
    for queue in wire.node.queues() {
        let all: Vec<DeliveryId> = wire.node.waiting(queue).collect();
        let step = |before: &DeliveryId| wire.node.waiting_after(queue, Some(*before));
        let first = wire.node.waiting_after(queue, None);
        assert_eq!(std::iter::successors(first, step).collect::<Vec<_>>(), all);
        assert_eq!(wire.node.script_of(queue), Some(ScriptId(0)));
    }
    let changes = wire.node.queue_changes();
    wire.offer("lt/new", 1);
    assert!(wire.node.queue_changes() > changes, "a new stream, a new queue");
}

#[test]
fn what_a_script_dropped_does_not_come_back() {
    let durable = Rule { accept: AcceptMode::Durable, ..rule("ls", 50) };
    let made = || options(vec![durable.clone()]);
    let mut wire = down(made());
    wire.ask(0, 1, "ls/1", 1);
    wire.ask(0, 2, "ls/2", 1);
    wire.sync();
    let (queue, id) = waiting(&wire)[0];
    wire.handle(Input::Edits { queue, operations: vec![Edit::Drop(id)] });
    wire.advance(tidegate_types::limits::FATES_DELAY);
    wire.sync();
    let mut wire = restart(wire, made());
    wire.up();
    while wire.read_back() {}
    assert_eq!(wire.keys(), ["ls/2"]);
}

#[test]
fn what_comes_back_from_disk_meets_its_script_again() {
    let durable = Rule { accept: AcceptMode::Durable, ..rule("ls", 50) };
    let made = || options(vec![scripted(durable.clone())]);
    let mut wire = down(made());
    let plain = Offered { source: SourceId(0), ..offer(wire.now, 0, "ls/1", 1) };
    wire.offer_all(vec![plain]);
    wire.sync();
    let mut wire = restart(wire, made());
    assert!(wire.seen.is_empty());
    while wire.read_back() {}
    assert_eq!(wire.seen.len(), 1);
    wire.up();
    assert_eq!(wire.keys(), ["ls/1"]);
}

#[test]
fn a_queue_knows_the_one_connection_of_all_classes() {
    let outputs = vec![OutputOptions { one_lane: true, ..output(0) }];
    let mut wire = up(NodeOptions { outputs, ..narrow(rules()) });
    let tcp = Some(TcpState { srtt: ms(10), ..TcpState::default() });
    let sample = PathSample { tcp, ..PathSample::default() };
    let path = PathId { output: CLOUD, lane: 0 };
    wire.handle(Input::PathSample { path, sample });
    wire.offer("lt/1", 1);
    let queue = wire.node.queues().next().unwrap();
    assert_eq!(wire.node.queue_facts(wire.now, queue).unwrap().connection, tcp);
}
