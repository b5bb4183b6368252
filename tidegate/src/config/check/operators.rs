//! The `[[operator]]` tables.

use tidegate_stream::Template;
use tidegate_types::topic::Filter;

use super::{Findings, name_is_good};
use crate::config::Config;
use crate::config::operators::{
    FormatConfig, OPERATORS_MAX, OperatorConfig, OperatorOrder, StepConfig,
};
use crate::config::places::Place;

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let section = Place::section("operator");
    if config.operator.len() > OPERATORS_MAX {
        let text = format!("{} operators: at most {OPERATORS_MAX}", config.operator.len());
        return findings.error(section.to(OPERATORS_MAX), text);
    }
    let mut ways = Vec::new();
    for (index, operator) in config.operator.iter().enumerate() {
        let place = section.to(index);
        let above = &config.operator[..index];
        match &operator.name {
            None => findings.error(place.clone(), "no name: give name = \"clean\""),
            Some(name) if above.iter().any(|other| other.name.as_ref() == Some(name)) => {
                let text = format!("an operator {name:?} stands above: rename one");
                findings.error(place.to("name"), text);
            }
            Some(name) => name_is_good(name, place.to("name"), findings),
        }
        ways.push(way(operator, &place, findings));
        numbers(operator, &place, findings);
        steps(operator, &place, findings);
    }
    circles(config, &ways, findings);
}

/// Filters of what comes, and one for what goes.
type Way = (Vec<Filter>, Option<Filter>);

fn way(operator: &OperatorConfig, place: &Place, findings: &mut Findings) -> Way {
    if operator.from.is_empty() {
        findings.error(place.clone(), "takes nothing: give from = [\"plant/+/raw\"]");
    }
    let mut filters = Vec::new();
    for (index, text) in operator.from.iter().enumerate() {
        match Filter::new(text) {
            Ok(filter) => filters.push(filter),
            Err(error) => findings.error(place.to("from").to(index), error.to_string()),
        }
    }
    let to = match operator.to.as_deref().map(Template::new) {
        None => {
            findings.error(place.clone(), "its results go nowhere: give to = \"plant/clean\"");
            None
        }
        Some(Err(error)) => {
            findings.error(place.to("to"), error.to_string());
            None
        }
        Some(Ok(to)) => to.filter(),
    };
    (filters, to)
}

fn numbers(operator: &OperatorConfig, place: &Place, findings: &mut Findings) {
    if operator.key.is_some() && operator.order == OperatorOrder::Serial {
        findings.error(place.to("key"), "order = \"serial\" has no key: keep one of the two");
    }
}

fn steps(operator: &OperatorConfig, place: &Place, findings: &mut Findings) {
    let place = place.to("do");
    if operator.steps.is_empty() {
        let text = "no step: give do = [{ parse = \"json\" }, ...]";
        findings.error(place.clone(), text);
    }
    // Whether fields are there; a script or a process may give anything.
    let mut has_row = Some(false);
    for (index, step) in operator.steps.iter().enumerate() {
        let place = place.to(index);
        match step {
            StepConfig::Parse(_) if has_row == Some(true) => {
                findings.error(place.clone(), "a payload is read once: take this out");
            }
            StepConfig::Parse(_) => has_row = Some(true),
            StepConfig::Luau(_) | StepConfig::Process(_) => {
                if operator.order != OperatorOrder::Serial {
                    let text = "one after another is all that it can: give order = \"serial\"";
                    findings.error(place.clone(), text);
                }
                has_row =
                    has_row.filter(|has_row| *has_row && matches!(step, StepConfig::Process(_)));
            }
            StepConfig::Spin(_) => {}
            StepConfig::Write(_) if has_row != Some(false) => has_row = Some(false),
            _ if has_row == Some(false) => {
                let text = "there are no fields here: put { parse = \"json\" } before it";
                findings.error(place.clone(), text);
            }
            _ => {}
        }
        if let Err((key, text)) = values(step) {
            findings.error(place.to(key), text);
        }
    }
}

