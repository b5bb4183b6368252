//! A message's header: `path` is its topic, everything else a property.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::Uri;
use hyper::header::{HeaderName, HeaderValue};
use mlua::{Lua, MultiValue, UserData, UserDataMethods, Value};
use tidegate_node::io::{Content, QueueId};
use tidegate_types::record::{DeliveryId, Properties};
use tidegate_types::topic::is_topic;

use super::bytes_of;
use crate::script::spec::Dialect;
use crate::script::stage::{Stage, Told, on_stage, wrong};

/// Name of the key among the headers, as HTTP has it.
const PATH: &str = "path";

/// The header of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) queue: QueueId,
    pub(super) id: DeliveryId,
}

impl Header {
    fn path(self, stage: &Stage) -> Told<Option<Bytes>> {
        let changed = stage.changed(self.id).and_then(|content| content.key.clone());
        let own = stage.record(self.queue, self.id)?.map(|record| record.key.clone());
        Ok(own.map(|own| changed.unwrap_or(own)))
    }

    fn properties(self, stage: &Stage) -> Told<Properties> {
        let changed = stage.changed(self.id).and_then(|content| content.properties.clone());
        let own = stage.record(self.queue, self.id)?.map(|record| record.properties.clone());
        Ok(changed.or(own).unwrap_or_default())
    }

    /// Sets a header, in the place of the first one of its name; takes it away where there is no value.
    fn set(self, stage: &mut Stage, name: &[u8], value: Option<Bytes>) -> Told<()> {
        let content = match value {
            Some(path) if name == PATH.as_bytes() => {
                check_path(&path, stage.spec.dialect)?;
                Content { key: Some(path), ..Content::default() }
            }
            value => {
                let name = &known_as(name, stage.spec.dialect)[..];
                if stage.spec.dialect == Dialect::Http {
                    check_header(name, value.as_deref())?;
                }
                let mut pairs: Vec<(Bytes, Bytes)> =
                    self.properties(stage)?.iter().cloned().collect();
                let place = pairs.iter().position(|(known, _)| known == name);
                pairs.retain(|(known, _)| known != name);
                if let Some(value) = value {
                    let place = place.unwrap_or(pairs.len());
                    pairs.insert(place, (Bytes::copy_from_slice(name), value));
                }
                Content { properties: Some(Properties::new(pairs)), ..Content::default() }
            }
        };
        stage.replace(self.queue, self.id, content)
    }
}

/// What a header is called: names of HTTP have no capital letters.
fn known_as(name: &[u8], dialect: Dialect) -> Cow<'_, [u8]> {
    match dialect {
        Dialect::Http if name.iter().any(u8::is_ascii_uppercase) => {
            Cow::Owned(name.to_ascii_lowercase())
        }
        _ => Cow::Borrowed(name),
    }
}

/// A header that HTTP does not know must not leave the proxy. Those with a colon are parts of the first line.
fn check_header(name: &[u8], value: Option<&[u8]>) -> Told<()> {
    let name = name.strip_prefix(b":").unwrap_or(name);
    if HeaderName::from_bytes(name).is_err() {
        return wrong("the name of a header has letters, digits and - only");
    }
    match value.map(HeaderValue::from_bytes) {
        Some(Err(_)) => wrong("the value of a header is one line of text"),
        _ => Ok(()),
    }
}

/// A path that no receiver would take must not leave the node.
pub(super) fn check_path(path: &Bytes, dialect: Dialect) -> Told<()> {
    if dialect == Dialect::Http {
        // It may lack the first slash, as in Fig. 13: then it is given one.
        let path =
            if path.starts_with(b"/") { path.clone() } else { [b"/", &path[..]].concat().into() };
        return match Uri::from_maybe_shared(path) {
            Ok(_) => Ok(()),
            Err(_) => wrong("a path is that of a request, such as /a/b?c=d"),
        };
    }
    match std::str::from_utf8(path) {
        Ok(path) if is_topic(path) => Ok(()),
        _ => wrong("a path is a topic: UTF-8, not empty, without + and #"),
    }
}

impl UserData for Header {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, this, name: String| {
            if name == PATH {
                return path_parts(lua, *this);
            }
            let value = on_stage(lua, |stage| {
                let name = known_as(name.as_bytes(), stage.spec.dialect);
                let all = this.properties(stage)?;
                Ok(all.iter().find(|(known, _)| *known == *name).map(|(_, value)| value.clone()))
            })?;
            Ok(MultiValue::from_iter([match value {
                Some(value) => Value::String(lua.create_string(value)?),
                None => Value::Nil,
            }]))
        });
        for name in ["replace", "set"] {
            methods.add_method(name, |lua, this, (name, value): (mlua::LuaString, Value)| {
                let value = bytes_of(&value)?;
                on_stage(lua, |stage| this.set(stage, &name.as_bytes(), Some(value)))
            });
        }
        methods.add_method("remove", |lua, this, name: mlua::LuaString| {
            on_stage(lua, |stage| this.set(stage, &name.as_bytes(), None))
        });
    }
}

/// The path; or, where the configuration says how it comes apart, its parts (Fig. 13): those that are
/// numbers as numbers.
fn path_parts(lua: &Lua, header: Header) -> Told<MultiValue> {
    let (path, pattern) =
        on_stage(lua, |stage| Ok((header.path(stage)?, stage.spec.path.clone())))?;
    let Some(path) = path else { return Ok(MultiValue::from_iter([Value::Nil])) };
    let whole = Value::String(lua.create_string(path)?);
    let Some(pattern) = pattern else { return Ok(MultiValue::from_iter([whole])) };
    let find: mlua::Function = lua.globals().get::<mlua::Table>("string")?.get("match")?;
    let parts: MultiValue = find.call((whole, pattern))?;
    let number = |part: Value| {
        let number = part.as_string().and_then(|text| text.to_string_lossy().parse().ok());
        number.map_or(part, Value::Number)
    };
    Ok(parts.into_iter().map(number).collect())
}
