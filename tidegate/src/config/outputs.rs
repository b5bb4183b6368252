//! The `[[output]]` tables of the configuration.

use std::path::PathBuf;

use serde::Deserialize;
use tidegate_capacity::RateControllerName;
use tidegate_types::units::Size;

use super::LinkOutputConfig;
use super::units::{ByteSize, OutputRate};
use crate::support::tls::{ClientFiles, system_bundle};

/// Records sent and not confirmed at once where the configuration does not say: enough to fill a
/// broker's confirm window, few enough that a lost connection sends little twice.
pub(crate) const UNCONFIRMED_MAX: u32 = 256;

/// `[[output]]`: exactly one of its kinds.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutputConfig {
    /// Its name, as in `to = ["cloud"]`; its kind if left out.
    pub name: Option<String>,
    /// An AMQP 0-9-1 broker such as RabbitMQ.
    pub amqp: Option<AmqpConfig>,
    /// An MQTT broker, or another node.
    pub mqtt: Option<MqttOutputConfig>,
    /// Another node, by several paths at once.
    pub link: Option<LinkOutputConfig>,
    /// Files on this machine, or nothing.
    pub sink: Option<SinkConfig>,
    /// Subscribers of frames at this node: of no file, but of `[frames]`.
    #[serde(skip)]
    pub frames: bool,
    /// `"auto"`, or a cap on what is measured.
    pub rate: OutputRate,
    /// How the capacity of its uplink is found.
    pub law: Option<Law>,
    /// The uplink that it shares with the other outputs that name it.
    pub uplink: Option<String>,
    /// Records that may be sent and not confirmed at once.
    pub unconfirmed_max: Option<u32>,
}

/// The one kind that an output is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OutputKind<'a> {
    /// `amqp`.
    Amqp(&'a AmqpConfig),
    /// `mqtt`.
    Mqtt(&'a MqttOutputConfig),
    /// `link`.
    Link(&'a LinkOutputConfig),
    /// `sink`.
    Sink(&'a SinkConfig),
    /// Subscribers of frames.
    Frames,
}

impl OutputKind<'_> {
    /// As the key of the table.
    pub fn name(self) -> &'static str {
        match self {
            OutputKind::Amqp(_) => "amqp",
            OutputKind::Mqtt(_) => "mqtt",
            OutputKind::Link(_) => "link",
            OutputKind::Sink(_) => "sink",
            OutputKind::Frames => "frames",
        }
    }
}

/// The keys of an output or of a client that are about TLS.
#[derive(Clone, Copy, Debug)]
pub struct TlsKeys<'a> {
    /// `ca`.
    pub ca: Option<&'a PathBuf>,
    /// `certificate`.
    pub certificate: Option<&'a PathBuf>,
    /// `key`.
    pub key: Option<&'a PathBuf>,
}

impl TlsKeys<'_> {
    /// The files, if `url` wants TLS. Where no authority is given, those that the system trusts count.
    pub fn files(self, url: &Url) -> Option<ClientFiles> {
        let own = self.certificate.cloned().zip(self.key.cloned());
        url.tls.then(|| ClientFiles { ca: self.ca.cloned().unwrap_or_else(system_bundle), own })
    }
}

impl<'a> OutputKind<'a> {
    /// The keys about TLS; `None` for a kind without a network.
    pub fn tls_keys(self) -> Option<TlsKeys<'a>> {
        let (ca, certificate, key) = match self {
            OutputKind::Amqp(amqp) => (&amqp.ca, &amqp.certificate, &amqp.key),
            OutputKind::Mqtt(mqtt) => (&mqtt.ca, &mqtt.certificate, &mqtt.key),
            OutputKind::Link(link) => (&link.ca, &link.certificate, &link.key),
            OutputKind::Sink(_) | OutputKind::Frames => return None,
        };
        Some(TlsKeys { ca: ca.as_ref(), certificate: certificate.as_ref(), key: key.as_ref() })
    }

    /// The files of its TLS, if it speaks TLS and is right.
    pub fn tls_files(self) -> Option<ClientFiles> {
        if let OutputKind::Link(link) = self {
            return link.tls_files();
        }
        let (OutputKind::Amqp(AmqpConfig { url, .. })
        | OutputKind::Mqtt(MqttOutputConfig { url, .. })) = self
        else {
            return None;
        };
        self.tls_keys()?.files(&Url::parse(url.as_deref()?, self.name()).ok()?)
    }
}

