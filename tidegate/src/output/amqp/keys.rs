//! The keys of an AMQP output: what they say, what is wrong with them, and what comes of them.

use std::path::PathBuf;

use tidegate_types::units::Size;

use super::AmqpOptions;
use crate::keys::far_end::FarEnd;
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::keys::secrets::{self, Secret};
use crate::keys::table::keys;
use crate::keys::url::Scheme;
use crate::output::kind::{Driver, OutputKind, Surroundings};
use crate::support::tls::ClientFiles;

/// What its url begins with.
const SCHEME: Scheme = Scheme { name: "amqp", port: 5672, tls_port: 5671 };
/// The user that RabbitMQ is installed with, and its password.
const GUEST: &str = "guest";

keys! {
    /// `amqp` of an `[[output]]`.
    pub struct AmqpConfig: Eq {
        /// amqp://host, amqp://host:port/vhost; amqps:// with TLS; several hosts with commas.
        pub url: Option<String>; required() sample("amqp://10.0.0.1"),
        /// With TLS: authorities of the far end's certificate. Default: those that this system trusts.
        pub ca: Option<PathBuf>; apart("ca.pem"),
        /// A certificate of our own, where the far end wants one.
        pub certificate: Option<PathBuf>; apart("gate.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; apart("gate.key"),
        /// Exchange that it publishes to; it must exist.
        pub exchange: String = "amq.topic".into(),
        /// {topic} is the record's topic, with . for /.
        pub routing_key: String = "{topic}".into(),
        /// Whether the broker keeps records across its restart.
        pub persistent: bool = true; restarts(),
        /// User name. Default: guest with its well-known password, which RabbitMQ takes from its own machine only.
        pub user: Option<String>; apart("gate"),
        /// Environment variable with the password.
        pub password_env: Option<String>; apart("CLOUD_PASSWORD"),
        /// File with it. Passwords are never in this file.
        pub password_file: Option<PathBuf>; apart("/etc/tidegate/cloud"),
    }
}

impl AmqpConfig {
    /// Where it leads.
    pub fn far_end(&self) -> FarEnd<'_> {
        FarEnd::new(SCHEME, &self.url, [&self.ca, &self.certificate, &self.key])
    }

    /// What the session is told.
    ///
    /// # Errors
    /// A password or a file of TLS cannot be read.
    pub fn options(&self, surroundings: &Surroundings) -> anyhow::Result<AmqpOptions> {
        let (url, tls) = self.far_end().read()?;
        let (variable, file) = (self.password_env.as_deref(), self.password_file.as_deref());
        let password = secrets::password(variable, file)?;
        let virtual_host = Some(url.decoded_path()).filter(|path| !path.is_empty());
        Ok(AmqpOptions {
            hosts: url.hosts,
            tls,
            virtual_host: virtual_host.unwrap_or_else(|| "/".into()),
            user: self.user.clone().unwrap_or_else(|| GUEST.into()),
            password: password.unwrap_or_else(|| GUEST.into()),
            exchange: self.exchange.clone(),
            routing_key: self.routing_key.clone(),
            persistent: self.persistent,
            classes: surroundings.classes.clone(),
        })
    }
}

impl OutputKind for AmqpConfig {
    fn name(&self) -> &'static str {
        SCHEME.name
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        let has_password = self.password_env.is_some() || self.password_file.is_some();
        if self.user.is_some() && !has_password {
            let text = "a user without a password: give password_env or password_file";
            findings.error(place.to("user"), text);
        }
        secrets::one_password(&self.password_env, &self.password_file, place, findings);
        self.far_end().check("10.0.0.1", place, findings);
    }

    fn tls_files(&self) -> Option<ClientFiles> {
        self.far_end().tls_files()
    }

    fn secrets(&self) -> Vec<Secret<'_>> {
        Secret::password(&self.password_env, &self.password_file).collect()
    }

    fn destination(&self) -> String {
        format!("{}, exchange {}", self.url.as_deref().unwrap_or_default(), self.exchange)
    }

    fn confirms(&self) -> &'static str {
        match self.persistent {
            true => "when the broker confirms it: on disk or replicated if its queue is durable",
            false => "when the broker confirms it: in its memory",
        }
    }

    fn begins_anew(&self) -> bool {
        true
    }

    fn overhead(&self) -> Size {
        Size(300)
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        Ok(Box::new(self.options(surroundings)?))
    }
}
