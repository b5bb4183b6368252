//! Documents of YAML as JSON's values, for which Envoy's configuration has one meaning.

use anyhow::Context;
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Number, Value};

/// Columns before the text of a line. Each level of a block takes one at least, and the library recurses for each.
const INDENT_MAX: usize = 256;

/// Every document of a text: YAML, of one or many, or JSON.
///
/// # Errors
/// It is neither, or it has a key that is no text.
pub(super) fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let is_deep = |line: &str| indent(line.as_bytes()) > INDENT_MAX;
    if let Some(line) = text.lines().position(is_deep) {
        anyhow::bail!("line {}: nested deeper than {INDENT_MAX} columns", line + 1);
    }
    let documents = Yaml::load_from_str(text).context("this is no YAML")?;
    documents.into_iter().map(value).collect()
}

/// Spaces and what begins an entry: `- - ? a` has three levels.
fn indent(line: &[u8]) -> usize {
    let is_before = |at: &usize| match line[*at] {
        b' ' => true,
        b'-' | b'?' => line.get(at + 1).is_none_or(|next| *next == b' '),
        _ => false,
    };
    (0..line.len()).take_while(is_before).count()
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
