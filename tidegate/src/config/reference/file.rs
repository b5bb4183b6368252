//! How the reference is written: which lines are in force, and which are samples behind a mark.

use std::fmt::Write;

/// What becomes of samples, which no node has by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Samples {
    /// They stand as all other lines do.
    InForce,
    /// They stand behind a `#`.
    Commented,
}

/// Longest line of explanation.
const WIDTH: usize = 110;

/// The file in the making.
#[derive(Debug)]
pub(super) struct File {
    text: String,
    notes: usize,
    samples: Samples,
    /// Whether the section at hand is none of a node's by default.
    is_sample: bool,
}

impl File {
    /// An empty one.
    pub(super) fn new(samples: Samples) -> File {
        File { text: String::new(), notes: 0, samples, is_sample: false }
    }

    /// How many keys stand out of force.
    #[cfg(test)]
    pub(super) fn notes(&self) -> usize {
        self.notes
    }

    /// All of it.
    pub(super) fn text(self) -> String {
        self.text
    }

    /// Lines of explanation, broken where they are long.
    pub(super) fn prose(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.is_empty()) {
            let indent = if line.starts_with(' ') { "    " } else { "" };
            let mut shown = String::from("#");
            for word in line.split(' ') {
                if shown.chars().count() + 1 + word.chars().count() > WIDTH {
                    let _ = writeln!(self.text, "{shown}");
                    shown = format!("#{indent}");
                }
                shown.push(' ');
                shown.push_str(word);
            }
            let _ = writeln!(self.text, "{shown}");
        }
    }

    fn head(&mut self, mark: &str, header: &str, help: &str) {
        self.text.push('\n');
        self.prose(help);
        let _ = writeln!(self.text, "{mark}{header}");
    }

    /// A section that every node has.
    pub(super) fn standing(&mut self, header: &str, help: &str) {
        self.is_sample = false;
        self.head("", header, help);
    }

    /// A section that a node has where its file says so.
    pub(super) fn section(&mut self, header: &str, help: &str) {
        self.is_sample = self.samples == Samples::Commented;
        let mark = if self.is_sample { "#" } else { "" };
        self.head(mark, header, help);
    }

    /// A section that cannot stand beside the others.
    pub(super) fn commented_section(&mut self, header: &str, help: &str) {
        self.is_sample = self.samples == Samples::Commented;
        let mark = self.comment();
        self.head(mark, header, help);
    }

    /// A table inside a section; its keys are dotted.
    pub(super) fn table(&mut self, name: &str, help: &str) {
        let _ = writeln!(self.text, "# --- {name}: {help}");
    }

    /// A key with its default, or with a sample where it has none.
    pub(super) fn key(&mut self, name: &str, value: &str, help: &str) {
        self.prose(help);
        let mark = if self.is_sample { "#" } else { "" };
        let _ = writeln!(self.text, "{mark}{name} = {value}");
    }

    /// A key of a standing section with a value that is a sample.
    pub(super) fn example(&mut self, name: &str, value: &str, help: &str) {
        self.prose(help);
        let mark = if self.samples == Samples::Commented { "#" } else { "" };
        let _ = writeln!(self.text, "{mark}{name} = {value}");
    }

    /// A key that cannot stand beside the others, or has no default.
    pub(super) fn note(&mut self, name: &str, value: &str, help: &str) {
        self.notes += 1;
        self.prose(help);
        let mark = self.comment();
        let _ = writeln!(self.text, "{mark}{name} = {value}");
    }

    /// Before a line that is out of force: in the printed file as before all samples.
    fn comment(&self) -> &'static str {
        if self.samples == Samples::Commented { "#" } else { "# " }
    }
}
