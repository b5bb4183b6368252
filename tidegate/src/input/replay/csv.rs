//! Rows of a CSV file with a header line; the separator is found in the header.

use std::borrow::Cow;

use super::row::{Row, RowError};

/// The header line: separator and field names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    separator: char,
    names: Vec<String>,
}

impl Header {
    /// Reads the header. The separator is the most frequent of comma, semicolon and tab.
    pub(super) fn read(line: &str) -> Result<Self, RowError> {
        let count = |separator: &char| line.matches(*separator).count();
        let separator = [',', ';', '\t'].into_iter().rev().max_by_key(count).unwrap_or(',');
        let names: Vec<String> = split(line, separator)?.into_iter().map(Cow::into_owned).collect();
        if names.iter().any(|name| name.trim().is_empty()) {
            return Err(RowError::Shape("a header line that names every field"));
        }
        Ok(Header { separator, names: names.iter().map(|name| name.trim().into()).collect() })
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Where a field stands. Case matters only if the exact name is there.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        let exact = self.names.iter().position(|known| known == name);
        exact.or_else(|| self.names.iter().position(|known| known.eq_ignore_ascii_case(name)))
    }

    pub(super) fn row<'a>(&'a self, line: &'a str) -> Result<Row<'a>, RowError> {
        let fields = split(line, self.separator)?;
        if fields.len() != self.names.len() {
            return Err(RowError::Fields { found: fields.len(), expected: self.names.len() });
        }
        Ok(Row::Csv(self, fields))
    }

    /// A JSON object of the fields: numbers as numbers, all else as strings.
    pub(super) fn json(&self, fields: &[Cow<'_, str>]) -> String {
        let mut json = String::from("{");
        for (place, (name, value)) in self.names.iter().zip(fields).enumerate() {
            if place > 0 {
                json.push(',');
            }
            json.push_str(&quoted(name));
            json.push(':');
            match value.trim() {
                number if is_number(number) => json.push_str(number),
                _ => json.push_str(&quoted(value)),
            }
        }
        json.push('}');
        json
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether the text is a number as JSON writes it, and may stand as it is.
fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && serde_json::from_str::<serde_json::Number>(text).is_ok()
}

/// Splits a line at its separators; fields may be quoted, and quotes in them doubled.
fn split(line: &str, separator: char) -> Result<Vec<Cow<'_, str>>, RowError> {
    let mut fields = Vec::new();
    let mut rest = line;
    loop {
        let field;
        (field, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted).ok_or(RowError::Quote(fields.len() + 1))?,
            None => {
                let (field, rest) = rest.split_at(rest.find(separator).unwrap_or(rest.len()));
                (Cow::Borrowed(field), rest)
            }
        };
        fields.push(field);
        if rest.is_empty() {
            return Ok(fields);
        }
        rest = rest.strip_prefix(separator).ok_or(RowError::Quote(fields.len()))?;
    }
}

/// The field up to its closing quote, and what stands behind it.
fn unquote(quoted: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut field = Cow::Borrowed("");
    let mut rest = quoted;
    loop {
        let (part, behind) = rest.split_once('"')?;
        field += part;
        match behind.strip_prefix('"') {
            Some(behind) => {
                field += "\"";
                rest = behind;
            }
            None => return Some((field, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_found() {
        let header = Header::read("datetime;Flow, mean;anomaly").unwrap();
        assert_eq!(header.names(), ["datetime", "Flow, mean", "anomaly"]);
        assert_eq!(Header::read("a\tb\tc").unwrap().names().len(), 3);
        assert_eq!(Header::read("timestamp,value").unwrap().separator, ',');
        assert_eq!(Header::read("alone").unwrap().names(), ["alone"]);
        assert!(Header::read("a,,b").is_err());
    }

    #[test]
    fn rows_become_json() {
        let header = Header::read("datetime;RMS;note").unwrap();
        let row = header.row("2020-03-09 10:14:33;0.0265878;\"say \"\"hi\"\"; now\"").unwrap();
        assert_eq!(
            row.json().unwrap(),
            r#"{"datetime":"2020-03-09 10:14:33","RMS":0.0265878,"note":"say \"hi\"; now"}"#
        );
        assert_eq!(row.time(None).unwrap(), 1_583_748_873_000_000_000);
        assert_eq!(row.field("rms").unwrap(), "0.0265878");
    }

    #[test]
    fn only_json_numbers_are_numbers() {
        let numbers = ["1", "-0.5", "1e9", "nan", "01", "1.", "", "0x1", "inf"].map(is_number);
        assert_eq!(numbers, [true, true, true, false, false, false, false, false, false]);
    }

    #[test]
    fn wrong_rows_are_named() {
        let header = Header::read("a,b").unwrap();
        let error = |line: &str| header.row(line).unwrap_err();
        assert_eq!(error("1"), RowError::Fields { found: 1, expected: 2 });
        assert_eq!(error("1,2,3"), RowError::Fields { found: 3, expected: 2 });
        assert_eq!(error("1,\"2"), RowError::Quote(2));
        assert_eq!(error("\"1\"x,2"), RowError::Quote(1));
    }
}
