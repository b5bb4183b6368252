//! `tidegate check`: every mistake in a file of any kind, and what this machine would say to it.

mod report;

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use tidegate_node::rules::ScriptId;

use self::report::Report;
use crate::assembly::{Tried, cgroup, read_here, read_orchestrator, read_orchestrator_here};
use crate::cli::file::RequiredFile;
use crate::cli::plan;
use crate::config::{Config, FileKind, Reading, ScriptConfig, read, read_file};
use crate::script::Script;

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArguments {
    #[command(flatten)]
    /// The file to check.
    pub file: RequiredFile,
    /// One JSON object instead of words: its shape stands in docs/reference/check.md
    #[arg(long)]
    pub json: bool,
    /// Exit with 1 for warnings too
    #[arg(long)]
    pub strict: bool,
    /// Look at the text only, not at this machine: neither files that it names, nor variables, folders and addresses
    #[arg(long)]
    pub text_only: bool,
}

pub(super) const CHECK_HELP: &str = "\
The file may be that of a node, a proxy, an orchestrator or a plan, or a script: which, is seen and told.
Prints FILE:LINE:COLUMN, the key, what is wrong and what would be right, for every mistake.
Warnings tell what is surely not meant, such as a stream that another one hides, and what fails here and may do
elsewhere: a variable that is not set, an address that another process has, a folder that this user may not write.

What the file names is tried on this machine, as the user who calls: certificates and keys, scripts, variables,
folders (a file is written and taken away), addresses (listened on for a moment). Far ends are not asked.
Exits with 0 if there is no error, with 1 if there is one.";

/// Tells everything that is wrong with a file; the exit code says whether anything is.
///
/// # Errors
/// The file cannot be read.
pub fn check(arguments: &CheckArguments) -> anyhow::Result<ExitCode> {
    let file = arguments.file.path();
    let text = read_file(file).map_err(anyhow::Error::msg)?;
    let report = look(file, &text, arguments.text_only);
    let told = if arguments.json {
        format!("{}\n", report.json(file, &text))
    } else {
        report.words(file, &text)
    };
    io::stdout().write_all(told.as_bytes())?;
    let (errors, warnings) = report.counts();
    let is_right = errors == 0 && !(arguments.strict && warnings > 0);
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn look(file: &Path, text: &str, text_only: bool) -> Report {
    let kind = FileKind::of(file, text);
    match kind {
        FileKind::Node | FileKind::Proxy | FileKind::NodeAndProxy => {
            let (reading, tried) = match text_only {
                true => (read(text), None),
                false => {
                    let (reading, tried) = read_here(text, kind);
                    (reading, Some(tried))
                }
            };
            of_node(kind, reading, tried)
        }
        FileKind::Orchestrator => {
            let tried = RefCell::new(Tried::default());
            let reading = match text_only {
                true => read_orchestrator(text),
                false => read_orchestrator_here(text, Some(&mut tried.borrow_mut())),
            };
            let tried = (!text_only).then(|| tried.into_inner());
            Report { kind, diagnostics: reading.diagnostics, tried, ..Report::default() }
        }
        FileKind::Plan => Report::of(kind, plan::check(file)),
        FileKind::Script => {
            let config = ScriptConfig { file: Some(file.into()), ..ScriptConfig::default() };
            let loaded = config.spec().and_then(|spec| {
                Script::load(spec.into(), ScriptId(0)).map(drop).map_err(|error| error.to_string())
            });
            Report::of(kind, loaded)
        }
        FileKind::World => {
            let text = "the lab reads this file, and this program does not: lab sim FILE";
            Report::of(kind, Err(text.into()))
        }
    }
}

/// A node's or a proxy's file, with what its owner should know beside mistakes.
fn of_node(kind: FileKind, reading: Reading, tried: Option<Tried>) -> Report {
    let Reading { config, diagnostics, added } = reading;
    let mut report = Report { kind, diagnostics, tried, ..Report::default() };
    if report.counts().0 > 0 {
        return report;
    }
    // A proxy has upstreams, which confirm nothing.
    if kind != FileKind::Proxy {
        report.notes.extend(added.into_iter().map(str::to_owned));
        report.notes.extend(confirms(&config));
    }
    if report.tried.is_some() {
        report.notes.extend(cgroup::warning(&config.limits, cgroup::memory_max()));
    }
    report
}

/// When each output confirms a record.
fn confirms(config: &Config) -> impl Iterator<Item = String> {
    config
        .output
        .iter()
        .map(|output| format!("output {} confirms a record {}", output.label(), output.confirms()))
}
