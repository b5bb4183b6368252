//! What `tidegate check` found, in words and for machines.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::Serialize;

use crate::assembly::Tried;
use crate::assembly::run::count;
use crate::config::FileKind;
use crate::config::places::{Diagnostic, Severity, position};

/// What was found in a file.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// What the file is for.
    pub(super) kind: FileKind,
    /// What is wrong, in the order of the text.
    pub(super) diagnostics: Vec<Diagnostic>,
    /// What is wrong with the file as a whole, where no line is known.
    pub(super) whole: Option<String>,
    /// What its owner should know.
    pub(super) notes: Vec<String>,
    /// What was tried on this machine; `None` where only the text was looked at.
    pub(super) tried: Option<Tried>,
}

impl Default for Report {
    fn default() -> Self {
        Report {
            kind: FileKind::Node,
            diagnostics: Vec::new(),
            whole: None,
            notes: Vec::new(),
            tried: None,
        }
    }
}

/// A finding for machines.
#[derive(Serialize)]
struct FindingView<'r> {
    severity: &'static str,
    /// The keys from the root, `output.amqp.url`; empty for the file as a whole.
    key: &'r str,
    /// From 1, and so the column; none where the file is no TOML.
    line: Option<usize>,
    column: Option<usize>,
    text: &'r str,
    /// The part of the text that says what would be right, where it has one.
    cure: Option<&'r str>,
}

/// A report for machines. Fields are added and never change.
#[derive(Serialize)]
struct ReportView<'r> {
    version: u32,
    file: String,
    kind: &'static str,
    errors: usize,
    warnings: usize,
    findings: Vec<FindingView<'r>>,
    notes: &'r [String],
    tried: Option<TriedView>,
}

/// How many of each were tried on this machine.
#[derive(Serialize)]
struct TriedView {
    user: Option<u32>,
    addresses: usize,
    folders: usize,
    secrets: usize,
}

/// The user who calls: what is refused to one may be allowed to another.
fn user() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|own| own.uid())
}

/// A number with its noun.
fn words(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

impl Report {
    /// Of a file that is right or wrong as a whole.
    pub(super) fn of(kind: FileKind, result: Result<(), String>) -> Report {
        Report { kind, whole: result.err(), ..Report::default() }
    }

    /// How many errors and how many warnings.
    pub(super) fn counts(&self) -> (usize, usize) {
        let errors = self.diagnostics.iter().filter(|found| found.severity == Severity::Error);
        let errors = errors.count();
        (errors + usize::from(self.whole.is_some()), self.diagnostics.len() - errors)
    }

    /// For people: findings with their lines, the verdict, then what one should know.
    pub(super) fn words(&self, file: &Path, source: &str) -> String {
        let name = file.display().to_string();
        let mut told: String =
            self.diagnostics.iter().map(|found| found.render(&name, source)).collect();
        if let Some(text) = &self.whole {
            let _ = writeln!(told, "{name}: error: {text}");
        }
        let verdict = match self.counts() {
            (0, 0) => "right".to_owned(),
            (0, warnings) => format!("right, with {}", count(warnings, "warning")),
            (errors, 0) => count(errors, "error"),
            (errors, warnings) => {
                format!("{}, {}", count(errors, "error"), count(warnings, "warning"))
            }
        };
        let _ = writeln!(told, "{name}: {verdict}: {}", self.kind.words());
        for note in &self.notes {
            let _ = writeln!(told, "{note}");
        }
        if let Some(Tried { addresses, folders, secrets }) = self.tried {
            let user = user().map_or_else(|| "?".into(), |user| user.to_string());
            let _ = writeln!(
                told,
                "tried here as user {user}: {}, {}, {}; far ends were not asked",
                words(addresses, "address", "addresses"),
                words(folders, "folder", "folders"),
                words(secrets, "secret", "secrets")
            );
        }
        told
    }

    /// For machines.
    pub(super) fn json(&self, file: &Path, source: &str) -> String {
        let (errors, warnings) = self.counts();
        let found = self.diagnostics.iter().map(|found| {
            let (line, column) = position(source, found.span.start);
            FindingView {
                severity: found.severity.name(),
                key: &found.field,
                line: Some(line),
                column: Some(column),
                text: &found.text,
                cure: cure(&found.text),
            }
        });
        let whole = self.whole.iter().map(|text| FindingView {
            severity: Severity::Error.name(),
            key: "",
            line: None,
            column: None,
            text,
            cure: cure(text),
        });
        let tried = self.tried.map(|Tried { addresses, folders, secrets }| TriedView {
            user: user(),
            addresses,
            folders,
            secrets,
        });
        let view = ReportView {
            version: 1,
            file: file.display().to_string(),
            kind: self.kind.name(),
            errors,
            warnings,
            findings: found.chain(whole).collect(),
            notes: &self.notes,
            tried,
        };
        serde_json::to_string(&view).unwrap_or_else(|_| "{}".into())
    }
}

/// The part behind the colon that says what to do: texts are written as "what is wrong: what would be right".
fn cure(text: &str) -> Option<&str> {
    const BEGINNINGS: [&str; 24] = [
        "give",
        "write",
        "choose",
        "keep",
        "lower",
        "raise",
        "take",
        "say",
        "leave",
        "did you mean",
        "known here",
        "declare",
        "chmod",
        "use",
        "set",
        "put",
        "make",
        "name",
        "expected",
        "see",
        "issue",
        "save",
        "add",
        "`tidegate",
    ];
    let ends = text.match_indices(": ").map(|(at, colon)| &text[at + colon.len()..]);
    ends.into_iter().find(|rest| BEGINNINGS.iter().any(|word| begins_with_word(rest, word)))
}

fn begins_with_word(text: &str, word: &str) -> bool {
    let rest = text.strip_prefix(word);
    rest.is_some_and(|rest| rest.chars().next().is_none_or(|next| !next.is_alphanumeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cure_is_the_part_that_says_what_to_do() {
        for (text, cured) in [
            ("no url: give url = \"amqp://h\"", Some("give url = \"amqp://h\"")),
            ("unknown key \"a\": did you mean \"b\"?", Some("did you mean \"b\"?")),
            ("/etc/users: No such file or directory (os error 2)", None),
            ("127.0.0.1:1 is taken: choose another port", Some("choose another port")),
            ("odd: seems so", None),
        ] {
            assert_eq!(cure(text), cured);
        }
    }
}
