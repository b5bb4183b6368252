//! Figures beside their targets, and what was broken.

use super::{Figure, Findings, Target, figure};
use crate::rig::versions::Program;

/// What a run found, while it is being judged: names of figures begin alike, and one that misses its target breaks the run.
#[derive(Debug)]
pub struct Verdict {
    name: &'static str,
    found: Findings,
}

impl Verdict {
    /// Names of figures begin with `name`.
    pub fn new(name: &'static str) -> Verdict {
        Verdict { name, found: Findings::default() }
    }

    /// A line for people.
    pub fn say(&mut self, line: String) {
        self.found.lines.push(line);
    }

    /// A figure without a target.
    pub fn figure(&mut self, name: &str, value: f64, unit: &str) {
        self.found.figures.push(figure(&format!("{}_{name}", self.name), value, unit));
    }

    /// One that must not be larger.
    pub fn at_most(&mut self, name: &str, value: f64, target: f64, unit: &str) {
        self.judge(name, value, Target::AtMost(target), unit);
    }

    /// One that must not be smaller.
    pub fn at_least(&mut self, name: &str, value: f64, target: f64, unit: &str) {
        self.judge(name, value, Target::AtLeast(target), unit);
    }

    /// One that must be larger.
    pub fn above(&mut self, name: &str, value: f64, target: f64, unit: &str) {
        self.judge(name, value, Target::MoreThan(target), unit);
    }

    fn judge(&mut self, name: &str, value: f64, target: Target, unit: &str) {
        let is_kept = target.holds(value);
        let word = if is_kept { "keeps" } else { "MISSES" };
        let line = format!("{word} {name}: {value:.3} {unit}, {target} {unit}");
        if !is_kept {
            self.found.broken.push(format!("{}: {line}", self.name));
        }
        self.found.lines.push(format!("  {line}"));
        let figure = figure(&format!("{}_{name}", self.name), value, unit);
        self.found.figures.push(Figure { target: Some(target), ..figure });
    }

    /// A promise that no number tells.
    pub fn breaks(&mut self, what: String) {
        self.found.lines.push(format!("  MISSES {what}"));
        self.found.broken.push(what);
    }

    /// What is printed, and what was broken.
    pub fn parts(self) -> (Vec<String>, Vec<String>) {
        (self.found.printed(), self.found.broken)
    }

    /// All of it, with the versions of programs.
    pub fn findings(self, programs: &[Program]) -> Findings {
        let versions = Program::all_with_versions(programs).into_iter().collect();
        Findings { versions, ..self.found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_misses_its_target_breaks_the_run() {
        let mut verdict = Verdict::new("case");
        verdict.at_most("lost", 0.0, 0.0, "frames");
        verdict.at_least("share", 0.7, 0.7, "1");
        assert!(verdict.found.broken.is_empty());
        verdict.above("more", 1.0, 1.0, "1");
        verdict.at_most("late", f64::NAN, 1.0, "ms");
        let found = verdict.findings(&[]);
        assert_eq!(found.broken.len(), 2, "{:?}", found.broken);
        assert_eq!(found.figures[0].target, Some(Target::AtMost(0.0)));
        assert_eq!(found.figures[0].to_string(), "FIGURE case_lost 0 frames");
    }
}
