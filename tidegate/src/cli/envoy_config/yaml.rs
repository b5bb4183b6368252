//! Documents of YAML as JSON's values, for which Envoy's configuration has one meaning.

use anyhow::Context;
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Number, Value};

/// Every document of a text: YAML, of one or many, or JSON.
///
/// # Errors
/// It is neither, or it has a key that is no text.
pub(super) fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let documents = Yaml::load_from_str(text).context("this is no YAML")?;
    documents.into_iter().map(value).collect()
}

fn value(node: Yaml<'_>) -> anyhow::Result<Value> {
    Ok(match node {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(flag)) => Value::Bool(flag),
        Yaml::Value(Scalar::Integer(number)) => Value::Number(number.into()),
        // JSON has no infinity.
        Yaml::Value(Scalar::FloatingPoint(number)) => {
            Number::from_f64(*number).map_or(Value::Null, Value::Number)
        }
        Yaml::Value(Scalar::String(text)) => Value::String(text.into_owned()),
        Yaml::Sequence(nodes) => {
            Value::Array(nodes.into_iter().map(value).collect::<anyhow::Result<_>>()?)
        }
        Yaml::Mapping(pairs) => Value::Object(
            pairs
                .into_iter()
                .map(|(name, node)| Ok((key(name)?, value(node)?)))
                .collect::<anyhow::Result<Map<_, _>>>()?,
        ),
        Yaml::Tagged(_, node) => value(*node)?,
        Yaml::Representation(..) | Yaml::Alias(_) | Yaml::BadValue => {
            anyhow::bail!("this is no YAML: a value has no meaning")
        }
    })
}

fn key(node: Yaml<'_>) -> anyhow::Result<String> {
    Ok(match value(node)? {
        Value::String(text) => text,
        Value::Object(_) | Value::Array(_) => anyhow::bail!("a key of a mapping is no text"),
        plain => plain.to_string(),
    })
}
