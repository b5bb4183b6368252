//! What runs found, kept: as JSON under `target/results`, a line a run in `bench/history.jsonl`, a page
//! with tables and plots.
//!
//! Lines `FIGURE <name> <value> <unit>` are what a run says of itself; everything here is made of them.

mod drift;
mod keep;
mod machine;
mod page;
mod plot;
mod scale;
mod svg;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use keep::{Archive, HISTORY, Kept, Run, Summary};
pub use machine::{Build, Machine};
pub use page::{PageOptions, page};
pub use plot::{Axis, Curve, Mark, Plot};

/// How a line begins that holds a figure.
const FIGURE: &str = "FIGURE ";

/// One number that a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Its name: `hol_tidegate_alarm_p99`.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// Its unit: `ms`, `records`; `1` for a share.
    pub unit: String,
}

/// A figure as a line, as every `lab` command prints them at its end.
pub fn figure(name: &str, value: f64, unit: &str) -> String {
    format!("{FIGURE}{name} {} {unit}", (value * 1000.0).round() / 1000.0)
}

impl Figure {
    /// Reads a line of [`figure`]; `None` for any other line.
    pub fn read(line: &str) -> Option<Figure> {
        let mut words = line.strip_prefix(FIGURE)?.split(' ');
        let (name, value, unit) = (words.next()?, words.next()?, words.next()?);
        Some(Figure { name: name.into(), value: value.parse().ok()?, unit: unit.into() })
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
    /// Lines for people, figures last.
    pub lines: Vec<String>,
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

impl Findings {
    /// The figures among the lines.
    pub fn figures(&self) -> Vec<Figure> {
        self.lines.iter().filter_map(|line| Figure::read(line)).collect()
    }

    /// The other lines: tables, remarks.
    pub fn text(&self) -> Vec<String> {
        self.lines.iter().filter(|line| Figure::read(line).is_none()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_one_line_and_are_read_back() {
        assert_eq!(figure("alarm_p99", 12.34567, "ms"), "FIGURE alarm_p99 12.346 ms");
        assert_eq!(figure("lost_accepted", 0.0, "records"), "FIGURE lost_accepted 0 records");
        let findings = Findings::from(vec!["a table".into(), figure("a", 1.5, "ms")]);
        let expected = Figure { name: "a".into(), value: 1.5, unit: "ms".into() };
        assert_eq!(findings.figures(), [expected]);
        assert_eq!(findings.text(), ["a table"]);
        assert_eq!(Figure::read("FIGURE a much ms"), None);
    }
}
