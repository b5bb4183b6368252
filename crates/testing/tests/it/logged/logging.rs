//! The log: what is promised, what a full or broken disk does, and what a restart finds.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_log::{Deed, Entry, FateEntry, Lever};
use tidegate_node::io::{Content, Destination, Edit, Event, Input, OutputId};
use tidegate_node::node::Node;
use tidegate_node::options::{BacklogOrder, LogOptions, NodeOptions, OptionsError};
use tidegate_node::rules::{FullPolicy, Rule};
use tidegate_testing::support::*;
use tidegate_testing::{Wire, offer};
use tidegate_types::limits::{FATES_DELAY, LOG_RETRY};
use tidegate_types::record::{AcceptMode, DeliveryId, DropReason, Offered, RefuseReason, Token};
use tidegate_types::units::{Size, Time};

fn with_log(rules: Vec<Rule>, change: impl Fn(&mut LogOptions)) -> NodeOptions {
    let mut log = log();
    change(&mut log);
    NodeOptions { log: Some(log), ..options(rules) }
}

/// Sends, confirms and reads back until nothing moves.
fn drain(wire: &mut Wire) {
    while wire.node.held() > 0 {
        wire.carry();
        wire.sync();
        if !wire.read_back() {
            wire.advance(FATES_DELAY);
        }
    }
}

#[test]
fn nothing_durable_is_accepted_before_the_log_has_begun() {
    let mut wire = Wire::new(Node::new(options(all_durable())).unwrap());
    wire.open(0, "sensor");
    wire.ask(0, 1, "ls/a", 1);
    assert_eq!(wire.verdicts(), [(1, Err(RefuseReason::Storage))]);
    assert!(matches!(wire.appends[0].entry, Entry::Checkpoint(_)));
    wire.sync();
    wire.ask(0, 2, "ls/a", 1);
    wire.sync();
    assert_eq!(wire.verdicts()[1..], [(2, Ok(()))]);
}

#[test]
fn a_durable_rule_needs_a_log() {
    let without = NodeOptions { log: None, ..options(all_durable()) };
    assert_eq!(Node::new(without).unwrap_err(), OptionsError::NoLog("ls".into()));
    let small = with_log(all_durable(), |log| log.bound = Size(log.segment.0 * 4 - 1));
    assert_eq!(Node::new(small).unwrap_err(), OptionsError::LogTooSmall);
}

#[test]
fn an_alarm_is_sent_before_its_commit() {
    let mut wire = up(options(all_durable()));
    wire.ask(0, 1, "ls/a", 1);
    assert_eq!(wire.keys(), ["ls/a"], "on its way");
    assert_eq!(wire.verdicts(), [], "and nothing is promised");
    wire.carry();
    assert_eq!(wire.verdicts(), []);
    wire.sync();
    assert_eq!(wire.verdicts(), [(1, Ok(()))]);
}

#[test]
fn fates_wait_for_company_but_not_long() {
    let mut wire = up(options(all_durable()));
    (0..10).for_each(|_| wire.offer("ls/a", 1));
    wire.sync();
    wire.carry();
    let fates = |wire: &Wire| {
        let is_fates =
            |append: &&tidegate_node::io::Append| matches!(append.entry, Entry::Fates(_));
        wire.appends.iter().filter(is_fates).cloned().collect::<Vec<_>>()
    };
    assert_eq!(fates(&wire), []);
    wire.advance(FATES_DELAY);
    let [append] = &fates(&wire)[..] else { panic!("one entry for all") };
    let Entry::Fates(FateEntry { wall, runs }) = &append.entry else { unreachable!() };
    assert_eq!((runs.len(), runs[0].run.first, runs[0].run.last), (1, 1, 10));
    assert_eq!(*wall, None, "nobody has told what time it is");
}

