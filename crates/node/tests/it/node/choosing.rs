//! Which record goes next: urgency, lanes, cuts, live and late, and the order inside a stream.

use tidegate_capacity::RateControllerName;
use tidegate_node::io::{Control, Edit, Input, OutputId, PathId, PathState, UplinkId};
use tidegate_node::options::{NodeOptions, OutputOptions};
use tidegate_node::rules::{Discipline, Rule};
use tidegate_schedule::SchedulerName;
use tidegate_testing::support::*;
use tidegate_testing::{Wire, offer};
use tidegate_types::record::{DropReason, Offered};
use tidegate_types::units::{Rate, Ratio, Size};

/// Lets the wire take bulk until the window is closed: nothing is acknowledged.
fn fill_window(wire: &mut Wire) {
    for _ in 0..1000 {
        while wire.send() {}
        wire.advance(ms(10));
    }
    let status = wire.status();
    assert!(status.uplinks[0].in_flight.0 * 2 > status.uplinks[0].window.0, "the window is open");
}

/// Bytes picked on a lane.
fn bytes_on(wire: &Wire, path: PathId) -> u64 {
    let cuts = wire.history.iter().filter(|cut| cut.path == path);
    cuts.map(|cut| cut.range.end - cut.range.start).sum()
}

#[test]
fn an_urgent_record_overtakes_a_large_one_after_at_most_one_cut() {
    let mut wire = up(narrow(rules()));
    wire.offer("lt/large", 100_000);
    wire.send();
    wire.advance(ms(50));
    let before = wire.history.len();
    wire.offer("ls/alarm", 200);
    assert_eq!(wire.history.len(), before + 1, "it goes at once");
    let alarm = &wire.history[before];
    assert_eq!((alarm.key.as_str(), alarm.path, alarm.is_last()), ("ls/alarm", lane(LS), true));
    assert!(wire.history[before - 1].range.end < 100_000, "the large one is not done");
    assert!(wire.cuts.len() <= 2, "at most one cut of it stands before the alarm");
}

/// One connection for all classes.
fn one_lane(rules: Vec<Rule>) -> NodeOptions {
    let outputs = vec![OutputOptions { one_lane: true, ..output(0) }];
    NodeOptions { outputs, ..narrow(rules) }
}

#[test]
fn by_one_connection_an_alarm_waits_for_the_begun_record_and_for_no_other() {
    let mut wire = up(one_lane(rules()));
    assert_eq!(wire.paths(), [lane(LS)]);
    wire.offer("lt/large", 30_000);
    wire.offer("lt/next", 30_000);
    wire.send();
    wire.advance(ms(20));
    wire.offer("ls/alarm", 200);
    wire.run(ms(2000));
    assert_eq!(wire.keys(), ["lt/large", "ls/alarm", "lt/next"]);
    assert_eq!(bytes_on(&wire, lane(LS)), 60_200 + 8 + 7 + 8, "with their names");
}

#[test]
fn what_stands_in_the_way_of_an_alarm_is_as_urgent() {
    let capped = with_classes(|spec| {
        // Bulk has a cap that takes a second for a cut.
        spec.cap = (&*spec.name == "lt").then(|| Rate::new(1_000.0));
    });
    let mut wire = up(NodeOptions { classes: capped, ..one_lane(rules()) });
    wire.offer("lt/large", 8_000);
    wire.run(ms(20));
    assert!(bytes_on(&wire, lane(LS)) < 8_000, "its cap holds it back");
    wire.offer("ls/alarm", 200);
    wire.run(ms(200));
    assert_eq!(wire.keys(), ["lt/large", "ls/alarm"]);
}

#[test]
fn a_far_end_that_takes_less_is_not_sent_more_and_keeps_room_for_alarms() {
    let outputs = vec![OutputOptions { one_lane: true, unconfirmed_max: 20, ..output(0) }];
    let mut wire = up(NodeOptions { outputs, ..options(rules()) });
    let told = |wire: &mut Wire, records| {
        wire.handle(Input::Window { output: OutputId(0), records });
        while wire.send() {}
        wire.unconfirmed_on(OutputId(0))
    };
    assert_eq!(told(&mut wire, 10), 0);
    for _ in 0..30 {
        wire.offer("lt/bulk", 100);
    }
    assert_eq!(told(&mut wire, 10), 9);
    wire.offer("ls/alarm", 100);
    assert_eq!(told(&mut wire, 10), 10);
    assert_eq!(wire.history.last().map(|cut| cut.key.as_str()), Some("ls/alarm"));
    assert_eq!(told(&mut wire, 100_000), 18, "as the options say, and two for alarms");
}

