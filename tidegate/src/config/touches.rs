//! What a configuration uses of its machine: addresses, folders, environment variables and files with secrets.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::places::Place;
use super::units::Listen;
use super::{Config, FileKind};
use crate::input::kind::Ports;
use crate::keys::secrets::Secret;

/// An address that is listened on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The key that says so.
    pub place: Place,
    /// The address.
    pub address: SocketAddr,
    /// Whether by TCP.
    pub tcp: bool,
    /// Whether by UDP.
    pub udp: bool,
}

impl Listening {
    /// Whether only one of the two can be had: both take what comes to one port.
    pub fn excludes(&self, other: &Listening) -> bool {
        let (one, two) = (self.address, other.address);
        let same_transport = self.tcp && other.tcp || self.udp && other.udp;
        one.port() != 0 && same_transport && (covers(one, two) || covers(two, one))
    }
}

/// Whether who listens at the one address has what comes to the other.
pub(crate) fn covers(wide: SocketAddr, narrow: SocketAddr) -> bool {
    let is_wide = wide.ip().is_unspecified() && wide.is_ipv4() == narrow.is_ipv4();
    wide.port() == narrow.port() && (wide.ip() == narrow.ip() || is_wide)
}

/// A folder that must be there or be made, and be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenFolder {
    /// The key that says so.
    pub place: Place,
    /// The folder.
    pub path: PathBuf,
}

impl Config {
    /// Every address that the commands for this kind of file listen on.
    pub fn listening(&self, kind: FileKind) -> Vec<Listening> {
        let mut all = Vec::new();
        let mut add = |place: Place, listen: &[SocketAddr], tcp: bool, udp: bool| {
            for address in listen {
                all.push(Listening { place: place.clone(), address: *address, tcp, udp });
            }
        };
        fn of(listen: &Option<Listen>) -> &[SocketAddr] {
            listen.as_ref().map_or(&[], |listen| &listen.0)
        }
        let section = |name: &str| Place::section(name).to("listen");
        add(section("http"), &self.http.listen.0, true, false);
        if kind != FileKind::Node {
            for (index, listener) in self.proxy.listener.iter().enumerate() {
                let place = Place::section("proxy").to("listener").to(index).to("listen");
                add(place, of(&listener.listen), true, false);
            }
        }
        if kind == FileKind::Proxy {
            return all;
        }
        for (index, input) in self.input.iter().enumerate() {
            let place = Place::section("input").to(index);
            for kind in input.kinds() {
                let Some(Ports { listen, tcp, udp, .. }) = kind.ports() else { continue };
                add(place.to(kind.name()).to("listen"), listen, tcp, udp);
            }
        }
        add(section("fleet"), of(&self.fleet.listen), true, true);
        add(section("mirror"), of(&self.mirror.listen), true, false);
        add(section("group"), of(&self.group.listen), true, false);
        add(section("frames"), of(&self.frames.listen), true, false);
        all
    }

