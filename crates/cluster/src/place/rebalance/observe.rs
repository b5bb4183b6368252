//! From what members counted since they began to what happened between two rounds.
//! Source: own.
//! Inputs: answers of members. Outputs: loads of units, smoothed, and what was measured of them. O(units x nodes).
//! Deviations: none.
//! Limits: none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::units::Time;

use super::measured::Seen;
use super::{Rebalancer, Topic, Unit};
use crate::handover::histogram::TimeHistogram;
use crate::handover::loads::{MemberLoads, UnitCounts, UnitLoad};

/// Spans below which nothing is said of a 90th percentile.
const SAMPLES_MIN: u64 = 10;
/// A shorter time says nothing of rates.
const SHORTEST: Duration = Duration::from_millis(50);
/// Part of the way to a round's load that is gone in it.
const GAIN: f64 = 0.5;

/// More records worked on than came, by this factor: a node works off what has waited.
const BEHIND: f64 = 1.03;

impl Rebalancer {
    /// Takes the answers of a round.
    pub(super) fn observe(&mut self, now: Time, answers: Vec<(Arc<str>, Option<MemberLoads>)>) {
        let mut owners = BTreeMap::new();
        self.units.values_mut().for_each(|unit| unit.seen = None);
        let names: BTreeSet<Arc<str>> = answers.iter().map(|(name, _)| name.clone()).collect();
        self.nodes.retain(|name, _| names.contains(name));
        for (_, loads) in &answers {
            loads.iter().for_each(|loads| owners_of(loads, &mut owners));
        }
        // Who does not answer may own what nobody else knows of: such units stay as they were known.
        let is_whole = answers.iter().all(|(_, loads)| loads.is_some());
        self.units.retain(|name, _| !is_whole || owners.contains_key(name));
        for (name, (owner, node)) in owners {
            let rest = self.options.rest;
            let unit = self.units.entry(name).or_insert_with(|| Unit {
                owner,
                node: node.clone(),
                is_open: false,
                topic: None,
                seen: None,
                missed: 0,
                moved_at: None,
                rest,
            });
            if unit.node != node {
                unit.missed = 0;
                self.nodes.entry(node.clone()).or_default().is_unsettled = true;
            }
            (unit.owner, unit.node, unit.is_open) = (owner, node, false);
        }
        for (name, loads) in answers {
            let node = self.nodes.entry(name.clone()).or_default();
            node.is_here = loads.is_some();
            let Some(loads) = loads else {
                node.silent_since.get_or_insert(now);
                continue;
            };
            node.silent_since = None;
            let before = node.loads.replace(loads.clone());
            let before = before.filter(|before| before.life == loads.life);
            let earlier: BTreeMap<&str, &UnitLoad> =
                before.iter().flat_map(|it| &it.units).map(|unit| (&*unit.name, unit)).collect();
            let passed = before.as_ref().map(|before| loads.age.saturating_sub(before.age));
            for told in &loads.units {
                let Some(unit) = self.units.get_mut(&told.name) else { continue };
                if unit.node != name || unit.owner != told.owner {
                    continue;
                }
                unit.is_open = told.is_open;
                let before = earlier.get(&*told.name).and_then(|before| counts_of(before, told));
                let seen = passed.zip(before).zip(told.counts.as_ref()).and_then(
                    |((passed, before), now)| seen(passed, before, now, unit.topic.as_ref()),
                );
                if let Some(seen) = &seen {
                    smooth(&mut unit.topic, &seen.topic);
                }
                unit.seen = seen;
            }
            let own = self.units.values().filter(|unit| unit.node == name);
            let seen = own.filter_map(|unit| unit.seen.as_ref());
            let sum = seen.fold((0, 0), |(records, worked), seen| {
                (records + seen.records, worked + seen.worked)
            });
            // Of few records many may be under way at either end of the time.
            let came = sum.0 as f64;
            node.is_behind = sum.1 as f64 > BEHIND * came + 2.0 * came.sqrt() + 1.0;
        }
    }
}

