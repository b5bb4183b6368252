//! `lab bench adapt-hostile`: what other traffic waits more while a script means harm: records of another stream of the
//! same node, requests of another route of the same proxy. Each script beside a harmless one, in turns.

mod turn;

use std::time::Duration;

use clap::Args;
use tidegate::script::fuzz::HARM;

use self::turn::{Place, Turn};
use super::Verdict;
use crate::bench::median;
use crate::net::spinner::Spinners;
use crate::progress::Progress;
use crate::report::Findings;
use crate::rig::versions::Program;

/// What others may wait more, in milliseconds: the promise.
const ADDED_MAX: f64 = 5.0;
/// Quantiles that are told; the last one is judged.
const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)];
/// Of so many calls that are to fail at most one may that is not.
const STRAY: u64 = 50;
/// Every so many calls one means harm: fewer would not hurt, more would switch the script off.
const EVERY: u32 = 12;

#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Records and requests a second of other traffic
    #[arg(long, default_value_t = 500)]
    pub(crate) per_second: u32,
    /// Records and requests a second that the script sees
    #[arg(long, default_value_t = 300)]
    pub(crate) harm: u32,
    /// Seconds of a turn
    #[arg(long, default_value_t = 4)]
    pub(crate) seconds: u32,
    /// Rounds; in each one the harmless and the hostile script have a turn
    #[arg(long, default_value_t = 3)]
    pub(crate) runs: u32,
    /// Only rows whose name has this, as in "node gigantic payload" (may be given again)
    #[arg(long)]
    pub(crate) only: Vec<String>,
}

impl Options {
    fn wants(&self, place: Place, name: &str) -> bool {
        let row = format!("{} {name}", place.name());
        self.only.is_empty() || self.only.iter().any(|only| row.contains(only.as_str()))
    }
}

/// Runs it and returns what was found.
pub async fn run(options: Options) -> anyhow::Result<Findings> {
    let _awake = Spinners::start()?;
    let mut verdict = Verdict::new("adapt_hostile");
    verdict.say(format!(
        "{}/s of other traffic, {}/s that the script sees, every {EVERY}th call does harm; {} s a turn, medians of {} \
         rounds; milliseconds without and with harm, without what lived while a processor stood still",
        options.per_second, options.harm, options.seconds, options.runs
    ));
    let rows = |place: Place| HARM.iter().filter(|(name, _)| options.wants(place, name)).count();
    let steps = Place::ALL.map(rows).iter().sum::<usize>() * options.runs as usize * 2;
    let progress = Progress::new("adapt-hostile", steps);
    for place in Place::ALL {
        verdict.say(format!(
            "{:<24}{:>18}{:>18}{:>18}{:>18}{:>14}{:>10}",
            place.name(),
            "p50",
            "p99",
            "p99.9",
            "longest",
            "failed calls",
            "left out"
        ));
        for (name, harm) in HARM {
            if !options.wants(place, name) {
                continue;
            }
            let mut turns = [Vec::new(), Vec::new()];
            for _ in 0..options.runs.max(1) {
                for (side, does_harm) in [false, true].into_iter().enumerate() {
                    let length = Duration::from_secs(u64::from(options.seconds));
                    progress.step(&format!("{} {name}", place.name()), Some(length));
                    let script = script(if does_harm { harm } else { "" });
                    turns[side].push(turn::play(place, &script, &options).await?);
                }
            }
            tell(place, name, &turns, &mut verdict);
        }
    }
    Ok(verdict.findings(&[Program::Tidegate]))
}

fn script(harm: &str) -> String {
    format!("local n = 0\nfunction on_message(h) n += 1 if n % {EVERY} == 0 then {harm} end end\n")
}

fn tell(place: Place, name: &str, turns: &[Vec<Turn>; 2], verdict: &mut Verdict) {
    let [plain, hostile] = turns;
    let of =
        |turns: &[Turn], part: f64| median(turns.iter().map(|turn| turn.quantile(part)).collect());
    let mut cells = String::new();
    for (_, part) in QUANTILES.into_iter().chain([("longest", 1.0)]) {
        let pair = format!("{:.2} {:.2}", of(plain, part), of(hostile, part));
        cells.push_str(&format!("{pair:>18}"));
    }
    let failed: u64 = hostile.iter().map(|turn| turn.failed).sum();
    let parts = plain.iter().chain(hostile).map(|turn| (turn.left_out, turn.took.len()));
    let (out, kept) = parts.fold((0, 0), |(out, kept), (o, k)| (out + o, kept + k));
    let share = out as f64 / (out + kept).max(1) as f64;
    verdict.say(format!("  {name:<22}{cells}{failed:>14}{share:>10.3}"));
    let key = format!("{}_{}", place.name(), name.replace(' ', "_"));
    for turn in plain.iter().chain(hostile) {
        if let Some(problem) = &turn.problem {
            verdict.breaks(format!("{key}: {problem}"));
        }
    }
    // A harmless call fails where the machine takes its processor away for a whole millisecond: rarely.
    let stray: u64 = plain.iter().map(|turn| turn.failed).sum();
    if failed == 0 || stray * STRAY > failed {
        verdict.breaks(format!("{key}: what should fail did not, or the other way round"));
    }
    // Each round by itself: what the machine does to one of its turns it likely does to the other.
    let added = |part: f64| {
        let each = plain.iter().zip(hostile);
        median(each.map(|(plain, hostile)| hostile.quantile(part) - plain.quantile(part)).collect())
    };
    for (quantile, part) in &QUANTILES[..2] {
        verdict.figure(&format!("{key}_added_{quantile}"), added(*part), "ms");
    }
    let (quantile, part) = QUANTILES[2];
    verdict.at_most(&format!("{key}_added_{quantile}"), added(part), ADDED_MAX, "ms");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(millis: f64, failed: u64) -> Turn {
        Turn { took: vec![millis / 1e3; 10], failed, ..Turn::default() }
    }

    #[test]
    fn what_is_added_is_judged_round_by_round() {
        let mut verdict = Verdict::new("h");
        let plain = vec![turn(1.0, 0), turn(50.0, 0), turn(1.0, 0)];
        let hostile = vec![turn(3.0, 9), turn(51.0, 9), turn(8.0, 9)];
        tell(Place::Node, "loop", &[plain.clone(), hostile.clone()], &mut verdict);
        tell(Place::Node, "none", &[hostile, plain], &mut verdict);
        let (lines, broken) = verdict.parts();
        assert!(
            lines.iter().any(|line| line.starts_with("FIGURE h_node_loop_added_p999 2")),
            "{lines:?}"
        );
        assert_eq!(broken.len(), 1, "{broken:?}");
    }
}
