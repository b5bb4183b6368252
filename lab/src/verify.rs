//! `lab verify`: the promises of the README in one table, each with its figure, its target, and met or missed by how much.
//!
//! Which commands show them, and how, is data: `lab/verify.toml`. Each runs once, in a process of its own, and answers
//! with its figures as they are kept.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;
use serde::Deserialize;

use crate::progress::Progress;
use crate::report::{Archive, Figure, Findings, Kept, Target, figure};
use crate::say;

/// Longest time that a command may take, short and in full, as `timeout` reads it.
const LIMITS: [&str; 2] = ["5m", "1h"];
const FILE: &str = include_str!("../verify.toml");

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Short runs: at most 20 minutes in all on two cores
    #[arg(long)]
    short: bool,
    /// Only commands that contain this (may be given again): `bench hol`, `sim`
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Says which commands would run, and runs none
    #[arg(long)]
    list: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Promises {
    run: Vec<Entry>,
}

/// A command, and the promises that it shows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    command: String,
    short: Option<String>,
    figures: Vec<Promise>,
}

/// A figure with its target, in words.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Promise {
    says: String,
    name: String,
    unit: String,
    at_most: Option<f64>,
    at_least: Option<f64>,
    /// Only in short runs, only in full ones.
    #[serde(default)]
    short: bool,
    #[serde(default)]
    full: bool,
}

impl Promise {
    fn target(&self) -> anyhow::Result<Target> {
        match (self.at_most, self.at_least) {
            (Some(most), None) => Ok(Target::AtMost(most)),
            (None, Some(least)) => Ok(Target::AtLeast(least)),
            _ => anyhow::bail!("{} needs at-most or at-least", self.name),
        }
    }

    fn is_of(&self, is_short: bool) -> bool {
        if is_short { !self.full } else { !self.short }
    }
}

impl Entry {
    fn words(&self, is_short: bool) -> &str {
        self.short.as_deref().filter(|_| is_short).unwrap_or(&self.command)
    }
}

/// What a command came to.
enum Outcome {
    Found(Box<Kept>),
    /// `skipped: needs ..`, or why it failed.
    Nothing(String),
}

/// Runs them, one after the other; results of each are kept in the archive as if it had been run by itself. `None` where
/// they were only listed.
pub(crate) fn run(options: &Options, results: &Path) -> anyhow::Result<Option<Findings>> {
    let entries = read()?;
    let is_wanted = |entry: &&Entry| {
        let words = entry.words(options.short);
        options.only.is_empty() || options.only.iter().any(|part| words.contains(part.as_str()))
    };
    let entries: Vec<&Entry> = entries.iter().filter(is_wanted).collect();
    ensure!(!entries.is_empty(), "no command of `lab verify` contains {:?}", options.only);
    if options.list {
        entries.iter().for_each(|entry| say(&format!("lab {}", entry.words(options.short))));
        return Ok(None);
    }
    let progress = Progress::new("verify", entries.len());
    let mut table = Table::default();
    for entry in entries {
        let words = entry.words(options.short);
        progress.step(words, None);
        let outcome = play(words, LIMITS[usize::from(!options.short)], results)?;
        for promise in entry.figures.iter().filter(|promise| promise.is_of(options.short)) {
            table.add(promise, words, &outcome)?;
        }
        if let Outcome::Found(kept) = outcome {
            let told = |what: &String| format!("lab {words}: {what}");
            table.found.broken.extend(kept.summary.broken.iter().map(told));
        }
    }
    Ok(Some(table.end()))
}

fn read() -> anyhow::Result<Vec<Entry>> {
    Ok(toml::from_str::<Promises>(FILE).context("lab/verify.toml")?.run)
}

fn play(words: &str, limit: &str, results: &Path) -> anyhow::Result<Outcome> {
    // What stands still is told to end, as by Ctrl-C, and so removes what it made.
    let mut command = Command::new("timeout");
    command.args(["--foreground", "--signal=INT", "--kill-after=30", limit]);
    command.arg(std::env::current_exe()?);
    let found = Kept::of(command, words.split(' '))?;
    if let Ok(kept) = &found {
        Archive { folder: results.into(), history: None }.keep(kept)?;
    }
    Ok(match found {
        Ok(kept) => Outcome::Found(Box::new(kept)),
        Err(why) if why.starts_with("skipped: ") => Outcome::Nothing(why),
        Err(why) => Outcome::Nothing(format!("failed: {}", why.lines().last().unwrap_or_default())),
    })
}

/// The table in the making.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<String>,
    found: Findings,
    met: usize,
    skipped: usize,
}

