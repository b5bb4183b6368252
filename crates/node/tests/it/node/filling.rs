//! What happens when a stream or the node is full.

use tidegate_node::io::Control;
use tidegate_node::options::NodeOptions;
use tidegate_node::rules::{Discipline, FullPolicy, Rule};
use tidegate_testing::support::*;
use tidegate_testing::{Wire, offer};
use tidegate_types::record::{AcceptMode, DropReason, RefuseReason, SourceId};
use tidegate_types::units::Size;

const FULL: Result<(), RefuseReason> = Err(RefuseReason::Full);

/// A stream `ls/#` that holds three records of 100 bytes (key of 4 included), and `lt/#` that holds all.
fn three(full: FullPolicy) -> Vec<Rule> {
    vec![Rule { bound: Size(300), full, ..rule("ls", 50) }, rule("lt", 1000)]
}

fn blocking() -> FullPolicy {
    FullPolicy::Block(ms(200))
}

/// Asks with tokens for records of 100 bytes, keys `ls/1`, `ls/2` ...
fn ask(wire: &mut Wire, tokens: std::ops::RangeInclusive<u64>) {
    tokens.for_each(|token| wire.ask(0, token, &format!("ls/{token}"), 96));
}

fn ok(tokens: std::ops::RangeInclusive<u64>) -> Vec<(u64, Result<(), RefuseReason>)> {
    tokens.map(|token| (token, Ok(()))).collect()
}

#[test]
fn drop_oldest_makes_room_for_the_new() {
    let mut wire = down(options(three(FullPolicy::DropOldest)));
    ask(&mut wire, 1..=5);
    assert_eq!(wire.verdicts(), ok(1..=5));
    assert_eq!(wire.status().counts.dropped[DropReason::Full.index()], 2);
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["ls/3", "ls/4", "ls/5"]);
    assert_eq!(wire.is_full(), [true, false]);
}

#[test]
fn drop_oldest_spares_what_is_under_way() {
    let mut wire = up(options(three(FullPolicy::DropOldest)));
    ask(&mut wire, 1..=3); // all are under way: nothing can be dropped for the fourth
    ask(&mut wire, 4..=4);
    assert_eq!(wire.verdicts()[3], (4, FULL));
    wire.carry();
    assert_eq!(wire.status().counts.confirmed, 3);
}

#[test]
fn drop_oldest_drops_nothing_where_that_cannot_help() {
    let options = NodeOptions { memory: Size(500), ..options(three(FullPolicy::DropOldest)) };
    let mut wire = down(options);
    wire.ask(0, 1, "ls/1", 46); // 50 bytes
    wire.ask(0, 2, "lt/2", 396); // 400
    wire.ask(0, 3, "ls/3", 196); // 200 do not fit even without the first
    assert_eq!(wire.verdicts(), [(1, Ok(())), (2, Ok(())), (3, FULL)]);
    assert_eq!(wire.status().counts.dropped_all(), 0);
}

#[test]
fn drop_newest_accepts_and_drops() {
    for accept in [AcceptMode::Memory, AcceptMode::Durable, AcceptMode::Confirmed] {
        let mut rules = three(FullPolicy::DropNewest);
        rules[0].accept = accept;
        let mut wire = down(options(rules));
        ask(&mut wire, 1..=4);
        let dropped = Err(RefuseReason::Dropped(DropReason::Full));
        match accept {
            AcceptMode::Memory => assert_eq!(wire.verdicts(), ok(1..=4)),
            AcceptMode::Durable => assert_eq!(wire.verdicts(), [(4, Ok(()))]),
            AcceptMode::Confirmed => assert_eq!(wire.verdicts(), [(4, dropped)]),
        }
        let counts = wire.status().counts;
        assert_eq!((counts.accepted, counts.dropped_all()), (4, 1));
        wire.up();
        wire.carry();
        assert_eq!(wire.keys(), ["ls/1", "ls/2", "ls/3"], "{accept:?}");
    }
}

#[test]
fn drop_newest_takes_a_number() {
    let mut wire = down(options(three(FullPolicy::DropNewest)));
    ask(&mut wire, 1..=4);
    wire.up();
    wire.carry();
    ask(&mut wire, 5..=5);
    let last = wire.history.last().unwrap();
    assert_eq!(wire.node.record(last.id).unwrap().identity.seq, 5, "the gap shows the drop");
}

