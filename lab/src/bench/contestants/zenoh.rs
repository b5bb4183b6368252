//! zenoh: a router on each side, clients with priorities, no shared memory between them.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Component, Entrance, Rig};
use crate::load::{Payload, Publish, Stream};
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::rig::CONNECT;
use crate::rig::versions::Program;

const PORT: u16 = 7447;
/// Routers and clients: they are sessions of zenoh's package for Python.
const SCRIPT: &str = include_str!("zenoh_clients.py");

/// Publishers, ready to be started.
pub(in crate::bench) struct Clients {
    script: PathBuf,
}

fn address(side: Side) -> String {
    format!("{}:{PORT}", side.address())
}

impl Clients {
    fn start(&self, link: &Link, side: Side, name: &str, job: &Value) -> anyhow::Result<Process> {
        let mut command = link.command(side, Program::Zenoh.path()?);
        command.arg(&self.script).arg(job.to_string());
        Ok(Process::start(name, command)?)
    }

    /// Starts one publisher a stream, each a session of its own at the router of the edge.
    pub(super) fn publish(&self, link: &Link, job: &Publish) -> anyhow::Result<Process> {
        let streams: anyhow::Result<Vec<Value>> = job.streams.iter().map(stream).collect();
        let job = json!({
            "do": "publish", "connect": address(Side::Edge), "seconds": job.seconds,
            "streams": streams?,
        });
        self.start(link, Side::Edge, "publisher", &job)
    }
}

fn stream(stream: &Stream) -> anyhow::Result<Value> {
    // Its own clients carry no values, so nothing is asked of them.
    let (Payload::Stamped(size) | Payload::Measured(size)) = stream.payload else {
        anyhow::bail!("zenoh's publisher has no rows of files");
    };
    // Its most and its least urgent one for data.
    let priority = if stream.is_urgent { "REAL_TIME" } else { "DATA_LOW" };
    Ok(json!({
        "name": stream.name, "key": stream.topic, "size": size,
        "per_second": stream.per_second, "priority": priority,
    }))
}

pub(super) async fn routers(link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
    // Said before anything is written, where it is not installed.
    Program::Zenoh.path()?;
    let clients = Clients { script: scratch.file("zenoh_clients.py", SCRIPT)? };
    let router = async |side: Side, connect: Option<String>| {
        let job = json!({ "do": "route", "listen": address(side), "connect": connect });
        let mut router = clients.start(link, side, "zenoh-router", &job)?;
        router.says("ready", CONNECT).await?;
        anyhow::Ok(router)
    };
    let cloud = router(Side::Cloud, None).await?;
    let edge = router(Side::Edge, Some(address(Side::Cloud))).await?;
    let job = json!({ "do": "consume", "connect": address(Side::Cloud), "key": "plant/*" });
    let mut consumer = clients.start(link, Side::Cloud, "consumer", &job)?;
    consumer.says("ready", CONNECT).await?;
    let (entrance, edge) = (Entrance::Zenoh(clients), vec![Component::new("zenoh router", edge)]);
    Ok(Rig { entrance, consumer: Some(consumer), edge, elsewhere: vec![cloud.quietly()] })
}
