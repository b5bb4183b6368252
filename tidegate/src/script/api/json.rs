//! A message's payload as JSON: one value at a time, without building the rest.

use std::fmt;

use mlua::{UserData, UserDataMethods};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tidegate_node::io::QueueId;
use tidegate_types::record::DeliveryId;

use crate::script::stage::on_stage;

/// Longest payload that is read as JSON: about a millisecond's work.
const JSON_MAX: usize = 256 * 1024;

/// The payload of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json {
    pub(super) queue: QueueId,
    pub(super) id: DeliveryId,
}

impl UserData for Json {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("getString", |lua, this, path: String| {
            let payload = on_stage(lua, |stage| stage.payload(this.queue, this.id))?;
            Ok(match payload.and_then(|payload| look_up(&payload, &path)) {
                Some(Scalar::Text(text)) => Some(text),
                Some(Scalar::Number(number)) => Some(number.to_string()),
                Some(Scalar::Switch(value)) => Some(value.to_string()),
                None => None,
            })
        });
        methods.add_method("getNum", |lua, this, path: String| {
            let payload = on_stage(lua, |stage| stage.payload(this.queue, this.id))?;
            Ok(match payload.and_then(|payload| look_up(&payload, &path)) {
                Some(Scalar::Number(number)) => Some(number),
                // Yahoo's benchmark sends times as texts.
                Some(Scalar::Text(text)) => text.trim().parse().ok(),
                _ => None,
            })
        });
    }
}

/// A value that scripts can have.
#[derive(Clone, Debug, PartialEq)]
enum Scalar {
    Text(String),
    Number(f64),
    Switch(bool),
}

/// The value at a path such as `a.b.0`; `None` where there is none, or no JSON.
fn look_up(payload: &[u8], path: &str) -> Option<Scalar> {
    if payload.len() > JSON_MAX {
        return None;
    }
    let mut reader = serde_json::Deserializer::from_slice(payload);
    At(path).deserialize(&mut reader).ok().flatten()
}

/// Reads what is at a path and skips everything else.
struct At<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<Scalar>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl At<'_> {
    fn scalar<E>(&self, scalar: Scalar) -> Result<Option<Scalar>, E> {
        Ok(self.0.is_empty().then_some(scalar))
    }

    fn step(&self) -> (&str, &str) {
        self.0.split_once('.').unwrap_or((self.0, ""))
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<Scalar>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        self.scalar(Scalar::Text(text.to_owned()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        self.scalar(Scalar::Number(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        self.scalar(Scalar::Number(number as f64))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        self.scalar(Scalar::Number(number as f64))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        self.scalar(Scalar::Switch(value))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (first, rest) = self.step();
        let mut found = None;
        while let Some(name) = map.next_key::<String>()? {
            if !self.0.is_empty() && name == first {
                found = map.next_value_seed(At(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (first, rest) = self.step();
        let place: Option<usize> = first.parse().ok();
        let (mut found, mut at) = (None, 0);
        loop {
            if place == Some(at) {
                match list.next_element_seed(At(rest))? {
                    Some(value) => found = value,
                    None => break,
                }
            } else if list.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
            at += 1;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_at_their_path() {
        let text =
            br#"{"a": {"b": [1, "x", {"c": true}]}, "event_time": "1400", "n": -2.5, "z": null}"#;
        let at = |path| look_up(text, path);
        assert_eq!(at("a.b.0"), Some(Scalar::Number(1.0)));
        assert_eq!(at("a.b.1"), Some(Scalar::Text("x".into())));
        assert_eq!(at("a.b.2.c"), Some(Scalar::Switch(true)));
        assert_eq!(at("event_time"), Some(Scalar::Text("1400".into())));
        assert_eq!(at("n"), Some(Scalar::Number(-2.5)));
        for nothing in ["", "a", "a.b", "a.b.7", "z", "q", "n.x", "a..b"] {
            assert_eq!(at(nothing), None, "{nothing}");
        }
        assert_eq!(look_up(b"no json", "a"), None);
        assert_eq!(look_up(&vec![b'['; 100_000], "0.0"), None, "as deep as it may be");
    }
}