#[test]
fn another_rate_of_an_uplink_counts_for_what_waits() {
    let mut wire = up(narrow(rules()));
    wire.offer("lt/large", 400_000);
    wire.run(ms(500));
    let slow = bytes_on(&wire, lane(LT));
    let rate = Rate::from_bits(8e6);
    let controller = RateControllerName::Known;
    wire.control(Control::Govern { uplink: UplinkId(0), controller, cap: Some(rate) });
    wire.run(ms(500));
    let fast = bytes_on(&wire, lane(LT)) - slow;
    assert!(fast > slow * 2, "{slow} in half a second, then {fast}");
    // What no law can work by changes nothing.
    let before = wire.status().uplinks[0].capacity;
    wire.control(Control::Govern { uplink: UplinkId(0), controller, cap: None });
    assert_eq!(wire.status().uplinks[0].capacity, before);
}

#[test]
fn a_cut_is_eight_milliseconds_of_the_rate_and_never_more() {
    let mut wire = up(narrow(rules()));
    wire.offer("lt/large", 100_000);
    wire.run(ms(2000));
    let rate = wire.status().uplinks[0].capacity;
    let longest = rate.in_span(ms(8)).0.max(1400);
    let cuts = wire.history.iter().map(|cut| cut.range.end - cut.range.start);
    assert_eq!(cuts.max(), Some(longest));
    assert_eq!(wire.keys(), ["lt/large"]);
}

#[test]
fn without_a_network_below_records_are_not_cut_small() {
    let mut wire = up(options(rules()));
    wire.offer("lt/large", 200_000);
    wire.carry();
    assert_eq!(wire.history.len(), 1);
}

#[test]
fn alarms_overdraw_a_full_window_by_another_of_their_own_at_most() {
    let mut wire = up(narrow(rules()));
    wire.offer("lt/large", 400_000);
    fill_window(&mut wire);
    let before = wire.history.len();
    let window = wire.status().uplinks[0].window.0;
    for _ in 0..2 * window / 400 {
        wire.offer("ls/alarm", 392);
        while wire.send() {}
    }
    assert_eq!((wire.history.len() - before) as u64, window / 400);
    // What is less urgent waits until all of it fits the one window again.
    wire.acknowledge(lane(LS), ms(50));
    let bulk = wire.history[before..].iter().filter(|cut| cut.path == lane(LT));
    assert_eq!(bulk.count(), 0);
}

#[test]
fn alarms_pass_a_class_that_is_owed_but_has_no_room() {
    let classes = with_classes(|spec| {
        spec.min_share = Ratio::new(f64::from(u8::from(&*spec.name == "lt")));
    });
    let mut wire = up(NodeOptions { classes, ..narrow(rules()) });
    wire.offer("lt/small", 1_000); // so that the window is no whole number of cuts
    wire.offer("lt/large", 400_000);
    fill_window(&mut wire);
    let status = wire.status();
    let cut = status.uplinks[0].capacity.in_span(ms(8)).0;
    let before = wire.history.len();
    for _ in 0..100 {
        wire.offer("ls/alarm", 192);
        while wire.send() {}
    }
    // A cut of them makes bulk owed its own; while that waits for room, one more cut passes it.
    let passed = (wire.history.len() - before) as u64 * 200;
    assert!((cut + 200..=2 * cut + 200).contains(&passed), "{passed}, {cut}");
    // Nor do alarms take all: when there is room, what is owed goes after one more cut of them at most.
    let sent = wire.history.len();
    wire.acknowledge(lane(LT), ms(50));
    wire.advance(ms(100));
    let owed = wire.history[sent..].iter().position(|cut| cut.path == lane(LT));
    assert!(owed.is_some_and(|place| place as u64 <= cut / 200), "{owed:?}");
}

