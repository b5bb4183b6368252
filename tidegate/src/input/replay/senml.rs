//! Rows of SenML: a JSON array of records as in RFC 8428, or the older object with its entries under
//! `e`; either may stand behind `epoch_ms,`.

use serde_json::Value;

use super::row::{RowError, json};
use super::time;

/// One line of SenML.
#[derive(Clone, Debug)]
pub(super) struct Pack<'a> {
    stamp: Option<&'a str>,
    json: &'a str,
    value: Value,
}

const SHAPE: RowError = RowError::Shape("SenML: an array of records, or an object with \"e\"");

impl<'a> Pack<'a> {
    /// Reads one line.
    pub(super) fn read(line: &'a str) -> Result<Self, RowError> {
        let (stamp, text) = match line.split_once(',') {
            Some((stamp, text)) if !stamp.trim_start().starts_with(['{', '[']) => {
                (Some(stamp), text)
            }
            _ => (None, line),
        };
        let value = json(text)?;
        let pack = Pack { stamp, json: text, value };
        if pack.entries().is_none() {
            return Err(SHAPE);
        }
        Ok(pack)
    }

    pub(super) fn json(&self) -> &'a str {
        self.json
    }

    fn entries(&self) -> Option<&Vec<Value>> {
        self.value.as_array().or_else(|| self.value.get("e")?.as_array())
    }

    fn of_entries(&self, name: &str) -> impl Iterator<Item = &Value> {
        self.entries().into_iter().flatten().filter_map(move |entry| entry.get(name))
    }

    /// The value of the entry called `name`, or else what the pack says by that name (`bn`, `bt`).
    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        let entry = self.entries()?.iter().find(|entry| entry.get("n").is_some_and(|n| n == name));
        let value = entry.and_then(|entry| {
            ["v", "vs", "sv", "vb", "bv"].into_iter().find_map(|kind| entry.get(kind))
        });
        value.or_else(|| self.value.get(name)).or_else(|| self.of_entries(name).next())
    }

    /// The names of the entries.
    pub(super) fn names(&self) -> String {
        let names: Vec<&str> = self.of_entries("n").filter_map(Value::as_str).collect();
        names.join(", ")
    }

    /// The time before the JSON, or the base time plus the first entry's time.
    pub(super) fn time(&self) -> Result<u64, RowError> {
        if let Some(stamp) = self.stamp {
            return time::parse(stamp)
                .ok_or_else(|| RowError::Time { field: "first".into(), value: stamp.into() });
        }
        let base = self.value.get("bt").or_else(|| self.of_entries("bt").next());
        let own = self.of_entries("t").next();
        let text = match (base, own) {
            (Some(base), None) => base.to_string(),
            (None, Some(own)) => own.to_string(),
            (Some(base), Some(own)) => {
                let sum = base.as_f64().unwrap_or(f64::NAN) + own.as_f64().unwrap_or(f64::NAN);
                sum.to_string()
            }
            (None, None) => {
                return Err(RowError::NoField { field: "bt".into(), known: self.names() });
            }
        };
        time::parse(&text).ok_or(RowError::Time { field: "bt".into(), value: text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"1422748800000,{"e":[{"u":"string","n":"source","sv":"ci4"},{"v":"8","u":"far","n":"temperature"}],"bt":1422748800000}"#;

    #[test]
    fn a_stamped_line_is_split_at_its_first_comma() {
        let pack = Pack::read(OLD).unwrap();
        assert_eq!(pack.time().unwrap(), 1_422_748_800_000_000_000);
        assert!(pack.json().starts_with("{\"e\""));
        assert_eq!(pack.field("source").unwrap(), "ci4");
        assert_eq!(pack.field("temperature").unwrap(), "8");
        assert_eq!(pack.names(), "source, temperature");
        assert!(pack.field("color").is_none());
    }

    #[test]
    fn the_standards_form_is_read() {
        let line = r#"[{"bn":"urn:dev:1:","bt":1276020076,"n":"voltage","u":"V","v":120.1},{"n":"current","t":-5,"v":1.2}]"#;
        let pack = Pack::read(line).unwrap();
        assert_eq!(pack.time().unwrap(), 1_276_020_071_000_000_000);
        assert_eq!(pack.field("current").unwrap(), 1.2);
        assert_eq!(pack.field("bn").unwrap(), "urn:dev:1:");
    }

    #[test]
    fn wrong_lines_are_named() {
        assert_eq!(Pack::read("1,7").unwrap_err(), SHAPE);
        assert!(matches!(Pack::read("1,{\"e\":["), Err(RowError::Json { .. })));
        let unstamped = Pack::read("{\"e\":[{\"n\":\"a\"}]}").unwrap().time().unwrap_err();
        assert_eq!(unstamped, RowError::NoField { field: "bt".into(), known: "a".into() });
        let stamped = Pack::read("x,{\"e\":[]}").unwrap().time().unwrap_err();
        assert_eq!(stamped, RowError::Time { field: "first".into(), value: "x".into() });
    }
}