/// What is wrong with the values of a step: where, and what would be right.
fn values(step: &StepConfig) -> Result<(), (&'static str, &'static str)> {
    let positive = |number: f64| number.is_finite() && number > 0.0;
    let wrong = |is_wrong: bool, key, text| if is_wrong { Err((key, text)) } else { Ok(()) };
    match step {
        StepConfig::Parse(FormatConfig::Csv(csv)) | StepConfig::Write(FormatConfig::Csv(csv)) => {
            wrong(csv.columns.is_empty(), "csv", "no columns: give their names")
        }
        StepConfig::Range(with) => {
            let (min, max) = (with.min.unwrap_or(f64::MIN), with.max.unwrap_or(f64::MAX));
            wrong(min.is_nan() || max.is_nan() || min > max, "range", "nothing is within it")
        }
        StepConfig::Bloom(with) => {
            let share = with.false_positives;
            let both = with.file.is_some() == with.repeats.is_some();
            wrong(both, "bloom", "give file = \"members.txt\" or repeats = 100000")?;
            wrong(with.repeats == Some(0), "bloom", "give repeats at least 1")?;
            wrong(
                !(positive(share) && share < 1.0),
                "bloom",
                "false_positives is above 0 and below 1",
            )
        }
        StepConfig::Interpolate(with) => {
            wrong(with.window == 0 || with.window > 10_000, "interpolate", "give window 1 to 10000")
        }
        StepConfig::Window(with) => {
            let both = with.rows.is_some() == with.span.is_some();
            wrong(both, "window", "give rows = 100 or span = \"10s\"")?;
            let none = with.rows == Some(0) || with.span.is_some_and(|span| span.0.is_zero());
            wrong(none, "window", "it is never over: give more than 0")
        }
        StepConfig::Kalman(with) => {
            let good = positive(with.drift) && positive(with.noise);
            wrong(!good, "kalman", "drift and noise are variances, above 0")
        }
        StepConfig::Regression(with) => {
            let good = (2..=10_000).contains(&with.window) && with.ahead.is_finite();
            wrong(!good, "regression", "give window 2 to 10000")
        }
        StepConfig::BlockAverage(with) => {
            wrong(with.rows == 0, "block-average", "give rows at least 1")
        }
        StepConfig::Anonymise(with) => {
            let keys = u8::from(with.key_file.is_some()) + u8::from(with.key_env.is_some());
            let lacks = keys != u8::from(!with.hash.is_empty());
            let text = "hash wants one key: give key_file = \"...\" or key_env = \"...\"";
            wrong(lacks, "anonymise", text)?;
            let steps = with.coarsen.values().all(|step| positive(*step));
            wrong(!steps, "anonymise", "coarsen gives each field a step above 0")
        }
        StepConfig::Luau(with) => {
            let long = with.time.0.is_zero() || with.time.0.as_secs() >= 10;
            wrong(long, "luau", "give time 1us to 10s")?;
            wrong(with.memory.0.0 < 1 << 20, "luau", "give memory at least 1MiB")
        }
        StepConfig::Process(with) => {
            wrong(with.command.is_empty(), "process", "give command = [\"program\"]")?;
            wrong(
                with.timeout.0.is_zero(),
                "process",
                "nothing answers that fast: give timeout \"1s\"",
            )
        }
        _ => Ok(()),
    }
}

