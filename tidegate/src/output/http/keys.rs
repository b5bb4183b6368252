//! The keys of an HTTP output: what they say, what is wrong with them, and what comes of them.

use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tidegate_types::hidden::Hidden;
use tidegate_types::units::Size;

use super::HttpOptions;
use crate::keys::far_end::FarEnd;
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::keys::secrets::{self, Secret};
use crate::keys::table::keys;
use crate::keys::units::Period;
use crate::keys::url::{Host, Scheme, Url};
use crate::output::kind::{Driver, OutputKind, Surroundings};
use crate::support::tls::ClientFiles;

/// What its url begins with.
const SCHEME: Scheme = Scheme { name: "http", port: 80, tls_port: 443 };
/// Bytes of a request's head without topic, properties, host, path and login.
const HEAD: u64 = 340;
/// Largest `pipeline`: what is sent on one connection before its answers comes twice when the connection breaks.
const PIPELINE_MAX: u32 = 256;
/// Records sent and not confirmed at once where the configuration does not say: each is a request that the far
/// end holds open.
const UNCONFIRMED_MAX: u32 = 32;

keys! {
    /// `http` of an `[[output]]`.
    pub struct HttpOutputConfig: Eq {
        /// http://host/path, http://host:port/path?query; https:// with TLS; several hosts with commas.
        pub url: Option<String>; required() sample("http://10.0.0.3/records"),
        /// With TLS: authorities of the far end's certificate. Default: those that this system trusts.
        pub ca: Option<PathBuf>; apart("ca.pem"),
        /// A certificate of our own, where the far end wants one.
        pub certificate: Option<PathBuf>; apart("gate.pem"),
        /// Its private key.
        pub key: Option<PathBuf>; apart("gate.key"),
        /// Type of payloads whose record has no property content-type.
        pub content_type: String = "application/octet-stream".into(),
        /// Requests sent on one connection before the first of them is answered; 1 waits for each answer. Whoever
        /// closes the connection after an answer gets one at a time in any case.
        pub pipeline: u32 = 8; between(1, PIPELINE_MAX, &format!("give 1 to {PIPELINE_MAX}")),
        /// How long the far end may take for an answer; then the connection is made anew.
        pub timeout: Period = Period(Duration::from_secs(30));
            above_zero("nobody is that fast: give at least \"1s\""),
        /// User name of a basic login. Default: no login.
        pub user: Option<String>; apart("gate"),
        /// Environment variable with the password.
        pub password_env: Option<String>; apart("HOOK_PASSWORD"),
        /// File with the password.
        pub password_file: Option<PathBuf>; apart("/etc/tidegate/hook"),
        /// Environment variable with a bearer token, in place of a user.
        pub token_env: Option<String>; apart("HOOK_TOKEN"),
        /// File with the token.
        pub token_file: Option<PathBuf>; apart("/etc/tidegate/token"),
    }
}

impl HttpOutputConfig {
    /// Where it leads.
    pub fn far_end(&self) -> FarEnd<'_> {
        FarEnd::new(SCHEME, &self.url, [&self.ca, &self.certificate, &self.key])
    }

    /// What the session is told.
    ///
    /// # Errors
    /// A password, a token or a file of TLS cannot be read.
    pub fn options(&self, surroundings: &Surroundings) -> anyhow::Result<HttpOptions> {
        let (url, tls) = self.far_end().read()?;
        Ok(HttpOptions {
            target: target(&url),
            hosts: url.hosts,
            tls,
            authorization: self.authorization()?,
            content_type: self.content_type.clone(),
            pipeline: self.pipeline as usize,
            timeout: self.timeout.0,
            classes: surroundings.classes.clone(),
        })
    }

    /// The value of `Authorization` (RFC 7617 and RFC 6750).
    fn authorization(&self) -> anyhow::Result<Option<Hidden>> {
        let (variable, file) = (self.token_env.as_deref(), self.token_file.as_deref());
        if let Some(token) = secrets::secret("token", variable, file)? {
            anyhow::ensure!(
                !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()),
                "the token has a character that no header may have, or none at all"
            );
            return Ok(Some(format!("Bearer {}", &*token).into()));
        }
        let Some(user) = &self.user else { return Ok(None) };
        let (variable, file) = (self.password_env.as_deref(), self.password_file.as_deref());
        let password = secrets::password(variable, file)?.unwrap_or_default();
        let login = format!("{user}:{}", &*password);
        Ok(Some(format!("Basic {}", STANDARD.encode(login)).into()))
    }

    fn check_login(&self, place: &Place, findings: &mut Findings) {
        secrets::one_password(&self.password_env, &self.password_file, place, findings);
        if self.token_env.is_some() && self.token_file.is_some() {
            let text = "token_env is given too: keep one of the two";
            findings.error(place.to("token_file"), text);
        }
        let has_token = self.token_env.is_some() || self.token_file.is_some();
        let has_password = self.password_env.is_some() || self.password_file.is_some();
        match &self.user {
            Some(_) if has_token => {
                findings.error(place.to("user"), "a token is given too: keep one of the two");
            }
            Some(user) if user.contains(':') => {
                let text = "a user of HTTP's basic login has no colon in the name";
                findings.error(place.to("user"), text);
            }
            None if has_password => {
                findings.error(place.clone(), "a password without a user: give user = \"...\"");
            }
            _ => {}
        }
    }
}