    /// Every environment variable that holds a secret.
    pub fn variables(&self) -> Vec<(Place, &str)> {
        fn of<'c>((place, secret): (Place, Secret<'c>)) -> Option<(Place, &'c str)> {
            match secret {
                Secret::Variable(key, name) => Some((place.to(key), name)),
                Secret::File(..) => None,
            }
        }
        let log = self.log.key_env.as_deref();
        let log = log.map(|name| (Place::section("log").to("key_env"), name));
        self.secrets().into_iter().filter_map(of).chain(log).collect()
    }

    /// Every file that holds a secret and nothing else.
    pub fn secret_files(&self) -> Vec<(Place, &Path)> {
        fn of<'c>((place, secret): (Place, Secret<'c>)) -> Option<(Place, &'c Path)> {
            match secret {
                Secret::File(key, file) => Some((place.to(key), file)),
                Secret::Variable(..) => None,
            }
        }
        let mut all: Vec<_> = self.secrets().into_iter().filter_map(of).collect();
        let log = Place::section("log");
        all.extend(self.log.key_file.as_deref().map(|file| (log.to("key_file"), file)));
        let old = self.log.old_key_files.iter().enumerate();
        all.extend(old.map(|(index, file)| (log.to("old_key_files").to(index), file.as_path())));
        all
    }

    /// The secrets of each output and client that has them.
    fn secrets(&self) -> Vec<(Place, Secret<'_>)> {
        let mut all = Vec::new();
        for (index, input) in self.input.iter().enumerate() {
            for kind in input.kinds() {
                let place = Place::section("input").to(index).to(kind.name());
                all.extend(kind.secrets().into_iter().map(|secret| (place.clone(), secret)));
            }
        }
        for (index, output) in self.output.iter().enumerate() {
            for kind in output.kinds() {
                let place = Place::section("output").to(index).to(kind.name());
                all.extend(kind.secrets().into_iter().map(|secret| (place.clone(), secret)));
            }
        }
        all
    }

    /// Every folder that a node writes to.
    pub fn folders(&self) -> Vec<WrittenFolder> {
        let mut all = Vec::new();
        let mut add = |place: Place, path: Option<&Path>| {
            all.extend(path.map(|path| WrittenFolder { place, path: path.into() }));
        };
        for (index, output) in self.output.iter().enumerate() {
            for kind in output.kinds() {
                if let Some((key, path)) = kind.folder() {
                    add(Place::section("output").to(index).to(kind.name()).to(key), Some(path));
                }
            }
        }
        add(Place::section("log").to("directory"), self.log.directory.as_deref());
        add(Place::section("mirror").to("directory"), self.mirror.directory.as_deref());
        add(Place::section("frames").to("directory"), self.frames.directory.as_deref());
        let state = self.group.state.as_deref().and_then(Path::parent);
        add(Place::section("group").to("state"), state);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    #[test]
    fn two_addresses_exclude_each_other_where_one_takes_what_the_other_wants() {
        let listening = |address: &str, tcp, udp| Listening {
            place: Place::default(),
            address: address.parse().unwrap(),
            tcp,
            udp,
        };
        let tcp = |address: &str| listening(address, true, false);
        for (one, other) in [
            ("0.0.0.0:1883", "127.0.0.1:1883"),
            ("[::]:1883", "[::1]:1883"),
            ("10.0.0.1:80", "10.0.0.1:80"),
        ] {
            assert!(tcp(one).excludes(&tcp(other)) && tcp(other).excludes(&tcp(one)), "{one}");
        }
        for (one, other) in [
            ("0.0.0.0:1883", "127.0.0.1:1884"),
            ("0.0.0.0:1883", "[::1]:1883"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("127.0.0.1:80", "127.0.0.2:80"),
        ] {
            assert!(!tcp(one).excludes(&tcp(other)), "{one} {other}");
        }
        let udp = listening("0.0.0.0:7443", false, true);
        assert!(!udp.excludes(&tcp("0.0.0.0:7443")));
        assert!(udp.excludes(&listening("127.0.0.1:7443", true, true)));
    }

    #[test]
    fn what_a_file_uses_is_found_with_its_key() {
        let text = "[log]\ndirectory = \"l\"\nkey_env = \"K\"\n[[input]]\n\
                    mqtt_client = { url = \"mqtt://a\", user = \"u\", password_env = \"P\" }\n\
                    [[output]]\nname = \"b\"\namqp = { url = \"amqp://b\", user = \"u\", password_file = \"f\" }\n\
                    [[output]]\nsink = { directory = \"s\" }\n\
                    [[output]]\nname = \"none\"\nsink = { discard = true }\n";
        let config = read(text).config;
        let variables: Vec<String> =
            config.variables().iter().map(|(place, name)| format!("{place} {name}")).collect();
        assert_eq!(variables, ["input.mqtt_client.password_env P", "log.key_env K"]);
        let files = config.secret_files();
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].0.to_string(), "output.amqp.password_file");
        let folders: Vec<PathBuf> = config.folders().into_iter().map(|found| found.path).collect();
        assert_eq!(folders, [PathBuf::from("s"), PathBuf::from("l")]);
        let listening = config.listening(FileKind::Node);
        assert!(listening.iter().all(|one| one.address.port() == 7070), "{listening:?}");
        assert!(config.listening(FileKind::Proxy).len() == 1);
    }
}
