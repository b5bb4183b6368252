//! Where in the text a value stands, and how a mistake is shown to people.

use std::fmt::{self, Write};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One step from the root of the tree to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Into the value of a key.
    Key(String),
    /// Into an element of a list, from 0.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Step::Key(key.into())
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Step::Index(index)
    }
}

/// The way from the root to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place(pub Vec<Step>);

impl Place {
    /// The place one step further in.
    pub fn to(&self, step: impl Into<Step>) -> Place {
        let mut steps = self.0.clone();
        steps.push(step.into());
        Place(steps)
    }

    /// The value of a key of the root.
    pub fn section(name: &str) -> Place {
        Place::default().to(name)
    }

    /// Whether `other` stands here or further in.
    pub fn holds(&self, other: &Place) -> bool {
        other.0.starts_with(&self.0)
    }
}

impl fmt::Display for Place {
    /// The keys, as `output.amqp.url`: which of several outputs, the line says.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for step in &self.0 {
            if let Step::Key(key) = step {
                write!(f, "{between}{}", key.escape_debug())?;
                between = ".";
            }
        }
        Ok(())
    }
}

/// Whether a finding keeps the node from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It does.
    Error,
    /// It does not, but is surely not meant.
    Warning,
}

impl Severity {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A mistake with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Bytes of the text that are meant.
    pub span: Range<usize>,
    /// Which key, `stream.latency`; empty for the file as a whole.
    pub field: String,
    /// What is wrong and what would be right.
    pub text: String,
}

/// Longest part of a line that is shown.
const EXCERPT_MAX: usize = 120;

impl Diagnostic {
    /// `file:line:column: error: field: text`, then the line with the place underlined. Columns count
    /// characters from 1.
    pub fn render(&self, file: &str, source: &str) -> String {
        let (line, column) = position(source, self.span.start);
        let mut out = format!("{file}:{line}:{column}: {}: ", self.severity.name());
        if !self.field.is_empty() {
            let _ = write!(out, "{}: ", self.field);
        }
        out.push_str(&self.text);
        out.push('\n');
        let shown = source.lines().nth(line - 1).unwrap_or_default();
        // A key that the text leaves out stands nowhere.
        let is_left_out = self.span == (0..0) && !self.field.is_empty();
        if column <= EXCERPT_MAX && !shown.trim().is_empty() && !is_left_out {
            let excerpt: String = shown.chars().take(EXCERPT_MAX).map(printable).collect();
            let under = self.underlined(
                source,
                excerpt.chars().count() + 1 - column.min(excerpt.chars().count()),
            );
            let indent = " ".repeat(column - 1);
            let _ = writeln!(out, "{line:5} | {excerpt}\n      | {indent}{}", "^".repeat(under));
        }
        out
    }

    /// How many characters to underline, at most `room`.
    fn underlined(&self, source: &str, room: usize) -> usize {
        let meant = source.get(self.span.clone()).unwrap_or_default();
        meant.lines().next().unwrap_or_default().chars().count().clamp(1, room.max(1))
    }
}

fn printable(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

/// Line and column of a byte, both from 1.
pub fn position(source: &str, at: usize) -> (usize, usize) {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    let before = &source[..at];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// A parsed file whose values know their bytes in the text.
#[derive(Clone, Debug)]
pub(crate) struct Document<'t> {
    root: Spanned<DeTable<'t>>,
}

impl<'t> Document<'t> {
    /// Parses as much as can be understood; the errors say what cannot.
    pub(crate) fn parse(text: &'t str) -> (Document<'t>, Vec<toml::de::Error>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        (Document { root }, errors)
    }

    /// Whether the root has a key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.root.get_ref().get(key).is_some()
    }

    /// Makes a value of it.
    pub(crate) fn deserialize<T: serde::de::DeserializeOwned>(&self) -> Result<T, toml::de::Error> {
        T::deserialize(toml::Deserializer::from(self.root.clone()))
    }

    /// The bytes of what stands at `place`, or of the nearest thing around it that exists.
    pub(crate) fn span(&self, place: &Place) -> Range<usize> {
        let mut found = 0..0;
        let mut table = Some(self.root.get_ref());
        let mut list: Option<&toml::de::DeArray<'t>> = None;
        for step in &place.0 {
            let value = match step {
                Step::Key(key) => table.and_then(|table| table.get(key.as_str())),
                Step::Index(index) => list.and_then(|list| list.get(*index)),
            };
            let Some(value) = value else { break };
            found = value.span();
            table = value.get_ref().as_table();
            list = value.get_ref().as_array();
        }
        found
    }

    /// Takes out the innermost key on which `span` lies, and says where it stood.
    pub(crate) fn remove(&mut self, span: &Range<usize>) -> Option<Place> {
        let place = innermost(self.root.get_ref(), span, &Place::default())?;
        let (last, way) = place.0.split_last()?;
        let Step::Key(key) = last else { return None };
        let mut table = Some(self.root.get_mut());
        let mut list = None;
        for step in way {
            let value = match step {
                Step::Key(key) => table.and_then(|table| table.get_mut(key.as_str())),
                Step::Index(index) => {
                    list.and_then(|list: &mut toml::de::DeArray<'t>| list.get_mut(*index))
                }
            };
            match value?.get_mut() {
                DeValue::Table(inner) => (table, list) = (Some(inner), None),
                DeValue::Array(inner) => (table, list) = (None, Some(inner)),
                _ => return None,
            }
        }
        table?.remove(key.as_str())?;
        Some(place)
    }
}

/// The innermost key whose own bytes or whose value's bytes hold `span`.
fn innermost(table: &DeTable<'_>, span: &Range<usize>, here: &Place) -> Option<Place> {
    let holds = |outer: Range<usize>| outer.start <= span.start && span.end <= outer.end;
    table.iter().find_map(|(key, value)| {
        let place = here.to(key.get_ref().as_ref());
        let inner = match value.get_ref() {
            DeValue::Table(table) => innermost(table, span, &place),
            DeValue::Array(list) => list.iter().enumerate().find_map(|(index, element)| {
                let table = element.get_ref().as_table()?;
                innermost(table, span, &place.to(index))
            }),
            _ => None,
        };
        inner.or_else(|| (holds(key.span()) || holds(value.span())).then_some(place))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_left_out_shows_no_line_of_another_one() {
        let told = |span| {
            let (field, text) = ("http.listen".into(), "in use".into());
            Diagnostic { severity: Severity::Warning, span, field, text }
                .render("a.toml", "nod = 1\n")
        };
        assert_eq!(told(0..0), "a.toml:1:1: warning: http.listen: in use\n");
        assert!(told(0..3).contains("1 | nod = 1"));
    }
}
