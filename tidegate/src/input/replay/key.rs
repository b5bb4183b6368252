//! Record keys made from a template, such as `city/{source}/air`.

use std::borrow::Cow;

use super::row::{Row, RowError};
use crate::input::replay::error::TemplateError;

/// A checked template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTemplate(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The file's name without its extension.
    File,
    Field(String),
}

impl KeyTemplate {
    /// Parses a template: text with `{field}` for a field of the row, and `{file}` for the file's name
    /// without its extension.
    ///
    /// # Errors
    /// A brace without its partner, nothing between two braces, a wildcard, or an empty template.
    pub fn new(template: &str) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find(['{', '}']) {
            let wrong = || TemplateError::Brace(template.into());
            let (text, behind) = rest.split_at(open);
            let (field, behind) = behind
                .strip_prefix('{')
                .and_then(|behind| behind.split_once('}'))
                .ok_or_else(wrong)?;
            if field.is_empty() || field.contains('{') {
                return Err(wrong());
            }
            parts.push(Part::Text(text.into()));
            parts.push(if field == "file" { Part::File } else { Part::Field(field.into()) });
            rest = behind;
        }
        parts.push(Part::Text(rest.into()));
        parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
        if parts.is_empty() {
            return Err(TemplateError::Empty);
        }
        let wild =
            |part: &Part| matches!(part, Part::Text(text) if text.contains(['+', '#', '\0']));
        if parts.iter().any(wild) {
            return Err(TemplateError::Wildcard(template.into()));
        }
        Ok(KeyTemplate(parts))
    }

    /// The key of a row.
    pub(super) fn render(&self, row: &Row<'_>, file: &str) -> Result<String, RowError> {
        let mut key = String::new();
        for part in &self.0 {
            let (name, value) = match part {
                Part::Text(text) => ("", Cow::Borrowed(text.as_str())),
                Part::File => ("file", Cow::Borrowed(file)),
                Part::Field(name) => (name.as_str(), row.field(name)?),
            };
            if !name.is_empty() && (value.is_empty() || value.contains(['+', '#', '\0'])) {
                return Err(RowError::KeyField { field: name.into(), value: value.into() });
            }
            key.push_str(&value);
        }
        if key.len() > usize::from(u16::MAX) {
            return Err(RowError::KeyTooLong);
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::replay::csv::Header;

    #[test]
    fn fields_and_file_are_filled_in() {
        let header = Header::read("time,site,value").unwrap();
        let row = header.row("1,rome,7").unwrap();
        let key = |template: &str| KeyTemplate::new(template).unwrap().render(&row, "air");
        assert_eq!(key("city/{site}/{file}/x").unwrap(), "city/rome/air/x");
        assert_eq!(key("fixed").unwrap(), "fixed");
        assert!(matches!(key("{color}"), Err(RowError::NoField { .. })));
    }

    #[test]
    fn values_that_no_topic_can_have_are_refused() {
        let header = Header::read("time,site").unwrap();
        let row = header.row("1,a+b").unwrap();
        let error = KeyTemplate::new("{site}").unwrap().render(&row, "f").unwrap_err();
        assert_eq!(error, RowError::KeyField { field: "site".into(), value: "a+b".into() });
    }

    #[test]
    fn wrong_templates_are_named() {
        let error = |template: &str| KeyTemplate::new(template).unwrap_err();
        assert_eq!(error(""), TemplateError::Empty);
        for template in ["a/{b", "a/b}", "{}", "{a{b}}"] {
            assert_eq!(error(template), TemplateError::Brace(template.into()));
        }
        assert_eq!(error("a/#"), TemplateError::Wildcard("a/#".into()));
    }
}
