//! One page for all results: for each command its last run, with tables and plots, then what has drifted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use super::drift::{Drift, drifts};
use super::keep::{Archive, HISTORY, Kept};
use super::svg;

/// What the page is made of.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// The folder of results.
    pub results: PathBuf,
    /// The page; its plots go to the folder `plots` beside it.
    pub page: PathBuf,
}

/// Writes the page; answers with lines that say where it is.
///
/// # Errors
/// No results, or one that is none of ours; the disk says no.
pub fn page(options: &PageOptions) -> anyhow::Result<Vec<String>> {
    let archive = Archive { folder: options.results.clone(), history: None };
    let newest = newest(archive.all()?);
    ensure!(
        !newest.is_empty(),
        "no results in {}: run something first (make bench)",
        options.results.display()
    );
    let drifts = drifts(&Archive::history(Path::new(HISTORY))?);
    let folder = options.page.parent().unwrap_or(Path::new(""));
    let plots = folder.join("plots");
    let mut drawn = 0;
    let mut text = String::from("# Figures of Tidegate's lab\n");
    for kept in &newest {
        text += &head(kept);
        for (number, plot) in kept.plots.iter().enumerate() {
            let file = format!("{}-{}.svg", name(&kept.summary.command), number + 1);
            let writing = || format!("writing {}", plots.join(&file).display());
            fs::create_dir_all(&plots).with_context(writing)?;
            fs::write(plots.join(&file), svg::draw(plot)).with_context(writing)?;
            text += &format!("![{}](plots/{file})\n\n", plot.title);
            drawn += 1;
        }
        text += &figures(kept);
    }
    text += &since(&drifts);
    let writing = || format!("writing {}", options.page.display());
    fs::write(&options.page, text).with_context(writing)?;
    Ok(vec![format!("{} results, {drawn} plots: {}", newest.len(), options.page.display())])
}

/// The last run of each command.
fn newest(all: Vec<Kept>) -> Vec<Kept> {
    let by_command: BTreeMap<String, Kept> =
        all.into_iter().map(|kept| (kept.summary.command.clone(), kept)).collect();
    by_command.into_values().collect()
}

/// What ran, where, with what; and what it printed.
fn head(kept: &Kept) -> String {
    let run = &kept.summary;
    let mut text = format!("\n## `{}`\n\n", run.command);
    text += &format!("{}, took {} s, seed {}\\\n", run.started, run.took_seconds, run.seed);
    text += &format!("{}\\\n{}\n\n", run.machine.text(), run.build.text());
    if !run.versions.is_empty() {
        text += &format!("With {}.\n\n", super::versions_text(&run.versions));
    }
    for broken in &run.broken {
        text += &format!("**Broken: {broken}**\n\n");
    }
    if !kept.text.is_empty() {
        text += &format!("```\n{}\n```\n\n", kept.text.join("\n"));
    }
    text
}

fn figures(kept: &Kept) -> String {
    let mut text = String::from("| figure | value | unit |\n|---|---:|---|\n");
    for figure in &kept.summary.figures {
        text += &format!("| `{}` | {} | {} |\n", figure.name, figure.value, figure.unit);
    }
    text
}

fn since(drifts: &[Drift]) -> String {
    let mut text = format!("\n## Drift\n\nThe last lines of `{HISTORY}` beside earlier ones.\n\n");
    if drifts.is_empty() {
        text += "Nothing ran twice on the same kind of machine.\n";
    }
    for drift in drifts {
        let Drift { command, started, changes, steady } = drift;
        text += &format!("`{command}`, {started}: {steady} figures within 5 %.\n\n");
        if changes.is_empty() {
            continue;
        }
        text +=
            "| figure | last | median before | change | runs before |\n|---|---:|---:|---:|---:|\n";
        for change in changes {
            let part = change.part() * 100.0;
            text += &format!(
                "| `{}` ({}) | {} | {} | {part:+.0} % | {} |\n",
                change.name, change.unit, change.last, change.median, change.runs
            );
        }
        text.push('\n');
    }
    text
}

/// A command as the name of a file.
pub(super) fn name(command: &str) -> String {
    let command = command.trim_start_matches("lab ");
    let words = command.split(|sign: char| !sign.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::scratch::Scratch;
    use crate::report::{Axis, Curve, Machine, Mark, Plot, Summary, figure};

    fn kept(command: &str, started: &str, value: f64) -> Kept {
        let figures = vec![figure("a_p99", value, "ms")];
        let plot = Plot {
            title: "latency".into(),
            x: Axis::log("latency", "ms"),
            y: Axis::linear("share", "1"),
            curves: vec![Curve::new("a", Mark::Steps, vec![(1.0, 0.5), (2.0, 1.0)])],
        };
        let summary = Summary {
            command: command.into(),
            started: started.into(),
            figures,
            machine: Machine { processor: "P".into(), ..Machine::default() },
            versions: [("mosquitto".to_owned(), "2.0.11".to_owned())].into(),
            broken: vec!["one lost".into()],
            ..Summary::default()
        };
        Kept { summary, text: vec!["a table".into()], plots: vec![plot] }
    }

    #[test]
    fn the_page_has_the_last_run_of_each_command_with_its_plots() {
        let scratch = Scratch::new().unwrap();
        let options = PageOptions {
            results: scratch.path().to_owned(),
            page: scratch.path().join("report.md"),
        };
        assert!(page(&options).unwrap_err().to_string().contains("make bench"));
        let archive = Archive { folder: options.results.clone(), history: None };
        for one in [
            kept("lab bench hol", "2026-11-21T10:00:00Z", 7.0),
            kept("lab bench hol", "2026-11-21T11:00:00Z", 8.0),
            kept("lab bench core", "2026-11-21T09:00:00Z", 9.0),
        ] {
            archive.keep(&one).unwrap();
        }
        let said = page(&options).unwrap();
        assert!(said[0].starts_with("2 results, 2 plots"), "{said:?}");
        let text = fs::read_to_string(&options.page).unwrap();
        for part in [
            "## `lab bench hol`",
            "2026-11-21T11:00:00Z",
            "| `a_p99` | 8 | ms |",
            "With mosquitto 2.0.11.",
            "**Broken: one lost**",
            "a table",
            "![latency](plots/bench-hol-1.svg)",
            "## Drift",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("| 7 |"), "the run before the last one");
        assert!(scratch.path().join("plots/bench-core-1.svg").is_file());
    }
}
