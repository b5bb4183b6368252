//! `lab bench fleet-outage`: the own uplink of a node stands still, or refuses, again and again; what becomes of its
//! alarms with a neighbour, without one, and at Mosquitto's bridge.
//!
//! All of them are in one world, under a light and under a busy load, and their uplinks fail at the same times.

mod outage_world;

use std::path::Path;
use std::time::Duration;

use clap::Args;

use self::outage_world::{CLASSES, LOADS, RTT};
use crate::play::{self, Played};
use crate::progress::Progress;
use crate::report::{Findings, Verdict};
use crate::rig;
use crate::rig::versions::Program;
use crate::world::{Came, Delivered};

/// What nodes need to find each other; not measured.
const WARM_UP: u64 = 10;
/// How long an outage lasts, and until the next one, in seconds.
const OUTAGE: u64 = 8;
const PERIOD: u64 = 14;
/// A silent uplink is known for one after three round trips, 200 ms at least.
const DETECTION: Duration = Duration::from_millis(200);
/// What a record that came before the uplink was known to fail may take after that, and a later one in all.
const ALARM: Duration = Duration::from_millis(300);
const NORMAL: Duration = Duration::from_secs(1);

tidegate_types::named! {
    /// What happens to an uplink.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Failure: "failure" {
        /// It carries nothing, and packets wait.
        Stalled = "stalled",
        /// Connections are reset, and refused until the end.
        Refused = "refused",
    }
}

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Options {
    /// How often each uplink fails
    #[arg(long, default_value_t = 10)]
    pub(crate) outages: u64,
    /// Only this failure: stalled, refused; both, one after the other, if left out
    #[arg(long)]
    pub(crate) only: Option<Failure>,
    /// Of links
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

tidegate_types::named! {
    /// Who sends by an uplink that fails.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Party {
        /// A node with a neighbour.
        Fleet = "fleet",
        /// A node without one.
        Alone = "alone",
        /// Mosquitto with a bridge.
        Bridge = "mosquitto",
    }
}

/// Runs the world with each failure.
pub(crate) async fn run(options: Options, say: fn(&str)) -> anyhow::Result<Findings> {
    let failures = match options.only {
        Some(only) => vec![only],
        None => Failure::ALL.to_vec(),
    };
    let progress = Progress::new("fleet-outage", failures.len());
    let mut verdict = Verdict::new("fleet_outage");
    for failure in failures {
        let name = failure.name();
        progress.step(name, Some(Duration::from_secs(length(options.outages))));
        let drawn = (options.outages, options.seed);
        let (world, _keys) = outage_world::world(failure, drawn, &rig::tidegate_program()?)?;
        let played = play::play(&world, Path::new(""), None, say).await?;
        judge(&mut verdict, failure, options.outages, &played);
        played.broken.into_iter().for_each(|what| verdict.breaks(what));
    }
    Ok(verdict.findings(&[Program::Tidegate, Program::Mosquitto]))
}

/// When the outages begin, seconds.
fn begins(outages: u64) -> impl Iterator<Item = u64> {
    (0..outages).map(|outage| WARM_UP + outage * PERIOD)
}

fn length(outages: u64) -> u64 {
    WARM_UP + outages * PERIOD
}

/// What came of a source that was due within an outage: before it can be known, and after.
#[derive(Debug, Default)]
struct InOutages {
    early: Vec<Duration>,
    later: Vec<Duration>,
}

impl InOutages {
    fn of(one: &Delivered, outages: u64) -> InOutages {
        let known = RTT * 3 + Duration::from_millis(50);
        let mut all = InOutages::default();
        for Came { due, took, .. } in &one.came {
            // What was just under way when it began is hit as well.
            let since = begins(outages).find_map(|at| {
                let from = Duration::from_secs(at) - RTT;
                due.checked_sub(from).filter(|since| *since < Duration::from_secs(OUTAGE))
            });
            match since {
                Some(since) if since < RTT + known => all.early.push(*took),
                Some(_) => all.later.push(*took),
                None => {}
            }
        }
        all
    }

    fn all(&self) -> Vec<Duration> {
        [&self.early[..], &self.later].concat()
    }
}