#[test]
fn what_acted_on_each_of_a_hundred_records_is_told_with_its_fate() {
    let mut rules = all_durable();
    rules.iter_mut().for_each(|rule| rule.script_name = Some("shed".into()));
    let mut wire = down(options(rules));
    (0..100).for_each(|_| wire.offer("ls/a", 1));
    wire.sync();
    let queue = wire.node.queues().next().unwrap();
    let waiting: Vec<DeliveryId> = wire.node.waiting(queue).collect();
    let seq = |wire: &Wire, id| wire.node.record(id).unwrap().identity.seq;
    let mut wanted: BTreeMap<u64, Vec<(Lever, &str, bool)>> = BTreeMap::new();
    let mut random = 7_u64;
    let mut next = |count: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % count
    };
    for id in waiting {
        let content = Content { payload: Some("y".into()), ..Content::default() };
        let (edit, what) = match next(5) {
            0 => (Edit::Drop(id), "shed: drop"),
            1 => (Edit::MoveFront(id), "shed: moveToFront"),
            2 => (Edit::MoveBack(id), "shed: moveToBack"),
            3 => (Edit::Replace(id, content), "shed: replace"),
            _ => continue,
        };
        wanted.entry(seq(&wire, id)).or_default().push((Lever::Script, what, true));
        wire.handle(Input::Edits { queue, operations: vec![edit] });
    }
    wire.up();
    for cut in wire.history.clone() {
        let by = ["lte", "dsl", "lte, dsl"][next(3)];
        let all = wanted.entry(seq(&wire, cut.id)).or_default();
        if !all.is_empty() {
            // When it went is told of what was touched.
            all.push((Lever::Queue, "ls", true));
        }
        all.push((Lever::Path, by, false));
        wire.handle(Input::Sent { id: cut.id, bytes: Size(cut.range.end - cut.range.start) });
        let destination = Destination::Output(OutputId(0));
        wire.handle(Input::Carried { destination, ids: vec![cut.id], by: by.into() });
    }
    wire.advance(FATES_DELAY);
    let mut told: BTreeMap<u64, Vec<(Lever, String, bool)>> = BTreeMap::new();
    for append in &wire.appends {
        let Entry::Fates(FateEntry { runs, .. }) = &append.entry else { continue };
        for run in runs {
            let deeds = run.deeds.iter();
            let deeds: Vec<_> = deeds
                .map(|deed| (deed.lever, deed.what.to_string(), deed.after.is_some()))
                .collect();
            (run.run.first..=run.run.last).for_each(|seq| _ = told.insert(seq, deeds.clone()));
        }
    }
    let wanted: BTreeMap<u64, Vec<(Lever, String, bool)>> = wanted
        .into_iter()
        .map(|(seq, all)| (seq, all.into_iter().map(|(l, w, a)| (l, w.to_owned(), a)).collect()))
        .collect();
    assert_eq!((told.len(), told), (100, wanted));
}

#[test]
fn when_a_late_record_left_its_queue_is_told_and_of_the_others_nothing() {
    let mut wire = down(options(all_durable()));
    wire.offer("ls/a", 1);
    wire.advance(Duration::from_millis(70));
    wire.offer("ls/a", 1);
    wire.sync();
    wire.up();
    drain(&mut wire);
    wire.advance(FATES_DELAY);
    let mut told = Vec::new();
    for append in &wire.appends {
        let Entry::Fates(FateEntry { runs, .. }) = &append.entry else { continue };
        told.extend(runs.iter().map(|run| (run.run.records(), run.deeds.clone())));
    }
    let late = |(_, deeds): &&(u64, Vec<Deed>)| !deeds.is_empty();
    let [(1, deeds)] = &told.iter().filter(late).cloned().collect::<Vec<_>>()[..] else {
        panic!("{told:?}")
    };
    let (lever, what, after) = (Lever::Queue, "ls".into(), Some(Duration::from_millis(70)));
    assert_eq!(deeds[..], [Deed { lever, what, after }]);
    assert_eq!(told.iter().map(|(records, _)| records).sum::<u64>(), 2);
}

