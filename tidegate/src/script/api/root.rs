//! `h`, what an entry point is called with.

use std::time::Duration;

use mlua::{Function, Lua, MultiValue, UserData, UserDataMethods, Value};

use super::header::Header;
use super::message::message;
use super::queue::Queues;
use super::{notify, shown};
use crate::script::stage::{Told, Watched, on_stage, wrong};

/// `h`.
#[derive(Clone, Copy, Debug)]
pub(in crate::script) struct Root;

/// Shortest period of a timer: what a turn of the loop takes, many times over.
const PERIOD_MIN: f64 = 10.0;
/// Longest.
const PERIOD_MAX: f64 = 86_400_000.0;

impl UserData for Root {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("Queues", |lua, _, ()| lua.create_userdata(Queues));
        methods.add_method("message", |lua, _, ()| {
            let (queue, id) = on_stage(lua, |stage| stage.current())?;
            message(lua, queue, id)
        });
        methods.add_method("arrivals", |lua, _, ()| arrivals(lua));
        methods.add_method("header", |lua, _, ()| {
            let (queue, id) = on_stage(lua, |stage| stage.current())?;
            lua.create_userdata(Header { queue, id })
        });
        methods.add_method("redirect", |lua, _, to: String| {
            on_stage(lua, |stage| {
                let (queue, id) = stage.current()?;
                stage.redirect(queue, id, &to)
            })
        });
        methods.add_method("transform", |lua, _, name: String| {
            on_stage(lua, |stage| {
                let (queue, id) = stage.current()?;
                stage.transform(queue, id, &name)
            })
        });
        methods.add_method("drop", |lua, _, ()| {
            on_stage(lua, |stage| {
                let (queue, id) = stage.current()?;
                stage.drop(queue, id)
            })
        });
        methods.add_method("notify", |lua, _, said: (Value, Option<Value>)| notify(lua, &said));
        methods.add_method("log", |lua, _, text: Value| {
            let text = shown(&text);
            on_stage(lua, |stage| {
                stage.log(text);
                Ok(())
            })
        });
        methods.add_method("epoch", |lua, _, ()| {
            on_stage(lua, |stage| Ok(stage.moment().unix_ns as f64 / 1e9))
        });
        methods.add_method("state", |lua, _, ()| {
            match lua.named_registry_value::<Value>(STATE)? {
                Value::Nil => {
                    let table = lua.create_table()?;
                    lua.set_named_registry_value(STATE, &table)?;
                    Ok(Value::Table(table))
                }
                table => Ok(table),
            }
        });
        methods.add_method("every", |lua, _, (millis, function): (f64, Function)| {
            if !(PERIOD_MIN..=PERIOD_MAX).contains(&millis) {
                return wrong(format!("h:every takes {PERIOD_MIN} to {PERIOD_MAX} milliseconds"));
            }
            let period = Duration::from_secs_f64(millis / 1e3);
            on_stage(lua, |stage| stage.every(period, function))
        });
        methods.add_method("onChange", |lua, _, (what, function): (String, Function)| {
            let what = watched(&what)?;
            on_stage(lua, |stage| stage.watch(what, function))
        });
    }
}

/// What a `for` over the messages that came calls at each turn.
fn arrivals(lua: &Lua) -> Told<Function> {
    let mut place = 0;
    lua.create_function_mut(move |lua, _: MultiValue| {
        let next = on_stage(lua, |stage| stage.arrival_from(place))?;
        let Some((at, queue, id)) = next else { return Ok(Value::Nil) };
        place = at + 1;
        Ok(Value::UserData(message(lua, queue, id)?))
    })
}

/// Where a machine keeps the table of `h:state()`.
const STATE: &str = "state";

fn watched(name: &str) -> Told<Watched> {
    match name {
        "state" => Ok(Watched::State),
        "bandwidth" => Ok(Watched::Bandwidth),
        "latency" => Ok(Watched::Latency),
        _ => wrong(format!("no metric {name:?}: there are state, bandwidth, latency")),
    }
}