/// Operators whose results may come back to them: they would never end.
fn circles(config: &Config, ways: &[Way], findings: &mut Findings) {
    let leads = |from: usize, to: usize| {
        let goes = ways[from].1.as_ref();
        goes.is_some_and(|goes| ways[to].0.iter().any(|filter| filter.overlaps(goes)))
    };
    for start in 0..ways.len() {
        let mut reached = vec![false; ways.len()];
        let mut next = vec![start];
        while let Some(at) = next.pop() {
            let is_new = |other: &usize| leads(at, *other) && !reached[*other];
            let new: Vec<usize> = (0..ways.len()).filter(is_new).collect();
            new.iter().for_each(|other| reached[*other] = true);
            next.extend(new);
        }
        if reached[start] {
            let to = config.operator[start].to.clone().unwrap_or_default();
            let text = format!("results at {to:?} may come back to it: give another topic");
            findings.error(Place::section("operator").to(start).to("to"), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::read;

    fn told(text: &str) -> String {
        read(text).render("node.toml", text)
    }

    fn with(steps: &str, more: &str) -> String {
        told(&format!(
            "[[operator]]\nname = \"a\"\nfrom = [\"in\"]\nto = \"out\"\ndo = [{steps}]\n{more}\n"
        ))
    }

    #[test]
    fn steps_are_checked() {
        let json = "{ parse = \"json\" }";
        assert_eq!(with(&format!("{json}, {{ range = {{ field = \"x\", min = 1 }} }}"), ""), "");
        for (steps, wanted) in [
            ("", "no step: give do"),
            ("{ range = { field = \"x\" } }", "put { parse = \"json\" } before it"),
            ("{ prase = \"json\" }", "did you mean \"parse\"?"),
            ("{ parse = \"jsom\" }", "did you mean \"json\"?"),
            ("{ parse = \"json\" }, { parse = \"json\" }", "a payload is read once"),
            ("{ parse = { csv = { columns = [] } } }", "no columns"),
            (
                "{ parse = \"json\" }, { range = { field = \"x\", min = 2, max = 1 } }",
                "nothing is within it",
            ),
            ("{ parse = \"json\" }, { bloom = { field = \"x\" } }", "give file = "),
            (
                "{ parse = \"json\" }, { window = { field = \"x\", of = \"sum\" } }",
                "give rows = 100 or span",
            ),
            (
                "{ parse = \"json\" }, { window = { field = \"x\", of = \"mean\", rows = 1 } }",
                "unknown value \"mean\"",
            ),
            (
                "{ parse = \"json\" }, { kalman = { field = \"x\", drift = 0, noise = 1 } }",
                "variances",
            ),
            ("{ parse = \"json\" }, { anonymise = { hash = [\"x\"] } }", "hash wants one key"),
            ("{ luau = { file = \"x.luau\" } }", "give order = \"serial\""),
        ] {
            let told = with(steps, "");
            assert!(told.contains(wanted), "{steps}: {told}");
        }
    }

    #[test]
    fn operators_are_checked() {
        let json = "{ parse = \"json\" }";
        for (more, wanted) in [
            ("key = 0", "count from 1"),
            ("key = 1\norder = \"serial\"", "has no key"),
            ("queue = 0", "give at least 1"),
            ("bound = \"0ms\"", "give at least \"1ms\""),
            ("[node]\npool_threads = 0", "give 1 to 256"),
            ("[node]\npool = \"edg\"", "did you mean \"edf\"?"),
        ] {
            let told = with(json, more);
            assert!(told.contains(wanted), "{more}: {told}");
        }
        assert!(told("[[operator]]\n").contains("no name: give name"));
        assert!(told("[[operator]]\n").contains("takes nothing: give from"));
        assert!(told("[[operator]]\n").contains("its results go nowhere"));
    }

    #[test]
    fn results_do_not_come_back() {
        let chain = |pairs: &[(&str, &str)]| {
            let tables = pairs.iter().enumerate().map(|(place, (from, to))| {
                format!("[[operator]]\nname = \"o{place}\"\nfrom = [\"{from}\"]\nto = \"{to}\"\ndo = [{{ parse = \"json\" }}]\n")
            });
            told(&tables.collect::<String>())
        };
        assert_eq!(chain(&[("a", "b"), ("b", "c"), ("+/x", "y/%2/z")]), "");
        for pairs in [
            &[("a/#", "a/b")][..],
            &[("a", "b"), ("b", "c"), ("c", "a")],
            &[("#", "x")],
            &[("+", "%t")],
        ] {
            let told = chain(pairs);
            assert!(told.contains("may come back to it"), "{pairs:?}: {told}");
        }
    }
}
