//! What became of the records of a world, whoever played it: a table, figures, and fates for checks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Fate, Phase, Source, World};
use crate::query::Judged;
use crate::report::{Figure, figure};
use crate::sim::Span;

/// A record that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// When it was due, from the world's beginning.
    pub due: Duration,
    /// From then to its arrival.
    pub took: Duration,
    /// Its payload.
    pub bytes: u64,
}

/// What became of a source's records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivered {
    /// Handed to whoever takes them.
    pub offered: u64,
    /// Of these, acknowledged as accepted.
    pub accepted: u64,
    /// Of these, acknowledged as refused.
    pub refused: u64,
    /// The first copy of each that arrived, in the order of arrival.
    pub came: Vec<Came>,
    /// Further copies.
    pub duplicates: u64,
    /// Further copies of which nothing said that they may be one: all but one of those without a mark.
    pub unmarked: u64,
    /// First copies that came after a later record of their source.
    pub out_of_order: u64,
    /// What the query at the far end showed.
    pub windows: Judged,
}

/// The same of all sources, by name.
pub type Records = BTreeMap<String, Delivered>;

/// Records that missed their bound at their node, sent or still waiting, by `[[stream]]`. Streams of one
/// class share its waiting ones.
pub type Violated = BTreeMap<String, u64>;

impl Delivered {
    /// The latency that this part (0..=1) of what came keeps; `None` where nothing did.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let latencies = self.latencies(Duration::ZERO, Duration::MAX);
        Fate { latencies, ..Fate::default() }.quantile(part).map(|Span(took)| took)
    }

    /// The mean latency of what came; `None` where nothing did.
    pub fn mean(&self) -> Option<Duration> {
        let all: Duration = self.came.iter().map(|came| came.took).sum();
        let count = u32::try_from(self.came.len()).ok().filter(|&count| count > 0)?;
        Some(all / count)
    }

    /// Records that arrived in [from, until), a second.
    pub fn rate(&self, from: Duration, until: Duration) -> f64 {
        let at = |came: &&Came| (from..until).contains(&(came.due + came.took));
        let count = self.came.iter().filter(at).count();
        count as f64 / until.saturating_sub(from).as_secs_f64().max(1e-9)
    }

    /// Times of records that were due in [from, until), sorted.
    fn latencies(&self, from: Duration, until: Duration) -> Vec<Duration> {
        let inside = self.came.iter().filter(|came| (from..until).contains(&came.due));
        let mut latencies: Vec<Duration> = inside.map(|came| came.took).collect();
        latencies.sort_unstable();
        latencies
    }

    /// Bits of payload a second that arrived in [from, until).
    fn goodput(&self, from: Duration, until: Duration) -> f64 {
        let inside =
            self.came.iter().filter(|came| (from..until).contains(&(came.due + came.took)));
        let bytes: u64 = inside.map(|came| came.bytes).sum();
        bytes as f64 * 8.0 / (until.saturating_sub(from)).as_secs_f64().max(1e-9)
    }

    /// The same for a check; `from` and `until` are the times between which the source sends.
    fn fate(&self, from: Duration, until: Duration) -> Fate {
        Fate {
            sent: self.accepted,
            latencies: self.latencies(Duration::ZERO, Duration::MAX),
            goodput: self.goodput(from, until),
        }
    }
}

/// What each source and phase showed, as it stands in the table and in the figures.
struct Row<'w> {
    source: &'w Source,
    phase: Option<&'w Phase>,
    p50: f64,
    p99: f64,
    goodput: f64,
}

/// A row for each source, and one for each of its phases.
fn rows<'w>(world: &'w World, records: &Records) -> Vec<Row<'w>> {
    let none = Delivered::default();
    let phases = || std::iter::once(None).chain(world.phase.iter().map(Some));
    let row = |source: &'w Source, phase: Option<&'w Phase>| {
        let delivered = records.get(&source.name).unwrap_or(&none);
        let (first, last) = sending(world, source);
        let (due, arrived) = match phase {
            Some(phase) => ((phase.from.0, phase.until.0), (phase.from.0, phase.until.0)),
            None => ((Duration::ZERO, Duration::MAX), (first, last)),
        };
        let fate = Fate { latencies: delivered.latencies(due.0, due.1), ..Fate::default() };
        let ms = |part| fate.quantile(part).map_or(f64::NAN, |Span(took)| took.as_secs_f64() * 1e3);
        let goodput = delivered.goodput(arrived.0, arrived.1) / 1e6;
        Row { source, phase, p50: ms(0.5), p99: ms(0.99), goodput }
    };
    world.source.iter().flat_map(|source| phases().map(move |phase| row(source, phase))).collect()
}

fn sending(world: &World, source: &Source) -> (Duration, Duration) {
    let last = source.end(world).map_or(Duration::MAX, |end| end.0);
    (source.start.0, last)
}

