//! Real processes on both sides of a link: the product, brokers, clients.

pub mod brokers;
pub mod envoy;
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
use brokers::{AMQP_PORT, MQTT_PORT, USER, lab};

/// Time for a process to reach the far side.
pub const CONNECT: Duration = Duration::from_secs(30);

/// Where publishers find whoever stands at the edge.
pub fn edge_listener() -> SocketAddr {
    (Side::Edge.address(), MQTT_PORT).into()
}

/// The exchange of the private RabbitMQ that everybody publishes to.
pub const EXCHANGE: &str = "amq.topic";

/// Everything that comes to the private RabbitMQ, in a queue that goes with its consumer.
pub fn everything() -> Source {
    Source::Amqp {
        address: (Side::Cloud.address(), AMQP_PORT).into(),
        user: USER.into(),
        exchange: EXCHANGE.into(),
        key: "#".into(),
        queue: None,
    }
}

/// The same in a durable queue.
pub fn durable(queue: &str) -> Source {
    match everything() {
        Source::Amqp { address, user, exchange, key, .. } => {
            Source::Amqp { address, user, exchange, key, queue: Some(queue.into()) }
        }
        other => other,
    }
}

/// Starts a client of the lab at the cloud side and waits until it is ready.
///
/// # Errors
/// It cannot be started, or does not reach its broker.
pub async fn client(link: &Link, job: Job) -> anyhow::Result<Process> {
    client_at(link, Side::Cloud, job).await
}

/// Starts a client of the lab at a side and waits until it is ready.
///
/// # Errors
/// It cannot be started, or does not reach its broker.
pub async fn client_at(link: &Link, side: Side, job: Job) -> anyhow::Result<Process> {
    let mut process = started(link, side, "client", &job)?;
    process.says(READY, CONNECT).await?;
    Ok(process)
}

/// Starts a client of the lab at a side, and waits for nothing.
///
/// # Errors
/// It cannot be started.
pub fn started(link: &Link, side: Side, name: &str, job: &Job) -> anyhow::Result<Process> {
    let mut command = lab(link, side)?;
    job.add_to(&mut command);
    Ok(Process::start(name, command)?)
}

/// Starts Tidegate at the edge side, with an output to the private RabbitMQ over the link and these `[[stream]]` tables,
/// and waits for nothing.
///
/// # Errors
/// It is not built.
pub fn start_tidegate(
    link: &Link,
    scratch: &Scratch,
    scheduler: &str,
    streams: &str,
) -> anyhow::Result<Process> {
    let output = to_rabbitmq(scratch)?;
    let tables = format!("{streams}[[output]]\nname = \"cloud\"\n{output}");
    start_node(link, scratch, scheduler, &tables)
}

/// Keys of an `[[output]]` to the private RabbitMQ.
pub fn to_rabbitmq(scratch: &Scratch) -> anyhow::Result<String> {
    let (cloud, password) = (Side::Cloud.address(), scratch.file("password", USER)?);
    Ok(format!(
        "rate = \"auto\"\n\
         amqp = {{ url = \"amqp://{cloud}:{AMQP_PORT}\", exchange = \"{EXCHANGE}\", \
         user = \"{USER}\", password_file = \"{}\" }}\n",
        password.display()
    ))
}

/// Starts Tidegate at the edge side with an MQTT listener and these tables, and waits for nothing.
pub fn start_node(
    link: &Link,
    scratch: &Scratch,
    scheduler: &str,
    tables: &str,
) -> anyhow::Result<Process> {
    let listen = edge_listener();
    let configuration = format!(
        "[node]\nname = \"edge\"\nscheduler = \"{scheduler}\"\n\
         [[input]]\nmqtt = {{ listen = \"{listen}\" }}\n{tables}"
    );
    let file = scratch.file("node.toml", &configuration)?;
    let mut command = link.command(Side::Edge, tidegate_program()?);
    command.args(["run", "-c"]).arg(file);
    Ok(Process::start("tidegate", command)?)
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
