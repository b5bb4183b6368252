//! `lab sim node-coflows`: sets of records with one bound on the last of them, beside records without sets.
//! Source: papers/janus.txt, §I (co-flows).
//!
//! One node on 2 Mbit/s. Sets of eight records of eight sensors, spread over some time, and single records of the same class,
//! which is too much for a second and little for the next. Three ways: records that name no set (their sets are known to the
//! experiment alone), sets of unknown size, sets that say how large they are.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tidegate_testing::support::{NM, Words, down, narrow, rules};
use tidegate_testing::{Wire, offer};
use tidegate_types::record::{Offered, Properties};

use crate::report::{Findings, figure};
use crate::sim::parallel;
use crate::sim::random::Random;

/// Bytes of a record, records of a set, and the time over which they come.
const SIZE: usize = 1000;
const MEMBERS: u32 = 8;
const SPREAD: u64 = 250;
/// Milliseconds of a load, and what it is of the uplink: now much, now little.
const TURN: u64 = 1000;
const LOADS: [f64; 2] = [1.5, 0.2];
/// Of it, what comes in sets.
const IN_SETS: f64 = 0.25;
/// Bytes/s of 2 Mbit/s as a node that knows its rate uses it.
const CARRIES: f64 = 230e3;
/// Milliseconds in which records come, and for the rest to leave.
const LENGTH: u64 = 60_000;
const DRAIN: u64 = 5_000;
/// The bound of the class, milliseconds.
const BOUND: u64 = 500;

/// What records say of their sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Nothing,
    Name,
    Size,
}

impl Says {
    const ALL: [Says; 3] = [Says::Nothing, Says::Name, Says::Size];

    fn name(self) -> &'static str {
        match self {
            Says::Nothing => "no sets",
            Says::Name => "size unknown",
            Says::Size => "size known",
        }
    }
}

/// A record that comes: when, of which set (if of one).
type Coming = (u64, Option<u64>);

fn coming(seed: u64) -> Vec<Coming> {
    let random = &mut Random::new(seed, 50);
    let mut all = Vec::new();
    let mut sets = 0;
    for at in 0..LENGTH {
        let load = LOADS[(at / TURN % 2) as usize];
        let records = load * CARRIES / SIZE as f64 / 1e3;
        if random.happens(records * (1.0 - IN_SETS)) {
            all.push((at, None));
        }
        if random.happens(records * IN_SETS / f64::from(MEMBERS)) {
            sets += 1;
            all.extend((0..MEMBERS).map(|_| (at + random.between(0, SPREAD), Some(sets))));
        }
    }
    all.sort_unstable();
    all
}

/// What a run showed: milliseconds from the first record of each set until all have left, of each single record, and what
/// the node says of its sets: that so many were late.
struct Showed {
    sets: Vec<u64>,
    singles: Vec<u64>,
    late: u64,
}

fn play(seed: u64, says: Says) -> Showed {
    let mut wire = down(narrow(rules()));
    (1..=MEMBERS).for_each(|source| wire.open(source, &format!("sensor-{source}")));
    wire.up();
    wire.forget_history();
    let begun = wire.now;
    let mut came: BTreeMap<String, Coming> = BTreeMap::new();
    let mut left: BTreeMap<String, u64> = BTreeMap::new();
    let mut next = coming(seed).into_iter().enumerate().peekable();
    for at in 0..LENGTH + DRAIN {
        while let Some((number, one)) = next.next_if(|(_, (due, _))| *due <= at) {
            let key = format!("nm/{number}");
            let source = one.1.map_or(0, |_| 1 + number as u32 % MEMBERS);
            let offered = offer(wire.now, source, &key, SIZE);
            let properties = properties(one.1, says);
            wire.offer_all(vec![Offered { properties, ..offered }]);
            came.insert(key, one);
        }
        wire.run(Duration::from_millis(1));
        let now = wire.now.since(begun).as_millis() as u64;
        left.extend(wire.keys().into_iter().map(|key| (key, now)));
        wire.history.clear();
    }
    shown(&mut wire, &came, &left)
}