type Owners = BTreeMap<Arc<str>, (crate::handover::UnitOwner, Arc<str>)>;

/// The owner with the highest epoch counts.
fn owners_of(loads: &MemberLoads, all: &mut Owners) {
    for unit in &loads.units {
        let Some(node) = loads.members.get(usize::from(unit.owner.member.0)) else { continue };
        let known = all.entry(unit.name.clone()).or_insert((unit.owner, node.clone()));
        if known.0 < unit.owner {
            *known = (unit.owner, node.clone());
        }
    }
}

/// What the same owner had counted of a unit before, in the same epoch.
fn counts_of<'a>(before: &'a UnitLoad, now: &UnitLoad) -> Option<&'a UnitCounts> {
    let is_same = before.owner == now.owner && before.is_open && now.is_open;
    before.counts.as_ref().filter(|_| is_same)
}

/// What happened in between; `None` where the counts are not of one and the same.
fn seen(
    passed: Duration,
    before: &UnitCounts,
    now: &UnitCounts,
    known: Option<&Topic>,
) -> Option<Seen> {
    if passed < SHORTEST {
        return None;
    }
    let records = now.records.checked_sub(before.records)?;
    let worked = now.worked.checked_sub(before.worked)?;
    let results = now.results.checked_sub(before.results)?;
    let deliveries = now.deliveries.checked_sub(before.deliveries)?;
    let done = now.done.since(&before.done)?;
    let delivered = now.delivered.since(&before.delivered)?;
    let late = |late: u64, before: u64, of: u64| {
        let late = late.checked_sub(before)?;
        (of >= SAMPLES_MIN).then(|| late as f64 / of as f64)
    };
    let delivered_late = late(now.delivered_late, before.delivered_late, deliveries);
    let work_late = late(now.done_late, before.done_late, worked);
    let p90 = |times: &TimeHistogram| {
        (times.count() >= SAMPLES_MIN).then(|| times.quantile(0.9).as_secs_f64())
    };
    let (mut work, mut work_cv) =
        known.map_or((Duration::ZERO, 0.0), |topic| (topic.work, topic.work_cv));
    if worked > 0 {
        let mean = now.cpu.saturating_sub(before.cpu).as_secs_f64() / worked as f64;
        let square = (now.cpu_squares - before.cpu_squares).max(0.0) / worked as f64;
        work = Duration::from_secs_f64(mean);
        let deviation = (square - mean * mean).max(0.0).sqrt();
        work_cv = if mean > 0.0 { (deviation / mean).min(10.0) } else { 0.0 };
    }
    let mut subscribers = known.map_or(1, |topic| topic.subscribers);
    if results > 0 {
        subscribers = (deliveries.div_ceil(results)).clamp(1, 1_000_000) as u32;
    }
    let topic = Topic {
        work,
        work_cv,
        rate: records as f64 / passed.as_secs_f64(),
        subscribers,
        // One that nothing has come of has none yet.
        bound: if now.bound.is_zero() { Duration::MAX } else { now.bound },
        is_serial: now.lanes == 1,
    };
    let p90 = p90(&delivered).or_else(|| p90(&done));
    Some(Seen { topic, records, worked, p90, late: delivered_late.or(work_late), work_late })
}

/// Goes a part of the way to what was seen.
fn smooth(known: &mut Option<Topic>, seen: &Topic) {
    let Some(topic) = known else {
        *known = Some(seen.clone());
        return;
    };
    let toward = |old: f64, new: f64| old + GAIN * (new - old);
    let work = toward(topic.work.as_secs_f64(), seen.work.as_secs_f64());
    // What nobody worked on before has no work to begin from.
    let is_first = topic.work.is_zero();
    *topic = Topic {
        work: if is_first { seen.work } else { Duration::from_secs_f64(work.max(0.0)) },
        work_cv: if is_first { seen.work_cv } else { toward(topic.work_cv, seen.work_cv) },
        rate: toward(topic.rate, seen.rate),
        ..seen.clone()
    };
}
