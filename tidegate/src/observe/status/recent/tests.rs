//! The last minute of a class whose counts are made up.

use tidegate_node::status::{ClassStatus, CoflowStatus};
use tidegate_types::units::{Rate, Size};

use super::*;

/// A node with one class.
struct Made(NodeStatus);

impl Made {
    fn new() -> Made {
        let class = ClassStatus {
            name: "ls".into(),
            bound: Duration::from_millis(50),
            backlog_records: 0,
            backlog: Size::ZERO,
            late_records: 0,
            overdue_records: 0,
            input_rate: Rate::ZERO,
            input_records_per_second: 0.0,
            output_rate: Rate::ZERO,
            wanted_rate: Rate::ZERO,
            allocated_rate: Rate::ZERO,
            queue_delay: Duration::ZERO,
            counts: Counts::default(),
            stages: Stages::default(),
            coflows: CoflowStatus::default(),
        };
        Made(NodeStatus {
            name: "gate".into(),
            incarnation: 1,
            now: Time::ZERO,
            classes: vec![class],
            rules: Vec::new(),
            uplinks: Vec::new(),
            outputs: Vec::new(),
            held_bytes: Size::ZERO,
            memory: Size::ZERO,
            held: 0,
            counts: Counts::default(),
            log: None,
        })
    }

    /// So many records leave after so long, and it is so late.
    fn sends(&mut self, count: u64, residence: Duration, second: u64) -> &NodeStatus {
        let class = &mut self.0.classes[0];
        (0..count).for_each(|_| class.stages.residence.record(residence));
        if residence > class.bound {
            class.counts.violated += count;
        }
        self.0.now = Time::from_millis(second * 1000);
        &self.0
    }
}

const SHORT: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(30);

#[test]
fn an_outage_leaves_the_last_minute_and_stays_in_the_last_ten() {
    let (mut node, mut recent) = (Made::new(), Recent::default());
    recent.look(node.sends(100, SHORT, 10));
    let during = recent.look(node.sends(100, LONG, 20));
    let class = &during.classes[0];
    assert_eq!((class.count, class.violated), (200, 100));
    assert!((class.p99_seconds / 30.0 - 1.0).abs() < 0.02, "{class:?}");
    let mut after = RecentFigures::default();
    for second in (30..=90).step_by(10) {
        after = recent.look(node.sends(100, SHORT, second));
    }
    let class = &after.classes[0];
    assert_eq!((class.count, class.violated, after.over), (600, 0, MINUTE));
    assert!(class.p50_seconds < 0.003 && class.p99_seconds < 0.003, "{class:?}");
    let history = &after.history[0];
    assert_eq!(history.violated, [0, 100, 0, 0, 0, 0, 0, 0, 0]);
    assert!(history.p99_seconds[1] > Some(29.0) && history.p99_seconds[2] < Some(0.003));
}

#[test]
fn who_asks_often_sees_the_same_periods_and_the_newest_seconds() {
    let (mut node, mut recent) = (Made::new(), Recent::default());
    let mut shown = RecentFigures::default();
    for second in 1..=100 {
        shown = recent.look(node.sends(1, SHORT, second));
    }
    assert_eq!((shown.classes[0].count, shown.over), (60, MINUTE));
    // From the last period that began a minute ago or earlier.
    let later = recent.look(node.sends(9, SHORT, 109));
    assert_eq!((later.classes[0].count, later.over), (69, Duration::from_secs(69)));
    assert_eq!(shown.history[0].violated.len(), 10);
    assert!(recent.points.len() <= 8, "{}", recent.points.len());
}

#[test]
fn a_period_in_which_nothing_left_is_empty_and_not_fast() {
    let (mut node, mut recent) = (Made::new(), Recent::default());
    // Nobody looked before: what was counted in the hour is of no known time.
    let first = recent.look(node.sends(1, LONG, 3600));
    assert_eq!((first.classes[0].count, first.over), (0, Duration::ZERO));
    recent.look(node.sends(0, SHORT, 3610));
    let shown = recent.look(node.sends(0, SHORT, 3620));
    assert_eq!(shown.history[0].p99_seconds, [None, None]);
    assert_eq!((shown.classes[0].count, shown.classes[0].p99_seconds), (0, 0.0));
}

#[test]
fn ten_minutes_are_remembered_and_no_more() {
    let (mut node, mut recent) = (Made::new(), Recent::default());
    for period in 0..1000 {
        recent.look(node.sends(1, SHORT, period * 10));
    }
    assert_eq!(recent.look(node.sends(1, SHORT, 10_000)).history[0].violated.len(), HISTORY);
}