#[test]
fn reject_refuses() {
    let mut wire = down(options(three(FullPolicy::Reject)));
    ask(&mut wire, 1..=4);
    assert_eq!(wire.verdicts()[3], (4, FULL));
    assert_eq!(wire.is_full(), [true]);
    assert_eq!(wire.status().counts.refused, 1);
}

#[test]
fn newest_only_at_its_bound_replaces_and_refuses_only_strangers() {
    for full in [FullPolicy::DropNewest, FullPolicy::Reject, FullPolicy::DropOldest] {
        let mut rules = three(full);
        rules[0].discipline = Discipline::NewestOnly;
        let mut wire = down(options(rules));
        for (token, key) in [(1, "ls/a"), (2, "ls/b"), (3, "ls/c"), (4, "ls/a"), (5, "ls/b")] {
            wire.ask(0, token, key, 96);
        }
        assert_eq!(wire.verdicts(), ok(1..=5), "{full:?}");
        let counts = wire.status().counts;
        assert_eq!(counts.dropped[DropReason::Superseded.index()], 2, "{full:?}");
        assert_eq!(counts.dropped[DropReason::Full.index()], 0, "{full:?}");
    }
}

#[test]
fn block_pauses_once_and_resumes_once_in_order() {
    let mut wire = down(options(three(blocking())));
    wire.ask(0, 100, "lt/first", 1);
    ask(&mut wire, 1..=5);
    wire.ask(0, 200, "lt/last", 1); // another stream, but behind in the same connection
    assert_eq!(wire.pauses, [(SourceId(0), true)]);
    assert_eq!(wire.verdicts()[1..], ok(1..=3));
    wire.up();
    wire.carry();
    assert_eq!(wire.pauses, [(SourceId(0), true), (SourceId(0), false)]);
    let tokens: Vec<u64> = wire.verdicts().iter().map(|(token, _)| *token).collect();
    assert_eq!(tokens, [100, 1, 2, 3, 4, 5, 200]);
    assert_eq!(wire.is_full(), [] as [bool; 0], "nothing was refused");
}

#[test]
fn patience_ends_and_the_full_stream_then_holds_up_nobody() {
    let mut wire = down(options(three(blocking())));
    ask(&mut wire, 1..=5);
    wire.ask(0, 6, "lt/a", 1);
    wire.advance(ms(199));
    assert_eq!(wire.verdicts(), ok(1..=3));
    wire.advance(ms(1));
    // One wait for the episode: the fifth does not wait again, the sixth goes on.
    assert_eq!(wire.verdicts()[3..], [(4, FULL), (5, FULL), (6, Ok(()))]);
    assert_eq!(wire.pauses, [(SourceId(0), true), (SourceId(0), false)]);
    ask(&mut wire, 7..=8);
    assert_eq!(wire.verdicts()[6..], [(7, FULL), (8, FULL)]);
    assert_eq!((wire.pauses.len(), wire.is_full()), (2, vec![true]));
    // Room ends the episode; the next one waits again.
    wire.up();
    wire.carry();
    wire.down();
    assert_eq!(wire.is_full(), [true, false]);
    ask(&mut wire, 9..=12);
    assert_eq!(wire.pauses[2..], [(SourceId(0), true)]);
}

#[test]
fn a_full_node_holds_up_a_connection_once_as_well() {
    let rules = vec![Rule { full: blocking(), ..rule("ls", 50) }, rule("lt", 1000)];
    let mut wire = down(NodeOptions { memory: Size(300), ..options(rules) });
    ask(&mut wire, 1..=5);
    assert_eq!(wire.pauses, [(SourceId(0), true)]);
    wire.advance(ms(200));
    assert_eq!(wire.verdicts()[3..], [(4, FULL), (5, FULL)]);
    ask(&mut wire, 6..=6);
    assert_eq!(wire.verdicts()[5..], [(6, FULL)]);
    assert_eq!((wire.pauses.len(), wire.is_full()), (2, vec![true]));
    wire.up();
    wire.carry();
    assert_eq!(wire.is_full(), [true, false]);
}

#[test]
fn patience_belongs_to_the_record_that_waits() {
    let mut rules = three(blocking());
    rules.push(Rule { bound: Size(300), full: FullPolicy::Block(ms(1000)), ..rule("nm", 500) });
    let mut wire = down(options(rules));
    ask(&mut wire, 1..=3);
    (11..=13).for_each(|token| wire.ask(0, token, "nm/a", 96));
    ask(&mut wire, 4..=4); // waits 200 ms
    wire.ask(0, 14, "nm/a", 96); // then this one, for a second of its own
    wire.advance(ms(200));
    assert_eq!(wire.verdicts()[6..], [(4, FULL)]);
    wire.advance(ms(999));
    assert_eq!(wire.verdicts().len(), 7);
    wire.advance(ms(1));
    assert_eq!(wire.verdicts()[7..], [(14, FULL)]);
    assert_eq!(wire.pauses.len(), 2, "it was paused once for both");
}

