//! Runs as files: one of JSON each in the folder of results, and a line each in the history.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tidegate::support::time::Moment;

use super::page::name;
use super::{Build, Figure, Findings, Machine, Plot};
use crate::net::scratch::Scratch;

/// The history, from the root of the sources.
pub const HISTORY: &str = "bench/history.jsonl";

/// What every run says of itself: the line of the history, and the head of its file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// When it began, in UTC: `2026-11-21T14:03:22Z`.
    pub started: String,
    /// As it was called, without what only says where results go.
    pub command: String,
    /// Of what in it is random.
    pub seed: u64,
    /// How long it took, in seconds.
    pub took_seconds: f64,
    /// Where.
    pub machine: Machine,
    /// Of what.
    pub build: Build,
    /// With which programs, by name.
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// What it found.
    pub figures: Vec<Figure>,
    /// Promises that were broken in it.
    #[serde(default)]
    pub broken: Vec<String>,
}

/// A run as its file has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The head.
    #[serde(flatten)]
    pub summary: Summary,
    /// Lines for people.
    pub text: Vec<String>,
    /// What a number cannot say.
    pub plots: Vec<Plot>,
}

/// A run that is under way.
#[derive(Debug)]
pub struct Run {
    summary: Summary,
    began: Instant,
}

impl Run {
    /// Begins one. `words` are the command line, the program's name left out.
    pub fn begin(words: &[String]) -> Run {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let summary = Summary {
            started: utc(since.as_secs()),
            command: command(words),
            seed: seed(words),
            machine: Machine::this(),
            build: Build::this(),
            ..Summary::default()
        };
        Run { summary, began: Instant::now() }
    }

    /// Ends it.
    pub fn end(self, findings: &Findings) -> Kept {
        let Run { mut summary, began } = self;
        summary.took_seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
        summary.versions.clone_from(&findings.versions);
        summary.figures.clone_from(&findings.figures);
        summary.broken.clone_from(&findings.broken);
        Kept { summary, text: findings.lines.clone(), plots: findings.plots.clone() }
    }
}

/// Where results are kept.
#[derive(Clone, Debug)]
pub struct Archive {
    /// The folder of the files.
    pub folder: PathBuf,
    /// The history, if a run shall stand in it.
    pub history: Option<PathBuf>,
}

impl Kept {
    /// Runs a command of a lab, `command` being its program, in a folder of results of its own. The answer is what it
    /// found, or why it found nothing: the line `skipped: ..`, or else what it says of its failure.
    ///
    /// # Errors
    /// It cannot be started, or its result cannot be read.
    pub fn of<'w>(
        mut command: Command,
        words: impl IntoIterator<Item = &'w str>,
    ) -> anyhow::Result<Result<Kept, String>> {
        let scratch = Scratch::new()?;
        let folder = scratch.path().join("results");
        command.arg("--results").arg(&folder).args(words).stdin(Stdio::null());
        let output = command.output().context("cannot start the lab")?;
        let found = Archive { folder, history: None }.all()?.into_iter().next();
        let said = String::from_utf8_lossy(&output.stdout);
        let skipped = said.lines().find(|line| line.starts_with("skipped: "));
        let failed = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(found.ok_or_else(|| skipped.map_or_else(failed, str::to_owned)))
    }

    /// What the run left out, in its own words.
    pub fn skipped(&self) -> Option<&str> {
        self.text.iter().map(String::as_str).find(|line| line.starts_with("skipped: "))
    }

    /// Whether a figure is absent because the run left something out.
    pub fn lacks(&self, name: &str) -> bool {
        let is_there = self.summary.figures.iter().any(|figure| figure.name == name);
        !is_there && self.skipped().is_some()
    }
}

impl Archive {
    /// The folder `results` of cargo's target folder, where this program lies.
    pub fn folder_of_target() -> PathBuf {
        let own = std::env::current_exe().ok();
        let target = own.as_deref().and_then(|program| program.parent()?.parent());
        target.unwrap_or(Path::new("")).join("results")
    }

    /// Says at once what could only be said at the end of a long run.
    ///
    /// # Errors
    /// The run shall stand in the history, and that is not here, or this is not a release build.
    pub fn check(&self) -> anyhow::Result<()> {
        let Some(history) = &self.history else { return Ok(()) };
        let folder = history.parent().unwrap_or(Path::new(""));
        ensure!(
            folder.is_dir(),
            "--record writes {}, and there is no such folder here: run it at the root of the sources",
            history.display()
        );
        ensure!(
            !cfg!(debug_assertions),
            "--record is for release builds: figures of a debug build say nothing (make bench)"
        );
        Ok(())
    }

