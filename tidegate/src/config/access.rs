//! Who may come in at an MQTT listener, and what clients may publish.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::MqttInputConfig;
use crate::input::mqtt::WebSocketOptions;
use crate::keys::table::{choices, keys};
use crate::keys::units::Period;
use crate::support::access::hook::{Hook, HookRules};
use crate::support::access::token::TokenRules;
use crate::support::access::users::UserFile;
use crate::support::access::{Access, Allow, Identification, Tokens};
use crate::support::http::endpoint::Endpoint;
use crate::support::tls::{self, ClientFiles, ClientTls, ServerFiles};

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

keys! {
    /// `websocket` of an MQTT listener.
    pub struct WebSocketConfig: Eq {
        /// Origins of pages that may connect, such as https://desk.example or http://10.0.0.7:8080; * is every page.
        /// Clients that are no browsers name none, and may.
        pub origins: Vec<String> = Vec::new(),
    }
}

impl WebSocketConfig {
    /// For the listener.
    pub fn options(&self) -> WebSocketOptions {
        WebSocketOptions { origins: self.origins.clone() }
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

keys! {
    /// `jwt` of an MQTT listener: tokens signed by RS256, ES256 or EdDSA.
    pub struct JwtConfig: Eq {
        /// File with the public keys that may sign tokens: a JWKS, or PEM. It is read again when it changes.
        pub keys: Option<PathBuf>; sample("jwks.json"),
        /// In place of a file: where a JWKS is. It is asked when a token comes, again each ten minutes, and for a key that
        /// is not known at most once a minute; what it said last counts while it does not answer.
        pub url: Option<String>; sample("https://login.example/jwks.json"),
        /// PEM file with the authority of the url. Default: those of the system.
        pub ca: Option<PathBuf>; sample("ca.pem"),
        /// Who must have issued a token (iss).
        pub issuer: Option<String>; sample("https://login.example"),
        /// Whom a token must be for (aud): one of these.
        pub audience: Vec<String> = Vec::new(); sample(r#"["plant"]"#),
        /// The claim with the user's name.
        pub user: String = "sub".into(),
        /// The claim with a list of topics that the user may publish to, beside allow.
        pub topics: Option<String>; sample("publish"),
        /// The claim with a list of topics that he may subscribe to, beside allow.
        pub subscribe: Option<String>; sample("subscribe"),
        /// How far the clock of who issues tokens may be off.
        pub leeway: Period = Period(Duration::from_secs(10)),
    }
}

keys! {
    /// `hook` of an MQTT listener.
    pub struct HookConfig: Eq {
        /// Where a login is posted to.
        pub url: Option<String>; required() sample("http://127.0.0.1:8080/login"),
        /// PEM file with the authority of an https url. Default: those of the system.
        pub ca: Option<PathBuf>; sample("ca.pem"),
        /// How long an answer may take.
        pub timeout: Period = Period(Duration::from_secs(2));
            above_zero("nothing is that fast: give at least \"1s\""),
        /// How long an answer counts for the same user, password and address.
        pub cache: Period = Period(Duration::from_secs(60)),
        /// Answers that are kept.
        pub cache_max: u32 = 10_000; at_least(1, "nothing could be kept"),
        /// What counts for clients that nobody could be asked about.
        pub when_down: HookDown = HookDown::Deny,
    }
}

choices! {
    /// `when_down` of `hook`.
    pub enum HookDown: Copy, Eq {
        /// They are not let in, and told to come again later.
        Deny = "deny",
        /// They come in under the name that they say, with the rights of allow.
        Allow = "allow",
    }
}

fn endpoint(url: Option<&str>, ca: Option<&Path>) -> Result<Endpoint, String> {
    let endpoint = Endpoint::parse(url.unwrap_or_default())?;
    if !endpoint.is_tls() {
        return Ok(endpoint);
    }
    let ca = ca.map_or_else(tls::system_bundle, Path::to_owned);
    let tls = ClientTls::new(ClientFiles { ca, own: None }).map_err(|error| error.to_string())?;
    Ok(endpoint.with_tls(Some((tls, None))))
}

impl JwtConfig {
    fn tokens(&self) -> Result<Tokens, String> {
        let rules = TokenRules {
            issuer: self.issuer.clone(),
            audience: self.audience.clone(),
            leeway: self.leeway.0,
            user: self.user.clone(),
            topics: self.topics.clone(),
            subscribe: self.subscribe.clone(),
        };
        match &self.keys {
            Some(file) => Tokens::of_file(rules, file),
            None => {
                Ok(Tokens::of_address(rules, endpoint(self.url.as_deref(), self.ca.as_deref())?))
            }
        }
    }
}

impl HookConfig {
    fn hook(&self) -> Result<Hook, String> {
        let rules = HookRules {
            timeout: self.timeout.0,
            cache: self.cache.0,
            cache_max: self.cache_max as usize,
            allow_when_down: self.when_down == HookDown::Allow,
        };
        Ok(Hook::new(endpoint(self.url.as_deref(), self.ca.as_deref())?, rules))
    }
}

impl MqttInputConfig {
    /// Whether clients say who they are, and prove it.
    pub(crate) fn knows_users(&self) -> bool {
        self.users.is_some() || self.jwt.is_some() || self.hook.is_some()
    }

    /// What is wrong with the files and addresses by which clients prove who they are, by key.
    pub(crate) fn logins(&self) -> Vec<(&'static str, String)> {
        let jwt = self.jwt.as_ref().map(JwtConfig::tokens);
        let hook = self.hook.as_ref().map(HookConfig::hook);
        let jwt = jwt.and_then(Result::err).map(|error| ("jwt", error));
        jwt.into_iter().chain(hook.and_then(Result::err).map(|error| ("hook", error))).collect()
    }

    /// Its rules of access.
    ///
    /// # Errors
    /// The file of users cannot be used, or the configuration was not checked.
    pub fn access(&self) -> anyhow::Result<Access> {
        let identification = match (self.user_from, &self.users) {
            (UserFrom::Certificate, _) => Identification::Certificate,
            (UserFrom::Password, None) if self.knows_users() => {
                Identification::Elsewhere { anonymous: self.anonymous }
            }
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
        let tokens = self.jwt.as_ref().map(JwtConfig::tokens).transpose();
        let hook = self.hook.as_ref().map(HookConfig::hook).transpose();
        let (tokens, hook) =
            (tokens.map_err(anyhow::Error::msg)?, hook.map_err(anyhow::Error::msg)?);
        Ok(Access::new(identification, rules.transpose()?).asking(tokens, hook))
    }
}