#[test]
fn bulk_keeps_to_the_pace() {
    let mut wire = up(narrow(rules()));
    for _ in 0..100 {
        wire.offer("lt/a", 5_000);
    }
    let rate = wire.status().uplinks[0].capacity.as_f64();
    wire.run(ms(1000));
    let sent = bytes_on(&wire, lane(LT)) as f64;
    assert!(sent <= 1.3 * rate, "{sent} bytes in a second of {rate}");
    assert!(sent >= 0.9 * rate, "{sent} bytes in a second of {rate}");
}

#[test]
fn the_earliest_deadline_of_a_class_goes_first() {
    let mut rules = rules();
    rules.insert(2, rule("soon", 700));
    let mut wire = down(options(rules));
    for key in ["lt/1", "lt/2", "soon/1", "nm/1"] {
        wire.offer(key, 1);
    }
    wire.up();
    wire.carry();
    // `soon` is of the class lt, with a tighter bound than its other stream.
    assert_eq!(wire.keys(), ["nm/1", "soon/1", "lt/1", "lt/2"]);
}

#[test]
fn what_is_begun_on_a_lane_is_finished_first() {
    let mut rules = rules();
    rules.insert(2, rule("soon", 700));
    let mut wire = up(narrow(rules));
    wire.offer("lt/large", 20_000);
    wire.send();
    wire.offer("soon/a", 100); // an earlier deadline, on the same lane
    wire.run(ms(500));
    assert_eq!(wire.keys(), ["lt/large", "soon/a"]); // the wire checks the cuts between
}

#[test]
fn native_is_one_fifo_on_one_lane() {
    let mut rules = rules();
    rules[1].to = vec![OutputId(1)];
    let outputs = vec![output(0), output(0)];
    let options = NodeOptions { scheduler: SchedulerName::Native, outputs, ..narrow(rules) };
    let mut wire = down(options);
    let keys = ["lt/1", "nm/2", "ls/3", "lt/4", "nm/5", "ls/6"];
    keys.iter().for_each(|key| wire.offer(key, 3_000));
    wire.up();
    wire.advance(ms(2000)); // past every deadline: nothing is late in a FIFO
    wire.run(ms(1000));
    assert_eq!(wire.keys(), keys);
    assert!(wire.history.iter().all(|cut| cut.path.lane == 0));
}

#[test]
fn native_gives_alarms_nothing() {
    let options = NodeOptions { scheduler: SchedulerName::Native, ..narrow(rules()) };
    let mut wire = up(options);
    wire.offer("lt/large", 400_000);
    fill_window(&mut wire);
    let before = wire.history.len();
    wire.offer("ls/alarm", 10);
    assert_eq!(wire.history.len(), before);
    // Nor does it go ahead of the pace on an open window.
    let options = NodeOptions { scheduler: SchedulerName::Native, ..narrow(rules()) };
    let mut wire = up(options);
    for _ in 0..10 {
        wire.offer("ls/alarm", 1_000);
        while wire.send() {}
    }
    assert!(wire.history.len() < 10);
}

#[test]
fn nothing_small_passes_in_native() {
    // Between two records of bulk, the window has room for an alarm and not for the next record.
    for (scheduler, passes) in [(SchedulerName::Native, false), (SchedulerName::Tidegate, true)] {
        let mut wire = up(NodeOptions { scheduler, ..narrow(rules()) });
        for _ in 0..200 {
            wire.offer("lt/bulk", 1_300);
        }
        fill_window(&mut wire);
        let before = wire.history.len();
        wire.offer("ls/alarm", 10);
        assert_eq!(wire.history.len() > before, passes, "{scheduler:?}");
    }
}

#[test]
fn native_has_no_head_room_for_unconfirmed_alarms() {
    let mut options = NodeOptions { scheduler: SchedulerName::Native, ..options(rules()) };
    options.outputs[0].unconfirmed_max = 5;
    let mut wire = up(options);
    for key in ["lt/1", "lt/2", "lt/3", "lt/4", "lt/5", "lt/6", "ls/7"] {
        wire.offer(key, 1);
        while wire.send() {}
    }
    assert_eq!(wire.keys(), ["lt/1", "lt/2", "lt/3", "lt/4", "lt/5"]);
}

