//! `lab compare A B BENCH`: two programs take turns in one run; medians, spread, and the second over the first.
//!
//! A contestant is a file: a `tidegate`, which this lab then measures, or a `lab`, which measures what was built with it.
//! Turns are A B, B A, A B, ..., so that a machine that becomes slower favours neither.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::bench::median;
use crate::progress::Progress;
use crate::report::{Figure, Findings, Kept, figure};

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// The first program: `tidegate` or `lab`, of any build
    a: PathBuf,
    /// The second one; ratios are the second over the first
    b: PathBuf,
    /// How often each takes its turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Only figures whose name contains this (may be given again)
    #[arg(long, value_name = "PART")]
    figure: Vec<String>,
    /// Fails where the second's median is more than this times the first's: 1.05
    #[arg(long, value_name = "RATIO")]
    at_most: Option<f64>,
    /// Fails where the second's median is less than this times the first's: 0.95
    #[arg(long, value_name = "RATIO")]
    at_least: Option<f64>,
    /// A command of this lab and its options: `core`, `bench ingest --runs 1`, `sim node-hol`
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// A program that takes part.
#[derive(Clone, Debug)]
struct Contestant {
    label: &'static str,
    program: PathBuf,
    is_lab: bool,
}

/// Values of one figure: unit, and one list a contestant.
type Values = BTreeMap<String, (String, [Vec<f64>; 2])>;

/// Runs them in turn.
///
/// # Errors
/// A program that is not there or does not run the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Findings> {
    let contestants = [Contestant::new("A", &options.a)?, Contestant::new("B", &options.b)?];
    let words = words(&options.command);
    let progress = Progress::new("compare", 2 * options.runs as usize);
    let (mut order, mut values) = (Vec::new(), Values::new());
    let mut findings = Findings::default();
    for turn in 0..options.runs {
        for place in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
            let contestant = &contestants[place];
            progress
                .step(&format!("{}, run {} of {}", contestant.label, turn + 1, options.runs), None);
            let kept = match contestant.turn(&words)? {
                Err(why) if why.starts_with("skipped: ") => return Ok(vec![why].into()),
                Err(why) => {
                    bail!("{} ({}) says: {why}", contestant.label, contestant.program.display())
                }
                Ok(kept) => kept.summary,
            };
            let named = |what| format!("{}, run {}: {what}", contestant.label, turn + 1);
            findings.broken.extend(kept.broken.into_iter().map(named));
            for Figure { name, value, unit, .. } in kept.figures {
                if !options.wants(&name) {
                    continue;
                }
                if !values.contains_key(&name) {
                    order.push(name.clone());
                }
                let entry = values.entry(name).or_insert_with(|| (unit, Default::default()));
                entry.1[place].push(value);
            }
        }
    }
    drop(progress);
    let both = |name: &String| values[name].1.iter().all(|own| !own.is_empty());
    order.retain(both);
    ensure!(!order.is_empty(), "no figure of {} is common to both", words.join(" "));
    findings.lines = table(&contestants, &order, &values);
    for name in &order {
        let ratio = ratio(&values[name].1);
        findings.figures.push(figure(&format!("{name}_b_over_a"), ratio, "1"));
        if options.at_most.is_some_and(|most| ratio > most) {
            findings
                .broken
                .push(format!("{name}: B is {ratio:.3} of A, at most {:?}", options.at_most));
        }
        if options.at_least.is_some_and(|least| ratio < least) {
            findings
                .broken
                .push(format!("{name}: B is {ratio:.3} of A, at least {:?}", options.at_least));
        }
    }
    Ok(findings)
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.figure.is_empty() || self.figure.iter().any(|part| name.contains(part))
    }
}

impl Contestant {
    fn new(label: &'static str, program: &Path) -> anyhow::Result<Contestant> {
        let program = program.canonicalize().with_context(|| program.display().to_string())?;
        let said = Command::new(&program).arg("--version").output();
        let said = said.with_context(|| format!("cannot start {}", program.display()))?;
        // The lab has no version of its own.
        let is_lab = !String::from_utf8_lossy(&said.stdout).starts_with("tidegate");
        Ok(Contestant { label, program, is_lab })
    }

    /// Runs the command once.
    fn turn(&self, words: &[String]) -> anyhow::Result<Result<Kept, String>> {
        let mut command = Command::new(&self.program);
        if !self.is_lab {
            command = Command::new(std::env::current_exe()?);
            command.env("TIDEGATE", &self.program);
        }
        Kept::of(command, words.iter().map(String::as_str))
    }
}

/// `core` is `bench core`.
fn words(command: &[String]) -> Vec<String> {
    let is_whole = ["bench", "sim", "net", "demo"].contains(&command[0].as_str());
    let first = (!is_whole).then(|| "bench".to_owned());
    first.into_iter().chain(command.iter().cloned()).collect()
}

fn ratio([a, b]: &[Vec<f64>; 2]) -> f64 {
    match (median(a.clone()), median(b.clone())) {
        (a, b) if a == b => 1.0,
        (a, b) => b / a,
    }
}

/// A row for each figure: median, least and most of each, and the second's median over the first's.
fn table(contestants: &[Contestant; 2], order: &[String], values: &Values) -> Vec<String> {
    let mut lines: Vec<String> =
        contestants.iter().map(|one| format!("{}: {}", one.label, one.program.display())).collect();
    let width = order.iter().map(String::len).max().unwrap_or(0);
    lines.push(format!(
        "{:width$} {:>12} {:>25} {:>12} {:>25} {:>7}  apart",
        "figure", "A", "least .. most", "B", "least .. most", "B / A"
    ));
    for name in order {
        let (unit, both) = &values[name];
        let cell = |own: &Vec<f64>| {
            let least = own.iter().copied().fold(f64::INFINITY, f64::min);
            let most = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            (median(own.clone()), least, most)
        };
        let [a, b] = [cell(&both[0]), cell(&both[1])];
        let range = |(_, least, most): (f64, f64, f64)| format!("{least:.3} .. {most:.3}");
        // Where the spreads meet, the run does not tell the programs apart.
        let is_apart = a.2 < b.1 || b.2 < a.1;
        lines.push(format!(
            "{name:width$} {:>12.3} {:>25} {:>12.3} {:>25} {:>7.3}  {:<3} {unit}",
            a.0,
            range(a),
            b.0,
            range(b),
            ratio(both),
            if is_apart { "yes" } else { "no" }
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_needs_no_word_before_it() {
        let words = |line: &str| words(&line.split(' ').map(String::from).collect::<Vec<_>>());
        assert_eq!(words("core --batch 1"), ["bench", "core", "--batch", "1"]);
        assert_eq!(words("sim node-hol"), ["sim", "node-hol"]);
    }

    #[test]
    fn medians_and_their_ratio_stand_beside_each_other() {
        let contestant = |label| Contestant { label, program: "tidegate".into(), is_lab: false };
        let order = ["core_ns".to_owned(), "lost".to_owned()];
        let values: Values = [
            ("core_ns".to_owned(), ("ns".to_owned(), [vec![100.0, 90.0, 110.0], vec![150.0; 3]])),
            ("lost".to_owned(), ("records".to_owned(), [vec![0.0; 3], vec![0.0; 3]])),
        ]
        .into();
        let lines = table(&[contestant("A"), contestant("B")], &order, &values);
        assert!(
            lines[3].contains("90.000 .. 110.000") && lines[3].contains("1.500  yes ns"),
            "{lines:#?}"
        );
        assert!(lines[4].contains("1.000  no  records"), "none lost twice is the same: {lines:#?}");
    }
}
