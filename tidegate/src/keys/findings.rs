//! What is found wrong in a configuration, and where.

use super::places::{Place, Severity};

/// A mistake of meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The value that is meant.
    pub place: Place,
    /// What is wrong and what would be right.
    pub text: String,
    /// The section whose names were looked up in vain.
    pub about: Option<&'static str>,
}

/// Collects findings.
#[derive(Debug, Default)]
pub struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, place: Place, text: String) {
        self.0.push(Finding { severity, place, text, about: None });
    }

    /// What keeps the node from running.
    pub fn error(&mut self, place: Place, text: impl Into<String>) {
        self.add(Severity::Error, place, text.into());
    }

    /// What is surely not meant.
    pub fn warning(&mut self, place: Place, text: impl Into<String>) {
        self.add(Severity::Warning, place, text.into());
    }

    /// A name that nothing in `section` has.
    pub(crate) fn unknown(&mut self, place: Place, section: &'static str, text: String) {
        self.0.push(Finding { severity: Severity::Error, place, text, about: Some(section) });
    }
}
