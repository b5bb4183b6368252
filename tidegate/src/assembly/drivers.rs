//! Which driver stands behind each kind of input and output.

pub(crate) mod cameras;
mod cluster;
mod link;
mod log;
mod standby;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;

use crate::config::{
    self, ClientVersion, Config, InputConfig, MqttClientConfig, OutputConfig, ReplayConfig,
    ReplayFormat, SPEED, TlsConfig,
};
use crate::input::mqtt::client::{self, MqttClientOptions};
use crate::input::mqtt::{self as mqtt_input, Clients, MqttOptions, Version};
use crate::input::relays::RelayCounts;
use crate::input::replay::{self, Format, KeyTemplate, Pace, Payload, ReplayFile, ReplayOptions};
use crate::input::streams::Names;
use crate::keys::secrets;
use crate::link::Links;
use crate::node::contract::{Intake, OutputPort};
use crate::output::kind::Surroundings;
use crate::support::tasks::Tasks;
use crate::support::tls;

pub use cluster::{access, start_group};
pub use log::open_log;
pub(crate) use log::{log_keys, log_options};
pub use standby::start_mirrors;

/// What inputs and services are wired to.
#[derive(Debug)]
pub struct Wiring {
    /// Where records are offered.
    pub intake: Intake,
    /// The MQTT clients of all inputs.
    pub clients: Arc<Clients>,
    /// What the node accepted from other nodes before it started.
    pub names: Names,
    /// Where neighbours' records are counted.
    pub relays: RelayCounts,
    /// Where links tell what they look like.
    pub links: Links,
}

/// Starts an input of a node. Returns the addresses that it listens on.
///
/// # Errors
/// An address cannot be bound, or a file cannot be opened.
pub async fn start_input(
    input: &InputConfig,
    config: &Config,
    wiring: &Wiring,
    tasks: &mut Tasks,
) -> anyhow::Result<Vec<SocketAddr>> {
    let Wiring { intake, clients, .. } = wiring;
    let intake = intake.clone();
    if let Some(mqtt) = &input.mqtt {
        let listen = mqtt.listen.as_ref().map(|listen| available(&listen.0)).unwrap_or_default();
        let files = mqtt.tls.as_ref().and_then(TlsConfig::files);
        let options = MqttOptions {
            access: Arc::new(mqtt.access()?),
            quotas: Arc::new(config.quotas()),
            clients: clients.clone(),
            tls: files.map(|files| tls::server(&files)).transpose()?,
            max_packet_size: max_packet_size(config),
            connections_max: config.limits.connections as usize,
            session_expiry_max: mqtt.session_expiry.0,
            keepalive_max: mqtt.keepalive_max.map(|most| most.0).unwrap_or_default(),
            connect_timeout: mqtt.connect_timeout.0,
            idle_timeout: mqtt.idle_timeout.0,
            packet_timeout: mqtt.packet_timeout.0,
            write_timeout: mqtt.write_timeout.0,
            refused: match mqtt.refused {
                config::Refused::Close => mqtt_input::Refused::Close,
                config::Refused::Drop => mqtt_input::Refused::Drop,
            },
            ..MqttOptions::new(listen)
        };
        let listener = mqtt_input::bind(options).await?;
        let addresses = listener.local_addrs();
        tasks.spawn(async move {
            let (stop, stopped) = watch::channel(false);
            let node_gone = intake.clone();
            let serve = listener.run(intake, stopped);
            let end = async {
                node_gone.closed().await;
                // The listener may have ended by itself.
                let _ = stop.send(true);
            };
            tokio::join!(serve, end);
            Ok(())
        });
        return Ok(addresses);
    }
    if let Some(client) = &input.mqtt_client {
        let options = client_options(client, config)?;
        let clients = clients.clone();
        tasks.spawn(async move {
            client::run(options, intake, clients).await;
            Ok(())
        });
        return Ok(Vec::new());
    }
    if let Some(link) = &input.link {
        return link::start_input(link, wiring, tasks);
    }
    let replay = input.replay.as_ref().context("an [[input]] has no kind")?;
    let options = replay_options(replay)?;
    tasks.spawn(async move {
        let (stop, stopped) = watch::channel(false);
        let node_gone = intake.clone();
        tokio::select! {
            played = replay::run(options, intake, stopped) => {
                played?;
            }
            () = node_gone.closed() => drop(stop),
        }
        Ok(())
    });
    Ok(Vec::new())
}

/// The addresses without those of a protocol that this host does not have at all (mostly IPv6), unless
/// nothing is left: `[::1]` beside `127.0.0.1` must not keep a node from starting.
fn available(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let is_there = |address: &&SocketAddr| {
        let trial = std::net::TcpListener::bind((address.ip(), 0));
        let is_there = trial.is_ok();
        if !is_there {
            tracing::warn!("{} is not an address of this host: not listening there", address.ip());
        }
        is_there
    };
    let there: Vec<SocketAddr> = addresses.iter().filter(is_there).copied().collect();
    if there.is_empty() { addresses.to_vec() } else { there }
}

/// A packet that is larger holds no record that is taken.
fn max_packet_size(config: &Config) -> u32 {
    let record_max = u32::try_from(config.limits.record_max.0.0).unwrap_or(u32::MAX);
    let sizes = MqttOptions::PACKET_SIZES;
    record_max.clamp(*sizes.start(), *sizes.end())
}