#[test]
fn of_what_acted_on_a_record_the_first_sixteen_deeds_are_kept() {
    let mut rules = all_durable();
    rules[0].script_name = Some("shuffle".into());
    let mut wire = down(options(rules));
    wire.offer("ls/a", 1);
    wire.sync();
    let queue = wire.node.queues().next().unwrap();
    let id = wire.node.waiting(queue).next().unwrap();
    let all =
        (0..20).map(|turn| if turn % 2 == 0 { Edit::MoveFront(id) } else { Edit::MoveBack(id) });
    wire.handle(Input::Edits { queue, operations: all.chain([Edit::Drop(id)]).collect() });
    wire.advance(FATES_DELAY);
    let fates = wire.appends.iter().filter_map(|append| match &append.entry {
        Entry::Fates(FateEntry { runs, .. }) => Some(runs),
        _ => None,
    });
    let deeds: Vec<_> = fates.flatten().flat_map(|run| &run.deeds).collect();
    assert_eq!((deeds.len(), &*deeds[15].what), (16, "shuffle: moveToBack"));
}

#[test]
fn a_failing_disk_refuses_and_the_node_lives() {
    let mut rules = all_durable();
    rules[1].accept = AcceptMode::Memory;
    let mut wire = up(options(rules));
    wire.disk.capacity = 0;
    wire.ask(0, 1, "ls/a", 1);
    wire.ask(0, 2, "nm/a", 1);
    wire.ask(0, 3, "ls/b", 1);
    let storage = Err(RefuseReason::Storage);
    assert_eq!(wire.verdicts(), [(1, storage), (2, Ok(())), (3, storage)]);
    assert_eq!(wire.events, [Event::LogFailing(true)]);
    wire.advance(LOG_RETRY * 3);
    assert_eq!(wire.events, [Event::LogFailing(true)], "tried in vain");
    assert!(!wire.status().log.unwrap().is_working);
    wire.disk.capacity = usize::MAX;
    wire.advance(LOG_RETRY);
    wire.sync();
    assert_eq!(wire.events, [Event::LogFailing(true), Event::LogFailing(false)]);
    assert!(wire.status().log.unwrap().is_working);
    wire.ask(0, 4, "ls/c", 1);
    wire.sync();
    assert_eq!(wire.verdicts()[3..], [(4, Ok(()))]);
    drain(&mut wire);
    // What was refused and queued was sent all the same; what the log had is known to be done.
    assert_eq!(restart(wire, options(all_durable())).node.held(), 0);
}

#[test]
fn a_segment_goes_behind_the_fates_of_its_records() {
    let options = || with_log(all_durable(), |log| log.segment = Size(1_000));
    let mut wire = down(options());
    for _ in 0..40 {
        wire.offer("ls/a", 100);
        wire.sync();
    }
    wire.up();
    let before = wire.now;
    while wire.released.is_empty() {
        wire.carry();
    }
    assert!(wire.now.since(before) < FATES_DELAY, "no fate had to be written by now");
    wire.sync();
    let mut wire = restart(wire, options());
    let owed = wire.node.held();
    assert!(owed < 40, "{owed}");
    wire.up();
    drain(&mut wire);
    let counts = wire.node.counts();
    assert_eq!((counts.confirmed, counts.dropped_all()), (owed, 0), "all that is owed is there");
}

#[test]
fn a_full_log_follows_the_policy_and_has_room_again() {
    let change = |log: &mut LogOptions| (log.bound, log.segment) = (Size(8_000), Size(1_000));
    let options = with_log(all_durable(), change);
    let mut wire = down(options);
    let mut token = 0;
    while wire.verdicts().iter().all(|(_, result)| result.is_ok()) {
        token += 1;
        wire.ask(0, token, "ls/a", 100);
        wire.sync();
    }
    assert!((20..60).contains(&token), "{token}");
    assert_eq!(wire.verdicts().last().unwrap().1, Err(RefuseReason::Full));
    let log = wire.status().log.unwrap();
    assert!(log.is_working && log.bytes <= log.bound, "{log:?}");
    assert_eq!((log.bound, log.held_records), (Size(8_000), token - 1));
    wire.up();
    drain(&mut wire);
    wire.advance(FATES_DELAY);
    wire.sync();
    assert!(wire.released.len() >= 4, "{:?}", wire.released);
    let log = wire.status().log.unwrap();
    assert_eq!((log.segments, log.held_records, log.left_deliveries), (1, 0, 0));
    assert_eq!(wire.disk.files.len(), 1, "only the segment that grows is left");
    wire.ask(0, 99, "ls/a", 100);
    wire.sync();
    assert_eq!(wire.verdicts().last().unwrap(), &(99, Ok(())));
}

