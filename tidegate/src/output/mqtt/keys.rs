//! The keys of an MQTT output: what they say, what is wrong with them, and what comes of them.

use std::path::PathBuf;

use tidegate_types::units::Size;

use super::MqttOptions;
use crate::keys::far_end::FarEnd;
use crate::keys::findings::Findings;
use crate::keys::mqtt::{self, Direction, LoginKeys, MqttVersion, TopicConfig};
use crate::keys::places::Place;
use crate::keys::secrets::Secret;
use crate::keys::table::{choices, keys};
use crate::keys::url::Scheme;
use crate::output::kind::{Driver, OutputKind, Surroundings};
use crate::support::tls::ClientFiles;

keys! {
    /// `mqtt` of an `[[output]]`.
    pub struct MqttOutputConfig: Eq {
        /// mqtt://host, mqtt://host:port; mqtts:// with TLS; several hosts with commas.
        pub url: Option<String>; required() sample("mqtt://10.0.0.2"),
        /// With TLS: authorities of the far end's certificate. Default: those that this system trusts.
        pub ca: Option<PathBuf>; apart("ca.pem"),
        /// A certificate of our own, where the far end wants one.
        pub certificate: Option<PathBuf>; apart("gate.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; apart("gate.key"),
        /// Protocol that it asks for in TLS (ALPN), where the far end wants one: x-amzn-mqtt-ca of AWS at port 443.
        pub alpn: Option<String>; apart("x-amzn-mqtt-ca"),
        /// Client id; with connections = "each-class" the prefix of its client ids. Default: node and output.
        pub client_id: Option<String>; sample("gate-7-site"),
        /// How many connections it has.
        pub connections: Connections = Connections::EachClass; restarts(),
        /// Which MQTT it speaks.
        pub version: MqttVersion = MqttVersion::Auto,
        /// Lines as a Mosquitto bridge has them: what topics are called at the far end. Default: as here.
        pub topic: Vec<TopicConfig> = Vec::new();
            sample(r##"[{ pattern = "#", direction = "out", qos = 1, local_prefix = "", remote_prefix = "site7/" }]"##),
        /// Ask the broker to retain records that came with the retain flag.
        pub retain: bool = false,
        /// User name. Default: none.
        pub user: Option<String>; apart("gate"),
        /// Environment variable with the password.
        pub password_env: Option<String>; apart("SITE_PASSWORD"),
        /// File with the password. It is read for each connection; a token (JWT or SAS) is renewed before it ends.
        pub password_file: Option<PathBuf>; apart("/etc/tidegate/site"),
        /// Program that writes the password, and its arguments. It is run for each connection; a token (JWT or SAS) is
        /// renewed before it ends.
        pub password_command: Vec<String> = Vec::new(); apart(r#"["/usr/local/bin/site-token", "gate"]"#),
    }
}

choices! {
    /// `connections` of an MQTT output.
    pub enum Connections: Copy, Eq {
        /// One for each class, so that an urgent record overtakes a large one that is being sent. Their client ids end
        /// with -0, -1 and so on.
        EachClass = "each-class",
        /// One for all, under exactly client_id, for a far end that lets a client in only so. What is most urgent goes
        /// next, and waits for the rest of the record that is being sent.
        One = "one",
    }
}

impl MqttOutputConfig {
    /// Where it leads.
    pub fn far_end(&self) -> FarEnd<'_> {
        FarEnd::new(Scheme::MQTT, &self.url, [&self.ca, &self.certificate, &self.key])
    }

    /// Who logs in.
    fn login(&self) -> LoginKeys<'_> {
        LoginKeys {
            user: &self.user,
            variable: &self.password_env,
            file: &self.password_file,
            command: &self.password_command,
        }
    }

    /// The client ids of this output of a node that has so many classes.
    pub(crate) fn client_ids(&self, node: &str, output: &str, classes: usize) -> Vec<String> {
        let prefix = self.client_id_of(node, output);
        match self.connections {
            Connections::One => vec![prefix],
            Connections::EachClass => (0..classes).map(|lane| format!("{prefix}-{lane}")).collect(),
        }
    }

    /// Two outputs to one broker must not take each other's session over.
    fn client_id_of(&self, node: &str, output: &str) -> String {
        self.client_id.clone().unwrap_or_else(|| format!("{node}-{output}"))
    }

    /// What the session is told.
    ///
    /// # Errors
    /// A password or a file of TLS cannot be read.
    pub fn options(&self, surroundings: &Surroundings) -> anyhow::Result<MqttOptions> {
        let (url, tls) = self.far_end().read()?;
        let tls = tls.map(|tls| tls.speaking(self.alpn.as_deref()));
        Ok(MqttOptions {
            hosts: url.hosts,
            tls,
            client_id: self.client_id_of(&surroundings.node, &surroundings.output),
            is_exact: self.connections == Connections::One,
            version: self.version.fixed(),
            topics: mqtt::map(&self.topic),
            user: self.user.clone(),
            password: self.login().password()?,
            classes: surroundings.classes.clone(),
            retain: self.retain,
        })
    }
}

impl OutputKind for MqttOutputConfig {
    fn name(&self) -> &'static str {
        Scheme::MQTT.name
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        self.login().check(place, findings);
        mqtt::check_topics(&self.topic, Direction::Out, place, findings);
        self.far_end().check("10.0.0.1", place, findings);
        self.far_end().check_alpn(self.alpn.as_deref(), place, findings);
    }

    fn tls_files(&self) -> Option<ClientFiles> {
        self.far_end().tls_files()
    }

    fn secrets(&self) -> Vec<Secret<'_>> {
        self.login().secrets()
    }

    fn destination(&self) -> String {
        self.url.clone().unwrap_or_default()
    }

    fn confirms(&self) -> &'static str {
        "when the broker acknowledges it: in its memory or on disk, as the broker is set"
    }

    fn is_one_connection(&self) -> bool {
        self.connections == Connections::One
    }

    fn begins_anew(&self) -> bool {
        true
    }

    fn overhead(&self) -> Size {
        Size(200)
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        Ok(Box::new(self.options(surroundings)?))
    }
}
