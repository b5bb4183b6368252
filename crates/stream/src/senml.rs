//! Rows as SenML: RFC 8428, and the older form that gateways and data sets still have, an object with its
//! entries in `e` and its base values beside them.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json as object};

use super::ROWS_MAX;
use super::json::{field, json};
use super::value::{Row, StepError, Value};

/// The field in which the time of a row stands.
const TIME: &str = "time";

/// One row for each time of a pack: its names are fields, its time is `time` where it has one.
///
/// # Errors
/// It is no SenML.
pub(super) fn read(payload: &[u8]) -> Result<Vec<Row>, StepError> {
    let pack: Json = serde_json::from_slice(payload).map_err(|_| StepError::Parse)?;
    let mut base = Base::default();
    let entries = match &pack {
        Json::Array(entries) => entries,
        Json::Object(pack) => {
            base.take(pack);
            pack.get("e").and_then(Json::as_array).ok_or(StepError::Parse)?
        }
        _ => return Err(StepError::Parse),
    };
    let mut rows: Vec<(Option<f64>, Row)> = Vec::new();
    for entry in entries {
        let entry = entry.as_object().ok_or(StepError::Parse)?;
        base.take(entry);
        let Some((name, value)) = base.field(entry) else { continue };
        let time = base.time(entry);
        let place = rows.iter().rposition(|(known, _)| same(*known, time));
        let place = match place {
            Some(place) => place,
            None if rows.len() >= ROWS_MAX => return Err(StepError::Bound),
            None => {
                let time_field = time.map(|time| (TIME.into(), Value::Number(time)));
                rows.push((time, time_field.into_iter().collect()));
                rows.len() - 1
            }
        };
        rows[place].1.set(name, value);
    }
    if rows.is_empty() {
        Err(StepError::Parse)
    } else {
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }
}

/// A pack of RFC 8428; `time`, where it is a number, is its base time.
pub(super) fn write(row: &Row) -> Vec<u8> {
    let time = row.find(TIME).and_then(Value::number);
    let fields = row.iter().filter(|(name, _)| time.is_none() || ***name != *TIME);
    let mut pack: Vec<Json> = fields
        .map(|(name, value)| match value {
            Value::Number(_) => object!({ "n": &**name, "v": json(value) }),
            Value::Text(text) => object!({ "n": &**name, "vs": &**text }),
            Value::Flag(flag) => object!({ "n": &**name, "vb": flag }),
        })
        .collect();
    if let (Some(Json::Object(first)), Some(time)) = (pack.first_mut(), time) {
        first.insert("bt".into(), json(&Value::Number(time)));
    }
    Json::Array(pack).to_string().into_bytes()
}

fn same(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(&b).is_eq(),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Base values: each holds until another one comes.
#[derive(Default)]
struct Base {
    name: String,
    time: Option<f64>,
    value: f64,
}

impl Base {
    fn take(&mut self, entry: &Map<String, Json>) {
        if let Some(name) = entry.get("bn").and_then(Json::as_str) {
            self.name = name.into();
        }
        self.time = number(entry, "bt").or(self.time);
        self.value = number(entry, "bv").unwrap_or(self.value);
    }

    fn time(&self, entry: &Map<String, Json>) -> Option<f64> {
        match (self.time, number(entry, "t")) {
            (None, time) => time,
            (base, time) => base.map(|base| base + time.unwrap_or(0.0)),
        }
    }

    /// What an entry measured: `v`, which some write as a text, else `vs` or the older `sv`, `vb` or `bv`.
    fn field(&self, entry: &Map<String, Json>) -> Option<(Arc<str>, Value)> {
        let name = entry.get("n").and_then(Json::as_str).unwrap_or_default();
        let name = format!("{}{name}", self.name);
        let value = match entry.get("v") {
            Some(_) => Value::Number(number(entry, "v")? + self.value),
            None => {
                let others = ["vs", "sv", "vb", "vd"];
                others.iter().find_map(|key| field(entry.get(*key)?))?
            }
        };
        (!name.is_empty()).then(|| (name.into(), value))
    }
}

fn number(entry: &Map<String, Json>, key: &str) -> Option<f64> {
    field(entry.get(key)?)?.number()
}
