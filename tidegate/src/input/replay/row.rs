//! One row of a file, whatever its format.

use std::borrow::Cow;

use serde_json::Value;

use super::csv::Header;
use super::{senml, time};

/// What is wrong with a row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// Not UTF-8.
    #[error("the line is not valid UTF-8")]
    Utf8,
    /// Longer than a record may be.
    #[error("the line is longer than {0} bytes")]
    TooLong(usize),
    /// A CSV row with too few or too many fields.
    #[error("{found} fields, but the header names {expected}")]
    Fields {
        /// Fields of the row.
        found: usize,
        /// Fields of the header.
        expected: usize,
    },
    /// A quoted CSV field that does not end, or that goes on behind its quotes.
    #[error(
        "field {0} has a quote in the wrong place (fields over several lines are not supported)"
    )]
    Quote(usize),
    /// No JSON.
    #[error("no valid JSON at column {column}: {what}")]
    Json {
        /// Column, from 1.
        column: usize,
        /// What the parser says.
        what: String,
    },
    /// JSON of another shape.
    #[error("expected {0}")]
    Shape(&'static str),
    /// A field that the row does not have.
    #[error("no field {field:?}; there are {known}")]
    NoField {
        /// The field.
        field: String,
        /// What there is.
        known: String,
    },
    /// A time that cannot be read.
    #[error("field {field:?}: {value:?} is no timestamp (Unix time or 2020-03-09 10:14:33)")]
    Time {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// A value that cannot be part of a key.
    #[error("field {field:?}: {value:?} cannot be part of a key (empty, or has +, # or NUL)")]
    KeyField {
        /// The field.
        field: String,
        /// Its value.
        value: String,
    },
    /// A key beyond what MQTT can carry.
    #[error("the key is longer than 65535 bytes")]
    KeyTooLong,
}

/// Names that a time field is looked for under, if none is given.
const TIME_FIELDS: [&str; 6] = ["time", "timestamp", "datetime", "date", "ts", "t"];

/// A row with named fields.
#[derive(Clone, Debug)]
pub(super) enum Row<'a> {
    /// Fields in the header's order.
    Csv(&'a Header, Vec<Cow<'a, str>>),
    /// A JSON object.
    Json(Value),
    /// SenML, with the time that stood before it.
    SenMl(senml::Pack<'a>),
}

impl Row<'_> {
    /// The value of a field as text.
    pub(super) fn field(&self, name: &str) -> Result<Cow<'_, str>, RowError> {
        let missing = |known: String| RowError::NoField { field: name.into(), known };
        match self {
            Row::Csv(header, fields) => match header.place(name) {
                Some(place) => Ok(Cow::Borrowed(&fields[place])),
                None => Err(missing(header.names().join(", "))),
            },
            Row::Json(object) => object.get(name).map(text).ok_or_else(|| {
                let names = object.as_object().map(|fields| fields.keys().cloned().collect());
                missing(names.unwrap_or_else(Vec::new).join(", "))
            }),
            Row::SenMl(pack) => pack.field(name).map(text).ok_or_else(|| missing(pack.names())),
        }
    }

    /// When the row was recorded, from `field` or from the first field with a usual name.
    pub(super) fn time(&self, field: Option<&str>) -> Result<u64, RowError> {
        if let (Row::SenMl(pack), None) = (self, field) {
            return pack.time();
        }
        let usual = || {
            TIME_FIELDS.iter().copied().find(|name| self.field(name).is_ok()).ok_or_else(|| {
                self.field("time").expect_err("no usual name is there, and this is one")
            })
        };
        let field = field.map_or_else(usual, Ok)?;
        let value = self.field(field)?;
        time::parse(&value)
            .ok_or_else(|| RowError::Time { field: field.into(), value: value.into_owned() })
    }

    /// The row as JSON.
    pub(super) fn json(&self) -> Option<String> {
        match self {
            Row::Csv(header, fields) => Some(header.json(fields)),
            Row::Json(_) => None,
            Row::SenMl(pack) => Some(pack.json().into()),
        }
    }
}

/// A JSON value as text: strings without their quotes.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// Reads one line of JSON.
pub(super) fn json(line: &str) -> Result<Value, RowError> {
    serde_json::from_str(line)
        .map_err(|error| RowError::Json { column: error.column(), what: error.to_string() })
}

/// Reads one line of JSON that must be an object.
pub(super) fn json_row(line: &str) -> Result<Row<'static>, RowError> {
    match json(line)? {
        object @ Value::Object(_) => Ok(Row::Json(object)),
        _ => Err(RowError::Shape("a JSON object a line")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_rows_have_fields_and_a_time() {
        let row = json_row(r#"{"ts":1422748800000,"site":"rome","n":7}"#).unwrap();
        assert_eq!(row.field("site").unwrap(), "rome");
        assert_eq!(row.field("n").unwrap(), "7");
        assert_eq!(row.time(None).unwrap(), 1_422_748_800_000_000_000);
        assert_eq!(row.time(Some("n")).unwrap(), 7_000_000_000);
        let error = row.time(Some("site")).unwrap_err();
        assert_eq!(error, RowError::Time { field: "site".into(), value: "rome".into() });
    }

    #[test]
    fn errors_name_field_and_column() {
        let Err(RowError::Json { column, .. }) = json_row("{\"a\":}") else { panic!() };
        assert_eq!(column, 6);
        assert_eq!(json_row("[1]").unwrap_err(), RowError::Shape("a JSON object a line"));
        let error = json_row(r#"{"b":1}"#).unwrap().time(None).unwrap_err();
        assert_eq!(error, RowError::NoField { field: "time".into(), known: "b".into() });
    }
}