#[test]
fn a_record_that_fits_at_last_does_not_cost_the_next_one_its_patience() {
    let mut rules = three(blocking());
    rules.push(Rule { bound: Size(300), full: blocking(), ..rule("nm", 500) });
    let mut wire = down(options(rules));
    (11..=13).for_each(|token| wire.ask(0, token, "nm/a", 96));
    ask(&mut wire, 1..=4);
    wire.ask(0, 14, "nm/a", 96);
    wire.advance(ms(150));
    // An edit makes room for the fourth; the one behind it begins to wait now.
    let queue = wire.node.queues().nth(1).unwrap();
    let oldest = wire.node.waiting(queue).next().unwrap();
    let operations = vec![tidegate_node::io::Edit::Drop(oldest)];
    wire.handle(tidegate_node::io::Input::Edits { queue, operations });
    assert_eq!(wire.verdicts()[6..], [(4, Ok(()))]);
    wire.advance(ms(199));
    assert_eq!(wire.verdicts().len(), 7);
    wire.advance(ms(1));
    assert_eq!(wire.verdicts()[7..], [(14, FULL)]);
}

#[test]
fn closing_a_connection_that_waits_lets_the_next_one_through() {
    let rules = vec![Rule { full: FullPolicy::Block(ms(100_000)), ..rule("ls", 50) }];
    let mut wire = down(NodeOptions { memory: Size(300), ..options(rules) });
    ask(&mut wire, 1..=3);
    for source in 1..=3 {
        wire.open(source, &format!("waits {source}"));
        wire.ask(source, 10 + u64::from(source), "ls/a", 96);
    }
    wire.control(Control::Close(SourceId(1)));
    wire.control(Control::Close(SourceId(1))); // twice is harmless
    wire.up();
    wire.send();
    wire.confirm_all();
    // All three places are free: both that still wait come in, in their order, and nobody else.
    assert_eq!(wire.verdicts()[3..], [(12, Ok(())), (13, Ok(()))]);
    let resumed = [(SourceId(2), false), (SourceId(3), false)];
    assert_eq!(wire.pauses[3..], resumed);
    assert_eq!(wire.status().counts.refused, 1, "what the closed one had offered");
}

#[test]
fn several_connections_of_one_stream_wait_in_line() {
    let mut wire = down(options(three(FullPolicy::Block(ms(100_000)))));
    ask(&mut wire, 1..=3);
    for source in 1..=3 {
        wire.open(source, "sensor"); // the same name: the same stream
        wire.ask(source, 10 + u64::from(source), "ls/a", 96);
    }
    assert_eq!(wire.pauses.len(), 3);
    wire.up();
    wire.carry();
    assert_eq!(wire.verdicts()[3..], [(11, Ok(())), (12, Ok(())), (13, Ok(()))]);
    assert_eq!(wire.pauses.len(), 6);
}

#[test]
fn a_large_record_that_leaves_lets_several_small_ones_in() {
    let rules = vec![Rule { full: FullPolicy::Block(ms(100_000)), ..rule("ls", 50) }];
    let mut wire = down(NodeOptions { memory: Size(300), ..options(rules) });
    wire.ask(0, 1, "ls/a", 296);
    for source in 1..=3 {
        wire.open(source, &format!("waits {source}"));
        wire.ask(source, 10 + u64::from(source), "ls/a", 96);
    }
    wire.up();
    wire.send();
    wire.confirm_all();
    assert_eq!(wire.verdicts(), [(1, Ok(())), (11, Ok(())), (12, Ok(())), (13, Ok(()))]);
}

#[test]
fn memory_keeps_head_room_for_urgent_classes() {
    let rules = vec![rule("ls", 50), rule("nm", 500), rule("lt", 1000)];
    let mut wire = down(NodeOptions { memory: Size(10_000), ..options(rules) });
    let mut fill = |key: &str| {
        let before = wire.status().held_bytes;
        for _ in 0..200 {
            wire.offer(key, 96);
        }
        assert!(wire.status().held_bytes <= Size(10_000));
        wire.status().held_bytes - before
    };
    assert_eq!(fill("lt/a"), Size(9_000));
    assert_eq!(fill("nm/a"), Size(500));
    assert_eq!(fill("ls/a"), Size(500));
}

