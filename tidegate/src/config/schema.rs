//! The JSON schema of a file, with which editors complete and check it: `tidegate config --schema`.
//!
//! Draft 7 without references, which editors of TOML understand. It says what can be read; what must fit together,
//! `tidegate check` says.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::FileKind;
use super::reference::sections;
use crate::keys::key::{Key, Reload};
use crate::keys::values::{Choice, Shape};

/// The schema of a kind of file.
pub fn schema(kind: FileKind) -> Value {
    let mut root = table(&sections(kind), None);
    root["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    root["title"] = json!(format!("Tidegate: {}", kind.words()));
    root
}

fn table(keys: &[Key], reload: Option<Reload>) -> Value {
    let mut properties = Map::new();
    for key in keys {
        let schema = property(key, key.reload.or(reload));
        for former in key.former {
            let mut schema = schema.clone();
            schema["deprecated"] = json!(true);
            schema["description"] = json!(format!("Now called {}.", key.name));
            properties.insert((*former).into(), schema);
        }
        properties.insert(key.name.into(), schema);
    }
    let is_needed = |key: &&Key| key.is_required && key.former.is_empty();
    let required: Vec<&str> = keys.iter().filter(is_needed).map(|key| key.name).collect();
    let mut table =
        json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        table["required"] = json!(required);
    }
    table
}

fn property(key: &Key, reload: Option<Reload>) -> Value {
    let mut property = shape(&key.shape(), reload);
    property["description"] = json!(description(key, reload));
    if let Some(default) = key.default().and_then(|text| as_json(&text)) {
        property["default"] = default;
    }
    if let Some(sample) = key.sample.as_deref().and_then(as_json) {
        property["examples"] = json!([sample]);
    }
    if let Some(reload) = reload {
        property["x-reload"] = json!(reload.word());
    }
    if matches!(key.shape(), Shape::Whole | Shape::Number) {
        for bound in &key.bounds {
            let least = if bound.is_open { "exclusiveMinimum" } else { "minimum" };
            if bound.least > f64::MIN {
                property[least] = number(bound.least);
            }
            if bound.most < f64::MAX {
                property["maximum"] = number(bound.most);
            }
        }
    }
    property
}

/// Without a point where it is whole.
fn number(amount: f64) -> Value {
    if amount.fract() == 0.0 { json!(amount as i64) } else { json!(amount) }
}

/// What an editor shows beside a key.
fn description(key: &Key, reload: Option<Reload>) -> String {
    let bounds = key.bounds.iter().map(|bound| format!(" Right: {}.", bound.words));
    let reload = match reload {
        Some(Reload::Applies) => " A reload applies it.",
        Some(Reload::Restart) => " It counts from the next start on.",
        None => "",
    };
    let required = if key.is_required { " Required." } else { "" };
    format!("{}{required}{}{reload}", key.about(), bounds.collect::<String>())
}

/// What a text in TOML is in JSON.
pub(super) fn as_json(text: &str) -> Option<Value> {
    toml::from_str::<BTreeMap<String, Value>>(&format!("value = {text}")).ok()?.remove("value")
}

fn shape(shape_of: &Shape, reload: Option<Reload>) -> Value {
    match shape_of {
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Whole => json!({ "type": "integer", "minimum": 0 }),
        Shape::Number => json!({ "type": "number" }),
        Shape::Text => json!({ "type": "string" }),
        Shape::Form(form) => json!({ "type": "string", "pattern": form.pattern }),
        Shape::Choice(choices) if shape_of.is_text() => names(choices),
        Shape::Choice(choices) => {
            let (tables, texts): (Vec<Choice>, Vec<Choice>) =
                choices.iter().cloned().partition(|choice| choice.inner.is_some());
            let mut any: Vec<Value> = tables.iter().map(|choice| one_of(choice, reload)).collect();
            if !texts.is_empty() {
                any.push(names(&texts));
            }
            json!({ "anyOf": any })
        }
        Shape::List(inner) => json!({ "type": "array", "items": shape(inner, reload) }),
        Shape::OneOrMore(inner) => {
            let one = shape(inner, reload);
            json!({ "anyOf": [one, { "type": "array", "items": one }] })
        }
        Shape::Map(inner) => {
            json!({ "type": "object", "additionalProperties": shape(inner, reload) })
        }
        Shape::Table(keys) => table(&keys(), reload),
        Shape::Any(types) => json!({ "type": types }),
    }
}

/// Names that can be chosen; editors show what each means.
fn names(choices: &[Choice]) -> Value {
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    let about: Vec<&str> = choices.iter().map(|choice| choice.about.as_str()).collect();
    json!({ "type": "string", "enum": names, "x-taplo": { "docs": { "enumValues": about } } })
}

/// A table of one key.
fn one_of(choice: &Choice, reload: Option<Reload>) -> Value {
    let mut inner = choice.inner.map_or(json!({}), |inner| shape(&inner(), reload));
    inner["description"] = json!(choice.about);
    let mut properties = Map::new();
    properties.insert(choice.name.into(), inner);
    json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
        "required": [choice.name],
    })
}
