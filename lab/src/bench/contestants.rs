//! Who carries a load over a link, from clients at the edge to a consumer in the cloud: Tidegate, and its rivals, which
//! are data (`lab/rivals.toml`). The benchmarks that compare them run each in turn over the same link.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::load::mqtt::Version;
use crate::load::{Book, Consume, Job, Payload, Publish, Source, Stream};
use crate::net;
use crate::net::namespace::{Link, Side};
use crate::net::process::{Process, Quiet};
use crate::net::scratch::Scratch;
use crate::progress::Progress;
use crate::rig::brokers::MQTT_PORT;
use crate::rig::{self, CONNECT};
use crate::world::{self, Broker};

/// A way from clients at the edge to a consumer in the cloud.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Contestant {
    /// As on the command line and in figures.
    pub(crate) name: String,
    /// The benchmarks that it takes part in.
    benches: Vec<String>,
    /// The MQTT that its publishers speak; zenoh has its own.
    #[serde(default)]
    version: Version,
    /// A process, and what it says when all of them reach each other.
    connected: Option<(String, String)>,
    /// All but the load, in the order of their start.
    process: Vec<world::Process>,
    #[serde(skip)]
    pub(crate) is_ours: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rivals {
    rival: Vec<Contestant>,
}

/// Those that are not ours, of a benchmark.
pub(super) fn rivals(bench: &str) -> Vec<Contestant> {
    let all: Rivals = toml::from_str(include_str!("../../rivals.toml")).expect("a test reads it");
    let is_in = |one: &Contestant| one.benches.iter().any(|name| name == bench);
    all.rival.into_iter().filter(is_in).collect()
}

/// Reads the name of one of these; `--help` tells all of them.
pub(super) fn one_of(all: fn() -> Vec<Contestant>) -> impl TypedValueParser<Value = Contestant> {
    // A command line knows names that last as long as the program, and is made once.
    let names = all().into_iter().map(|one| -> &'static str { one.name.leak() });
    PossibleValuesParser::new(names).map(move |name| {
        let found = all().into_iter().find(|one| one.name == name);
        found.expect("a possible value")
    })
}

tidegate_types::named! {
    /// Where a node sends.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Destination: "destination" {
        /// RabbitMQ in the cloud, AMQP.
        RabbitMq = "rabbitmq",
        /// Mosquitto in the cloud, MQTT.
        Mosquitto = "mosquitto",
        /// Files of the embedded sink.
        Files = "files",
        /// The embedded sink confirms and forgets.
        Nothing = "nothing",
    }
}

/// A node that sends there, with these tables behind what else `[node]` is to say.
pub(super) fn node(name: &str, to: Destination, tables: &str) -> Contestant {
    let mosquitto = "persistence false\nmax_queued_messages 0\n";
    let (broker, output, ready) = match to {
        Destination::RabbitMq => (Some(rig::rabbitmq()), rig::TO_RABBITMQ, "output is up"),
        Destination::Mosquitto => {
            let broker = rig::broker(Side::Cloud, Broker::Mosquitto, mosquitto);
            (Some(broker), rig::TO_MOSQUITTO, "output is up")
        }
        Destination::Files => (None, "sink = { directory = \"sink\" }\n", "ready"),
        Destination::Nothing => (None, "sink = { discard = true }\n", "ready"),
    };
    let address = (Side::Cloud.address(), MQTT_PORT).into();
    let from = match to {
        Destination::RabbitMq => Some(rig::everything()),
        Destination::Mosquitto => {
            Some(Source::Mqtt { address, filter: "#".into(), version: Version::V5 })
        }
        Destination::Files => Some(Source::Sink { folder: "sink".into() }),
        Destination::Nothing => None,
    };
    let consumer = from.map(|from| world::Process {
        name: CONSUMER.into(),
        host: if to == Destination::Files { Side::Edge } else { Side::Cloud }.name().into(),
        client: Some(json!(Job::Consume(Consume::once(from)))),
        ..world::Process::default()
    });
    let node = rig::node(output, tables, ready);
    Contestant {
        name: name.into(),
        benches: Vec::new(),
        version: Version::V5,
        connected: None,
        process: broker.into_iter().chain(consumer).chain([node]).collect(),
        is_ours: true,
    }
}

/// The process that prints what arrives.
const CONSUMER: &str = "consumer";

