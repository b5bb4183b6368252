//! A message's header: `path` is its topic, everything else a property.

use bytes::Bytes;
use mlua::{Lua, MultiValue, UserData, UserDataMethods, Value};
use tidegate_core::io::{Content, QueueId};
use tidegate_core::record::{DeliveryId, Properties};
use tidegate_core::topic::is_topic;

use super::bytes_of;
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
                check_path(&path)?;
                Content { key: Some(path), ..Content::default() }
            }
            value => {
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

/// A topic that no receiver would take must not leave the node.
pub(super) fn check_path(path: &Bytes) -> Told<()> {
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
            let value = on_stage(lua, |stage| Ok(this.properties(stage)?.find(&name).cloned()))?;
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