#[test]
fn outputs_share_their_uplink() {
    let mut rules = rules();
    rules[2].to = vec![OutputId(1)];
    let options = NodeOptions { outputs: vec![output(0), output(0)], ..narrow(rules) };
    let mut wire = up(options);
    for _ in 0..400 {
        wire.offer("nm/a", 2_000);
        wire.offer("lt/a", 2_000);
    }
    fill_window(&mut wire);
    let status = wire.status();
    let uplink = &status.uplinks[0];
    assert!(uplink.in_flight <= uplink.window, "one window for both");
    // The more urgent class goes first, though it is another output's: the other one has what it cannot
    // take while its lane is busy.
    let other = PathId { output: OutputId(1), lane: LT.0 };
    let before = bytes_on(&wire, other);
    assert!(before < bytes_on(&wire, lane(NM)));
    // Where the more urgent one's output is down, the other has all.
    wire.path(lane(NM), PathState::Down);
    fill_window(&mut wire);
    assert!(bytes_on(&wire, other) > before);
}

#[test]
fn inside_a_class_the_deadline_decides_between_outputs() {
    let mut rules = rules();
    rules.insert(2, Rule { to: vec![OutputId(1)], ..rule("soon", 700) });
    let mut wire = down(NodeOptions { outputs: vec![output(0), output(0)], ..narrow(rules) });
    for key in ["lt/1", "lt/2", "soon/1", "soon/2"] {
        wire.offer(key, 1_400);
    }
    wire.up(); // the first output first: its record goes while the other output is still down
    wire.run(ms(100));
    assert_eq!(wire.keys(), ["lt/1", "soon/1", "soon/2", "lt/2"]);
}

#[test]
fn each_uplink_is_picked_for_on_its_own() {
    let mut rules = rules();
    rules[2].to = vec![OutputId(1)];
    let mut options = NodeOptions { outputs: vec![output(0), output(1)], ..narrow(rules) };
    options.uplinks.push(options.uplinks[0].clone());
    let mut wire = up(options);
    wire.offer("nm/a", 400_000);
    wire.offer("lt/a", 400_000);
    fill_window(&mut wire);
    assert!(wire.history.iter().any(|cut| cut.path.output == OutputId(1)));
}

#[test]
fn a_record_with_two_destinations_has_two_fates() {
    let mut rules = rules();
    rules[0].to = vec![OutputId(0), OutputId(1)];
    let mut wire = down(NodeOptions { outputs: vec![output(0), output(0)], ..options(rules) });
    wire.offer("ls/a", 1);
    wire.path(lane(LS), PathState::Up);
    wire.carry();
    let status = wire.status();
    assert_eq!((status.counts.accepted, status.counts.confirmed, status.held), (2, 1, 1));
    assert_eq!(status.rules[0].held, 1, "the rule's audit counts deliveries too");
    wire.path(PathId { output: OutputId(1), lane: 0 }, PathState::Up);
    wire.carry();
    assert_eq!((wire.status().counts.confirmed, wire.status().held), (2, 0));
}

#[test]
fn live_records_go_before_late_ones() {
    let mut wire = down(options(rules()));
    (0..5).for_each(|_| wire.offer("nm/old", 1));
    wire.advance(ms(501));
    (0..5).for_each(|_| wire.offer("nm/new", 1));
    wire.up();
    wire.carry();
    assert_eq!(wire.keys()[..5], ["nm/new"; 5]);
    assert_eq!(wire.keys()[5..], ["nm/old"; 5]);
}

#[test]
fn at_its_deadline_a_record_is_still_live() {
    let mut wire = down(options(rules()));
    wire.offer("nm/old", 1);
    wire.advance(ms(500));
    wire.offer("nm/new", 1);
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["nm/old", "nm/new"]);
}