impl Contestant {
    /// The programs that it is made of, by name, with their versions.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (String, String)> {
        self.process.iter().filter_map(rig::process::version)
    }

    /// Starts everything but the load.
    pub(super) async fn start(&self, link: &Link, scratch: &Scratch) -> anyhow::Result<Rig> {
        let mut running = Vec::new();
        for process in &self.process {
            running.push((process, rig::raise(link, scratch, process).await?));
        }
        if let Some((name, says)) = &self.connected {
            let says = link.stage().fill(says)?;
            let named = running.iter_mut().find(|(process, _)| process.name == *name);
            named.context("a process that is there")?.1.says(&says, CONNECT).await?;
        }
        let mut rig = Rig { consumer: None, edge: Vec::new(), _elsewhere: Vec::new() };
        for (process, running) in running {
            if process.name == CONSUMER {
                rig.consumer = Some(running);
            } else if process.host == Side::Edge.name() {
                let (name, id) = (process.name.clone(), running.id().unwrap_or_default());
                rig.edge.push(Component { name, id, _process: running.quietly() });
            } else {
                rig._elsewhere.push(running.quietly());
            }
        }
        Ok(rig)
    }

    /// Starts the publishers of a job at the edge.
    fn publish(&self, link: &Link, scratch: &Scratch, job: Publish) -> anyhow::Result<Process> {
        if self.process.iter().all(|process| process.zenoh.is_none()) {
            let job = Publish { address: rig::edge_listener(), version: self.version, ..job };
            return rig::started(link, Side::Edge, "publisher", &Job::Publish(job));
        }
        let streams = job.streams.iter().map(zenoh_stream).collect::<anyhow::Result<Vec<_>>>()?;
        let publisher = world::Process {
            name: "publisher".into(),
            host: Side::Edge.name().into(),
            zenoh: Some(json!({
                "do": "publish", "connect": "{edge}:7447", "seconds": job.seconds, "streams": streams,
            })),
            ..world::Process::default()
        };
        let command = rig::process::command(&publisher, link.stage(), scratch)?;
        Ok(Process::start(&publisher.name, command)?)
    }

    /// Carries a load over a link, and waits for its end and for what is promised then, at most `drain`; `meanwhile` is
    /// begun with the load and knows what runs at the edge. Answers with the book, whether anything was to arrive, and
    /// what came of the meanwhile.
    pub(super) async fn carry<T>(
        &self,
        link: &Link,
        job: Publish,
        (load, drain): (Duration, Duration),
        meanwhile: impl AsyncFnOnce(&[Component]) -> anyhow::Result<T>,
    ) -> anyhow::Result<(Book, bool, T)> {
        let scratch = Scratch::new()?;
        let Rig { mut consumer, edge, _elsewhere } = self.start(link, &scratch).await?;
        let mut publisher = self.publish(link, &scratch, job)?;
        let mut book = Book::new(load);
        let until = Instant::now() + load + drain;
        let follow = book.follow(&mut publisher, consumer.as_mut(), until);
        let ((), found) = tokio::try_join!(follow, meanwhile(&edge))?;
        Ok((book, consumer.is_some(), found))
    }
}

/// A stream as zenoh's publisher has it. It carries no values, so nothing is asked of them.
fn zenoh_stream(stream: &Stream) -> anyhow::Result<serde_json::Value> {
    let (Payload::Stamped(size) | Payload::Measured(size)) = stream.payload else {
        bail!("zenoh's publisher has no rows of files");
    };
    // Its most and its least urgent one for data.
    let priority = if stream.is_urgent { "REAL_TIME" } else { "DATA_LOW" };
    Ok(json!({
        "name": stream.name, "key": stream.topic, "size": size,
        "per_second": stream.per_second, "priority": priority,
    }))
}

/// A contestant that is ready for load.
pub(super) struct Rig {
    /// Prints what arrives; `None` where nothing is to arrive.
    consumer: Option<Process>,
    /// What runs at the edge: what the contestant costs there.
    edge: Vec<Component>,
    /// What must go on running elsewhere.
    _elsewhere: Vec<Quiet>,
}

/// A process of a contestant at the edge.
pub(super) struct Component {
    pub(super) name: String,
    pub(super) id: u32,
    _process: Quiet,
}

/// Runs each contestant in turn, so many times around. Hands over what came of each turn, by its place; says which ones
/// are left out because their programs are missing.
///
/// # Errors
/// Links cannot be made here, or a contestant that is there does not work.
pub(super) async fn in_turns<T>(
    progress: &Progress,
    contestants: &[Contestant],
    (runs, expected): (u32, Duration),
    mut one: impl AsyncFnMut(&Contestant) -> anyhow::Result<T>,
) -> anyhow::Result<(Vec<Vec<T>>, Vec<String>)> {
    let mut all: Vec<Vec<T>> = contestants.iter().map(|_| Vec::new()).collect();
    let mut skipped = Vec::new();
    for run in 1..=runs {
        for (contestant, all) in contestants.iter().zip(&mut all) {
            let name = &contestant.name;
            progress.step(&format!("{name}, run {run} of {runs}"), Some(expected));
            match one(contestant).await {
                Ok(outcome) => all.push(outcome),
                Err(error) => skipped.push(net::skipped(name, error)?),
            }
        }
    }
    skipped.dedup();
    Ok((all, skipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rival_is_one_whose_jobs_the_lab_knows() {
        for bench in ["hol", "overhead"] {
            for Contestant { name, process, .. } in rivals(bench) {
                for job in process.iter().filter_map(|one| one.client.clone()) {
                    let text = job.to_string().replace("{edge}", "10.0.0.1");
                    let job = serde_json::from_str::<Job>(&text.replace("{cloud}", "10.0.0.2"));
                    assert!(job.is_ok(), "{name}: {job:?}");
                }
            }
        }
    }
}
