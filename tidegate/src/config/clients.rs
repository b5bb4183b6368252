//! `mqtt_client` of an `[[input]]`: the node as a client of an existing broker.

use std::path::PathBuf;

use crate::keys::far_end::FarEnd;
use crate::keys::table::{choices, keys};
use crate::keys::url::Scheme;

keys! {
    /// `mqtt_client` of an `[[input]]`.
    pub struct MqttClientConfig: Eq {
        /// mqtt://host, mqtt://host:port; mqtts:// with TLS.
        pub url: Option<String>; required() sample("mqtt://10.0.0.3"),
        /// With TLS: authorities of the far end's certificate. Default: those that this system trusts.
        pub ca: Option<PathBuf>; apart("ca.pem"),
        /// A certificate of our own, where the far end wants one.
        pub certificate: Option<PathBuf>; apart("gate.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; apart("gate.key"),
        /// Protocol that it asks for in TLS (ALPN), where the far end wants one: x-amzn-mqtt-ca of AWS at port 443.
        pub alpn: Option<String>; apart("x-amzn-mqtt-ca"),
        /// Topic filters.
        pub topics: Vec<String> = vec!["#".into()],
        /// The broker keeps the session under it. Default: node and broker.
        pub client_id: Option<String>; sample("gate-7-in"),
        /// 0, 1 or 2. With 0 records are lost while there is no connection.
        pub qos: u8 = 1; between(0, 2, "is 0, 1 or 2"),
        /// Which MQTT it speaks.
        pub version: ClientVersion = ClientVersion::Auto,
        /// Allow an MQTT output to send the same topics to the same broker.
        pub allow_loop: bool = false,
        /// User name. Default: none.
        pub user: Option<String>; apart("gate"),
        /// Environment variable with the password.
        pub password_env: Option<String>; apart("PLANT_PASSWORD"),
        /// File with the password.
        pub password_file: Option<PathBuf>; apart("/etc/tidegate/plant"),
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

choices! {
    /// `version` of an `mqtt_client`.
    pub enum ClientVersion: Copy, Eq {
        /// MQTT 5, and 3.1.1 with a broker that knows no better.
        Auto = "auto",
        /// MQTT 3.1.1.
        V311 = "3.1.1",
        /// MQTT 5.
        V5 = "5",
    }
}
