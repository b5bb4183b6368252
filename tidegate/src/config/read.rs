//! From text to a checked configuration: every mistake, not the first.
//!
//! Serde stops at the first mistake. So a key that it refuses is noted, taken out of the parsed
//! document, and the rest is read again, until it is read whole; the typed tree stays the only place
//! that says which keys there are. What is then read is checked for meaning (`check`), without what
//! might only follow from a key that was taken out.

use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::Config;
use super::check::{Finding, check};
use super::nearest::{nearest, suggest};
use super::places::{Diagnostic, Document, Place, Severity, Step, position};
use crate::support::files;

/// Mistakes told at once; a file with more is no configuration.
const DIAGNOSTICS_MAX: usize = 100;
/// Longest file that is read.
const FILE_MAX: u64 = 1 << 20;

/// What was read.
#[derive(Clone, Debug)]
pub struct Reading<C = Config> {
    /// The configuration, every missing section filled in; with errors, what could be understood.
    pub config: C,
    /// What is wrong, in the order of the text.
    pub diagnostics: Vec<Diagnostic>,
    /// What a node does that the text does not say, and how to say otherwise.
    pub added: Vec<&'static str>,
}

impl<C> Reading<C> {
    /// How many findings are errors, and how many warnings.
    pub fn counts(&self) -> (usize, usize) {
        let errors = self.diagnostics.iter().filter(|found| found.severity == Severity::Error);
        let errors = errors.count();
        (errors, self.diagnostics.len() - errors)
    }

    /// All findings as text for people.
    pub fn render(&self, file: &str, source: &str) -> String {
        self.diagnostics.iter().map(|found| found.render(file, source)).collect()
    }
}

/// Reads a file as text.
///
/// # Errors
/// It cannot be read, is longer than 1 MiB, or is not UTF-8; the text names the file and the cure.
pub fn read_file(path: &Path) -> Result<String, String> {
    text_of(path, files::read_or_hear(path, FILE_MAX))
}

/// The same while a node works, which must not wait for anybody: of a file, never of a pipe. A full disk, or a copy that is
/// not finished, leaves nothing of it; by that the node would leave its clients for the default listener.
///
/// # Errors
/// The same, or it says nothing.
pub(crate) fn read_file_again(path: &Path) -> Result<String, String> {
    let text = text_of(path, files::read(path, FILE_MAX))?;
    let says_something = |line: &str| !line.is_empty() && !line.starts_with('#');
    match text.lines().map(str::trim).any(says_something) {
        true => Ok(text),
        false => Err(format!("{}: it says nothing, as a file that was cut off", path.display())),
    }
}

fn text_of(path: &Path, read: io::Result<Vec<u8>>) -> Result<String, String> {
    let file = path.display();
    let bytes = read.map_err(|error| format!("{file}: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let upto = error.utf8_error().valid_up_to();
        let good = String::from_utf8_lossy(&error.as_bytes()[..upto]);
        let (line, column) = position(&good, upto);
        format!("{file}:{line}:{column}: not UTF-8: save the file as UTF-8")
    })
}

/// Reads and checks the text of a configuration. Total: any text gives a reading.
pub fn read(text: &str) -> Reading {
    read_and(text, |_| Vec::new())
}

/// The same; `also` looks for more in what was read.
pub(crate) fn read_and(text: &str, also: impl Fn(&Config) -> Vec<Finding>) -> Reading {
    let mut findings = |config: &Config| [check(config), also(config)].concat();
    let reading = read_tree(text, &mut findings);
    let added = reading.config.added();
    Reading { config: reading.config.completed(), added, diagnostics: reading.diagnostics }
}

/// Reads a tree of any kind; `check` finds what is wrong with its meaning.
pub(crate) fn read_tree<C: DeserializeOwned + Default>(
    text: &str,
    check: &mut dyn FnMut(&C) -> Vec<Finding>,
) -> Reading<C> {
    let (mut document, syntax) = Document::parse(text);
    let mut diagnostics: Vec<Diagnostic> =
        syntax.iter().take(DIAGNOSTICS_MAX).map(|error| explain_syntax(error, text)).collect();
    // What follows on the same line is mostly the parser's search for its way back.
    diagnostics.dedup_by_key(|found| position(text, found.span.start).0);
    let original = document.clone();
    let (config, broken) = deserialize(&mut document, text, &mut diagnostics);
    if syntax.is_empty() {
        let sound = check(&config).into_iter().filter(|finding| !follows(finding, &broken));
        diagnostics.extend(sound.take(DIAGNOSTICS_MAX).map(|finding| Diagnostic {
            severity: finding.severity,
            span: original.span(&finding.place),
            field: finding.place.to_string(),
            text: finding.text,
        }));
    }
    diagnostics.sort_by_key(|found| (found.span.start, found.severity));
    diagnostics.truncate(DIAGNOSTICS_MAX);
    Reading { config, diagnostics, added: Vec::new() }
}

