//! The text of the reference: sections, tables and keys, each with its help and its default.

use std::fmt::Write;

/// A value between quotes.
pub fn quoted(value: impl std::fmt::Display) -> String {
    format!("\"{value}\"")
}

/// The file in the making.
#[derive(Debug, Default)]
pub struct File {
    text: String,
    notes: usize,
}

impl File {
    /// Lines of explanation.
    pub fn prose(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.is_empty()) {
            let _ = writeln!(self.text, "# {line}");
        }
    }

    /// A section, such as `[log]`, and what it is for.
    pub fn section(&mut self, header: &str, help: &str) {
        self.text.push('\n');
        self.prose(help);
        let _ = writeln!(self.text, "{header}");
    }

    /// A section that is no default.
    pub fn commented_section(&mut self, header: &str, help: &str) {
        self.text.push('\n');
        self.prose(help);
        let _ = writeln!(self.text, "# {header}");
    }

    /// A table inside a section; its keys are dotted.
    pub fn table(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.text, "# --- {name}: {help}");
    }

    /// A key with its default, or with an example where it has none.
    pub fn key(&mut self, name: &str, value: &str, help: &str) {
        self.prose(help);
        let _ = writeln!(self.text, "{name} = {value}");
    }

    /// A key that cannot stand beside the others, or has no default.
    pub fn note(&mut self, name: &str, value: &str, help: &str) {
        self.notes += 1;
        self.prose(help);
        let _ = writeln!(self.text, "# {name} = {value}");
    }

    /// How many commented keys it has.
    pub fn notes(&self) -> usize {
        self.notes
    }

    /// The whole text.
    pub fn into_text(self) -> String {
        self.text
    }
}
