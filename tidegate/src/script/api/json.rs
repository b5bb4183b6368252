//! A message's payload as JSON: one value at a time, read once a message.

use mlua::{BorrowedStr, Lua, UserDataMethods, Value};

use super::message::MessageHandle;
use crate::script::fields::Scalar;
use crate::script::stage::{Told, on_stage};

/// The functions of `msg:json()`: a message has them itself.
pub(super) fn fields<M: UserDataMethods<MessageHandle>>(methods: &mut M) {
    methods.add_method("getString", |lua, this, path: BorrowedStr| {
        let id = this.id()?;
        let made = on_stage(lua, |stage| {
            stage.field(this.queue, id, &path, |scalar, payload| match scalar {
                Scalar::Plain(from, to) => text(lua, &payload[*from as usize..*to as usize]),
                Scalar::Text(own) => text(lua, own.as_bytes()),
                Scalar::Number(number) => text(lua, number.to_string().as_bytes()),
                Scalar::Switch(value) => text(lua, value.to_string().as_bytes()),
            })
        })?;
        made.transpose()
    });
    methods.add_method("getNum", |lua, this, path: BorrowedStr| {
        let id = this.id()?;
        on_stage(lua, |stage| {
            let number = stage.field(this.queue, id, &path, |scalar, payload| match scalar {
                Scalar::Number(number) => Some(*number),
                // Yahoo's benchmark sends times as texts.
                Scalar::Plain(from, to) => number(&payload[*from as usize..*to as usize]),
                Scalar::Text(own) => number(own.as_bytes()),
                Scalar::Switch(_) => None,
            })?;
            Ok(number.flatten())
        })
    });
}

fn text(lua: &Lua, bytes: &[u8]) -> Told<Value> {
    Ok(Value::String(lua.create_string(bytes)?))
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