#[test]
fn a_full_log_drops_the_oldest_where_that_is_the_policy() {
    let change = |log: &mut LogOptions| (log.bound, log.segment) = (Size(8_000), Size(1_000));
    let mut options =
        with_log(vec![Rule { full: FullPolicy::DropOldest, ..durable(rule("ls", 50)) }], change);
    options.memory = Size(1_500); // most of it is on disk only
    let mut wire = down(options);
    for token in 1..=200 {
        wire.ask(0, token, "ls/a", 100);
        wire.sync();
    }
    assert!(wire.verdicts().iter().all(|(_, result)| result.is_ok()));
    let dropped = wire.status().counts.dropped[DropReason::Full.index()];
    assert!((140..190).contains(&dropped), "{dropped}");
    wire.up();
    drain(&mut wire);
    assert_eq!(wire.status().counts.confirmed, 200 - dropped);
}

#[test]
fn what_memory_has_no_room_for_waits_on_disk() {
    let mut options = options(vec![durable(rule("lt", 1000))]);
    options.memory = Size(5_000);
    let mut wire = down(options);
    for token in 1..=300 {
        wire.ask(0, token, "lt/a", 100);
        wire.sync();
        assert!(wire.node.held_bytes() <= Size(5_000));
    }
    assert!(wire.verdicts().iter().all(|(_, result)| result.is_ok()));
    let (left, _) = wire.node.log_use();
    assert!(left > 200, "{left}");
    assert_eq!(wire.status().held, 300);
    wire.up();
    drain(&mut wire);
    assert_eq!(wire.status().counts.confirmed, 300);
}

/// A node that found `count` records of `key` in its log.
fn with_backlog(options: &NodeOptions, key: &str, count: usize) -> Wire {
    let mut wire = down(options.clone());
    (0..count).for_each(|_| wire.offer(key, 100));
    wire.sync();
    restart(wire, options.clone())
}

#[test]
fn fresh_records_go_before_the_backlog() {
    let options = options(all_durable());
    let mut wire = with_backlog(&options, "lt/old", 50);
    assert_eq!(
        (wire.status().held, wire.node.held_bytes()),
        (50, Size::ZERO),
        "nothing is read yet"
    );
    while wire.read_back() {}
    wire.offer("lt/new", 1);
    wire.up();
    wire.carry();
    let place = wire.keys().iter().position(|key| key == "lt/new").unwrap();
    assert!(place <= 6, "a tenth of the way belongs to the backlog: {place}");
    drain(&mut wire);
    assert_eq!(wire.status().counts.confirmed, 51);
}

#[test]
fn the_backlog_is_classed_anew() {
    let mut wire = with_backlog(&options(all_durable()), "lt/a", 3);
    let mut rules = all_durable();
    // "lt/#" is urgent now, under a rule of another name.
    rules[2] = Rule { name: "alarms".into(), class: LS, latency: ms(50), ..rules[2].clone() };
    wire = restart(wire, options(rules));
    wire.up();
    drain(&mut wire);
    assert!(wire.history.iter().all(|cut| cut.path == lane(LS)), "{:?}", wire.history);
    assert_eq!((wire.history.len(), wire.status().counts.confirmed), (3, 3));
}

