//! What has changed since earlier runs of the same command on a machine of the same kind.

use super::Summary;

/// Earlier runs that the last one is compared with.
const EARLIER_MAX: usize = 7;
/// A change below this part says nothing.
const NOISE: f64 = 0.05;

/// A figure of the last run beside the median of earlier ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) last: f64,
    pub(super) median: f64,
    /// Earlier runs that have the figure.
    pub(super) runs: usize,
}

impl Change {
    /// By which part of the median it changed; infinite from zero.
    pub(super) fn part(&self) -> f64 {
        match (self.median, self.last) {
            (0.0, 0.0) => 0.0,
            (median, last) => (last - median) / median.abs(),
        }
    }
}

/// A command that ran at least twice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Drift {
    pub(super) command: String,
    pub(super) started: String,
    /// What changed by more than noise, most first.
    pub(super) changes: Vec<Change>,
    /// How many figures did not.
    pub(super) steady: usize,
}

/// All commands of a history whose last run has earlier ones to be compared with.
pub(super) fn drifts(history: &[Summary]) -> Vec<Drift> {
    let mut commands: Vec<&str> = history.iter().map(|run| &*run.command).collect();
    commands.sort_unstable();
    commands.dedup();
    commands.into_iter().filter_map(|command| drift(history, command)).collect()
}

fn drift(history: &[Summary], command: &str) -> Option<Drift> {
    let mut runs = history.iter().filter(|run| run.command == command).rev();
    let last = runs.next()?;
    let earlier: Vec<&Summary> =
        runs.filter(|run| run.machine.is_like(&last.machine)).take(EARLIER_MAX).collect();
    let compare = |figure: &super::Figure| {
        let same = |run: &&Summary| {
            let found = run.figures.iter().find(|other| other.name == figure.name);
            found.map(|other| other.value)
        };
        let mut values: Vec<f64> = earlier.iter().filter_map(same).collect();
        values.sort_by(f64::total_cmp);
        let median = *values.get(values.len() / 2)?;
        let (name, unit) = (figure.name.clone(), figure.unit.clone());
        Some(Change { name, unit, last: figure.value, median, runs: values.len() })
    };
    let all: Vec<Change> = last.figures.iter().filter_map(compare).collect();
    let (mut changes, steady): (Vec<Change>, Vec<Change>) =
        all.into_iter().partition(|change| change.part().abs() > NOISE);
    changes.sort_by(|a, b| b.part().abs().total_cmp(&a.part().abs()));
    let is_compared = !changes.is_empty() || !steady.is_empty();
    is_compared.then(|| Drift {
        command: command.into(),
        started: last.started.clone(),
        changes,
        steady: steady.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Machine, figure};

    fn run(command: &str, cpus: usize, values: &[(&str, f64)]) -> Summary {
        let figure = |(name, value): &(&str, f64)| figure(name, *value, "ms");
        Summary {
            command: command.into(),
            machine: Machine { cpus, ..Machine::default() },
            figures: values.iter().map(figure).collect(),
            ..Summary::default()
        }
    }

    #[test]
    fn the_last_run_is_beside_the_median_of_the_earlier_ones() {
        let history = [
            run("a", 2, &[("p99", 10.0), ("lost", 0.0)]),
            run("a", 2, &[("p99", 12.0), ("lost", 0.0)]),
            run("a", 2, &[("p99", 11.0), ("lost", 0.0)]),
            run("a", 8, &[("p99", 99.0)]),
            run("b", 2, &[("p99", 1.0)]),
            run("a", 2, &[("p99", 22.0), ("lost", 0.0), ("new", 1.0)]),
        ];
        let drifts = drifts(&history);
        assert_eq!(drifts.len(), 1, "b ran once");
        let change = &drifts[0].changes[0];
        assert_eq!((change.last, change.median, change.runs), (22.0, 11.0, 3));
        assert_eq!((change.part(), drifts[0].changes.len(), drifts[0].steady), (1.0, 1, 1));
    }

    #[test]
    fn the_first_loss_after_none_is_no_small_change() {
        let history = [run("a", 2, &[("lost", 0.0)]), run("a", 2, &[("lost", 1.0)])];
        assert_eq!(drifts(&history)[0].changes[0].part(), f64::INFINITY);
    }
}
