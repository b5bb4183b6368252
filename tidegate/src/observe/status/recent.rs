//! The last minute, and the last ten: what the counts since start cannot tell of a node that has run for a month.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate_node::status::{Counts, NodeStatus, Stages};
use tidegate_types::units::Time;

/// How often what the node counted is remembered.
pub const PERIOD: Duration = Duration::from_secs(10);
/// What "recent" is.
const MINUTE: Duration = Duration::from_secs(60);
/// Periods that the history shows.
const HISTORY: usize = 60;

/// One class or stream over the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecentView {
    /// Deliveries whose last byte went to the wire.
    pub count: u64,
    /// Half of them had at most this residence.
    pub p50_seconds: f64,
    /// 99 of 100.
    pub p99_seconds: f64,
    /// Deliveries whose latency bound passed.
    pub violated: u64,
    /// Deliveries dropped, for whatever reason.
    pub dropped: u64,
}

/// One class over the last ten minutes, a value for each period, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistoryView {
    /// Its name.
    pub class: String,
    /// p99 of residence; `None` where nothing was sent.
    pub p99_seconds: Vec<Option<f64>>,
    /// Deliveries whose latency bound passed.
    pub violated: Vec<u64>,
}

/// What a snapshot shows of the recent past.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecentFigures {
    /// What `classes` and `rules` are over: less than a minute after a start.
    pub over: Duration,
    /// By class, in their order.
    pub classes: Vec<RecentView>,
    /// By stream, in their order.
    pub rules: Vec<RecentView>,
    /// By class, in their order.
    pub history: Vec<HistoryView>,
}

/// What one class or stream had counted at a moment. Buckets without a count are left out.
#[derive(Clone, Debug, Default)]
struct Tally {
    name: Arc<str>,
    /// Upper edges in microseconds, rising, and how many.
    residence: Vec<(u64, u64)>,
    violated: u64,
    dropped: u64,
}

impl Tally {
    fn new(name: &Arc<str>, counts: &Counts, stages: &Stages) -> Self {
        Tally {
            name: name.clone(),
            residence: stages.residence.recorded().collect(),
            violated: counts.violated,
            dropped: counts.dropped_all(),
        }
    }

    /// What was counted since `before`. Both are of the same histogram, which only grows.
    fn since(&self, before: &Tally) -> RecentView {
        let mut older = before.residence.iter().copied().peekable();
        let newer = self.residence.iter().map(|&(edge, count)| {
            while older.next_if(|&(old, _)| old < edge).is_some() {}
            let old = older.next_if(|&(old, _)| old == edge).map_or(0, |(_, count)| count);
            (edge, count.saturating_sub(old))
        });
        let newer: Vec<(u64, u64)> = newer.collect();
        RecentView {
            count: newer.iter().map(|(_, count)| count).sum(),
            p50_seconds: quantile(&newer, 0.5),
            p99_seconds: quantile(&newer, 0.99),
            violated: self.violated.saturating_sub(before.violated),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

/// The quantile in seconds, upper edge of its bucket; 0 where nothing is counted.
fn quantile(buckets: &[(u64, u64)], share: f64) -> f64 {
    let all: u64 = buckets.iter().map(|(_, count)| count).sum();
    let rank = ((share * all as f64).ceil() as u64).max(1);
    let mut below = 0;
    let reaches = |&&(_, count): &&(u64, u64)| {
        below += count;
        below >= rank
    };
    buckets.iter().find(reaches).map_or(0.0, |(micros, _)| *micros as f64 / 1e6)
}

/// What the node had counted at a moment.
#[derive(Clone, Debug)]
struct Point {
    at: Time,
    classes: Vec<Tally>,
    rules: Vec<Tally>,
}

impl Point {
    fn new(status: &NodeStatus) -> Self {
        let classes = &status.classes;
        let rules = &status.rules;
        Point {
            at: status.now,
            classes: classes
                .iter()
                .map(|it| Tally::new(&it.name, &it.counts, &it.stages))
                .collect(),
            rules: rules.iter().map(|it| Tally::new(&it.name, &it.counts, &it.stages)).collect(),
        }
    }
}

/// Each tally since the one of the same name before; since nothing where it is new.
fn all_since(now: &[Tally], before: &[Tally]) -> Vec<RecentView> {
    let nothing = Tally::default();
    let old = |place: usize, tally: &Tally| {
        // Streams stand at their places; after a reload a name tells whether it is the same one.
        before.get(place).filter(|old| old.name == tally.name).unwrap_or(&nothing)
    };
    now.iter().enumerate().map(|(place, tally)| tally.since(old(place, tally))).collect()
}

/// Remembers what was counted, in buckets: some kilobytes for each class and stream.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// At least a period apart, oldest first; the first is a minute old or the oldest there is.
    points: VecDeque<Point>,
    /// Of each period that is over, by class.
    history: VecDeque<Vec<RecentView>>,
}

impl Recent {
    /// Takes a look at the node. It remembers one in each period, however often it looks.
    pub(super) fn look(&mut self, status: &NodeStatus) -> RecentFigures {
        let point = Point::new(status);
        while self.points.get(1).is_some_and(|next| next.at + MINUTE <= point.at) {
            self.points.pop_front();
        }
        if self.points.is_empty() {
            // Of a node that just started all is recent; of one that nobody looked at before, nothing is known to be.
            let start = Point { at: Time::ZERO, classes: Vec::new(), rules: Vec::new() };
            self.points.push_back(if point.at.since(start.at) <= MINUTE {
                start
            } else {
                point.clone()
            });
        }
        let base = &self.points[0];
        let mut figures = RecentFigures {
            over: point.at.since(base.at),
            classes: all_since(&point.classes, &base.classes),
            rules: all_since(&point.rules, &base.rules),
            history: Vec::new(),
        };
        // A tick that comes a little early is one.
        if let Some(last) = self.points.back()
            && last.at + PERIOD <= point.at + PERIOD / 20
        {
            self.history.push_back(all_since(&point.classes, &last.classes));
            while self.history.len() > HISTORY {
                self.history.pop_front();
            }
            self.points.push_back(point);
        }
        figures.history = self.history(status);
        figures
    }

    fn history(&self, status: &NodeStatus) -> Vec<HistoryView> {
        let of_class = |(place, name): (usize, &Arc<str>)| {
            let periods = || self.history.iter().filter_map(|period| period.get(place));
            HistoryView {
                class: name.to_string(),
                p99_seconds: periods().map(|it| (it.count > 0).then_some(it.p99_seconds)).collect(),
                violated: periods().map(|it| it.violated).collect(),
            }
        };
        status.classes.iter().map(|class| &class.name).enumerate().map(of_class).collect()
    }
}

#[cfg(test)]
mod tests;