#[test]
fn an_output_that_is_gone_is_replaced_by_what_the_rule_says_now() {
    let mut old = options(all_durable());
    old.outputs[0].name = "old".into();
    let wire = with_backlog(&old, "ls/a", 3);
    let mut wire = restart(wire, options(all_durable()));
    wire.up();
    drain(&mut wire);
    assert_eq!(wire.status().counts.confirmed, 3);
    // Where another destination is left, the one that is gone is given up, and counted.
    let mut rules = all_durable();
    rules[0].to = vec![OutputId(0), OutputId(1)];
    let mut both = options(rules);
    both.outputs.push(output(0));
    both.outputs[1].name = "archive".into();
    let wire = with_backlog(&both, "ls/a", 3);
    let mut wire = restart(wire, options(all_durable()));
    wire.up();
    drain(&mut wire);
    let counts = wire.status().counts;
    assert_eq!((counts.confirmed, counts.dropped[DropReason::Unroutable.index()]), (3, 3));
}

#[test]
fn expiry_survives_a_restart_and_believes_no_doubtful_clock() {
    let hour = 3_600_000_000_000_u64;
    let mut rules = all_durable();
    rules[0].ttl = Some(Duration::from_secs(60));
    let at = |unix_ns, uncertainty| Input::Wall { unix_ns, uncertainty };
    let mut sent = Vec::new();
    for (clock, doubt) in [(Some(hour * 2), 1), (Some(hour * 2), 7_200), (Some(hour), 1), (None, 1)]
    {
        let mut wire = down(options(rules.clone()));
        wire.handle(at(hour, Duration::from_secs(1)));
        wire.offer("ls/a", 1);
        wire.sync();
        let mut wire = restart(wire, options(rules.clone()));
        clock.into_iter().for_each(|now| wire.handle(at(now, Duration::from_secs(doubt))));
        wire.up();
        drain(&mut wire);
        sent.push(wire.status().counts.confirmed == 1);
    }
    // An hour later it has expired, unless the clock may be two hours off, stands, or is not there.
    assert_eq!(sent, [false, true, true, true]);
}

#[test]
fn the_newest_part_of_a_backlog_first_if_so_wished() {
    let change =
        |order| move |log: &mut LogOptions| (log.segment, log.backlog) = (Size(500), order);
    for (order, first) in [(BacklogOrder::OldestFirst, 1), (BacklogOrder::NewestFirst, 90)] {
        let mut options = with_log(all_durable(), change(order));
        options.memory = Size(20_000);
        let mut wire = down(options.clone());
        for seq in 1..=100_u64 {
            let payload = vec![seq as u8; 50].into();
            wire.offer_all(vec![Offered { payload, ..offer(wire.now, 0, "lt/a", 0) }]);
            wire.sync();
        }
        let mut wire = restart(wire, options);
        while wire.node.held_bytes() == Size::ZERO {
            assert!(wire.read_back());
        }
        wire.up();
        let seq = wire.node.record(wire.history[0].id).unwrap().identity.seq;
        assert!((first..first + 11).contains(&seq), "{order:?}: {seq}");
        drain(&mut wire);
        assert_eq!(wire.status().counts.confirmed, 100);
    }
}

#[test]
fn numbers_that_may_have_been_lost_are_not_given_again() {
    let mut wire = with_backlog(&options(all_durable()), "ls/a", 5);
    wire.up();
    drain(&mut wire);
    wire.forget_history();
    wire.ask(0, 1, "ls/a", 1);
    let identity = wire.node.record(wire.history[0].id).unwrap().identity.clone();
    assert_eq!(identity.stream.0, 1, "the same stream goes on");
    assert!(identity.seq > 5 + tidegate_types::limits::UNAPPENDED_MAX as u64, "{identity}");
    assert_eq!(identity.origin.incarnation, 7);
}

#[test]
fn a_damaged_record_ends_with_a_reason() {
    let options = options(all_durable());
    let mut wire = down(options.clone());
    (0..5).for_each(|_| wire.offer("ls/a", 100));
    wire.sync();
    let mut wire = restart(wire, options.clone());
    // The disk forgets the records after the log was recovered.
    let first = *wire.disk.files.keys().next().unwrap();
    wire.disk.files.remove(&first);
    wire.up();
    drain(&mut wire);
    assert_eq!(wire.status().counts.dropped[DropReason::Storage.index()], 5);
    wire.advance(FATES_DELAY);
    wire.sync();
    assert_eq!(restart(wire, options).node.held(), 0, "and for good");
}

