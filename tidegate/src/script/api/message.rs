//! Messages: Table I, second part.

use bytes::Bytes;
use mlua::{AnyUserData, Function, Lua, UserData, UserDataMethods, Value};
use tidegate_node::io::{Content, QueueId};
use tidegate_types::record::{DeliveryId, Properties};

use super::bytes_of;
use super::header::Header;
use super::queue::{facts, route, tcp_metric};
use crate::script::stage::{Told, on_stage, wrong};

/// A record of a queue; without one, the queue's end.
#[derive(Clone, Copy, Debug)]
pub(in crate::script) struct MessageHandle {
    pub(super) queue: QueueId,
    pub(super) id: Option<DeliveryId>,
}

impl MessageHandle {
    pub(super) fn id(self) -> Told<DeliveryId> {
        match self.id {
            Some(id) => Ok(id),
            None => wrong("this is no message"),
        }
    }
}

/// The handle of a record.
pub(in crate::script) fn message(lua: &Lua, queue: QueueId, id: DeliveryId) -> Told<AnyUserData> {
    let make = || lua.create_userdata(MessageHandle { queue, id: Some(id) });
    on_stage(lua, |stage| stage.handles.get(queue, id, make))
}

/// What a `for` over messages calls at each turn: made once a machine.
#[derive(Debug)]
pub(super) struct Steps(pub(super) Function);

impl Steps {
    pub(super) fn new(lua: &Lua) -> mlua::Result<Steps> {
        let step = |lua: &Lua, (all, before): (AnyUserData, Option<AnyUserData>)| {
            let queue = all.borrow::<MessageHandle>()?.queue;
            let before =
                before.map(|message| message.borrow::<MessageHandle>()?.id()).transpose()?;
            on_stage(lua, |stage| {
                let Some(id) = stage.message_after(queue, before)? else { return Ok(Value::Nil) };
                let make = || lua.create_userdata(MessageHandle { queue, id: Some(id) });
                Ok(Value::UserData(stage.handles.get(queue, id, make)?))
            })
        };
        Ok(Steps(lua.create_function(step)?))
    }
}

impl UserData for MessageHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        looks(methods);
        verdicts(methods);
    }
}

fn looks<M: UserDataMethods<MessageHandle>>(methods: &mut M) {
    methods.add_method("size", |lua, this, ()| {
        let id = this.id()?;
        on_stage(lua, |stage| Ok(stage.payload(this.queue, id)?.map_or(0, |payload| payload.len())))
    });
    methods.add_method("age", |lua, this, ()| {
        let id = this.id()?;
        on_stage(lua, |stage| {
            let now = stage.moment().now;
            let record = stage.record(this.queue, id)?;
            Ok(record.map(|record| now.since(record.arrived).as_secs_f64() * 1e3))
        })
    });
    methods.add_method("deadline", |lua, this, ()| {
        let id = this.id()?;
        on_stage(lua, |stage| {
            let now = stage.moment().now;
            let record = stage.record(this.queue, id)?;
            let left = |record: &tidegate_types::record::Record| {
                let (left, past) = (record.deadline.since(now), now.since(record.deadline));
                (left.as_secs_f64() - past.as_secs_f64()) * 1e3
            };
            Ok(record.map(left))
        })
    });
    methods.add_method("class", |lua, this, ()| {
        let id = this.id()?;
        on_stage(lua, |stage| {
            let node = stage.node()?;
            let class = node.class_of(id);
            Ok(class.map(|class| node.options().classes.spec(class).name.to_string()))
        })
    });
    methods.add_method("TCPMetrics", |lua, this, name: String| {
        tcp_metric(facts(lua, this.queue)?.and_then(|facts| facts.connection), &name)
    });
    methods.add_method("dst", |lua, this, ()| route(lua, this.queue));
    methods.add_method("header", |lua, this, ()| {
        lua.create_userdata(Header { queue: this.queue, id: this.id()? })
    });
    // A message is its own view of its fields: a queue is gone through without making more handles.
    methods.add_function("json", |_, this: AnyUserData| {
        this.borrow::<MessageHandle>()?.id()?;
        Ok(this)
    });
    super::json::fields(methods);
    methods.add_method("bytes", |lua, this, (from, to): (Option<f64>, Option<f64>)| {
        let id = this.id()?;
        let payload = on_stage(lua, |stage| stage.payload(this.queue, id))?.unwrap_or_default();
        lua.create_string(part(&payload, from.unwrap_or(1.0), to.unwrap_or(-1.0)))
    });
    methods.add_method("state", |lua, this, ()| {
        Ok(facts(lua, this.queue)?.map(|facts| super::queue::state_name(facts.state)))
    });
}

