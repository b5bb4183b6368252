//! What was measured over seeds, beside what was promised.

use super::statistics::Estimate;
use crate::bench::figure;

/// What a figure should be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
    None,
}

impl Target {
    fn text(self, mean: f64) -> String {
        let verdict = |is_met| if is_met { "met" } else { "missed" };
        match self {
            Target::AtLeast(least) => format!(">= {least}: {}", verdict(mean >= least)),
            Target::AtMost(most) => format!("<= {most}: {}", verdict(mean <= most)),
            Target::None => String::new(),
        }
    }
}

/// One figure of each seed.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    /// Words for people, which are a name for machines as well.
    name: String,
    unit: &'static str,
    runs: Vec<f64>,
    target: Target,
}

/// Some measures in one table.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    measures: Vec<Measure>,
}

impl Table {
    /// Adds the figure of one seed to the measure of this name.
    pub(super) fn add(&mut self, name: &str, unit: &'static str, target: Target, value: f64) {
        match self.measures.iter_mut().find(|measure| measure.name == name) {
            Some(measure) => measure.runs.push(value),
            None => {
                let runs = vec![value];
                self.measures.push(Measure { name: name.into(), unit, runs, target });
            }
        }
    }

    /// The table (mean and its 95 % interval, the extremes, the target), and a line of each figure for machines.
    pub(super) fn lines(&self, prefix: &str) -> Vec<String> {
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
                target.text(estimate.mean)
            ));
            let words = name.split(|char: char| !char.is_ascii_alphanumeric());
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let machine = format!("{prefix}_{}", words.join("_").to_lowercase());
            figures.push(figure(&machine, estimate.mean, unit));
        }
        lines.append(&mut figures);
        lines
    }
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
        let lines = table.lines("link_h");
        assert!(lines[1].contains("105.0 ± ") && lines[1].contains("100.0 .. 110.0"), "{lines:?}");
        assert!(
            lines[1].ends_with(">= 105: met") && lines[2].ends_with("<= 5: missed"),
            "{lines:?}"
        );
        assert!(lines[3].starts_with("FIGURE link_h_goodput_h 105"), "{lines:?}");
    }
}
