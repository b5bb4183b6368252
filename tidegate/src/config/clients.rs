//! `mqtt_client` of an `[[input]]`: the node as a client of an existing broker.

use std::path::PathBuf;

use crate::keys::far_end::FarEnd;
use crate::keys::mqtt::{self, LoginKeys, MqttVersion, TopicConfig};
use crate::keys::table::keys;
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
        /// In place of topics: lines as a Mosquitto bridge has them, each with a prefix for either end.
        pub topic: Vec<TopicConfig> = Vec::new();
            apart(r##"[{ pattern = "#", direction = "in", qos = 1, local_prefix = "cmd/", remote_prefix = "site7/cmd/" }]"##),
        /// The broker keeps the session under it. Default: node and broker.
        pub client_id: Option<String>; sample("gate-7-in"),
        /// 0, 1 or 2. With 0 records are lost while there is no connection.
        pub qos: u8 = 1; between(0, 2, "is 0, 1 or 2"),
        /// Which MQTT it speaks.
        pub version: MqttVersion = MqttVersion::Auto,
        /// Allow an MQTT output to send the same topics to the same broker.
        pub allow_loop: bool = false,
        /// User name. Default: none.
        pub user: Option<String>; apart("gate"),
        /// Environment variable with the password.
        pub password_env: Option<String>; apart("PLANT_PASSWORD"),
        /// File with the password. It is read for each connection; a token (JWT or SAS) is renewed before it ends.
        pub password_file: Option<PathBuf>; apart("/etc/tidegate/plant"),
        /// Program that writes the password, and its arguments. It is run for each connection; a token (JWT or SAS) is
        /// renewed before it ends.
        pub password_command: Vec<String> = Vec::new(); apart(r#"["/usr/local/bin/plant-token", "gate"]"#),
    }
}

impl MqttClientConfig {
    /// Where it is.
    pub fn far_end(&self) -> FarEnd<'_> {
        FarEnd::new(Scheme::MQTT, &self.url, [&self.ca, &self.certificate, &self.key])
    }

    /// Who logs in.
    pub fn login(&self) -> LoginKeys<'_> {
        LoginKeys {
            user: &self.user,
            variable: &self.password_env,
            file: &self.password_file,
            command: &self.password_command,
        }
    }

    /// What is subscribed at the far end, each with its QoS.
    pub fn subscriptions(&self) -> Vec<(String, u8)> {
        let of = |line: &TopicConfig| Some((line.line()?.there(), line.qos.unwrap_or(self.qos)));
        match self.topic.is_empty() {
            true => self.topics.iter().map(|topic| (topic.clone(), self.qos)).collect(),
            false => self.topic.iter().filter_map(of).collect(),
        }
    }

    /// What comes: filters of the topics as they are called here, and as they are called there.
    pub fn comes(&self) -> Vec<(String, String)> {
        let unshared = |topic: &String| {
            let shared = topic.strip_prefix("$share/").and_then(|rest| rest.split_once('/'));
            let topic = shared.map_or(topic.as_str(), |(_, filter)| filter);
            (topic.to_owned(), topic.to_owned())
        };
        let lines = mqtt::map(&self.topic).0;
        match lines.is_empty() {
            true => self.topics.iter().map(unshared).collect(),
            false => lines.iter().map(|line| (line.here(), line.there())).collect(),
        }
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