/// Late `ls/old` beside live `lt/new`, both without end, for ten seconds; cuts are reported as sent a
/// millisecond after they are ordered. Returns the part of the bytes that the late ones got.
fn late_part(size: usize) -> f64 {
    let mut wire = down(narrow(rules()));
    for _ in 0..4_000_000 / size {
        wire.offer("ls/old", size);
    }
    wire.advance(ms(1000));
    wire.up();
    for _ in 0..10_000 {
        if wire.cuts.len() < 5 {
            wire.offer("lt/new", 2_000);
        }
        while wire.send() {}
        wire.paths().into_iter().for_each(|path| wire.acknowledge(path, ms(50)));
        wire.confirm_all();
        wire.advance(ms(1));
    }
    let [late, live] = [LS, LT].map(|class| bytes_on(&wire, lane(class)) as f64);
    assert!(late + live > 2_000_000.0, "the uplink was busy");
    late / (late + live)
}

#[test]
fn a_late_backlog_drains_at_its_share() {
    let part = late_part(1_000);
    assert!((0.08..0.15).contains(&part), "{part}");
}

#[test]
fn late_records_in_many_cuts_get_no_more() {
    let part = late_part(100_000);
    assert!((0.08..0.15).contains(&part), "{part}");
}

#[test]
fn a_live_record_hurries_the_late_one_before_it() {
    let mut wire = down(narrow(rules()));
    (0..50).for_each(|_| wire.offer("nm/old", 50_000));
    wire.advance(ms(1000));
    (0..50).for_each(|_| wire.offer("lt/bulk", 50_000));
    wire.up();
    wire.run(ms(3000)); // the late share is used up, and one late record is begun
    let begun = wire.history.iter().rfind(|cut| cut.path == lane(NM)).unwrap();
    assert!(!begun.is_last(), "the test needs a late record that is begun");
    let left = begun.size - begun.range.end;
    wire.forget_history();
    wire.offer("nm/new", 200);
    wire.run(ms(1000));
    let place = wire.history.iter().position(|cut| cut.key == "nm/new").unwrap();
    let bulk = wire.history[..place].iter().filter(|cut| cut.path == lane(LT));
    let bulk: u64 = bulk.map(|cut| cut.range.end - cut.range.start).sum();
    assert!(bulk <= 4_000, "{bulk} bytes of bulk went before it, {left} of the late one");
}

#[test]
fn in_strict_order_nothing_overtakes() {
    let rules = vec![Rule { strict_order: true, ..rule("nm", 500) }, rule("lt", 1000)];
    let mut wire = down(options(rules));
    wire.offer("nm/1", 1);
    wire.advance(ms(501));
    wire.offer("nm/2", 1);
    wire.offer("nm/3", 1);
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["nm/1", "nm/2", "nm/3"]);
}

#[test]
fn lifo_sends_the_newest() {
    let rules = vec![Rule { discipline: Discipline::Lifo, ..rule("nm", 500) }];
    let mut wire = down(options(rules));
    (1..=3).for_each(|number| wire.offer(&format!("nm/{number}"), 1));
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["nm/3", "nm/2", "nm/1"]);
}

fn newest_only() -> NodeOptions {
    options(vec![Rule { discipline: Discipline::NewestOnly, ..rule("nm", 500) }])
}

#[test]
fn newest_only_keeps_one_record_of_each_key() {
    let mut wire = down(newest_only());
    for (key, size) in [("nm/a", 1), ("nm/b", 2), ("nm/a", 3), ("nm/a", 4), ("nm/c", 5)] {
        wire.offer(key, size);
    }
    wire.up();
    wire.carry();
    assert_eq!(wire.keys(), ["nm/b", "nm/a", "nm/c"]);
    assert_eq!(wire.history[1].size, 4 + 4, "the newest of them");
    assert_eq!(wire.status().counts.dropped[DropReason::Superseded.index()], 2);
}

#[test]
fn newest_only_finishes_what_is_under_way() {
    let mut wire = up(newest_only());
    wire.offer("nm/a", 1);
    wire.offer("nm/a", 2);
    wire.carry();
    assert_eq!(wire.keys(), ["nm/a", "nm/a"]);
    wire.offer("nm/a", 3); // and a key is not remembered for ever
    wire.carry();
    assert_eq!(wire.keys().len(), 3);
}

