//! `mqtt_client` of an `[[input]]`.

use anyhow::Context;
use tidegate_mqtt::Version;
use tidegate_mqtt::client_session::Options;

use crate::config::check::brokers;
use crate::config::{ClientVersion, MqttClientConfig};
use crate::input::kind::{Certificates, Driver, InputKind, Surroundings};
use crate::input::mqtt::client::{MqttClient, MqttClientOptions};
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::keys::secrets::{self, Secret};

impl InputKind for MqttClientConfig {
    fn name(&self) -> &'static str {
        "mqtt_client"
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        brokers::client(self, place, findings);
    }

    fn certificates(&self) -> Option<Certificates> {
        self.far_end().tls_files().map(Certificates::ToFarEnd)
    }

    fn secrets(&self) -> Vec<Secret<'_>> {
        Secret::password(&self.password_env, &self.password_file).collect()
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        let (url, tls) = self.far_end().read()?;
        let host = url.hosts.into_iter().next().context("the url names no host")?;
        let options = MqttClientOptions {
            host: host.name,
            port: host.port,
            tls: tls.map(|tls| tls.speaking(self.alpn.as_deref())),
            session: Options {
                client_id: self.client_id(&surroundings.node),
                user: self.user.clone(),
                password: secrets::password(
                    self.password_env.as_deref(),
                    self.password_file.as_deref(),
                )?,
                topics: self.topics.clone(),
                qos: self.qos,
                version: match self.version {
                    ClientVersion::Auto => None,
                    ClientVersion::V311 => Some(Version::V311),
                    ClientVersion::V5 => Some(Version::V5),
                },
                receive_maximum: MqttClientOptions::RECEIVE_MAXIMUM,
                max_packet_size: surroundings.max_packet_size(),
            },
        };
        Ok(Box::new(MqttClient { options, clients: surroundings.clients.clone() }))
    }
}
