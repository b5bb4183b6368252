//! Which driver stands behind each kind of input and output.

pub(crate) mod cameras;
mod cluster;
mod log;
mod standby;

use std::sync::Arc;

use anyhow::Context;
use tokio::sync::oneshot;

use crate::config::{Config, OutputConfig};
use crate::input::kind as input;
use crate::input::mqtt::Clients;
use crate::input::relays::RelayCounts;
use crate::input::streams::Names;
use crate::link::Links;
use crate::node::contract::{Intake, OutputPort};
use crate::output::kind::{Driver, Surroundings};
use crate::support::listen::available;
use crate::support::tasks::Tasks;

pub use cluster::{access, start_group};
pub(crate) use log::{log_keys, log_options};
pub use log::{open_journal, open_log};
pub use standby::start_mirrors;

/// What inputs and services are wired to.
#[derive(Clone, Debug)]
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

impl Wiring {
    /// What inputs are told of their node.
    pub(super) fn around_inputs(&self, config: &Config) -> input::Surroundings {
        input::Surroundings {
            node: config.node.name(),
            record_max: config.limits.record_max.0,
            connections_max: config.limits.connections as usize,
            quotas: Arc::new(config.quotas()),
            clients: self.clients.clone(),
            names: self.names.clone(),
            relays: self.relays.clone(),
            links: self.links.clone(),
        }
    }
}

/// Makes what serves an output. Nothing is opened yet.
///
/// # Errors
/// A password or a file of TLS cannot be read.
pub(super) fn build_output(
    output: &OutputConfig,
    config: &Config,
    links: &Links,
) -> anyhow::Result<Box<dyn Driver>> {
    let kind = output.kind().context("no kind is given")?;
    kind.build(&surroundings(output, config, links))
}

/// Starts an output on its port. The answer comes when it has ended.
///
/// # Errors
/// A password or a file of TLS cannot be read.
pub fn start_output(
    output: &OutputConfig,
    config: &Config,
    links: &Links,
    port: OutputPort,
    tasks: &mut Tasks,
) -> anyhow::Result<oneshot::Receiver<()>> {
    Ok(run_output(build_output(output, config, links)?, port, tasks))
}

/// Runs an output on its port. The answer comes when it has ended.
pub(super) fn run_output(
    driver: Box<dyn Driver>,
    port: OutputPort,
    tasks: &mut Tasks,
) -> oneshot::Receiver<()> {
    let (ended, has_ended) = oneshot::channel();
    tasks.spawn(async move {
        driver.run(port).await;
        let _ = ended.send(());
        Ok(())
    });
    has_ended
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
    use crate::keys::url::Host;
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
        assert_eq!((&amqp.hosts[..], &*amqp.virtual_host), (&[Host::new("::1", 5673)][..], "lab"));
        assert_eq!((amqp.user.as_str(), amqp.classes.len()), ("guest", 3));
        let text =
            "[node]\nname = \"a\"\n[[output]]\nname = \"b\"\nmqtt = { url = \"mqtt://h,g:1884\" }";
        let (output, surroundings) = read_output(text);
        let mqtt = output.mqtt.unwrap().options(&surroundings).unwrap();
        assert_eq!((mqtt.client_id.as_str(), mqtt.password), ("a-b", None));
        assert_eq!(mqtt.hosts, [Host::new("h", 1883), Host::new("g", 1884)]);
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