#[test]
fn newest_only_sends_no_older_record_again() {
    let mut wire = up(newest_only());
    wire.offer("nm/a", 1);
    wire.down();
    wire.offer("nm/a", 2);
    let mut wire_up_again = up(newest_only());
    wire_up_again.offer("nm/a", 1);
    wire_up_again.offer("nm/a", 2);
    wire_up_again.down(); // the first comes back after the second took its place
    for wire in [&mut wire, &mut wire_up_again] {
        wire.forget_history();
        wire.up();
        wire.carry();
        assert_eq!(wire.history.iter().map(|cut| cut.size).collect::<Vec<_>>(), [6]);
        assert_eq!(wire.status().counts.dropped[DropReason::Superseded.index()], 1);
    }
}

#[test]
fn unconfirmed_records_are_bounded_and_alarms_have_head_room() {
    let mut options = options(rules());
    options.outputs[0].unconfirmed_max = 20;
    let mut wire = up(options);
    let mut fill = |key: &str| {
        for _ in 0..30 {
            wire.offer(key, 1);
            while wire.send() {}
        }
        wire.status().outputs[0].unconfirmed
    };
    assert_eq!([fill("lt/a"), fill("nm/a"), fill("ls/a")], [18, 19, 20]);
    wire.confirm_all();
    wire.carry();
    assert_eq!(wire.status().held, 0);
}

#[test]
fn edits_change_what_waits() {
    for discipline in [Discipline::Fifo, Discipline::Lifo] {
        let mut wire = down(options(vec![Rule { discipline, ..rule("nm", 500) }]));
        let other = Offered {
            source: tidegate_types::record::SourceId(1),
            ..offer(wire.now, 0, "nm/x", 1)
        };
        wire.open(1, "other");
        (1..=4).for_each(|number| wire.offer(&format!("nm/{number}"), 1));
        wire.offer_all(vec![other]);
        let queue = wire.node.queues().next().unwrap();
        let waiting: Vec<_> = wire.node.waiting(queue).collect();
        let stranger = wire.node.queues().nth(1).unwrap();
        let stranger = wire.node.waiting(stranger).next().unwrap();
        let (first, last) = (waiting[2], waiting[1]);
        let operations = vec![
            Edit::Drop(waiting[0]),
            Edit::Drop(waiting[0]), // stale by now
            Edit::MoveFront(first),
            Edit::MoveBack(last),
            Edit::Drop(stranger), // of another queue
        ];
        wire.handle(Input::Edits { queue, operations });
        assert_eq!(wire.status().counts.dropped[DropReason::Script.index()], 1);
        wire.up();
        wire.carry();
        let mut keys = wire.keys();
        keys.retain(|key| key != "nm/x");
        assert_eq!(keys, ["nm/3", "nm/4", "nm/2"], "{discipline:?}");
        assert_eq!(wire.status().counts.confirmed, 4);
    }
}

#[test]
fn an_edit_spares_what_is_under_way() {
    let mut wire = up(options(rules()));
    wire.offer("ls/a", 1);
    let (queue, id) = (wire.node.queues().next().unwrap(), wire.history[0].id);
    let operations = vec![Edit::Drop(id), Edit::MoveFront(id), Edit::MoveBack(id)];
    wire.handle(Input::Edits { queue, operations });
    wire.carry();
    assert_eq!(wire.status().counts.confirmed, 1);
}

#[test]
fn sizes_count_key_properties_payload_and_the_outputs_overhead() {
    let mut options = options(rules());
    options.outputs[0].overhead = Size(40);
    let mut wire = up(options);
    let pair = ("name".into(), "value".into());
    let properties = tidegate_types::record::Properties::new(vec![pair]);
    let offered = Offered { properties, ..offer(wire.now, 0, "ls/a", 100) };
    wire.offer_all(vec![offered]);
    assert_eq!(wire.history[0].size, 4 + 9 + 100 + 40);
    assert_eq!(wire.status().held_bytes, Size(4 + 9 + 100));
    wire.carry();
    let counts = wire.status().counts;
    assert_eq!((counts.accepted_bytes, counts.confirmed_bytes), (153, 153));
}
