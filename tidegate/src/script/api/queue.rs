//! Queues: Table I, first part.

use mlua::{AnyUserData, Function, Lua, MultiValue, Table, UserData, UserDataMethods, Value};
use tidegate_node::adapt::{QueueFacts, QueueState};
use tidegate_node::io::{QueueId, TcpState};
use tidegate_types::units::Rate;

use super::message::{self, MessageHandle};
use crate::script::Side;
use crate::script::stage::{Told, on_stage, wrong};

/// `h:Queues()`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queues;

/// One queue.
#[derive(Clone, Copy, Debug)]
pub(in crate::script) struct QueueHandle(pub(in crate::script) QueueId);

/// What a `for` over queues calls at each turn: made once a machine.
#[derive(Debug)]
pub(super) struct Steps(Function);

impl Steps {
    pub(super) fn new(lua: &Lua) -> mlua::Result<Steps> {
        let step = |lua: &Lua, (_, before): (Value, Option<AnyUserData>)| {
            let before = before.map(|queue| queue.borrow::<QueueHandle>().map(|queue| queue.0));
            let before = before.transpose()?;
            match on_stage(lua, |stage| stage.queue_after(before))? {
                Some(next) => Ok(Value::UserData(lua.create_userdata(QueueHandle(next))?)),
                None => Ok(Value::Nil),
            }
        };
        Ok(Steps(lua.create_function(step)?))
    }
}

impl UserData for Queues {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("getQueue", |lua, _, ()| match lua.app_data_ref::<Steps>() {
            Some(steps) => Ok(steps.0.clone()),
            None => wrong("this machine has no queues"),
        });
    }
}

impl UserData for QueueHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("length", |lua, this, ()| on_stage(lua, |stage| stage.length(this.0)));
        methods.add_method("id", |_, this, ()| Ok((this.0).0 as f64));
        methods.add_method("bytes", |lua, this, ()| {
            Ok(facts(lua, this.0)?.map(|facts| facts.bytes.as_f64()))
        });
        methods.add_method("avgLatency", |lua, this, ()| {
            let latency = facts(lua, this.0)?.and_then(|facts| facts.latency);
            Ok(latency.unwrap_or_default().as_secs_f64())
        });
        for name in ["observedBW", "getBW"] {
            methods.add_method(name, |lua, this, ()| {
                let bandwidth = facts(lua, this.0)?.and_then(|facts| facts.bandwidth);
                Ok(bandwidth.map(Rate::as_f64))
            });
        }
        methods.add_method("route", |lua, this, ()| route(lua, this.0));
        methods.add_method("state", |lua, this, ()| {
            Ok(facts(lua, this.0)?.map(|facts| state_name(facts.state)))
        });
        methods.add_method("isDown", |lua, this, ()| {
            Ok(facts(lua, this.0)?.map(|facts| facts.state == QueueState::Down))
        });
        methods.add_method("direction", |lua, this, ()| {
            let side = on_stage(lua, |stage| Ok(stage.node()?.script_of(this.0)))?;
            Ok(side.map(|id| match Side::split(id).0 {
                Side::Request => "request",
                Side::Response => "response",
            }))
        });
        methods.add_method("stream", |lua, this, ()| {
            let Some(QueueFacts { rule, .. }) = facts(lua, this.0)? else { return Ok(None) };
            on_stage(lua, |stage| {
                Ok(Some(stage.node()?.options().rules.get(rule).name.to_string()))
            })
        });
        methods.add_method("class", |lua, this, ()| {
            let Some(QueueFacts { class, .. }) = facts(lua, this.0)? else { return Ok(None) };
            on_stage(lua, |stage| {
                Ok(Some(stage.node()?.options().classes.spec(class).name.to_string()))
            })
        });
        methods.add_method("priority", |lua, this, ()| {
            Ok(facts(lua, this.0)?.map(|facts| facts.class.index() as f64 + 1.0))
        });
        methods.add_method("rate", |lua, this, ()| {
            Ok(on_stage(lua, |stage| stage.rate(this.0))?.map(Rate::as_f64))
        });
        methods.add_method("setRate", |lua, this, rate: Option<f64>| {
            if rate.is_some_and(|rate| !rate.is_finite() || rate < 0.0) {
                return wrong("setRate takes bytes/s, 0 or more, or nil for no bound");
            }
            on_stage(lua, |stage| stage.set_rate(this.0, rate.map(Rate::new)))
        });
        methods.add_method("TCPMetrics", |lua, this, name: String| {
            tcp_metric(facts(lua, this.0)?.and_then(|facts| facts.connections), &name)
        });
        methods.add_method("paths", |lua, this, ()| paths(lua, this.0));
        methods.add_method("messages", |lua, this, ()| {
            let Some(steps) = lua.app_data_ref::<message::Steps>() else {
                return wrong("this machine has no messages");
            };
            let values = [Value::Function(steps.0.clone()), state(lua, this.0)?, Value::Nil];
            Ok(MultiValue::from_iter(values))
        });
    }
}