/// The table of a world's sources.
pub fn table(world: &World, records: &Records) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<16} {:>8} {:>8} {:>8} {:>8} {:>6} {:>11} {:>11} {:>14}",
        "source", "offered", "accepted", "refused", "arrived", "again", "p50", "p99", "goodput"
    )];
    for Row { source, phase, p50, p99, goodput } in rows(world, records) {
        let counts = match phase {
            Some(_) => String::new(),
            None => {
                let none = Delivered::default();
                let own = records.get(&source.name).unwrap_or(&none);
                let Delivered { offered, accepted, refused, .. } = own;
                let (came, again) = (own.came.len(), own.duplicates);
                format!("{offered:>8} {accepted:>8} {refused:>8} {came:>8} {again:>6}")
            }
        };
        let name = phase.map_or_else(|| source.name.clone(), |phase| format!("  {}", phase.name));
        let times = format!("{p50:>8.1} ms {p99:>8.1} ms");
        lines.push(format!("{name:<16} {counts:<42} {times} {goodput:>7.3} Mbit/s"));
    }
    let asked = records.iter().filter(|(_, delivered)| delivered.windows.asked > 0);
    lines.extend(asked.map(|(name, delivered)| format!("{name}: {}", delivered.windows.line())));
    lines
}

/// The figures of a world's sources: the same names, whoever played it.
pub fn figures(world: &World, records: &Records) -> Vec<Figure> {
    let mut figures = Vec::new();
    for Row { source, phase, p50, p99, goodput } in rows(world, records) {
        let phase = phase.map_or_else(String::new, |phase| format!("_{}", phase.name));
        let name =
            |what: &str| format!("{}_{}{phase}_{what}", world.name.replace('-', "_"), source.name);
        figures.push(figure(&name("p50"), p50, "ms"));
        figures.push(figure(&name("p99"), p99, "ms"));
        figures.push(figure(&name("goodput"), goodput, "Mbit/s"));
    }
    let lost =
        |delivered: &Delivered| delivered.accepted.saturating_sub(delivered.came.len() as u64);
    let lost: u64 = records.values().map(lost).sum();
    let name = format!("{}_lost_accepted", world.name.replace('-', "_"));
    figures.push(figure(&name, lost as f64, "records"));
    figures
}

/// What does not hold of a world's sources, one line each.
pub fn broken(world: &World, records: &Records) -> Vec<String> {
    let wrong = |(name, delivered): (&String, &Delivered)| delivered.windows.broken(name);
    let mut broken: Vec<String> = records.iter().filter_map(wrong).collect();
    for check in &world.check {
        let source = world.source.iter().find(|one| check.source.as_ref() == Some(&one.name));
        let Some(source) = source else { continue };
        let (first, last) = sending(world, source);
        let fate = records.get(&source.name).map(|delivered| delivered.fate(first, last));
        broken.extend(check.broken(&fate.unwrap_or_default()));
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Sum;

    const HOL: &str = include_str!("../../../worlds/hol.toml");

    fn came(due: u64, took: u64) -> Came {
        Came { due: Duration::from_millis(due), took: Duration::from_millis(took), bytes: 1000 }
    }

    #[test]
    fn latency_counts_by_due_and_goodput_by_arrival() {
        let records = [came(0, 10), came(100, 2000), came(1500, 20)];
        let delivered = Delivered { accepted: 3, came: records.to_vec(), ..Delivered::default() };
        let ms = Duration::from_millis;
        assert_eq!(delivered.latencies(ms(0), ms(1000)), [ms(10), ms(2000)]);
        let bits = delivered.goodput(ms(0), ms(1000));
        assert!((bits - 8000.0).abs() < 1e-6, "{bits}");
        let fate = delivered.fate(ms(0), ms(2000));
        assert!(fate.lost().abs() < 1e-9 && (fate.goodput - 8000.0).abs() < 1e-6, "{fate:?}");
    }

    #[test]
    fn a_world_is_told_source_by_source_and_judged_by_its_checks() {
        let world = World::parse(HOL).unwrap();
        let whole = Delivered { offered: 2, accepted: 2, ..Delivered::default() };
        let alarm = Delivered { came: vec![came(0, 400), came(200, 60)], ..whole.clone() };
        let bulk = Delivered { came: vec![came(0, 90)], ..whole };
        let records: Records = [("alarm".to_owned(), alarm), ("bulk".to_owned(), bulk)].into();
        let figures = figures(&world, &records);
        assert!(figures.contains(&figure("hol_alarm_p50", 60.0, "ms")), "{figures:#?}");
        assert!(figures.contains(&figure("hol_lost_accepted", 1.0, "records")), "{figures:#?}");
        assert_eq!(table(&world, &records).len(), 3);
        let mut asked = records.clone();
        let total = Sum { count: 2, sum: 10 };
        let windows = Judged { asked: 30, wrong: 1, after: vec![Duration::ZERO; 2], total };
        asked.get_mut("alarm").unwrap().windows = windows;
        assert!(table(&world, &asked)[3].starts_with("alarm: 2 of 30 windows"));
        assert!(super::broken(&world, &asked)[0].starts_with("alarm: 1 of 2 windows"));
        let broken = broken(&world, &records);
        assert!(broken.iter().any(|line| line.starts_with("alarm p99 is 400ms")), "{broken:?}");
        assert!(broken.iter().any(|line| line.starts_with("bulk lost 0.5")), "{broken:?}");
    }
}
