//! Rows as JSON.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::ROWS_MAX;
use super::value::{Row, StepError, Value};

/// The rows of an object, or of a list of objects. Objects inside become fields with dots in their names, lists
/// inside the text that they are; null is no field.
///
/// # Errors
/// It is no JSON, or neither of these.
pub fn read(payload: &[u8]) -> Result<Vec<Row>, StepError> {
    match serde_json::from_slice(payload).map_err(|_| StepError::Parse)? {
        Json::Object(object) => Ok(vec![row(object)]),
        Json::Array(all) if all.len() > ROWS_MAX => Err(StepError::Bound),
        Json::Array(all) => all
            .into_iter()
            .map(|one| match one {
                Json::Object(object) => Ok(row(object)),
                _ => Err(StepError::Parse),
            })
            .collect(),
        _ => Err(StepError::Parse),
    }
}

/// One object.
pub fn write(row: &Row) -> Vec<u8> {
    let fields = row.iter().map(|(name, value)| (name.to_string(), json(value)));
    Json::Object(fields.collect()).to_string().into_bytes()
}

/// A number that is whole has no fraction.
pub(super) fn json(value: &Value) -> Json {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.fract().abs() < f64::EPSILON && number.abs() < EXACT => {
            Json::from(*number as i64)
        }
        Value::Number(number) => Json::from(*number),
        Value::Text(text) => Json::from(&**text),
        Value::Flag(flag) => Json::from(*flag),
    }
}

fn row(object: Map<String, Json>) -> Row {
    let mut fields = Vec::new();
    flatten("", object, &mut fields);
    fields.into_iter().collect()
}

// The parser bounds the depth.
fn flatten(prefix: &str, object: Map<String, Json>, fields: &mut Vec<(Arc<str>, Value)>) {
    for (name, value) in object {
        let name = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
        match value {
            Json::Object(inner) => flatten(&name, inner, fields),
            other => fields.extend(field(&other).map(|value| (name.into(), value))),
        }
    }
}

/// A single value; `None` for null.
pub(super) fn field(json: &Json) -> Option<Value> {
    Some(match json {
        Json::Null => return None,
        Json::Bool(flag) => Value::Flag(*flag),
        Json::Number(number) => Value::Number(number.as_f64()?),
        Json::String(text) => Value::Text(text.as_str().into()),
        other => Value::Text(other.to_string().into()),
    })
}