/// What stays the same over a `for` over messages.
fn state(lua: &Lua, queue: QueueId) -> Told<Value> {
    Ok(Value::UserData(lua.create_userdata(MessageHandle { queue, id: None })?))
}

/// What is known of a queue.
pub(super) fn facts(lua: &Lua, queue: QueueId) -> Told<Option<QueueFacts>> {
    on_stage(lua, |stage| stage.facts(queue))
}

/// The name of the output that a queue leads to.
pub(super) fn route(lua: &Lua, queue: QueueId) -> Told<Option<String>> {
    let Some(QueueFacts { output, .. }) = facts(lua, queue)? else { return Ok(None) };
    on_stage(lua, |stage| {
        Ok(Some(stage.node()?.options().outputs[usize::from(output.0)].name.to_string()))
    })
}

/// A figure that the kernel has of a connection: seconds, bytes, segments; nil where there is none.
pub(super) fn tcp_metric(tcp: Option<TcpState>, name: &str) -> Told<Option<f64>> {
    let figure: fn(TcpState) -> Option<f64> = match name {
        "cwnd" => |tcp| Some(tcp.window.as_f64()),
        "srtt" | "rtt" => |tcp| Some(tcp.srtt.as_secs_f64()),
        "rttvar" => |tcp| Some(tcp.rttvar.as_secs_f64()),
        "min_rtt" => |tcp| Some(tcp.min_rtt.as_secs_f64()),
        "unacked" | "in_flight" => |tcp| Some(tcp.unacked.as_f64()),
        "retransmits" => |tcp| Some(tcp.retransmits as f64),
        "delivery_rate" => |tcp| Some(tcp.delivery_rate as f64).filter(|rate| *rate > 0.0),
        _ => {
            return wrong(format!(
                "no TCP metric {name:?}: there are cwnd, srtt, rttvar, min_rtt, unacked, retransmits, \
                 delivery_rate"
            ));
        }
    };
    Ok(tcp.and_then(figure))
}

/// The paths of the link that a queue leads to, each a table; none where it leads to no link.
fn paths(lua: &Lua, queue: QueueId) -> Told<Table> {
    let list = lua.create_table()?;
    let Some(output) = route(lua, queue)? else { return Ok(list) };
    for path in on_stage(lua, |stage| Ok(stage.links.paths_of(&output)))? {
        let one = lua.create_table()?;
        one.set("name", path.name.as_str())?;
        one.set("state", path.state_name())?;
        one.set("transport", path.transport)?;
        one.set("rate", path.rate.as_f64())?;
        one.set("rtt", path.srtt.map(|srtt| srtt.as_secs_f64()))?;
        one.set("delay", path.queue_delay.as_secs_f64())?;
        one.set("loss", path.loss)?;
        list.push(one)?;
    }
    Ok(list)
}

pub(in crate::script) fn state_name(state: QueueState) -> &'static str {
    match state {
        QueueState::Up => "up",
        QueueState::Degraded => "degraded",
        QueueState::Down => "down",
    }
}
