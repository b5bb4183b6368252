//! What runs found, kept: as JSON under `target/results`, a line a run in `bench/history.jsonl`, a page
//! with tables and plots.
//!
//! A run answers with [`Findings`]: lines for people, and figures with unit and target. They are printed as
//! `FIGURE <name> <value> <unit>`, and never read from that.

mod drift;
mod keep;
mod machine;
mod page;
mod plot;
mod scale;
mod svg;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use keep::{Archive, HISTORY, Kept, Run, Summary};
pub use machine::{Build, Machine};
pub use page::{PageOptions, page};
pub use plot::{Axis, Curve, Mark, Plot};
pub use verdict::Verdict;

/// One number that a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name: `hol_tidegate_alarm_p99`.
    pub name: String,
    /// Its value; what is no number is `null` in JSON.
    #[serde(deserialize_with = "number")]
    pub value: f64,
    /// Its unit: `ms`, `records`; `1` for a share.
    pub unit: String,
    /// What it should be, where somebody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

fn number<'d, D: serde::Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// What a figure should be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// This or less.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
    /// More than this.
    MoreThan(f64),
}

impl Target {
    /// Whether a value keeps it; what is no number keeps nothing.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Target::AtMost(most) => value <= most,
            Target::AtLeast(least) => value >= least,
            Target::MoreThan(less) => value > less,
        }
    }

    /// The number in it.
    pub fn bound(self) -> f64 {
        match self {
            Target::AtMost(bound) | Target::AtLeast(bound) | Target::MoreThan(bound) => bound,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self {
            Target::AtMost(_) => "at most",
            Target::AtLeast(_) => "at least",
            Target::MoreThan(_) => "more than",
        };
        write!(f, "{word} {}", self.bound())
    }
}

/// A figure without a target, in thousandths.
pub fn figure(name: &str, value: f64, unit: &str) -> Figure {
    let value = (value * 1000.0).round() / 1000.0;
    Figure { name: name.into(), value, unit: unit.into(), target: None }
}

/// As every `lab` command prints it at its end.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FIGURE {} {} {}", self.name, self.value, self.unit)
    }
}

/// Programs and their versions in one line.
pub fn versions_text(versions: &BTreeMap<String, String>) -> String {
    let all = versions.iter().map(|(name, version)| format!("{name} {version}"));
    all.collect::<Vec<_>>().join(", ")
}

/// All that a run found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Lines for people: tables, remarks.
    pub lines: Vec<String>,
    /// Numbers with their names.
    pub figures: Vec<Figure>,
    /// What a number cannot say.
    pub plots: Vec<Plot>,
    /// Which version of each program took part.
    pub versions: BTreeMap<String, String>,
    /// Why the run is no evidence, if it is none: a broken promise. It is kept all the same, and fails.
    pub broken: Vec<String>,
}

impl From<Vec<String>> for Findings {
    fn from(lines: Vec<String>) -> Findings {
        Findings { lines, ..Findings::default() }
    }
}

impl From<(Vec<String>, Vec<Figure>)> for Findings {
    fn from((lines, figures): (Vec<String>, Vec<Figure>)) -> Findings {
        Findings { lines, figures, ..Findings::default() }
    }
}

impl Findings {
    /// What another part of the run found, behind this.
    pub fn add(&mut self, other: impl Into<Findings>) {
        let other = other.into();
        self.lines.extend(other.lines);
        self.figures.extend(other.figures);
        self.plots.extend(other.plots);
        self.versions.extend(other.versions);
        self.broken.extend(other.broken);
    }

    /// What is printed: the lines, then the figures.
    pub fn printed(&self) -> Vec<String> {
        self.lines.iter().cloned().chain(self.figures.iter().map(Figure::to_string)).collect()
    }

    /// The value of a figure, by its name.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_printed_in_one_line_each_behind_the_text() {
        assert_eq!(figure("alarm_p99", 12.34567, "ms").to_string(), "FIGURE alarm_p99 12.346 ms");
        let lost = figure("lost_accepted", 0.0, "records");
        assert_eq!(lost.to_string(), "FIGURE lost_accepted 0 records");
        let mut findings = Findings::from(vec!["a table".into()]);
        findings.add((vec!["a remark".into()], vec![lost]));
        assert_eq!(findings.printed(), ["a table", "a remark", "FIGURE lost_accepted 0 records"]);
        assert_eq!((findings.value("lost_accepted"), findings.value("lost")), (Some(0.0), None));
    }

    #[test]
    fn what_is_no_number_is_kept_and_read_again() {
        let text = serde_json::to_string(&figure("never", f64::NAN, "ms")).unwrap();
        assert!(serde_json::from_str::<Figure>(&text).unwrap().value.is_nan(), "{text}");
    }

    #[test]
    fn what_is_no_number_keeps_no_target() {
        assert!(Target::AtMost(1.0).holds(1.0) && !Target::MoreThan(1.0).holds(1.0));
        assert!(!Target::AtLeast(0.0).holds(f64::NAN) && !Target::AtMost(0.0).holds(f64::NAN));
        assert_eq!(Target::AtLeast(0.95).to_string(), "at least 0.95");
    }
}