/// The time that 99 of 100 keep, in milliseconds.
fn p99(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let place = (times.len() * 99).div_ceil(100).saturating_sub(1);
    times.get(place).map_or(f64::NAN, |took| took.as_secs_f64() * 1e3)
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn judge(verdict: &mut Verdict, failure: Failure, outages: u64, played: &Played) {
    let none = Delivered::default();
    let of = |name: &str| played.records.get(name).unwrap_or(&none);
    verdict.say(format!(
        "{} for {OUTAGE} s, {outages} times: 2 Mbit/s, {} ms of round trip; p99 of what was due within an outage",
        failure.name(),
        RTT.as_millis()
    ));
    for (load, letter) in LOADS {
        for party in Party::ALL {
            let source = |class: &str| outage_world::source(class, letter, party);
            let times =
                CLASSES.map(|class| p99(InOutages::of(of(&source(class)), outages).all()) / 1e3);
            verdict.say(format!(
                "{load:<6}{:<11}{}",
                party.name(),
                CLASSES
                    .iter()
                    .zip(times)
                    .map(|(class, time)| format!("{class} {time:>8.3} s  "))
                    .collect::<String>()
            ));
            for (class, time) in CLASSES.into_iter().zip(times) {
                let name = format!("{}_{load}_{}_{class}_p99", failure.name(), party.name());
                verdict.figure(&name, time * 1e3, "ms");
            }
        }
        let fleet = |class: &str| of(&outage_world::source(class, letter, Party::Fleet));
        judge_fleet(verdict, &format!("{}_{load}", failure.name()), outages, fleet);
        let lender =
            p99(of(&outage_world::lender("ls", letter)).came.iter().map(|one| one.took).collect());
        let key = format!("{}_{load}_lender", failure.name());
        verdict.figure(&format!("{key}_ls_p99"), lender, "ms");
        let lost = CLASSES.map(|class| {
            let one = of(&outage_world::lender(class, letter));
            one.accepted.saturating_sub(one.came.len() as u64)
        });
        verdict.at_most(&format!("{key}_lost"), lost.iter().sum::<u64>() as f64, 0.0, "records");
    }
}

/// What a fleet promises of a node whose uplink fails.
fn judge_fleet<'d>(
    verdict: &mut Verdict,
    key: &str,
    outages: u64,
    of: impl Fn(&str) -> &'d Delivered,
) {
    let [ls, nm, lt] = CLASSES.map(|class| InOutages::of(of(class), outages));
    verdict.at_most(&format!("{key}_ls_later_p99"), p99(ls.later.clone()), ms(ALARM), "ms");
    let early = ms(DETECTION + ALARM);
    verdict.at_most(&format!("{key}_ls_early_p99"), p99(ls.early.clone()), early, "ms");
    verdict.at_most(&format!("{key}_nm_p99"), p99(nm.all()), ms(NORMAL), "ms");
    // Where nothing is short all classes take the same: what differs by less is chance.
    let over = |urgent: &InOutages, other: &InOutages| {
        p99(urgent.later.clone()) - p99(other.later.clone())
    };
    let inverted = over(&ls, &nm).max(over(&nm, &lt));
    verdict.at_most(&format!("{key}_inverted"), inverted, ms(RTT), "ms");
    let sum = |count: fn(&Delivered) -> u64| {
        CLASSES.iter().map(|class| count(of(class))).sum::<u64>() as f64
    };
    let lost = sum(|one| one.accepted.saturating_sub(one.came.len() as u64));
    verdict.at_most(&format!("{key}_lost"), lost, 0.0, "records");
    verdict.at_most(&format!("{key}_unmarked_twice"), sum(|one| one.unmarked), 0.0, "records");
    verdict.figure(&format!("{key}_twice"), sum(|one| one.duplicates), "records");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(records: &[(u64, u64)]) -> Delivered {
        let ms = Duration::from_millis;
        let came = |&(due, took): &(u64, u64)| Came { due: ms(due), took: ms(took), bytes: 200 };
        let accepted = records.len() as u64;
        Delivered { came: records.iter().map(came).collect(), accepted, ..Delivered::default() }
    }

    #[test]
    fn records_are_told_by_when_they_were_due_in_an_outage() {
        let at = WARM_UP * 1000;
        let records = [(at - 50, 1), (at - 30, 2), (at + 160, 3), (at + 180, 4), (at + 8100, 5)];
        let found = InOutages::of(&delivered(&records), 1);
        let ms = |times: &[u64]| times.iter().map(|time| Duration::from_millis(*time)).collect();
        assert_eq!((found.early, found.later), (ms(&[2, 3]), ms(&[4])));
    }

    #[test]
    fn what_a_fleet_promises_is_judged() {
        let at = WARM_UP * 1000;
        let judged = |ls: u64, lt: u64| {
            let mut verdict = Verdict::new("fleet_outage");
            let one = |took: u64| delivered(&[(at + 50, took), (at + 4000, took)]);
            let (ls, nm, lt) = (one(ls), one(200), one(lt));
            judge_fleet(&mut verdict, "stalled_busy", 1, |class| match class {
                "ls" => &ls,
                "nm" => &nm,
                _ => &lt,
            });
            verdict.parts().1
        };
        assert_eq!(judged(150, 900), [""; 0]);
        assert_eq!(judged(600, 900).len(), 3, "too late, twice, and worse than nm");
        assert_eq!(judged(150, 100).len(), 1, "worse than lt");
    }

    #[test]
    fn every_party_has_a_source_of_each_class_and_fails_at_the_same_times() {
        for failure in Failure::ALL {
            let (world, _keys) =
                outage_world::world(failure, (3, 1), Path::new("tidegate")).unwrap();
            let sources = LOADS.len() * CLASSES.len() * (Party::ALL.len() + 1);
            assert_eq!(world.source.len(), sources);
            assert_eq!(world.fault.len(), 3 * 2 * LOADS.len() * Party::ALL.len());
        }
    }
}