#[test]
fn an_urgent_record_waits_for_memory_before_a_bulk_one() {
    let block = FullPolicy::Block(ms(100_000));
    let rules =
        [("ls", 50), ("lt", 1000)].map(|(name, bound)| Rule { full: block, ..rule(name, bound) });
    let mut wire = down(NodeOptions { memory: Size(1_000), ..options(rules.to_vec()) });
    (1..=10).for_each(|token| wire.ask(0, token, "ls/a", 96));
    wire.open(1, "bulk");
    wire.ask(1, 11, "lt/a", 96);
    wire.open(2, "alarm");
    wire.ask(2, 12, "ls/a", 96);
    wire.up();
    wire.send();
    let first = wire.history[0].id;
    wire.confirm(&[first]);
    assert_eq!(wire.verdicts()[10..], [(12, Ok(()))]);
}

#[test]
fn bytes_of_a_stream_and_of_the_node_never_pass_their_bounds() {
    let policies = [FullPolicy::DropOldest, FullPolicy::DropNewest, FullPolicy::Reject, blocking()];
    for full in policies {
        let mut wire = down(NodeOptions { memory: Size(1_000), ..options(three(full)) });
        for turn in 0..50 {
            wire.offer("ls/a", 30 + turn);
            wire.offer("lt/a", 90 - turn);
            let status = wire.status();
            assert!(status.rules[0].held_bytes <= Size(300), "{full:?}");
            assert!(status.held_bytes <= Size(1_000), "{full:?}");
        }
    }
}

#[test]
fn a_driver_that_does_not_stop_reading_is_refused_in_the_end() {
    let mut wire = down(options(three(FullPolicy::Block(ms(100_000)))));
    let pending = tidegate_types::limits::PENDING_MAX;
    let offers = (0..pending + 10).map(|_| offer(wire.now, 0, "ls/a", 96)).collect();
    wire.offer_all(offers);
    assert_eq!(wire.status().counts.refused, 7, "three are accepted, PENDING_MAX wait");
}

#[test]
fn opening_a_connection_again_closes_it_first() {
    let mut wire = down(options(three(FullPolicy::Block(ms(200)))));
    ask(&mut wire, 1..=4);
    wire.open(0, "another");
    assert_eq!(wire.status().counts.refused, 1);
    wire.ask(0, 5, "ls/a", 96);
    assert_eq!(wire.verdicts()[3..], [(5, Ok(()))], "a stream of its own, and nobody before it");
    wire.advance(ms(1000));
    assert_eq!(wire.pauses, [(SourceId(0), true)]);
}

#[test]
fn a_record_that_expired_while_it_waited_for_room_is_not_sent() {
    let rules = three(FullPolicy::Block(ms(100_000)));
    let rules = vec![Rule { ttl: Some(ms(50)), ..rules[0].clone() }, rules[1].clone()];
    let mut wire = up(options(rules));
    ask(&mut wire, 1..=4); // three are under way
    wire.advance(ms(60));
    wire.carry();
    assert_eq!(wire.keys(), ["ls/1", "ls/2", "ls/3"]);
    assert_eq!(wire.verdicts(), ok(1..=4), "it was accepted");
    assert_eq!(wire.status().counts.dropped[DropReason::Expired.index()], 1);
}

#[test]
fn bounds_change_while_records_are_held() {
    let size = |count: u64| Size(100 * count);
    let mut wire = down(NodeOptions { memory: size(3), ..options(vec![rule("ls", 50)]) });
    ask(&mut wire, 1..=4);
    assert_eq!(wire.verdicts(), [&ok(1..=3)[..], &[(4, FULL)]].concat());
    wire.control(Control::Limits { memory: size(5), record_max: Size(100) });
    ask(&mut wire, 5..=7);
    wire.ask(0, 8, "ls/8", 97);
    let told = [(7, FULL), (8, Err(RefuseReason::Oversize))];
    assert_eq!(wire.verdicts()[4..], [&ok(5..=6)[..], &told].concat());
    wire.control(Control::Limits { memory: size(2), record_max: Size(100) });
    ask(&mut wire, 9..=9);
    assert_eq!(wire.verdicts()[8..], [(9, FULL)]);
    let status = wire.status();
    assert_eq!((status.held, status.counts.lost(status.held)), (5, 0), "what is held stays");
    wire.up();
    wire.carry();
    wire.ask(0, 10, "ls/x", 96);
    assert_eq!(wire.verdicts()[9..], ok(10..=10));
}