#[test]
fn a_stop_leaves_what_is_not_sent_to_the_next_start() {
    let options = options(all_durable());
    let mut wire = down(options.clone());
    (1..=5).for_each(|token| wire.ask(0, token, "ls/a", 1));
    wire.sync();
    wire.control(tidegate_node::io::Control::Stop);
    wire.control(tidegate_node::io::Control::Discard);
    wire.sync();
    assert!(wire.events.contains(&Event::Drained));
    assert_eq!(wire.status().counts.dropped[DropReason::Stopped.index()], 0);
    let mut wire = restart(wire, options);
    wire.up();
    drain(&mut wire);
    assert_eq!(wire.status().counts.confirmed, 5);
}

#[test]
fn one_log_takes_a_bounded_part_ahead() {
    let mut wire =
        down(options(vec![Rule { bound: Size::from_mib(60), ..durable(rule("lt", 1000)) }]));
    let offers = |from: u64| {
        let now = Time::from_millis(1000);
        (from..from + 1000)
            .map(move |token| Offered { token: Some(Token(token)), ..offer(now, 0, "lt/a", 100) })
    };
    for round in 0..20 {
        wire.offer_all(offers(round * 1000).collect());
    }
    let refused = wire.verdicts().len();
    assert!(
        (3_000..4_000).contains(&refused),
        "{refused} of 20,000 found no room: no more are on the way"
    );
    wire.sync();
    wire.ask(0, 1_000_000, "lt/a", 100);
    wire.sync();
    assert_eq!(wire.verdicts().last().unwrap().1, Ok(()));
}

#[test]
fn a_stream_holds_more_in_the_log_than_in_memory() {
    let bounds = Rule { bound: Size(10_000), memory: Size(1_000), ..durable(rule("lt", 1000)) };
    let mut wire = down(options(vec![bounds, rule("nm", 500)]));
    wire.ask(0, 0, "lt/a", 100);
    let size = wire.status().held_bytes.0;
    for token in 1..100 {
        wire.sync();
        wire.ask(0, token, "lt/a", 100);
    }
    wire.sync();
    let accepted = wire.verdicts().iter().filter(|(_, verdict)| verdict.is_ok()).count() as u64;
    assert_eq!(accepted, 10_000 / size, "as many as its bound in all takes");
    assert_eq!(wire.status().held_bytes.0 / size, 1_000 / size);
    wire.up();
    drain(&mut wire);
    assert_eq!(wire.status().counts.confirmed, accepted);
    wire.ask(0, 1_000, "lt/a", 100);
    wire.sync();
    assert_eq!(wire.verdicts().last().unwrap().1, Ok(()), "there is room again");
}

#[test]
fn a_disk_that_fails_from_the_start_is_told_of() {
    let mut wire = Wire::new(Node::new(options(all_durable())).unwrap());
    wire.disk.capacity = 0;
    wire.poll();
    assert_eq!(wire.events, [Event::LogFailing(true)]);
    wire.disk.capacity = usize::MAX;
    wire.advance(LOG_RETRY);
    wire.sync();
    assert_eq!(wire.events, [Event::LogFailing(true), Event::LogFailing(false)]);
}

#[test]
fn what_an_earlier_process_may_have_sent_goes_with_a_mark() {
    let options = options(all_durable());
    let mut wire = up(options.clone());
    (0..5).for_each(|_| wire.offer("ls/a", 100));
    wire.sync();
    assert_eq!(wire.history.iter().filter(|cut| !cut.again).count(), 5, "sent, and no word of it");
    let mut wire = restart(wire, options);
    wire.up();
    drain(&mut wire);
    wire.offer("ls/a", 100);
    let marks: Vec<bool> = wire.history.iter().map(|cut| cut.again).collect();
    assert_eq!(marks, [true, true, true, true, true, false]);
}