/// A host as a request names it (RFC 9112, 3.2): without the port that is the scheme's own.
pub(super) fn authority(host: &Host, is_tls: bool) -> String {
    let default = if is_tls { SCHEME.tls_port } else { SCHEME.port };
    let whole = host.to_string();
    let end = format!(":{default}");
    if host.port == default { whole.trim_end_matches(&end).to_owned() } else { whole }
}

/// Path and query.
fn target(url: &Url) -> String {
    format!("/{}", url.path.as_deref().unwrap_or_default())
}

impl OutputKind for HttpOutputConfig {
    fn name(&self) -> &'static str {
        SCHEME.name
    }

    fn check(&self, place: &Place, findings: &mut Findings) {
        self.far_end().check("10.0.0.3/records", place, findings);
        if let Ok(url) = self.far_end().url()
            && target(&url).bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'#')
        {
            let text =
                "the path has a character that no request may have: percent-encode it, as in %20";
            findings.error(place.to("url"), text);
        }
        let is_text = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        if self.content_type.trim().is_empty() || !self.content_type.bytes().all(is_text) {
            let text = "is no type: write one such as \"application/json\"";
            findings.error(place.to("content_type"), text);
        }
        self.check_login(place, findings);
    }

    fn tls_files(&self) -> Option<ClientFiles> {
        self.far_end().tls_files()
    }

    fn secrets(&self) -> Vec<Secret<'_>> {
        let token = ("token_env", &self.token_env);
        let token = Secret::given(token, ("token_file", &self.token_file));
        Secret::password(&self.password_env, &self.password_file).chain(token).collect()
    }

    fn destination(&self) -> String {
        self.url.clone().unwrap_or_default()
    }

    fn confirms(&self) -> &'static str {
        "when the server answers 2xx: in its memory or on disk, as the server is made"
    }

    fn begins_anew(&self) -> bool {
        true
    }

    fn overhead(&self) -> Size {
        let url = self.far_end().url();
        let longest = |url: &Url| {
            let all = url.hosts.iter().map(|host| authority(host, url.tls).len());
            all.max().unwrap_or_default()
        };
        let url = url.map_or(0, |url| longest(&url) + target(&url).len());
        // "authorization: Basic " and what a password or a token commonly has.
        let has_login =
            self.user.is_some() || self.token_env.is_some() || self.token_file.is_some();
        let login = if has_login { 80 } else { 0 };
        Size(HEAD + url as u64 + login)
    }

    fn unconfirmed_max(&self) -> u32 {
        UNCONFIRMED_MAX
    }

    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>> {
        Ok(Box::new(self.options(surroundings)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::values::Value;
    use crate::link::Links;

    fn keys(text: &str) -> HttpOutputConfig {
        toml::from_str(text).unwrap()
    }

    fn options(text: &str) -> anyhow::Result<HttpOptions> {
        keys(text).options(&Surroundings {
            node: "gate-7".into(),
            output: "hook".into(),
            classes: ["ls".into()].into(),
            bounds: vec![Duration::from_millis(50)],
            unconfirmed_max: 32,
            links: Links::default(),
        })
    }

    #[test]
    fn the_url_names_host_port_and_path() {
        let of = |url: &str| {
            let HttpOptions { hosts, target, tls, .. } =
                options(&format!("url = {url:?}")).unwrap();
            let names = hosts.iter().map(|host| authority(host, tls.is_some()));
            (names.collect::<Vec<_>>().join(" "), target)
        };
        let is = |authority: &str, target: &str| (authority.to_owned(), target.to_owned());
        assert_eq!(of("http://hook.example"), is("hook.example", "/"));
        assert_eq!(of("http://[::1]:8080/a%20b?c=%2F"), is("[::1]:8080", "/a%20b?c=%2F"));
        assert_eq!(of("http://[::1]/"), is("[::1]", "/"));
        assert_eq!(of("http://h:443,g/"), is("h:443 g", "/"));
    }

    #[test]
    fn a_login_is_a_user_or_a_token() {
        let file = std::env::temp_dir().join(format!("tidegate-http-token-{}", std::process::id()));
        let said = |secret: &str, keys: &str| {
            std::fs::write(&file, secret).unwrap();
            let keys = keys.replace("FILE", &file.display().to_string());
            options(&format!("url = \"http://h\"\n{keys}")).map(|options| options.authorization)
        };
        std::fs::write(&file, "").unwrap();
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let basic = said("open sesame\n", "user = \"Aladdin\"\npassword_file = \"FILE\"").unwrap();
        assert_eq!(basic.as_deref(), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        let token = said("mF_9.B5f-4.1JqM\n", "token_file = \"FILE\"").unwrap();
        assert_eq!(token.as_deref(), Some("Bearer mF_9.B5f-4.1JqM"));
        assert!(said("a\nx-evil: b", "token_file = \"FILE\"").is_err());
        assert_eq!(said("", "").unwrap(), None);
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn mistakes_are_told_with_their_cure() {
        let found = |text: &str| {
            let mut findings = Findings::default();
            let (keys, place) = (keys(text), Place::section("output").to("http"));
            Value::check(&keys, &place, &mut findings);
            OutputKind::check(&keys, &place, &mut findings);
            let told = findings.0.iter().map(|found| format!("{}: {}", found.place, found.text));
            told.collect::<Vec<_>>().join("\n")
        };
        let right = "url = \"http://h/in\"\n";
        assert_eq!(found(right), "");
        assert_eq!(
            found("url = \"https://h/in\"\nca = \"ca.pem\"\nuser = \"a\"\npassword_env = \"P\""),
            ""
        );
        for (keys, told) in [
            ("", "give url = \"http://10.0.0.3/records\""),
            ("url = \"ftp://h\"", "output.http.url: \"ftp\" is not spoken here"),
            ("url = \"http://u:p@h/\"", "do not belong in a url"),
            ("url = \"http://h/a b\"", "percent-encode it"),
            ("url = \"http://h/a#b\"", "percent-encode it"),
            ("url = \"http://h/\"\nca = \"ca.pem\"", "write https:// there"),
        ] {
            assert!(found(keys).contains(told), "{keys}: {}", found(keys));
        }
        for (keys, told) in [
            ("content_type = \"\"", "output.http.content_type: is no type"),
            ("content_type = \"a\\nb: c\"", "output.http.content_type: is no type"),
            ("pipeline = 0", "output.http.pipeline: give 1 to 256"),
            ("timeout = \"0s\"", "output.http.timeout: nobody is that fast"),
            ("user = \"a:b\"", "output.http.user: a user of HTTP's basic login has no colon"),
            ("user = \"a\"\ntoken_env = \"T\"", "output.http.user: a token is given too"),
            ("password_env = \"P\"", "a password without a user"),
            (
                "user = \"a\"\npassword_env = \"P\"\npassword_file = \"f\"",
                "password_env is given too",
            ),
            ("token_env = \"T\"\ntoken_file = \"f\"", "token_env is given too"),
        ] {
            let keys = format!("{right}{keys}");
            assert!(found(&keys).contains(told), "{keys}: {}", found(&keys));
        }
    }
}