fn properties(set: Option<u64>, says: Says) -> Properties {
    let name = set.map(|set| match says {
        Says::Nothing => None,
        Says::Name => Some(format!("set-{set}")),
        Says::Size => Some(format!("set-{set}/{MEMBERS}")),
    });
    let pair = |name: String| (Bytes::from_static(b"coflow"), Bytes::from(name));
    Properties::new(name.flatten().into_iter().map(pair).collect())
}

fn shown(wire: &mut Wire, came: &BTreeMap<String, Coming>, left: &BTreeMap<String, u64>) -> Showed {
    let mut spans: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut singles = Vec::new();
    for (key, (at, set)) in came {
        let gone = left.get(key).copied().unwrap_or(LENGTH + DRAIN);
        match set {
            None => singles.push(gone - at),
            Some(set) => {
                let (first, last) = spans.entry(*set).or_insert((*at, gone));
                (*first, *last) = ((*first).min(*at), (*last).max(gone));
            }
        }
    }
    let late = wire.node.status(wire.now).classes[NM.index()].coflows.late;
    Showed { sets: spans.values().map(|(first, last)| last - first).collect(), singles, late }
}

/// The part of what took longer than the bound, in per cent, and the p99.
fn judged(took: &mut [u64]) -> (f64, u64) {
    took.sort_unstable();
    let late = took.iter().filter(|took| **took > BOUND).count() as f64;
    let count = took.len().max(1) as f64;
    (late / count * 100.0, took.get((count * 0.99) as usize).copied().unwrap_or_default())
}

/// The lines to print, of so many seeds from that on.
pub fn coflows(seed: u64, seeds: u64) -> Findings {
    let all: Vec<(Says, u64)> = Says::ALL
        .into_iter()
        .flat_map(|says| (seed..seed + seeds).map(move |seed| (says, seed)))
        .collect();
    let showed = parallel::map(&all, |(says, seed)| play(*seed, *says));
    let mut found = Findings::default();
    found.lines.push(format!(
        "sets of {MEMBERS} records over {SPREAD} ms, and single ones; bound {BOUND} ms; {seeds} seeds"
    ));
    found.lines.push(format!(
        "{:<14}{:>8}{:>12}{:>10}{:>10}{:>14}{:>10}",
        "", "sets", "late, %", "p99 ms", "singles", "late, %", "p99 ms"
    ));
    for (says, of_one) in Says::ALL.into_iter().zip(showed.chunks(seeds as usize)) {
        let mut sets: Vec<u64> = of_one.iter().flat_map(|one| one.sets.clone()).collect();
        let mut singles: Vec<u64> = of_one.iter().flat_map(|one| one.singles.clone()).collect();
        let ((late, p99), (single_late, single_p99)) = (judged(&mut sets), judged(&mut singles));
        found.lines.push(format!(
            "{:<14}{:>8}{late:>12.2}{p99:>10}{:>10}{single_late:>14.2}{single_p99:>10}",
            says.name(),
            sets.len(),
            singles.len()
        ));
        let name = says.name().replace(' ', "_");
        found.figures.push(figure(&format!("coflows_{name}_sets_late"), late, "percent"));
        found.figures.push(figure(&format!("coflows_{name}_singles_late"), single_late, "percent"));
        // The node counts by its own clock what the experiment sees by the millisecond.
        let told: u64 = of_one.iter().map(|one| one.late).sum();
        let seen = sets.iter().filter(|took| **took > BOUND + 1).count() as u64;
        if says == Says::Size && told < seen {
            found.broken.push(format!("{seen} sets were late and {told} are told"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_that_is_named_is_late_less_often_than_one_that_is_not() {
        let found = coflows(1, 1);
        let late = |says: &str| found.value(&format!("coflows_{says}_sets_late")).unwrap();
        assert!(late("size_known") < late("no_sets") * 0.7, "{found:?}");
        assert_eq!(found.broken, Vec::<String>::new());
    }
}
