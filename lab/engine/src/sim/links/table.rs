//! What was measured over seeds, beside what was promised.

use super::statistics::Estimate;
pub use crate::report::Target;
use crate::report::{Figure, Findings, figure};

/// The target of what has none.
pub const NONE: Option<Target> = None;

/// One figure of each seed.
#[derive(Clone, Debug)]
pub struct Measure {
    /// Words for people, which are a name for machines as well.
    name: String,
    unit: &'static str,
    runs: Vec<f64>,
    target: Option<Target>,
}

/// Some measures in one table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    measures: Vec<Measure>,
}

impl Table {
    /// Adds the figure of one seed to the measure of this name.
    pub fn add(
        &mut self,
        name: &str,
        unit: &'static str,
        target: impl Into<Option<Target>>,
        value: f64,
    ) {
        match self.measures.iter_mut().find(|measure| measure.name == name) {
            Some(measure) => measure.runs.push(value),
            None => {
                let (runs, target) = (vec![value], target.into());
                self.measures.push(Measure { name: name.into(), unit, runs, target });
            }
        }
    }

    /// The table (mean and its 95 % interval, the extremes, the target), and the figures, which are the means.
    pub fn findings(&self, prefix: &str) -> Findings {
        let mut lines = vec![format!(
            "{:46} {:>8}  {:>18}  {:>19}  target",
            "", "unit", "mean and 95 %", "least .. most"
        )];
        let mut figures = Vec::new();
        for Measure { name, unit, runs, target } in &self.measures {
            let estimate = Estimate::of(runs);
            let digits = if estimate.mean < 10.0 { 3 } else { 1 };
            let least = runs.iter().copied().fold(f64::INFINITY, f64::min);
            let most = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            lines.push(format!(
                "{name:46} {unit:>8}  {:>18}  {:>19}  {}",
                estimate.text(digits),
                format!("{least:.digits$} .. {most:.digits$}"),
                target.map_or_else(String::new, |target| verdict(target, estimate.mean))
            ));
            let words = name.split(|char: char| !char.is_ascii_alphanumeric());
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let machine = format!("{prefix}_{}", words.join("_").to_lowercase());
            let figure = figure(&machine, estimate.mean, unit);
            figures.push(Figure { target: *target, ..figure });
        }
        (lines, figures).into()
    }
}

fn verdict(target: Target, mean: f64) -> String {
    let sign = if matches!(target, Target::AtMost(_)) { "<=" } else { ">=" };
    let word = if target.holds(mean) { "met" } else { "missed" };
    format!("{sign} {}: {word}", target.bound())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_holds_the_mean_the_extremes_and_whether_the_target_is_met() {
        let mut table = Table::default();
        for value in [100.0, 110.0] {
            table.add("goodput, H", "Mbit/s", Target::AtLeast(105.0), value);
        }
        table.add("p99", "ms", Target::AtMost(5.0), 6.0);
        let found = table.findings("link_h");
        let lines = &found.lines;
        assert!(lines[1].contains("105.0 ± ") && lines[1].contains("100.0 .. 110.0"), "{lines:?}");
        assert!(
            lines[1].ends_with(">= 105: met") && lines[2].ends_with("<= 5: missed"),
            "{lines:?}"
        );
        assert_eq!(found.value("link_h_goodput_h"), Some(105.0), "{found:?}");
    }
}