/// Reads the tree, taking out what serde refuses; returns the places of what was taken out.
fn deserialize<C: DeserializeOwned + Default>(
    document: &mut Document<'_>,
    text: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> (C, Vec<Place>) {
    let line = |at: usize| position(text, at).0;
    let bad_lines: Vec<usize> = diagnostics.iter().map(|found| line(found.span.start)).collect();
    let mut broken = Vec::new();
    loop {
        let error = match document.deserialize::<C>() {
            Ok(config) => return (config, broken),
            Err(error) => error,
        };
        let span = error.span().unwrap_or_default();
        let place = document.remove(&span).filter(|_| broken.len() < DIAGNOSTICS_MAX);
        // A value that broke the syntax was told already.
        if !bad_lines.contains(&line(span.start)) {
            let (field, text) = explain(error.message(), place.as_ref());
            diagnostics.push(Diagnostic { severity: Severity::Error, span, field, text });
        }
        match place {
            Some(place) => broken.push(place),
            None => return (C::default(), vec![Place::default()]),
        }
    }
}

/// Whether a finding may only follow from a key that could not be read.
fn follows(finding: &Finding, broken: &[Place]) -> bool {
    broken.iter().any(|broken| {
        let names_may_lack = finding.about.is_some_and(|section| match broken.0.as_slice() {
            [] => true,
            // The section is unread, or is there under a misspelt name.
            [Step::Key(key)] => nearest(key, [section]).is_some(),
            [Step::Key(key), .., Step::Key(last)] => {
                key == section && nearest(last, ["name"]).is_some()
            }
            _ => false,
        });
        names_may_lack || finding.place.holds(broken)
    })
}

/// Puts a syntax error into our words where ours are better.
fn explain_syntax(error: &toml::de::Error, source: &str) -> Diagnostic {
    let span = error.span().unwrap_or_default();
    let message = error.message().replace('\n', ", ");
    let text = match bare_value(source, span.start) {
        Some("") => "no value: write one, or take the key out".into(),
        Some(value) => format!("a value without quotes: write \"{value}\""),
        None => message,
    };
    Diagnostic { severity: Severity::Error, span, field: String::new(), text }
}

/// The text after `key =` at this place, where it looks like one that only lacks its quotes.
fn bare_value(source: &str, at: usize) -> Option<&str> {
    let (line, column) = position(source, at);
    let (key, value) = source.lines().nth(line - 1)?.split_once('=')?;
    let value = value.split('#').next().unwrap_or_default().trim();
    let plain = |c: char| !c.is_control() && !"\"'[]{}=,".contains(c);
    let begins = value.chars().next().is_none_or(char::is_alphanumeric);
    (column > key.chars().count() && begins && value.chars().all(plain)).then_some(value)
}

/// Puts serde's message into our words. Its forms are stable; one that is not known is passed on.
fn explain(message: &str, place: Option<&Place>) -> (String, String) {
    let place = place.cloned().unwrap_or_default();
    let unknown_key = message.strip_prefix("unknown field `");
    let unknown_value = message.strip_prefix("unknown variant `");
    let text = match unknown_key.or(unknown_value).and_then(|rest| rest.split_once('`')) {
        Some((word, rest)) => {
            let known = rest.split('`').skip(1).step_by(2);
            let what = if unknown_key.is_some() { "unknown key" } else { "unknown value" };
            format!("{what} {word:?}: {}", suggest(word, known))
        }
        None if place.0.len() == 1 && message.contains("map, expected a sequence") => {
            format!("one table where there may be several: write [[{place}]]")
        }
        None => plainly(message),
    };
    let mut shown = place;
    if unknown_key.is_some() {
        shown.0.pop();
    }
    (shown.to_string(), text)
}

/// Serde's words for types in words of the file's author.
fn plainly(message: &str) -> String {
    const WORDS: [(&str, &str); 8] = [
        (", expected ", ": expected "),
        ("expected a sequence", "expected a list, as in [\"a\", \"b\"]"),
        ("expected u32", "expected a whole number, 0 or more"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("invalid type: map", "a table is not what belongs here"),
        ("invalid type: sequence", "a list is not what belongs here"),
        ("\n", ", "),
    ];
    let message = message.replace('`', "");
    WORDS.iter().fold(message, |text, (from, to)| text.replace(from, to))
}