impl Table {
    fn add(&mut self, promise: &Promise, words: &str, outcome: &Outcome) -> anyhow::Result<()> {
        let target = promise.target()?;
        let wanted = format!("{target} {}", promise.unit);
        let (value, verdict) = match outcome {
            Outcome::Found(kept) if kept.lacks(&promise.name) => {
                self.skipped += 1;
                ("-".into(), kept.skipped().unwrap_or_default().into())
            }
            Outcome::Found(kept) => {
                let own = kept.summary.figures.iter().find(|figure| figure.name == promise.name);
                let value = own.map_or(f64::NAN, |figure| figure.value);
                let verdict = by_how_much(value, target);
                self.met += usize::from(target.holds(value));
                if !target.holds(value) {
                    let what = format!("{}: {value} {}, {target}", promise.says, promise.unit);
                    self.found.broken.push(format!("lab {words}: {what}"));
                }
                let kept = figure(&format!("verify_{}", promise.name), value, &promise.unit);
                self.found.figures.push(Figure { target: Some(target), ..kept });
                (format!("{value}"), verdict)
            }
            Outcome::Nothing(why) => {
                let is_skipped = why.starts_with("skipped: ");
                self.skipped += usize::from(is_skipped);
                if !is_skipped {
                    self.found.broken.push(format!("lab {words}: {why}"));
                }
                ("-".into(), why.clone())
            }
        };
        self.rows.push(format!("{:<52} {value:>12}  {wanted:<24} {verdict}", promise.says));
        Ok(())
    }

    fn end(mut self) -> Findings {
        let head = format!("{:<52} {:>12}  {:<24} verdict", "promise", "figure", "target");
        let (met, skipped, all) = (self.met, self.skipped, self.rows.len());
        let missed = all - met - skipped;
        let end = format!("{all} promises: {met} met, {missed} missed, {skipped} skipped");
        self.found.lines = std::iter::once(head).chain(self.rows).chain([end]).collect();
        self.found
    }
}

/// `met by 12 %` of the target, or of the value's unit where the target is 0.
fn by_how_much(value: f64, target: Target) -> String {
    if value.is_nan() {
        return "MISSED: the run has no such figure".into();
    }
    let word = if target.holds(value) { "met" } else { "MISSED" };
    let (bound, apart) = (target.bound(), (value - target.bound()).abs());
    match (apart, bound) {
        (0.0, _) => format!("{word}, exactly"),
        (_, 0.0) => format!("{word} by {apart}"),
        _ => format!("{word} by {:.1} %", apart / bound * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;
    use crate::report::Summary;

    #[test]
    fn every_command_of_the_file_is_one_and_every_promise_has_a_target() {
        for entry in read().unwrap() {
            for words in [entry.words(false), entry.words(true)] {
                let line = std::iter::once("lab").chain(words.split(' '));
                Cli::command().try_get_matches_from(line).unwrap();
            }
            for promise in &entry.figures {
                promise.target().unwrap();
            }
        }
    }

    #[test]
    fn a_promise_is_met_or_missed_by_so_much() {
        assert_eq!(by_how_much(75.0, Target::AtMost(150.0)), "met by 50.0 %");
        assert_eq!(by_how_much(0.9, Target::AtLeast(1.0)), "MISSED by 10.0 %");
        assert_eq!(by_how_much(3.0, Target::AtMost(0.0)), "MISSED by 3");
        assert_eq!(by_how_much(0.0, Target::AtMost(0.0)), "met, exactly");
        assert!(by_how_much(f64::NAN, Target::AtMost(1.0)).starts_with("MISSED"));
    }

    #[test]
    fn what_is_skipped_is_no_miss_and_what_fails_is_one() {
        let entries = read().unwrap();
        let promise = &entries[0].figures[0];
        let mut table = Table::default();
        let kept = |value| Kept {
            summary: Summary {
                figures: vec![figure(&promise.name, value, &promise.unit)],
                ..Summary::default()
            },
            ..Kept::default()
        };
        table.add(promise, "a", &Outcome::Found(Box::new(kept(100.0)))).unwrap();
        table.add(promise, "a", &Outcome::Found(Box::new(kept(300.0)))).unwrap();
        table.add(promise, "a", &Outcome::Nothing("skipped: needs root".into())).unwrap();
        table.add(promise, "a", &Outcome::Nothing("failed: no".into())).unwrap();
        let alone = Kept { text: vec!["skipped: envoy: needs it".into()], ..Kept::default() };
        table.add(promise, "a", &Outcome::Found(Box::new(alone))).unwrap();
        let found = table.end();
        assert_eq!(found.lines[6], "5 promises: 1 met, 2 missed, 2 skipped");
        assert_eq!((found.broken.len(), found.figures.len()), (2, 2), "{found:#?}");
        assert!(found.lines[3].ends_with("skipped: needs root"), "{:#?}", found.lines);
    }
}
