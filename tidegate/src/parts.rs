//! Which driver stands behind each kind of input and output.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use tokio::task::JoinSet;

use crate::config::{
    AmqpConfig, Config, InputConfig, MqttOutputConfig, OutputConfig, OutputKind, SinkConfig, Url,
};
use crate::input::mqtt::{self as mqtt_input, MqttOptions};
use crate::output::amqp::AmqpOptions;
use crate::output::sink::{FileOptions, SinkOptions};
use crate::output::{self, OutputOptions};
use crate::port::{Intake, OutputPort};

/// Drivers at work; one that fails ends with its error.
pub type Tasks = JoinSet<anyhow::Result<()>>;

/// What RabbitMQ accepts from its own machine without any set-up.
const RABBIT_GUEST: &str = "guest";

/// Starts an input. Returns the addresses that it listens on.
///
/// # Errors
/// An address cannot be bound, or a file cannot be opened.
pub async fn start_input(
    input: &InputConfig,
    config: &Config,
    intake: Intake,
    tasks: &mut Tasks,
) -> anyhow::Result<Vec<SocketAddr>> {
    if let Some(mqtt) = &input.mqtt {
        let defaults = MqttOptions::default();
        let listen =
            mqtt.listen.as_ref().map_or(defaults.listen.clone(), |listen| listen.0.clone());
        let packet_max = u32::try_from(config.limits.record_max.0.0).unwrap_or(u32::MAX);
        let connections_max = config.limits.connections as usize;
        let options = MqttOptions { listen, packet_max, connections_max, ..defaults };
        let listener = mqtt_input::bind(options).await?;
        let addresses = listener.local_addrs();
        tasks.spawn(async move {
            listener.run(intake).await;
            Ok(())
        });
        return Ok(addresses);
    }
    bail!("an [[input]] has no kind")
}

/// Starts an output on its port.
///
/// # Errors
/// A file or a password cannot be read.
pub fn start_output(
    output: &OutputConfig,
    config: &Config,
    port: OutputPort,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let classes: Vec<Arc<str>> =
        config.class.iter().map(|class| class.name.as_deref().unwrap_or_default().into()).collect();
    let kind = output.kinds().next().context("an [[output]] has no kind")?;
    let options = match kind {
        OutputKind::Amqp(amqp) => amqp_options(amqp, classes.into())?,
        OutputKind::Mqtt(mqtt) => mqtt_options(mqtt, config, classes.into())?,
        OutputKind::Sink(sink) => sink_options(sink, classes.into()),
    };
    tasks.spawn(async move {
        output::run(options, port).await;
        Ok(())
    });
    Ok(())
}

fn amqp_options(amqp: &AmqpConfig, classes: Arc<[Arc<str>]>) -> anyhow::Result<OutputOptions> {
    let url = url(amqp.url.as_deref(), "amqp")?;
    let password = password(&amqp.password_env, &amqp.password_file)?;
    Ok(OutputOptions::Amqp(AmqpOptions {
        host: url.host,
        port: url.port,
        virtual_host: url.path.unwrap_or_else(|| "/".into()),
        user: amqp.user.clone().unwrap_or_else(|| RABBIT_GUEST.into()),
        password: password.unwrap_or_else(|| RABBIT_GUEST.into()),
        exchange: amqp.exchange.clone(),
        routing_key: amqp.routing_key.clone(),
        persistent: amqp.persistent,
        classes,
    }))
}

fn mqtt_options(
    mqtt: &MqttOutputConfig,
    config: &Config,
    classes: Arc<[Arc<str>]>,
) -> anyhow::Result<OutputOptions> {
    let url = url(mqtt.url.as_deref(), "mqtt")?;
    Ok(OutputOptions::Mqtt(output::mqtt::MqttOptions {
        host: url.host,
        port: url.port,
        client_id: mqtt.client_id.clone().unwrap_or_else(|| config.node.name()),
        user: mqtt.user.clone(),
        password: password(&mqtt.password_env, &mqtt.password_file)?,
        classes,
    }))
}

fn sink_options(sink: &SinkConfig, classes: Arc<[Arc<str>]>) -> OutputOptions {
    let files = || FileOptions {
        directory: sink.directory.clone(),
        file_max: sink.file_max.0,
        files: sink.files,
        classes,
    };
    let options = if sink.discard { SinkOptions::Discard } else { SinkOptions::Files(files()) };
    OutputOptions::Sink(options)
}

fn url(text: Option<&str>, scheme: &str) -> anyhow::Result<Url> {
    let text = text.with_context(|| format!("{scheme}.url is missing"))?;
    Url::parse(text, scheme).map_err(anyhow::Error::msg)
}

fn password(env: &Option<String>, file: &Option<PathBuf>) -> anyhow::Result<Option<String>> {
    if let Some(name) = env {
        let value = std::env::var(name);
        return value.map(Some).with_context(|| format!("the password in the variable {name}"));
    }
    let Some(file) = file else { return Ok(None) };
    let text = std::fs::read_to_string(file);
    let text = text.with_context(|| format!("the password in the file {}", file.display()))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}
