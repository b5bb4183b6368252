//! What scripts call: BumbleBee, Table I, with the names of Figs. 3, 9 and 13 beside the table's.
//!
//! Everything here is a handle; what it stands for is looked up on the stage at each call, so a handle
//! that a script kept is harmless. Units: bytes, bytes/s, seconds; `age` and `deadline` in milliseconds.

mod header;
mod json;
mod message;
mod queue;
mod root;

use mlua::{Lua, Value};

use super::spec::Parameter;
use super::stage::{Stage, Told, on_stage};

pub(super) use self::queue::QueueHandle;
pub(super) use self::root::Root;

/// Makes everything but the record's handles known to a machine.
pub(super) fn open(lua: &Lua, stage: Stage) -> mlua::Result<()> {
    let globals = lua.globals();
    for (name, value) in &stage.spec.parameters {
        globals.set(name.as_str(), parameter(lua, value)?)?;
    }
    lua.set_app_data(stage);
    lua.set_app_data(message::Steps::new(lua)?);
    lua.set_app_data(queue::Steps::new(lua)?);
    let print = |lua: &Lua, values: mlua::Variadic<Value>| {
        let text = values.iter().map(shown).collect::<Vec<String>>().join("\t");
        on_stage(lua, |stage| {
            stage.log(text);
            Ok(())
        })
    };
    globals.set("print", lua.create_function(print)?)?;
    let notify = |lua: &Lua, said: (Value, Option<Value>)| notify(lua, &said);
    globals.set("notify", lua.create_function(notify)?)
}

/// `notify(text)`, or `notify(name, text)`.
fn notify(lua: &Lua, said: &(Value, Option<Value>)) -> mlua::Result<()> {
    let (name, text) = match said {
        (name, Some(text)) => (Some(shown(name)), shown(text)),
        (text, None) => (None, shown(text)),
    };
    on_stage(lua, |stage| stage.notify(name.as_deref(), text))
}

fn parameter(lua: &Lua, value: &Parameter) -> mlua::Result<Value> {
    Ok(match value {
        Parameter::Switch(value) => Value::Boolean(*value),
        Parameter::Whole(value) => Value::Number(*value as f64),
        Parameter::Number(value) => Value::Number(*value),
        Parameter::Text(value) => Value::String(lua.create_string(value)?),
        Parameter::List(values) => {
            let table = lua.create_table()?;
            for value in values {
                table.raw_push(parameter(lua, value)?)?;
            }
            Value::Table(table)
        }
        Parameter::Table(values) => {
            let table = lua.create_table()?;
            for (name, value) in values {
                table.raw_set(name.as_str(), parameter(lua, value)?)?;
            }
            Value::Table(table)
        }
    })
}

/// A value as a text, without asking its metatable.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string_lossy(),
        Value::Number(number) => number.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(value) => value.to_string(),
        Value::Nil => "nil".into(),
        other => other.type_name().into(),
    }
}

/// A header's value, a payload: texts as they are, numbers as texts.
fn bytes_of(value: &Value) -> Told<bytes::Bytes> {
    match value {
        Value::String(text) => Ok(bytes::Bytes::copy_from_slice(&text.as_bytes())),
        Value::Number(_) | Value::Integer(_) | Value::Boolean(_) => Ok(shown(value).into()),
        other => super::stage::wrong(format!("a text is wanted, not a {}", other.type_name())),
    }
}