impl OutputConfig {
    /// Every kind that is given; a right output has one.
    pub fn kinds(&self) -> impl Iterator<Item = OutputKind<'_>> {
        let amqp = self.amqp.as_ref().map(OutputKind::Amqp);
        let mqtt = self.mqtt.as_ref().map(OutputKind::Mqtt);
        let link = self.link.as_ref().map(OutputKind::Link);
        let sink = self.sink.as_ref().map(OutputKind::Sink);
        let frames = self.frames.then_some(OutputKind::Frames);
        [amqp, mqtt, link, sink, frames].into_iter().flatten()
    }

    /// The given name, or the name of its kind.
    pub fn label(&self) -> &str {
        let kind = || self.kinds().next().map_or("output", OutputKind::name);
        self.name.as_deref().unwrap_or_else(kind)
    }

    /// Its name and where it leads, in words.
    pub fn destination(&self) -> String {
        let url = |url: &Option<String>| url.clone().unwrap_or_default();
        let place = match self.kinds().next() {
            Some(OutputKind::Amqp(amqp)) => {
                format!("{}, exchange {}", url(&amqp.url), amqp.exchange)
            }
            Some(OutputKind::Mqtt(mqtt)) => url(&mqtt.url),
            Some(OutputKind::Link(link)) => {
                let paths = link.paths.clone().unwrap_or_else(|| vec!["auto".into()]);
                let to = link.to.as_deref().unwrap_or_default();
                format!("{to}, by {}", paths.join(", "))
            }
            Some(OutputKind::Sink(SinkConfig { discard: true, .. })) => "nowhere".into(),
            Some(OutputKind::Sink(sink)) => format!("files in {}", sink.directory.display()),
            Some(OutputKind::Frames) => "[frames] listen".into(),
            None => "nowhere".into(),
        };
        format!("{} ({place})", self.label())
    }

    /// The uplink it is on: the given one; for a sink its own, since it has no network below, and for a link,
    /// since it has several; for the others the one that they share.
    pub fn uplink(&self) -> &str {
        match &self.uplink {
            Some(name) => name,
            None if self.sink.is_some() || self.link.is_some() || self.frames => self.label(),
            None => "uplink",
        }
    }

    /// The given law, or the default of its kind.
    pub fn law(&self) -> Law {
        let has_no_network = self.sink.is_some() || self.frames;
        self.law.unwrap_or(if has_no_network { Law::Unlimited } else { Law::Tide })
    }
}

/// `law` of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Law {
    /// Ours.
    #[default]
    Tide,
    /// BBR.
    Bbr,
    /// Copa.
    Copa,
    /// LEDBAT.
    Ledbat,
    /// 92 % of the configured rate, which must be given.
    Known,
    /// No network below: nothing is measured.
    Unlimited,
}

impl From<Law> for RateControllerName {
    fn from(law: Law) -> Self {
        match law {
            Law::Tide => RateControllerName::Tide,
            Law::Bbr => RateControllerName::Bbr,
            Law::Copa => RateControllerName::Copa,
            Law::Ledbat => RateControllerName::Ledbat,
            Law::Known => RateControllerName::Known,
            Law::Unlimited => RateControllerName::Unlimited,
        }
    }
}

/// `amqp` of an `[[output]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AmqpConfig {
    /// `amqp://host[:port][/vhost]`, without user and password; `amqps` with TLS.
    pub url: Option<String>,
    /// PEM file with the authorities of which one must have signed the far end's certificate.
    pub ca: Option<PathBuf>,
    /// PEM file with a certificate of our own, where the far end wants to see one.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
    /// Exchange that it publishes to.
    pub exchange: String,
    /// Routing key; `{topic}` is the record's topic with `.` for `/`.
    pub routing_key: String,
    /// Whether the broker keeps records across its restart.
    pub persistent: bool,
    /// User name; without one `guest` with its well-known password, which RabbitMQ takes from its own
    /// machine only.
    pub user: Option<String>,
    /// Environment variable with the password.
    pub password_env: Option<String>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
}

impl Default for AmqpConfig {
    fn default() -> Self {
        AmqpConfig {
            url: None,
            ca: None,
            certificate: None,
            key: None,
            exchange: "amq.topic".into(),
            routing_key: "{topic}".into(),
            persistent: true,
            user: None,
            password_env: None,
            password_file: None,
        }
    }
}

/// `mqtt` of an `[[output]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MqttOutputConfig {
    /// `mqtt://host[:port]`; `mqtts` with TLS.
    pub url: Option<String>,
    /// PEM file with the authorities of which one must have signed the far end's certificate.
    pub ca: Option<PathBuf>,
    /// PEM file with a certificate of our own, where the far end wants to see one.
    pub certificate: Option<PathBuf>,
    /// PEM file with its private key.
    pub key: Option<PathBuf>,
    /// Prefix of its client identifiers; the names of node and output if left out.
    pub client_id: Option<String>,
    /// Ask the broker to retain what came with the retain flag.
    pub retain: bool,
    /// User name.
    pub user: Option<String>,
    /// Environment variable with the password.
    pub password_env: Option<String>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
}

