//! `mqtt_client` of an `[[input]]`.

use anyhow::Context;
use tidegate_mqtt::client_session::Options;

use crate::config::MqttClientConfig;
use crate::config::check::brokers;
use crate::input::kind::{Certificates, Driver, InputKind, Surroundings};
use crate::input::mqtt::client::{MqttClient, MqttClientOptions};
use crate::keys::findings::Findings;
use crate::keys::mqtt;
use crate::keys::places::Place;
use crate::keys::secrets::Secret;

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
        self.login().secrets()
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        let (url, tls) = self.far_end().read()?;
        let host = url.hosts.into_iter().next().context("the url names no host")?;
        let options = MqttClientOptions {
            host: host.name,
            port: host.port,
            tls: tls.map(|tls| tls.speaking(self.alpn.as_deref())),
            password: self.login().password()?,
            session: Options {
                client_id: self.client_id(&surroundings.node),
                user: self.user.clone(),
                password: None,
                topics: self.subscriptions(),
                map: mqtt::map(&self.topic),
                version: self.version.fixed(),
                receive_maximum: MqttClientOptions::RECEIVE_MAXIMUM,
                max_packet_size: surroundings.max_packet_size(),
            },
        };
        Ok(Box::new(MqttClient { options, clients: surroundings.clients.clone() }))
    }
}
