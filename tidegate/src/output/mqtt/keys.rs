//! The keys of an MQTT output: what they say, what is wrong with them, and what comes of them.

use std::path::PathBuf;

use tidegate_types::units::Size;

use super::MqttOptions;
use crate::keys::far_end::FarEnd;
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::keys::secrets::{self, Secret};
use crate::keys::table::keys;
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
        /// Prefix of its client ids. Default: node and output.
        pub client_id: Option<String>; sample("gate-7-site"),
        /// Ask the broker to retain records that came with the retain flag.
        pub retain: bool = false,
        /// User name. Default: none.
        pub user: Option<String>; apart("gate"),
        /// Environment variable with the password.
        pub password_env: Option<String>; apart("SITE_PASSWORD"),
        /// File with the password.
        pub password_file: Option<PathBuf>; apart("/etc/tidegate/site"),
    }
}

impl MqttOutputConfig {
    /// Where it leads.
    pub fn far_end(&self) -> FarEnd<'_> {
        FarEnd::new(Scheme::MQTT, &self.url, [&self.ca, &self.certificate, &self.key])
    }

    /// What the session is told.
    ///
    /// # Errors
    /// A password or a file of TLS cannot be read.
    pub fn options(&self, surroundings: &Surroundings) -> anyhow::Result<MqttOptions> {
        let (url, tls) = self.far_end().read()?;
        let tls = tls.map(|tls| tls.speaking(self.alpn.as_deref()));
        let (variable, file) = (self.password_env.as_deref(), self.password_file.as_deref());
        // Two outputs to one broker must not take each other's session over.
        let names = || format!("{}-{}", surroundings.node, surroundings.output);
        Ok(MqttOptions {
            hosts: url.hosts,
            tls,
            client_id: self.client_id.clone().unwrap_or_else(names),
            user: self.user.clone(),
            password: secrets::password(variable, file)?,
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
        secrets::one_password(&self.password_env, &self.password_file, place, findings);
        let has_password = self.password_env.is_some() || self.password_file.is_some();
        if self.user.is_none() && has_password {
            findings.error(place.clone(), "a password without a user: give user = \"...\"");
        }
        self.far_end().check("10.0.0.1", place, findings);
        self.far_end().check_alpn(self.alpn.as_deref(), place, findings);
    }

    fn tls_files(&self) -> Option<ClientFiles> {
        self.far_end().tls_files()
    }

    fn secrets(&self) -> Vec<Secret<'_>> {
        Secret::password(&self.password_env, &self.password_file).collect()
    }

    fn destination(&self) -> String {
        self.url.clone().unwrap_or_default()
    }

    fn confirms(&self) -> &'static str {
        "when the broker acknowledges it: in its memory or on disk, as the broker is set"
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