/// `sink` of an `[[output]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SinkConfig {
    /// Folder of the JSON lines files.
    pub directory: PathBuf,
    /// A file that has grown to this is closed and a new one begun.
    pub file_max: ByteSize,
    /// Files kept; the oldest goes.
    pub files: u32,
    /// Make lines safe on disk before their records are confirmed.
    pub sync: bool,
    /// Write nothing: count, confirm and forget.
    pub discard: bool,
}

impl Default for SinkConfig {
    fn default() -> Self {
        SinkConfig {
            directory: "tidegate-data".into(),
            file_max: ByteSize(Size::from_mib(64)),
            files: 8,
            sync: true,
            discard: false,
        }
    }
}

/// The address of a broker, without user and password: those have keys of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Name or IP address, without brackets.
    pub host: String,
    /// Port, or the scheme's own.
    pub port: u16,
    /// Whether the scheme is the one with TLS (`mqtts` for `mqtt`).
    pub tls: bool,
    /// What stands after the host, percent-decoded; for AMQP the virtual host. `None` without a slash.
    pub path: Option<String>,
}

impl Url {
    /// Reads `scheme://host[:port][/path]`, where the scheme may have an `s` behind it.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(text: &str, scheme: &str) -> Result<Url, String> {
        let example = format!("write {scheme}://host or {scheme}://host:port");
        let (found, rest) =
            text.split_once("://").ok_or_else(|| format!("{text:?} has no scheme: {example}"))?;
        let tls = found.strip_prefix(scheme) == Some("s");
        if found != scheme && !tls {
            return Err(format!("{found:?} is not spoken here: {example}"));
        }
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(path)),
            None => (rest, None),
        };
        if authority.contains('@') {
            return Err("user and password do not belong in a url: give user = \"...\" and \
                        password_env or password_file"
                .into());
        }
        let (host, port) = host_and_port(authority)
            .ok_or_else(|| format!("{authority:?} is no host and port: {example}"))?;
        let default = match (scheme, tls) {
            ("amqp", false) => 5672,
            ("amqp", true) => 5671,
            (_, false) => 1883,
            (_, true) => 8883,
        };
        let path = path.map(decode).transpose();
        let path = path.map_err(|()| format!("{text:?} has a broken %-escape: write %2F for /"))?;
        Ok(Url { host: host.into(), port: port.unwrap_or(default), tls, path })
    }
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port`.
pub(crate) fn host_and_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, if after.is_empty() { None } else { Some(after.strip_prefix(':')?) })
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
    let port = port.map(str::parse::<u16>).transpose().ok()?;
    (!host.is_empty() && host.chars().all(fits) && port != Some(0)).then_some((host, port))
}

fn decode(text: &str) -> Result<String, ()> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, others @ ..] = rest {
        rest = others;
        if *first == b'%' {
            let hex = others.get(..2).and_then(|hex| std::str::from_utf8(hex).ok()).ok_or(())?;
            bytes.push(u8::from_str_radix(hex, 16).map_err(|_| ())?);
            rest = &others[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).map_err(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_host_port_and_path() {
        let url = |text| Url::parse(text, "amqp").unwrap();
        let is = |host: &str, port, path: Option<&str>| Url {
            host: host.into(),
            port,
            tls: false,
            path: path.map(Into::into),
        };
        assert_eq!(url("amqp://10.0.0.1"), is("10.0.0.1", 5672, None));
        assert_eq!(url("amqp://broker.example:5673/"), is("broker.example", 5673, Some("")));
        assert_eq!(url("amqp://[::1]/a%2Fb"), is("::1", 5672, Some("a/b")));
        assert_eq!(Url::parse("mqtt://h:9", "mqtt").unwrap(), is("h", 9, None));
        assert_eq!(url("amqps://h/x"), Url { tls: true, ..is("h", 5671, Some("x")) });
        let mqtts = Url::parse("mqtts://[::1]", "mqtt").unwrap();
        assert_eq!(mqtts, Url { tls: true, ..is("::1", 8883, None) });
        for wrong in [
            "10.0.0.1",
            "mqtt://h",
            "amqpss://h",
            "amqp://",
            "amqp://h:x",
            "amqp://h:0",
            "amqp://[::1",
            "amqp://a b",
            "amqp://u:p@h",
            "amqp://h/%2",
            "amqp://h/%zz",
            "amqp://h/%ff",
        ] {
            assert!(Url::parse(wrong, "amqp").is_err(), "{wrong}");
        }
    }
}
