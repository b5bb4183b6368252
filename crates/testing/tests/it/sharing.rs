//! Shares of the uplink as they come out of the whole node, with cuts reported as sent some time later.

use tidegate_node::options::NodeOptions;
use tidegate_testing::Wire;
use tidegate_testing::support::*;
use tidegate_types::class::Classes;
use tidegate_types::units::{Rate, Ratio};

/// Keeps a backlog in these classes for ten seconds. A cut is reported as sent `delay` milliseconds after
/// it was ordered. Returns each class's part of the bytes.
fn parts(classes: Classes, backlogged: &[&str], delay: u64) -> [f64; 3] {
    let mut wire = up(NodeOptions { classes, ..narrow(rules()) });
    for turn in 0..10_000 {
        for class in backlogged {
            let key = format!("{class}/a");
            if turn < 40 || waiting(&wire, &key) < 40 {
                wire.offer(&key, 1_500);
            }
        }
        if turn % delay == 0 {
            (0..wire.cuts.len()).for_each(|_| _ = wire.send());
        }
        wire.paths().into_iter().for_each(|path| wire.acknowledge(path, ms(50)));
        wire.confirm_all();
        wire.advance(ms(1));
    }
    let bytes = [LS, NM, LT].map(|class| {
        let cuts = wire.history.iter().filter(|cut| cut.path == lane(class));
        cuts.map(|cut| cut.range.end - cut.range.start).sum::<u64>() as f64
    });
    let all: f64 = bytes.iter().sum();
    assert!(all > 1_500_000.0, "the uplink was busy: {bytes:?}");
    bytes.map(|bytes| bytes / all)
}

/// How many records wait in the queue of this key.
fn waiting(wire: &Wire, key: &str) -> usize {
    let is_its = |first| wire.key_of(first).is_some_and(|first| first == key);
    let mut queues = wire.node.queues();
    let queue = queues.find(|&queue| wire.node.waiting(queue).next().is_some_and(is_its));
    queue.map_or(0, |queue| wire.node.waiting(queue).count())
}

#[test]
fn a_minimum_share_is_kept_however_late_cuts_are_reported() {
    let classes = with_classes(|spec| {
        spec.min_share = Ratio::new(if &*spec.name == "ls" { 0.0 } else { 0.2 });
    });
    for delay in [1, 3, 9] {
        let parts = parts(classes.clone(), &["ls", "nm", "lt"], delay);
        assert!(parts[1] >= 0.19 && parts[2] >= 0.19, "{delay} ms: {parts:?}");
        assert!(parts[0] >= 0.55, "{delay} ms: {parts:?}");
    }
}

#[test]
fn what_a_class_does_not_use_is_lent() {
    let classes = with_classes(|spec| spec.min_share = Ratio::new(0.3));
    let parts = parts(classes, &["lt"], 1);
    assert!(parts[2] >= 0.99, "{parts:?}");
}

#[test]
fn a_cap_is_a_cap_though_nobody_else_wants_it() {
    let cap = Some(Rate::new(20_000.0));
    let classes = with_classes(|spec| spec.cap = cap.filter(|_| &*spec.name == "ls"));
    let mut wire = up(NodeOptions { classes, ..narrow(rules()) });
    (0..1000).for_each(|_| wire.offer("ls/a", 1_000));
    wire.run(ms(5000));
    let sent: u64 = wire.history.iter().map(|cut| cut.range.end - cut.range.start).sum();
    assert!((95_000..=105_000).contains(&sent), "{sent}");
}
