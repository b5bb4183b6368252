//! Brokers as processes of our own: private folders, private ports, no service of the system.

use std::process::Command;

use crate::net::NetError;
use crate::net::scratch::Scratch;

/// MQTT's port; the namespaces are private, so it is free.
pub const MQTT_PORT: u16 = 1883;
pub(crate) const AMQP_PORT: u16 = 5672;
pub const NATS_PORT: u16 = 4222;
/// User and password of the private RabbitMQ: it is reachable from inside the namespaces only.
pub(crate) const USER: &str = "tidegate";

/// Gives RabbitMQ folders of its own, [`USER`], and these lines at the end of its configuration.
pub(super) fn set_up_rabbitmq(
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
