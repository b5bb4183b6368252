//! Programs of others that the lab runs: where they are, and which version of each is here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::net::NetError;

/// A program that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Tidegate,
    /// The MQTT broker.
    Mosquitto,
    /// Another one, in Go.
    Mochi,
    RabbitMq,
    Nats,
    /// Another broker, in Java.
    HiveMq,
    /// zenoh, as the package for Python has it.
    Zenoh,
    /// The HTTP proxy, as the package for Python has it.
    Envoy,
}

/// Where Debian's packages put servers; not in everybody's path.
const PLACES: [&str; 4] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];
/// Debian's wrapper of RabbitMQ changes to the system's user and folders: this is the script itself.
const RABBITMQ: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";

impl Program {
    pub fn name(self) -> &'static str {
        match self {
            Program::Tidegate => "tidegate",
            Program::Mosquitto => "mosquitto",
            Program::Mochi => "mochi-mqtt",
            Program::RabbitMq => "rabbitmq",
            Program::Nats => "nats-server",
            Program::HiveMq => "hivemq",
            Program::Zenoh => "eclipse-zenoh",
            Program::Envoy => "envoy",
        }
    }

    /// Its executable: in the folder of rivals that `scripts/rivals.sh` fills, or the system's.
    pub fn path(self) -> Result<PathBuf, NetError> {
        let missing = |package| NetError::Missing { program: self.name().into(), package };
        let own =
            |place: &str| rivals().map(|folder| folder.join(place)).filter(|path| path.is_file());
        match self {
            Program::Tidegate => super::tidegate_program().map_err(|_| missing("tidegate")),
            Program::Mosquitto => on_system("mosquitto").ok_or(missing("mosquitto")),
            Program::RabbitMq => {
                let script = Some(PathBuf::from(RABBITMQ)).filter(|path| path.is_file());
                script.or_else(|| on_system("rabbitmq-server")).ok_or(missing("rabbitmq-server"))
            }
            Program::Mochi => own("bin/mochi-mqtt").ok_or(missing("scripts/rivals.sh")),
            Program::Nats => {
                let found = own("bin/nats-server").or_else(|| on_system("nats-server"));
                found.ok_or(missing("nats-server, or scripts/rivals.sh"))
            }
            Program::HiveMq => {
                own("bin/hivemq").ok_or(missing("scripts/rivals.sh, with a JDK and Maven"))
            }
            Program::Zenoh => own("python/bin/python3").ok_or(missing("scripts/rivals.sh")),
            Program::Envoy => {
                let found = own("envoy/bin/envoy").or_else(|| on_system("envoy"));
                found.ok_or(missing("scripts/rivals.sh"))
            }
        }
    }

    /// Where a program of this name is, known here or not.
    pub fn path_of(name: &str) -> Result<PathBuf, NetError> {
        use Program::{HiveMq, Mochi, Mosquitto, Nats, Tidegate};
        let mut known = [Tidegate, Mosquitto, Mochi, Nats, HiveMq].into_iter();
        let missing = || NetError::Missing { program: name.into(), package: "the system's path" };
        let known = known.find(|one| one.name() == name);
        known.map_or_else(|| on_system(name).ok_or_else(missing), Program::path)
    }

    /// Names and versions of some, as a result has them.
    pub fn all_with_versions(programs: &[Program]) -> Vec<(String, String)> {
        programs.iter().map(|program| (program.name().to_owned(), program.version())).collect()
    }

    /// What it says of itself; "unknown" where it does not.
    pub fn version(self) -> String {
        let Ok(path) = self.path() else { return "missing".into() };
        let said = match self {
            Program::Tidegate => said(&path, &["--version"]),
            Program::Mosquitto => said(&path, &["-h"]),
            Program::Nats | Program::HiveMq => said(&path, &["--version"]),
            // It does not say; Go's compiler has written it down.
            Program::Mochi => {
                let path = path.display().to_string();
                let said = said(Path::new("go"), &["version", "-m", &path]);
                return of_module(&said, "github.com/mochi-mqtt/server").to_owned();
            }
            Program::Envoy => return of_envoy(&said(&path, &["--version"])).to_owned(),
            // Asking it would start a virtual machine: its folder has the version in its name.
            Program::RabbitMq => folder_of_rabbitmq(&path),
            Program::Zenoh => {
                let ask = "from importlib.metadata import version; print(version('eclipse-zenoh'))";
                said(&path, &["-c", ask])
            }
        };
        number(&said).unwrap_or("unknown").to_owned()
    }
}

/// The folder that `scripts/rivals.sh` fills, in cargo's target folder.
fn rivals() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let above = own.ancestors().map(|folder| folder.join("rivals"));
    above.into_iter().skip(1).take(3).find(|folder| folder.is_dir())
}

fn on_system(name: &str) -> Option<PathBuf> {
    PLACES.iter().map(|place| Path::new(place).join(name)).find(|path| path.is_file())
}

/// Whether a program is in the path of this process.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// What any program says of itself.
pub(super) fn of_command(program: &str) -> String {
    number(&said(Path::new(program), &["--version"])).unwrap_or("unknown").to_owned()
}

fn said(program: &Path, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    )
}

fn folder_of_rabbitmq(script: &Path) -> String {
    let root = script.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    let entries = std::fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.into_iter().find(|name| name.starts_with("rabbitmq_server-")).unwrap_or_default()
}

/// What stands behind the commit that it was built from.
fn of_envoy(said: &str) -> &str {
    let after = said.split_once("version:").map_or("", |(_, after)| after);
    after.split('/').nth(1).unwrap_or("unknown")
}

/// The version of a module of Go in what `go version -m` says.
fn of_module<'a>(said: &'a str, module: &str) -> &'a str {
    let lines = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut versions = lines.filter_map(|words| match words[..] {
        ["mod", name, version, ..] if name.starts_with(module) => Some(version),
        _ => None,
    });
    versions.next().map_or("unknown", |version| version.trim_start_matches('v'))
}

/// The first number with dots in a text.
fn number(text: &str) -> Option<&str> {
    let words = text.split(|sign: char| sign.is_whitespace() || sign == '-' || sign == ':');
    let words = words.map(|word| word.trim_start_matches('v'));
    words
        .into_iter()
        .find(|word| word.starts_with(|sign: char| sign.is_ascii_digit()) && word.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        assert_eq!(number("mosquitto version 2.0.11\n\nmosquitto is"), Some("2.0.11"));
        assert_eq!(number("nats-server: v2.15.2\n"), Some("2.15.2"));
        assert_eq!(number("rabbitmq_server-3.10.8"), Some("3.10.8"));
        assert_eq!(number("tidegate 0.1.0"), Some("0.1.0"));
        assert_eq!(number("no such program"), None);
        let go = "mochi: go1.25\n\tpath\tx.y/m/cmd\n\tmod\tx.y/m/v2\tv2.7.9\th1:aa=\n";
        assert_eq!(of_module(go, "x.y/m"), "2.7.9");
        assert_eq!(of_envoy("/opt/envoy  version: 9e55/1.40.0/Clean/RELEASE"), "1.40.0");
    }
}