fn verdicts<M: UserDataMethods<MessageHandle>>(methods: &mut M) {
    methods.add_method("drop", |lua, this, ()| {
        let id = this.id()?;
        on_stage(lua, |stage| stage.drop(this.queue, id))
    });
    methods.add_method("redirect", |lua, this, to: String| {
        let id = this.id()?;
        on_stage(lua, |stage| stage.redirect(this.queue, id, &to))
    });
    methods.add_method("transform", |lua, this, name: String| {
        let id = this.id()?;
        on_stage(lua, |stage| stage.transform(this.queue, id, &name))
    });
    methods.add_method("moveToFront", |lua, this, ()| {
        let id = this.id()?;
        on_stage(lua, |stage| stage.move_to(this.queue, id, true))
    });
    methods.add_method("moveToBack", |lua, this, ()| {
        let id = this.id()?;
        on_stage(lua, |stage| stage.move_to(this.queue, id, false))
    });
    methods.add_method("insert", |lua, this, new: Value| {
        let id = this.id()?;
        let content = content(lua, &new)?;
        on_stage(lua, |stage| stage.insert(this.queue, id, content))
    });
    methods.add_method("setBody", |lua, this, body: Value| {
        let id = this.id()?;
        let content = Content { payload: Some(bytes_of(&body)?), ..Content::default() };
        on_stage(lua, |stage| stage.replace(this.queue, id, content))
    });
}

/// The bytes from one place to another, both counted from 1, or from the end where negative.
fn part(bytes: &Bytes, from: f64, to: f64) -> &[u8] {
    let length = bytes.len() as f64;
    let place = |at: f64| if at < 0.0 { length + at + 1.0 } else { at };
    // What is no number at all becomes 0.
    let first = (place(from).max(1.0) - 1.0).min(length) as usize;
    let last = place(to).clamp(0.0, length) as usize;
    bytes.get(first..last).unwrap_or_default()
}

/// What `insert` is given: a payload, a table, or a message to be copied.
fn content(lua: &Lua, new: &Value) -> Told<Content> {
    match new {
        Value::UserData(other) => {
            let MessageHandle { queue, id } = *other.borrow::<MessageHandle>()?;
            let Some(id) = id else { return wrong("this is no message") };
            on_stage(lua, |stage| {
                let payload = stage.payload(queue, id)?;
                let Some(record) = stage.record(queue, id)? else {
                    return wrong("a message that is gone cannot be inserted");
                };
                let (key, properties) = (record.key.clone(), record.properties.clone());
                let changed = stage.changed(id).cloned().unwrap_or_default();
                Ok(Content {
                    key: changed.key.or(Some(key)),
                    properties: changed.properties.or(Some(properties)),
                    payload,
                })
            })
        }
        Value::Table(table) => {
            let given = |name| -> Told<Option<Bytes>> {
                match table.raw_get::<Value>(name)? {
                    Value::Nil => Ok(None),
                    value => bytes_of(&value).map(Some),
                }
            };
            let (key, payload) = (given("path")?, given("body")?);
            if let Some(key) = &key {
                let dialect = on_stage(lua, |stage| Ok(stage.spec.dialect))?;
                super::header::check_path(key, dialect)?;
            }
            let header: Option<mlua::Table> = table.raw_get("header")?;
            let properties = match header {
                None => None,
                Some(header) => {
                    let mut pairs = Vec::new();
                    for pair in header.pairs::<Value, Value>() {
                        let (name, value) = pair?;
                        pairs.push((bytes_of(&name)?, bytes_of(&value)?));
                    }
                    Some(Properties::new(pairs))
                }
            };
            Ok(Content { key, properties, payload })
        }
        other => Ok(Content { payload: Some(bytes_of(other)?), ..Content::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_cut_as_lua_cuts() {
        let bytes = Bytes::from_static(b"hello");
        let part = |from, to| String::from_utf8(part(&bytes, from, to).to_vec()).unwrap();
        assert_eq!(part(2.0, 4.0), "ell");
        assert_eq!(part(1.0, -1.0), "hello");
        assert_eq!(part(-3.0, -2.0), "ll");
        assert_eq!(
            (part(4.0, 2.0), part(0.0, 1.0), part(9.0, 12.0)),
            ("".into(), "h".into(), "".into())
        );
        assert_eq!(
            (part(f64::NAN, 3.0), part(-100.0, f64::INFINITY)),
            ("hel".into(), "hello".into())
        );
    }
}