    /// Keeps a run; answers with its file.
    ///
    /// # Errors
    /// The disk says no.
    pub fn keep(&self, kept: &Kept) -> anyhow::Result<PathBuf> {
        let name = name(&kept.summary.command);
        let started = kept.summary.started.replace([':', '-'], "");
        let file = self.folder.join(format!("{started}-{name}.json"));
        let writing = || format!("writing {}", file.display());
        fs::create_dir_all(&self.folder).with_context(writing)?;
        fs::write(&file, serde_json::to_string_pretty(kept)? + "\n").with_context(writing)?;
        if let Some(history) = &self.history {
            let line = serde_json::to_string(&kept.summary)? + "\n";
            let opened = OpenOptions::new().create(true).append(true).open(history);
            let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
            written.with_context(|| format!("writing {}", history.display()))?;
        }
        Ok(file)
    }

    /// All kept runs, oldest first.
    ///
    /// # Errors
    /// A file that is none of ours.
    pub fn all(&self) -> anyhow::Result<Vec<Kept>> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.folder)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        files.retain(|file| file.extension().is_some_and(|end| end == "json"));
        files.sort();
        let read = |file: &PathBuf| {
            let text = fs::read_to_string(file)?;
            anyhow::Ok(serde_json::from_str(&text)?)
        };
        files.iter().map(|file| read(file).with_context(|| file.display().to_string())).collect()
    }

    /// The lines of the history, oldest first; none where there is no history.
    ///
    /// # Errors
    /// A line that is none of ours.
    pub fn history(file: &Path) -> anyhow::Result<Vec<Summary>> {
        let text = fs::read_to_string(file).unwrap_or_default();
        let read = |(at, line)| {
            serde_json::from_str(line).with_context(|| format!("{}:{}", file.display(), at + 1))
        };
        text.lines().enumerate().map(read).collect()
    }
}

/// The command without the options that only say where results go.
fn command(words: &[String]) -> String {
    let mut kept = vec!["lab"];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--record" => {}
            "--results" => _ = words.next(),
            _ if word.starts_with("--results=") => {}
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

/// What `--seed` says; 1, as all commands have it, where nothing does.
fn seed(words: &[String]) -> u64 {
    let mut words = words.iter().map(String::as_str);
    let found = words.find_map(|word| match word.strip_prefix("--seed") {
        Some("") => Some(None),
        Some(rest) => rest.strip_prefix('=').map(Some),
        None => None,
    });
    let value = found.and_then(|given| given.or_else(|| words.next()));
    value.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Seconds since 1970 as a date and a time.
fn utc(seconds: u64) -> String {
    let moment = Moment(seconds.saturating_mul(1_000_000_000)).to_string();
    moment.replace(".000Z", "Z")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::scratch::Scratch;
    use crate::report::figure;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(Into::into).collect()
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(1_795_270_199), "2026-11-21T14:09:59Z");
        assert_eq!(utc(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn a_command_is_kept_without_what_only_says_where() {
        let given = words("--record bench hol --results here --runs 3 --results=there");
        assert_eq!(command(&given), "lab bench hol --runs 3");
        assert_eq!(seed(&given), 1);
        assert_eq!([seed(&words("sim --seed 7")), seed(&words("sim --seed=8"))], [7, 8]);
        assert_eq!(seed(&words("sim node-seeds --seeds 9")), 1, "another option");
    }

    #[test]
    fn what_is_kept_is_read_again_and_the_history_grows_by_lines() {
        let scratch = Scratch::new().unwrap();
        let archive = |history: bool| Archive {
            folder: scratch.path().join("results"),
            history: history.then(|| scratch.path().join("history.jsonl")),
        };
        let findings = Findings::from((vec!["a table".into()], vec![figure("a_p99", 1.5, "ms")]));
        let kept = Run::begin(&words("bench hol")).end(&findings);
        assert!(archive(true).all().unwrap().is_empty(), "nothing is kept yet");
        archive(false).keep(&kept).unwrap();
        let history = scratch.path().join("history.jsonl");
        assert!(Archive::history(&history).unwrap().is_empty(), "not asked to record");
        for _ in 0..2 {
            archive(true).keep(&kept).unwrap();
        }
        assert_eq!(archive(true).all().unwrap(), std::slice::from_ref(&kept));
        assert_eq!(Archive::history(&history).unwrap(), [kept.summary.clone(), kept.summary]);
    }

    #[test]
    fn a_record_of_a_debug_build_or_elsewhere_is_refused_at_once() {
        let at = |history: &str| Archive { folder: "x".into(), history: Some(history.into()) };
        let error = at("/nonexistent/bench/history.jsonl").check().unwrap_err().to_string();
        assert!(error.contains("root of the sources"), "{error}");
        assert!(at("history.jsonl").check().is_err(), "an empty folder is none");
        assert!(Archive { folder: "x".into(), history: None }.check().is_ok());
    }
}
