//! Addresses of far ends: `scheme://host:port,host:port/path`, and `host:port`.

use std::fmt;

/// Hosts of one url: more are no cluster that somebody has.
const HOSTS_MAX: usize = 16;

/// What a url begins with, and the ports that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheme {
    /// Without TLS; an `s` behind it asks for TLS.
    pub name: &'static str,
    /// Port where the url has none.
    pub port: u16,
    /// The same with TLS.
    pub tls_port: u16,
}

impl Scheme {
    /// MQTT, of an output and of a client.
    pub const MQTT: Scheme = Scheme { name: "mqtt", port: 1883, tls_port: 8883 };
}

/// Where a far end listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Name or IP address, without brackets.
    pub name: String,
    /// Port.
    pub port: u16,
}

impl Host {
    /// This one.
    pub fn new(name: impl Into<String>, port: u16) -> Host {
        Host { name: name.into(), port }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// The address of a broker, without user and password: those have keys of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Its hosts, of which the first that answers counts; at least one. A port that is left out is the scheme's own.
    pub hosts: Vec<Host>,
    /// Whether the scheme is the one with TLS (`mqtts` for `mqtt`).
    pub tls: bool,
    /// What stands after the host and its slash, as it is written. `None` without a slash.
    pub path: Option<String>,
}

impl Url {
    /// Reads `scheme://host[:port][,host[:port]...][/path]`, where the scheme may have an `s` behind it.
    ///
    /// # Errors
    /// What is wrong and what would be right.
    pub fn parse(text: &str, scheme: Scheme) -> Result<Url, String> {
        let Scheme { name: scheme, port: plain_port, tls_port } = scheme;
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
        let default = if tls { tls_port } else { plain_port };
        let mut hosts: Vec<Host> = Vec::new();
        for one in authority.split(',') {
            let (name, port) = host_and_port(one)
                .ok_or_else(|| format!("{one:?} is no host and port: {example}"))?;
            let host = Host::new(name, port.unwrap_or(default));
            if hosts.contains(&host) {
                return Err(format!("{one:?} stands there twice: name each host once"));
            }
            hosts.push(host);
        }
        if hosts.len() > HOSTS_MAX {
            return Err(format!("{} hosts: at most {HOSTS_MAX}", hosts.len()));
        }
        if path.is_some_and(|path| decode(path).is_err()) {
            return Err(format!("{text:?} has a broken %-escape: write %2F for /"));
        }
        let path = path.map(Into::into);
        Ok(Url { hosts, tls, path })
    }

    /// Its path, percent-decoded; empty without one.
    pub fn decoded_path(&self) -> String {
        self.path.as_deref().and_then(|path| decode(path).ok()).unwrap_or_default()
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

    const AMQP: Scheme = Scheme { name: "amqp", port: 5672, tls_port: 5671 };

    #[test]
    fn urls_name_host_port_and_path() {
        let url = |text| Url::parse(text, AMQP).unwrap();
        let is = |host: &str, port, path: Option<&str>| Url {
            hosts: vec![Host::new(host, port)],
            tls: false,
            path: path.map(Into::into),
        };
        assert_eq!(url("amqp://10.0.0.1"), is("10.0.0.1", 5672, None));
        assert_eq!(url("amqp://broker.example:5673/"), is("broker.example", 5673, Some("")));
        assert_eq!(url("amqp://[::1]/a%2Fb"), is("::1", 5672, Some("a%2Fb")));
        assert_eq!(url("amqp://[::1]/a%2Fb").decoded_path(), "a/b");
        assert_eq!(Url::parse("mqtt://h:9", Scheme::MQTT).unwrap(), is("h", 9, None));
        assert_eq!(url("amqps://h/x"), Url { tls: true, ..is("h", 5671, Some("x")) });
        let mqtts = Url::parse("mqtts://[::1]", Scheme::MQTT).unwrap();
        assert_eq!(mqtts, Url { tls: true, ..is("::1", 8883, None) });
        let hosts = [Host::new("a", 5672), Host::new("::1", 5673), Host::new("b", 5672)];
        let cluster = url("amqp://a,[::1]:5673,b/plant");
        assert_eq!(cluster, Url { hosts: hosts.to_vec(), ..is("", 0, Some("plant")) });
        assert_eq!(hosts.map(|host| host.to_string()), ["a:5672", "[::1]:5673", "b:5672"]);
        let many = |hosts: usize| {
            let names: Vec<String> = (0..hosts).map(|host| format!("h{host}")).collect();
            Url::parse(&format!("amqp://{}", names.join(",")), AMQP).is_ok()
        };
        assert!(many(HOSTS_MAX) && !many(HOSTS_MAX + 1));
        for wrong in [
            "10.0.0.1",
            "amqp://a,",
            "amqp://,a",
            "amqp://a,b:x",
            "amqp://a,a:5672",
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
            assert!(Url::parse(wrong, AMQP).is_err(), "{wrong}");
        }
    }
}
