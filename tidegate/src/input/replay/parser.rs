//! Lines of a file in, records out: pure functions over bytes.

use super::csv::Header;
use super::key::KeyTemplate;
use super::row::{Row, RowError, json_row};
use super::senml;

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Found by the first line.
    #[default]
    Auto,
    /// A header line, then rows separated by commas, semicolons or tabs.
    Csv,
    /// A JSON object a line.
    JsonLines,
    /// SenML a line, with or without `epoch_ms,` before it.
    SenMl,
}

/// What becomes the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// The row as JSON.
    #[default]
    Json,
    /// The line as it is.
    Line,
}

/// How rows become records.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How the file is written.
    pub format: Format,
    /// The records' keys.
    pub key: KeyTemplate,
    /// The field with the time; `None` looks for the usual names.
    pub time: Option<String>,
    /// What becomes the payload.
    pub payload: Payload,
}

/// A row as a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    /// Nanoseconds since the Unix epoch.
    pub(super) time: u64,
    pub(super) key: String,
    pub(super) payload: String,
}

/// The state of one file's reading: its format and header, once known.
#[derive(Clone, Debug)]
pub(super) struct Parser {
    format: Format,
    header: Option<Header>,
}

impl Parser {
    pub(super) fn new(format: Format) -> Self {
        Parser { format, header: None }
    }

    /// Reads one line, with or without its line end; `None` where it is no row.
    pub(super) fn line(
        &mut self,
        line: &[u8],
        rules: &Rules,
        file: &str,
    ) -> Result<Option<Parsed>, RowError> {
        let text = std::str::from_utf8(line).map_err(|_| RowError::Utf8)?;
        // A byte order mark stands at the beginning of some files.
        let text = text.trim_end_matches(['\r', '\n']).trim_start_matches('\u{feff}');
        if text.trim().is_empty() {
            return Ok(None);
        }
        if self.format == Format::Auto {
            self.format = detect(text);
        }
        let row = match (self.format, &self.header) {
            (Format::Csv | Format::Auto, None) => {
                self.header = Some(Header::read(text)?);
                return Ok(None);
            }
            (Format::Csv | Format::Auto, Some(header)) => header.row(text)?,
            (Format::JsonLines, _) => json_row(text)?,
            (Format::SenMl, _) => Row::SenMl(senml::Pack::read(text)?),
        };
        let time = row.time(rules.time.as_deref())?;
        let key = rules.key.render(&row, file)?;
        let json = if rules.payload == Payload::Json { row.json() } else { None };
        Ok(Some(Parsed { time, key, payload: json.unwrap_or_else(|| text.into()) }))
    }
}

/// The format of a file that begins with this line.
fn detect(line: &str) -> Format {
    let stamped = line.split_once(',').is_some_and(|(stamp, rest)| {
        stamp.bytes().all(|byte| byte.is_ascii_digit()) && rest.trim_start().starts_with(['{', '['])
    });
    match line.trim_start().as_bytes() {
        _ if stamped => Format::SenMl,
        [b'[', ..] => Format::SenMl,
        [b'{', ..] if line.contains("\"e\"") => Format::SenMl,
        [b'{', ..] => Format::JsonLines,
        _ => Format::Csv,
    }
}

/// Any bytes as a file of any format, without I/O: what fuzzing calls.
///
/// # Panics
/// A promise of the parsers is broken.
pub fn exercise(bytes: &[u8]) {
    let key = KeyTemplate::new("{file}/{n}").expect("a good template");
    for format in [Format::Auto, Format::Csv, Format::JsonLines, Format::SenMl] {
        for payload in [Payload::Json, Payload::Line] {
            let rules = Rules { format, key: key.clone(), time: None, payload };
            let mut parser = Parser::new(format);
            for line in bytes.split(|&byte| byte == b'\n') {
                if let Ok(Some(parsed)) = parser.line(line, &rules, "f") {
                    assert!(tidegate_types::topic::is_topic(&parsed.key));
                    let json = serde_json::from_str::<serde_json::Value>(&parsed.payload);
                    assert!(payload == Payload::Line || json.is_ok(), "the payload is JSON");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(key: &str) -> Rules {
        Rules {
            format: Format::Auto,
            key: KeyTemplate::new(key).unwrap(),
            time: None,
            payload: Payload::Json,
        }
    }

    fn parse(lines: &[&str], key: &str) -> Vec<Result<Option<Parsed>, RowError>> {
        let rules = rules(key);
        let mut parser = Parser::new(rules.format);
        lines.iter().map(|line| parser.line(line.as_bytes(), &rules, "valve1")).collect()
    }

    #[test]
    fn formats_are_found_by_the_first_line() {
        assert_eq!(detect("1422748800000,{\"e\":[]}"), Format::SenMl);
        assert_eq!(detect("[{\"n\":\"a\"}]"), Format::SenMl);
        assert_eq!(detect("{\"ts\":1}"), Format::JsonLines);
        assert_eq!(detect("timestamp,value"), Format::Csv);
    }

    #[test]
    fn a_csv_file_is_read() {
        let rows =
            parse(&["\u{feff}timestamp,value\r\n", "2015-07-10 14:24:00,564\r\n", "\n"], "{file}");
        let row = Parsed {
            time: 1_436_538_240_000_000_000,
            key: "valve1".into(),
            payload: r#"{"timestamp":"2015-07-10 14:24:00","value":564}"#.into(),
        };
        assert_eq!(rows, [Ok(None), Ok(Some(row)), Ok(None)]);
    }

    #[test]
    fn a_senml_file_is_read() {
        let rows =
            parse(&["1422748800000,{\"e\":[{\"n\":\"source\",\"sv\":\"a\"}]}"], "city/{source}");
        let row = rows[0].clone().unwrap().unwrap();
        assert_eq!((row.key.as_str(), row.time), ("city/a", 1_422_748_800_000_000_000));
        assert_eq!(row.payload, "{\"e\":[{\"n\":\"source\",\"sv\":\"a\"}]}");
    }

    #[test]
    fn mutated_files_break_no_promise() {
        let seeds = [
            "timestamp;n;x\n2015-07-10 14:24:00;a;\"b\"\n1;2;3\n",
            "1422748800000,{\"e\":[{\"n\":\"n\",\"sv\":\"a\"}],\"bt\":1}\n[{\"bt\":5,\"n\":\"n\",\"v\":1}]\n",
            "{\"ts\":1.5,\"n\":\"é\"}\n{\"time\":\"2015-07-10T14:24:00Z\",\"n\":7}\n",
        ];
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize
        };
        for round in 0..3000 {
            let mut bytes = seeds[round % seeds.len()].as_bytes().to_vec();
            for _ in 0..1 + random() % 4 {
                let place = random() % bytes.len();
                match random() % 3 {
                    0 => bytes[place] = random() as u8,
                    1 => drop(bytes.remove(place)),
                    _ => bytes.insert(place, b"\",;{}[]-:\n\t"[random() % 11]),
                }
            }
            exercise(&bytes);
        }
    }
}
