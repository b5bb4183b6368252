//! Who may come in at an MQTT listener, and what clients may publish.

use std::path::PathBuf;

use crate::config::MqttInputConfig;
use crate::keys::table::{choices, keys};
use crate::support::access::users::UserFile;
use crate::support::access::{Access, Allow, Identification};
use crate::support::tls::ServerFiles;

keys! {
    /// `tls` of an MQTT listener.
    pub struct TlsConfig: Eq {
        /// PEM file with the certificate, then those that lead to its authority.
        pub certificate: Option<PathBuf>; required(),
        /// PEM file with the certificate's private key.
        pub key: Option<PathBuf>; required(),
        /// PEM file with the authorities whose certificates clients must show.
        pub client_ca: Option<PathBuf>,
        /// PEM file with revocation lists of these authorities, one of each whose certificates clients show: a client
        /// whose certificate stands in one, or whose authority has none, is not let in.
        pub crl: Option<PathBuf>,
    }
}

impl TlsConfig {
    /// The files, if those that it needs are given.
    pub fn files(&self) -> Option<ServerFiles> {
        let (certificate, key) = (self.certificate.clone()?, self.key.clone()?);
        Some(ServerFiles {
            certificate,
            key,
            client_ca: self.client_ca.clone(),
            crl: self.crl.clone(),
        })
    }
}

choices! {
    /// `user_from` of an MQTT listener.
    pub enum UserFrom: Copy, Eq {
        /// The CONNECT packet's user name, proved by its password.
        Password = "password",
        /// The common name of the client's certificate.
        Certificate = "certificate",
    }
}

keys! {
    /// An entry of `allow` of an MQTT listener.
    pub struct AllowConfig: Eq {
        /// Pattern of user names. Default: everybody.
        pub user: Option<String>,
        /// Topic filters that they may publish to; `%u` is the user's name.
        pub topics: Vec<String> = Vec::new(),
        /// Topic filters that they may subscribe to.
        pub subscribe: Vec<String> = Vec::new(),
    }
}

impl MqttInputConfig {
    /// Its rules of access.
    ///
    /// # Errors
    /// The file of users cannot be used, or the configuration was not checked.
    pub fn access(&self) -> anyhow::Result<Access> {
        let identification = match (self.user_from, &self.users) {
            (UserFrom::Certificate, _) => Identification::Certificate,
            (UserFrom::Password, None) => Identification::Nobody,
            (UserFrom::Password, Some(file)) => {
                let users = UserFile::open(file)?;
                Identification::Password { users, anonymous: self.anonymous }
            }
        };
        let rule = |AllowConfig { user, topics, subscribe }: &AllowConfig| {
            Allow::new(user.clone(), topics.clone(), subscribe.clone())
        };
        let rules = self.allow.as_ref().map(|rules| rules.iter().map(rule).collect());
        Ok(Access::new(identification, rules.transpose()?))
    }
}
