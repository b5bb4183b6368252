//! A record of a log as a line: for people, as JSON, as a row of a table.

use std::collections::BTreeMap;
use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use tidegate_log::{Header, LoggedRecord, Outcome};
use tidegate_types::record::{Fate, Identity, Origin};

use super::select::Picked;
use crate::calendar::Moment;
use crate::cli::log::PayloadForm;
use crate::status::table::size;

/// The columns of an export as a table.
pub(super) const COLUMNS: [&str; 11] = [
    "id",
    "class",
    "key",
    "arrived_unix_ns",
    "arrived",
    "source_unix_ns",
    "properties",
    "deliveries",
    "bytes",
    "encoding",
    "payload",
];

/// One line. Fields that the sink writes too have its names.
#[derive(Debug, Serialize)]
pub(super) struct Line<'a> {
    id: String,
    class: &'a str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrived: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uncertainty_seconds: Option<f64>,
    bound_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_after_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_unix_ns: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    properties: Vec<(String, String)>,
    /// Its `[[stream]]`, where the log still knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    bytes: u64,
    segment: u32,
    entry: u64,
    deliveries: BTreeMap<String, String>,
    /// The payload, where it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The payload in base64, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
}

/// What a record is called.
pub(super) fn identity(header: &Header, record: &LoggedRecord) -> Identity {
    let own = || {
        let origin = Origin { node: header.node.clone(), incarnation: header.incarnation };
        Identity { origin: origin.into(), stream: record.stream, seq: record.seq }
    };
    record.foreign.clone().unwrap_or_else(own)
}

/// How a delivery stands, in a word or two.
pub(super) fn ending(ending: Outcome) -> String {
    match ending {
        Outcome::Held => "held".into(),
        Outcome::Fate(fate) => fate_in_words(fate),
        Outcome::Untold => "ended".into(),
    }
}

/// A fate, in a word or two.
pub(super) fn fate_in_words(fate: Fate) -> String {
    match fate {
        Fate::Confirmed => "confirmed".into(),
        Fate::Dropped(reason) => format!("dropped ({})", reason.name()),
    }
}

impl<'a> Line<'a> {
    /// The line of a record; with its payload in a form, if one is given.
    pub(super) fn new(picked: &'a Picked<'_>, payload: Option<PayloadForm>) -> Line<'a> {
        let Picked { header, sequence, record, name, fates } = *picked;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let properties = record.properties.iter();
        let properties = properties.map(|(name, value)| (text(name), text(value))).collect();
        let endings = fates.of(record.stream, record.seq).into_iter();
        let (plain, encoded) = match payload {
            None => (None, None),
            Some(PayloadForm::Base64) => (None, Some(STANDARD.encode(&record.payload))),
            Some(PayloadForm::Text) => match std::str::from_utf8(&record.payload) {
                Ok(text) => (Some(text.to_owned()), None),
                Err(_) => (None, Some(STANDARD.encode(&record.payload))),
            },
        };
        let seconds =
            |later: tidegate_types::units::Time| later.since(record.arrived).as_secs_f64();
        Line {
            id: identity(header, record).to_string(),
            class: &record.class,
            key: text(&record.key),
            arrived_unix_ns: record.wall.map(|wall| wall.unix_ns),
            arrived: record.wall.map(|wall| Moment(wall.unix_ns).to_string()),
            uncertainty_seconds: record.wall.map(|wall| wall.uncertainty.as_secs_f64()),
            bound_seconds: seconds(record.deadline),
            expires_after_seconds: record.expires.map(seconds),
            source_unix_ns: record.source_unix_ns,
            properties,
            stream: name.map(|name| &*name.rule),
            source: name.map(|name| &*name.source),
            bytes: record.payload.len() as u64,
            segment: header.segment.0,
            entry: sequence,
            deliveries: endings.map(|(output, end)| (output.to_string(), ending(end))).collect(),
            text: plain,
            base64: encoded,
        }
    }

    /// The line for people; control characters of a topic are escaped, so that none reaches the terminal.
    pub(super) fn in_words(&self) -> String {
        let Line { id, class, key, arrived, bytes, .. } = self;
        let arrived = arrived.as_deref().unwrap_or("(no wall time)         ");
        let key = key.escape_debug();
        let mut line = format!("{arrived}  {id}  {class}  {key}  {}  ", size(*bytes));
        for (place, (output, ending)) in self.deliveries.iter().enumerate() {
            let _ = write!(line, "{}{output}: {ending}", if place > 0 { ", " } else { "" });
        }
        line
    }

    /// The cells of a row, as `COLUMNS` says.
    pub(super) fn cells(&self) -> anyhow::Result<[String; COLUMNS.len()]> {
        let number = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
        let (encoding, payload) = match (&self.text, &self.base64) {
            (Some(text), _) => ("text", text),
            (None, Some(base64)) => ("base64", base64),
            (None, None) => ("", &String::new()),
        };
        Ok([
            self.id.clone(),
            self.class.to_owned(),
            self.key.clone(),
            number(self.arrived_unix_ns),
            self.arrived.clone().unwrap_or_default(),
            number(self.source_unix_ns),
            serde_json::to_string(&self.properties)?,
            serde_json::to_string(&self.deliveries)?,
            self.bytes.to_string(),
            encoding.to_owned(),
            payload.clone(),
        ])
    }
}

/// A row of RFC 4180, with its line end.
pub(super) fn csv_row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let mut row = String::new();
    for (place, cell) in cells.into_iter().enumerate() {
        if place > 0 {
            row.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            let _ = write!(row, "\"{}\"", cell.replace('"', "\"\""));
        } else {
            row.push_str(cell);
        }
    }
    row.push_str("\r\n");
    row
}

/// A payload for people: as text, or in hexadecimal digits.
pub(super) fn payload_in_words(payload: &[u8]) -> String {
    let is_plain = |char: char| !char.is_control() || char == '\n' || char == '\t';
    match std::str::from_utf8(payload) {
        Ok(text) if text.chars().all(is_plain) => text.replace('\n', "\n    "),
        _ => payload.iter().fold("hex ".to_owned(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(csv_row(["a", "b,c", "d\"e", "", "f\ng"]), "a,\"b,c\",\"d\"\"e\",,\"f\ng\"\r\n");
    }

    #[test]
    fn payloads_do_no_harm_to_a_terminal() {
        assert_eq!(payload_in_words("1.5 \u{b0}C".as_bytes()), "1.5 \u{b0}C");
        assert_eq!(payload_in_words(b"\x1b[2J"), "hex 1b5b324a");
        assert_eq!(payload_in_words(&[0xff, 0x00]), "hex ff00");
    }
}
