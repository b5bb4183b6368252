//! Real processes on both sides of a link: the product, brokers, clients.

pub mod brokers;
pub mod envoy;
pub mod process;
pub mod server;
pub mod versions;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::load::{Job, READY, Source};
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::world::{self, Broker};
use brokers::{AMQP_PORT, MQTT_PORT, USER};

/// Time for a process to reach the far side.
pub const CONNECT: Duration = Duration::from_secs(30);

/// Where publishers find whoever stands at the edge.
pub fn edge_listener() -> SocketAddr {
    (Side::Edge.address(), MQTT_PORT).into()
}

/// The exchange of the private RabbitMQ that everybody publishes to.
pub(crate) const EXCHANGE: &str = "amq.topic";

/// Everything that comes to the private RabbitMQ, in a queue that goes with its consumer.
pub fn everything() -> Source {
    amqp(None)
}

/// The same in a durable queue.
pub fn durable(queue: &str) -> Source {
    amqp(Some(queue.into()))
}

fn amqp(queue: Option<String>) -> Source {
    let address = (Side::Cloud.address(), AMQP_PORT).into();
    Source::Amqp { address, user: USER.into(), exchange: EXCHANGE.into(), key: "#".into(), queue }
}

/// Starts a client of the lab at the cloud side and waits until it is ready.
///
/// # Errors
/// It cannot be started, or does not reach its broker.
pub async fn client(link: &Link, job: Job) -> anyhow::Result<Process> {
    let mut process = started(link, Side::Cloud, "client", &job)?;
    process.says(READY, CONNECT).await?;
    Ok(process)
}

/// Starts a client of the lab at a side, and waits for nothing.
///
/// # Errors
/// It cannot be started.
pub fn started(link: &Link, side: Side, name: &str, job: &Job) -> anyhow::Result<Process> {
    Ok(Process::start(name, link.stage().job(side.name(), job)?)?)
}

/// Starts a process of a world at a side and waits until it is ready.
///
/// # Errors
/// Its program is not here, or it does not come up.
pub async fn raise(
    link: &Link,
    scratch: &Scratch,
    process: &world::Process,
) -> anyhow::Result<Process> {
    process::raise(process, link.stage(), scratch).await
}

/// A broker at a side, with these settings.
pub fn broker(side: Side, broker: Broker, settings: &str) -> world::Process {
    world::Process {
        name: format!("broker-{}", side.name()),
        host: side.name().into(),
        broker: Some(broker),
        settings: Some(settings.into()),
        ..world::Process::default()
    }
}

/// The private RabbitMQ, at the cloud side.
pub fn rabbitmq() -> world::Process {
    broker(Side::Cloud, Broker::Rabbitmq, "")
}

/// Keys of an `[[output]]` to the private RabbitMQ.
pub const TO_RABBITMQ: &str = "rate = \"auto\"\namqp = { url = \"amqp://{cloud}\", exchange = \"amq.topic\", \
                               user = \"tidegate\", password_env = \"BROKER_PASSWORD\" }\n";
/// The same to a Mosquitto there.
pub const TO_MOSQUITTO: &str = "rate = \"auto\"\nmqtt = { url = \"mqtt://{cloud}\" }\n";

/// Tidegate at the edge side with an MQTT listener, an output with these keys, and these tables behind what else
/// `[node]` is to say; the next one may start when it says `ready`.
pub fn node(output: &str, tables: &str, ready: &str) -> world::Process {
    let configuration = format!(
        "[node]\nname = \"edge\"\n{tables}[[input]]\nmqtt = {{ listen = \"{{edge}}:{MQTT_PORT}\" }}\n\
         [[output]]\nname = \"cloud\"\n{output}"
    );
    world::Process {
        name: "tidegate".into(),
        host: Side::Edge.name().into(),
        tidegate: Some(configuration),
        ready: Some(ready.into()),
        ..world::Process::default()
    }
}

/// Makes a private authority in a folder, and what it issues: for each name, with the host that it is good for.
///
/// # Errors
/// The program says no.
pub fn keys(program: &Path, folder: &Path, issued: &[(&str, Option<&str>)]) -> anyhow::Result<()> {
    let make = |word: &str, words: &[&str]| {
        let mut command = Command::new(program);
        let output = command.args(["keys", word]).arg(folder).args(words).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        anyhow::Ok(())
    };
    make("init", &[])?;
    issued.iter().try_for_each(|(name, host)| match host {
        Some(host) => make("issue", &[name, "--host", host]),
        None => make("issue", &[name]),
    })
}

/// The product's program: the variable `TIDEGATE`, or the one that was built beside the lab's.
pub fn tidegate_program() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("TIDEGATE").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("tidegate"));
    let found = given.or_else(beside).filter(|path| path.is_file());
    found
        .context("needs the program tidegate, not found (cargo build -p tidegate, or set TIDEGATE)")
}