fn client_options(client: &MqttClientConfig, config: &Config) -> anyhow::Result<MqttClientOptions> {
    let (url, tls) = client.far_end().read()?;
    Ok(MqttClientOptions {
        host: url.host,
        port: url.port,
        tls,
        client_id: client.client_id(&config.node.name()),
        user: client.user.clone(),
        password: secrets::password(
            client.password_env.as_deref(),
            client.password_file.as_deref(),
        )?,
        topics: client.topics.clone(),
        qos: client.qos,
        version: match client.version {
            ClientVersion::Auto => None,
            ClientVersion::V311 => Some(Version::V311),
            ClientVersion::V5 => Some(Version::V5),
        },
        receive_maximum: MqttClientOptions::RECEIVE_MAXIMUM,
        max_packet_size: max_packet_size(config),
    })
}

fn replay_options(config: &ReplayConfig) -> anyhow::Result<ReplayOptions> {
    let path = config.file.clone().context("replay.file is missing")?;
    let format = match config.format.or(config.guessed_format()) {
        Some(ReplayFormat::Csv) => Format::Csv,
        Some(ReplayFormat::Jsonl) => Format::JsonLines,
        Some(ReplayFormat::Senml) => Format::SenMl,
        None => Format::Auto,
    };
    let name = path.file_stem().map_or_else(|| "replay".into(), |stem| stem.to_string_lossy());
    let key = KeyTemplate::new(config.topic.as_deref().unwrap_or(&name))?;
    let rules =
        replay::Rules { format, key, time: config.time.clone(), payload: Payload::default() };
    let pace = match config.records_per_second {
        Some(rate) => Pace::Even { rate },
        None => Pace::Recorded { speed: config.speed.unwrap_or(SPEED) },
    };
    let files = vec![ReplayFile { path: path.clone(), rules }];
    Ok(ReplayOptions { pace, repeat: config.repeat, ..ReplayOptions::new(&name, files) })
}

/// Starts an output on its port.
///
/// # Errors
/// A password or a file of TLS cannot be read.
pub fn start_output(
    output: &OutputConfig,
    config: &Config,
    links: &Links,
    port: OutputPort,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let kind = output.kind().context("no kind is given")?;
    let driver = kind.build(&surroundings(output, config, links))?;
    tasks.spawn(async move {
        driver.run(port).await;
        Ok(())
    });
    Ok(())
}

/// What an output is told of its node.
pub(crate) fn surroundings(output: &OutputConfig, config: &Config, links: &Links) -> Surroundings {
    let names = config.class.iter().filter_map(|class| class.name.as_deref());
    Surroundings {
        node: config.node.name(),
        output: output.label().into(),
        classes: names.map(Into::into).collect(),
        bounds: super::bounds(config),
        unconfirmed_max: output.unconfirmed_max(),
        links: links.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::read;
    use crate::output::sink::SinkOptions;

    fn read_output(text: &str) -> (OutputConfig, Surroundings) {
        let reading = read(text);
        assert_eq!(reading.render("node.toml", text), "");
        let output = reading.config.output[0].clone();
        let surroundings = surroundings(&output, &reading.config, &Links::default());
        (output, surroundings)
    }

    #[test]
    fn brokers_are_found_by_their_urls() {
        let text = "[[output]]\namqp = { url = \"amqp://[::1]:5673/lab\" }";
        let (output, surroundings) = read_output(text);
        let amqp = output.amqp.unwrap().options(&surroundings).unwrap();
        assert_eq!(
            (amqp.host.as_str(), amqp.port, amqp.virtual_host.as_str()),
            ("::1", 5673, "lab")
        );
        assert_eq!((amqp.user.as_str(), amqp.classes.len()), ("guest", 3));
        let text = "[node]\nname = \"a\"\n[[output]]\nname = \"b\"\nmqtt = { url = \"mqtt://h\" }";
        let (output, surroundings) = read_output(text);
        let mqtt = output.mqtt.unwrap().options(&surroundings).unwrap();
        assert_eq!((mqtt.client_id.as_str(), mqtt.port, mqtt.password), ("a-b", 1883, None));
    }

    #[test]
    fn a_sink_writes_or_discards() {
        let (output, surroundings) = read_output("[[output]]\nsink = { discard = true }");
        assert_eq!(output.sink.unwrap().options(&surroundings), SinkOptions::Discard);
        let (output, surroundings) = read_output("");
        let sink = output.sink.unwrap().options(&surroundings);
        let SinkOptions::Files(files) = sink else { panic!("{sink:?}") };
        assert_eq!(files.directory, Path::new("tidegate-data"));
    }

    #[test]
    fn a_missing_password_is_named() {
        let error = |text: &str| {
            let (output, surroundings) = read_output(text);
            format!("{:#}", output.kind().unwrap().build(&surroundings).unwrap_err())
        };
        let text = "[[output]]\namqp = { url = \"amqp://h\", user = \"gate\", \
                    password_file = \"/nowhere/secret\" }";
        let told = error(text);
        assert!(told.starts_with("password_file: /nowhere/secret: "), "{told}");
        let text = text.replace("password_file = \"/nowhere", "password_env = \"TIDEGATE_NO");
        let told = error(&text);
        assert!(told.starts_with("password_env: variable TIDEGATE_NO/secret: "), "{told}");
    }
}
