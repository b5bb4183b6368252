//! Brokers as processes of our own: private folders, private ports, no service of the system.

use std::process::Command;
use std::time::Duration;

use crate::net::NetError;
use crate::net::namespace::{Link, Side};
use crate::net::process::Process;
use crate::net::scratch::Scratch;
use crate::rig::versions::Program;

/// MQTT's port; the namespaces are private, so it is free.
pub const MQTT_PORT: u16 = 1883;
pub const AMQP_PORT: u16 = 5672;
/// User and password of the private RabbitMQ.
pub const USER: &str = "tidegate";

/// How long a broker may take to start: RabbitMQ's virtual machine is slow to boot on a busy machine.
const START: Duration = Duration::from_secs(90);

/// Starts Mosquitto with this configuration and waits until it serves.
pub async fn mosquitto(
    link: &Link,
    side: Side,
    scratch: &Scratch,
    configuration: &str,
) -> Result<Process, NetError> {
    served(link, side, scratch, (Program::Mosquitto, "running"), configuration).await
}

/// Starts NATS with this configuration and waits until it serves.
pub async fn nats(
    link: &Link,
    side: Side,
    scratch: &Scratch,
    configuration: &str,
) -> Result<Process, NetError> {
    served(link, side, scratch, (Program::Nats, "Server is ready"), configuration).await
}

async fn served(
    link: &Link,
    side: Side,
    scratch: &Scratch,
    (program, says): (Program, &str),
    configuration: &str,
) -> Result<Process, NetError> {
    let name = format!("{}-{side:?}", program.name());
    let mut command = link.command(side, program.path()?);
    command.arg("-c").arg(scratch.file(&format!("{name}.conf"), configuration)?);
    let mut process = Process::start(&name, command)?;
    process.says(says, START).await?;
    Ok(process)
}

/// Starts RabbitMQ at the cloud side and waits until it serves. Its user is [`USER`], with the same
/// word as password: it is reachable from inside the namespaces only.
pub async fn rabbitmq(link: &Link, scratch: &Scratch) -> Result<Process, NetError> {
    let mut command = link.command(Side::Cloud, Program::RabbitMq.path()?);
    set_up_rabbitmq(&mut command, "", scratch)?;
    let mut process = Process::start("rabbitmq", command)?;
    process.says(RABBITMQ_READY, START).await?;
    Ok(process)
}

/// What RabbitMQ says when it serves.
pub const RABBITMQ_READY: &str = "Server startup complete";

/// Gives RabbitMQ folders of its own, [`USER`], and these lines at the end of its configuration.
pub fn set_up_rabbitmq(
    command: &mut Command,
    settings: &str,
    scratch: &Scratch,
) -> Result<(), NetError> {
    let settings = format!(
        "listeners.tcp.1 = 0.0.0.0:{AMQP_PORT}\n\
         default_user = {USER}\ndefault_pass = {USER}\nloopback_users = none\n\
         log.console = true\nlog.console.level = info\nlog.file = false\n{settings}"
    );
    let file = scratch.file("rabbitmq.conf", &settings)?;
    let plugins = scratch.file("enabled_plugins", "[].\n")?;
    let folder = |name: &str| scratch.path().join(name);
    command.env("HOME", scratch.path()).env("RABBITMQ_CONFIG_FILE", file);
    command.env("RABBITMQ_ENABLED_PLUGINS_FILE", plugins);
    command.env("RABBITMQ_NODENAME", "tidegate-lab@localhost");
    command.env("RABBITMQ_MNESIA_BASE", folder("mnesia"));
    command.env("RABBITMQ_LOG_BASE", folder("log"));
    command.env("RABBITMQ_PID_FILE", folder("pid"));
    command.env("RABBITMQ_GENERATED_CONFIG_DIR", folder("config"));
    // The virtual machine's schedulers spin while idle, which would take CPU from the contestants.
    command.env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+sbwt none +sbwtdcpu none +sbwtdio none");
    Ok(())
}

/// The lab's own program inside a side, for a client's job.
pub fn lab(link: &Link, side: Side) -> Result<Command, NetError> {
    let own = std::env::current_exe();
    let doing = || "could not find the lab's program".to_owned();
    let program = own.map_err(|source| NetError::Io { doing: doing(), source })?;
    Ok(link.command(side, program))
}
