//! `mqtt_client` of an `[[input]]`: the node as a client of an existing broker.

use std::path::PathBuf;

use serde::Deserialize;

use crate::keys::far_end::FarEnd;
use crate::keys::url::Scheme;

/// `mqtt_client` of an `[[input]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MqttClientConfig {
    /// `mqtt://host[:port]`, or `mqtts://` with TLS.
    pub url: Option<String>,
    /// Authorities of the broker's certificate.
    pub ca: Option<PathBuf>,
    /// A certificate of the node's own.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// Topic filters.
    pub topics: Vec<String>,
    /// Its client identifier; the names of node and broker if left out.
    pub client_id: Option<String>,
    /// QoS of the subscriptions.
    pub qos: u8,
    /// Which MQTT.
    pub version: ClientVersion,
    /// User name.
    pub user: Option<String>,
    /// Environment variable with the password.
    pub password_env: Option<String>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// An output may send to the same broker what is taken from it.
    pub allow_loop: bool,
}

impl Default for MqttClientConfig {
    fn default() -> Self {
        MqttClientConfig {
            url: None,
            ca: None,
            certificate: None,
            key: None,
            topics: vec!["#".into()],
            client_id: None,
            qos: 1,
            version: ClientVersion::Auto,
            user: None,
            password_env: None,
            password_file: None,
            allow_loop: false,
        }
    }
}

impl MqttClientConfig {
    /// Where it is.
    pub fn far_end(&self) -> FarEnd<'_> {
        FarEnd::new(Scheme::MQTT, &self.url, [&self.ca, &self.certificate, &self.key])
    }

    /// The given client identifier, or one that is the same in every run: the broker keeps the session
    /// under it.
    pub fn client_id(&self, node: &str) -> String {
        let broker =
            self.url.as_deref().and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
        let name = || format!("{node}-from-{}", broker.unwrap_or("broker"));
        self.client_id.clone().unwrap_or_else(name)
    }
}

/// `version` of an `mqtt_client`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ClientVersion {
    /// MQTT 5, or 3.1.1 with a broker that knows no better.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// MQTT 3.1.1.
    #[serde(rename = "3.1.1")]
    V311,
    /// MQTT 5.
    #[serde(rename = "5")]
    V5,
}
