//! What only this machine can say of a configuration: whether variables are set, folders can be written to and
//! addresses are free. `tidegate check` tries them; a start finds out by itself.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use socket2::{Domain, Protocol, Socket, Type};
use tidegate_types::units::Size;

use super::secrets::key_of_file;
use crate::config::check::{Finding, Findings};
use crate::config::places::Place;
use crate::config::touches::WrittenFolder;
use crate::config::{Config, FileKind};
use crate::observe::status::table::size;
use crate::support::files;
use crate::support::tls::{self, private};

/// How many of each were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Addresses listened on for a moment.
    pub addresses: usize,
    /// Folders written to.
    pub folders: usize,
    /// Environment variables and files with secrets.
    pub secrets: usize,
}

/// Tries what a configuration as written uses, with what is added to it. Leaves nothing behind.
pub(super) fn attempt(config: &Config, kind: FileKind, tried: &mut Tried) -> Vec<Finding> {
    let mut findings = Findings::default();
    let whole = config.clone().completed();
    secrets(&whole, tried, &mut findings);
    addresses(&whole, kind, tried, &mut findings);
    // A proxy holds its messages in memory.
    if kind != FileKind::Proxy {
        for WrittenFolder { place, path } in whole.folders() {
            tried.folders += 1;
            folder(&path, place, &mut findings);
        }
        let (log, mirror) = (&whole.log, &whole.mirror);
        room("log", log.directory.as_deref(), log.bound.0, &mut findings);
        room("mirror", mirror.directory.as_deref(), mirror.bound.0, &mut findings);
    }
    findings.0
}

/// Tries the addresses of an orchestrator.
pub(super) fn attempt_addresses(
    addresses: &[(Place, SocketAddr)],
    tried: &mut Tried,
    findings: &mut Findings,
) {
    for (place, address) in addresses {
        tried.addresses += 1;
        let free = is_free(*address, Type::STREAM, Protocol::TCP);
        told_of_address(*address, "TCP", free, place, findings);
    }
}

fn secrets(config: &Config, tried: &mut Tried, findings: &mut Findings) {
    for (place, name) in config.variables() {
        tried.secrets += 1;
        if std::env::var_os(name).is_none() {
            let text = format!(
                "the variable {name} is not set here, and without it the node does not start: set it where the \
                 node is started"
            );
            findings.warning(place, text);
        }
    }
    for (place, file) in config.secret_files() {
        tried.secrets += 1;
        let is_password = place.to_string().ends_with("password_file");
        let read = match is_password {
            true => private::look_at(file)
                .and_then(|()| files::read_text(file, tls::FILE_MAX))
                .map(drop),
            false => key_of_file(file).map(drop).map_err(|error| match error.downcast() {
                Ok(error) => error,
                Err(other) => io::Error::other(format!("{other:#}")),
            }),
        };
        let Err(error) = read else { continue };
        let text = format!("{}: {error}", file.display());
        match error.kind() {
            ErrorKind::PermissionDenied => findings.warning(place, not_as_this_user(text)),
            _ => findings.error(place, text),
        }
    }
}

/// Another user may have the right that this one lacks.
fn not_as_this_user(text: String) -> String {
    format!(
        "{text}: as this user it cannot be tried; the user that the node runs as needs the right"
    )
}

fn addresses(config: &Config, kind: FileKind, tried: &mut Tried, findings: &mut Findings) {
    let has_v6 = is_free((Ipv6Addr::LOCALHOST, 0).into(), Type::STREAM, Protocol::TCP).is_ok();
    for listening in config.listening(kind) {
        // Where a host has no IPv6, a node leaves such addresses out.
        if listening.address.is_ipv6() && !has_v6 {
            continue;
        }
        tried.addresses += 1;
        let address = listening.address;
        let tcp = listening.tcp.then(|| is_free(address, Type::STREAM, Protocol::TCP));
        let udp = listening.udp.then(|| is_free(address, Type::DGRAM, Protocol::UDP));
        for (name, free) in [("TCP", tcp), ("UDP", udp)] {
            told_of_address(address, name, free.unwrap_or(Ok(())), &listening.place, findings);
        }
    }
}

fn told_of_address(
    address: SocketAddr,
    transport: &str,
    free: io::Result<()>,
    place: &Place,
    findings: &mut Findings,
) {
    let Err(error) = free else { return };
    let text = match error.kind() {
        ErrorKind::AddrInUse => format!(
            "{address} is in use by another process ({transport}): a node that runs already, or choose another port"
        ),
        ErrorKind::AddrNotAvailable => {
            format!("{address} is no address of this machine: choose one of its own")
        }
        ErrorKind::PermissionDenied => not_as_this_user(format!("{address}: {error}")),
        _ => format!("{address}: {error}"),
    };
    findings.warning(place.clone(), text);
}

/// Listens for a moment, as inputs do.
fn is_free(address: SocketAddr, kind: Type, protocol: Protocol) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    socket.bind(&address.into())?;
    if kind == Type::STREAM {
        socket.listen(1)?;
        drop(TcpListener::from(socket));
    }
    Ok(())
}

/// The folder, or the one in which it would be made.
fn existing(path: &Path) -> &Path {
    let there = path.ancestors().find(|one| one.as_os_str().is_empty() || one.exists());
    match there {
        Some(one) if !one.as_os_str().is_empty() => one,
        _ => Path::new("."),
    }
}

/// Whether a folder's file system has room for all that its section may write there.
fn room(section: &'static str, folder: Option<&Path>, bound: Size, findings: &mut Findings) {
    let Some(folder) = folder else { return };
    let there = existing(folder);
    let Ok(system) = rustix::fs::statvfs(there) else { return };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    let own = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let own: u64 = own.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
    // A file system of no size is none that files are written to: another finding tells it.
    if system.f_blocks > 0 && free.saturating_add(own) < bound.0 {
        let text = format!(
            "{section}.bound lets it grow to {}, and {} has room for {}: when that is full, records are \
             refused; set a smaller bound, or give it more room",
            size(bound.0),
            there.display(),
            size(free.saturating_add(own)),
        );
        findings.warning(Place::section(section).to("directory"), text);
    }
}

/// Writes a file and takes it away again: in the folder, or where the folder would be made.
fn folder(path: &Path, place: Place, findings: &mut Findings) {
    let there = existing(path);
    if !there.is_dir() {
        let text = format!("{}: a file stands where a folder must be", there.display());
        return findings.error(place, text);
    }
    let trial: PathBuf = there.join(format!(".tidegate-check-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&trial);
    let Err(error) = written.and_then(|_| std::fs::remove_file(&trial)) else { return };
    let text = match there == path {
        true => format!("{}: {error}", path.display()),
        false => format!("{} cannot be made in {}: {error}", path.display(), there.display()),
    };
    match error.kind() {
        ErrorKind::PermissionDenied => findings.warning(place, not_as_this_user(text)),
        _ => findings.error(place, format!("{text}: give a folder that can be written to")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::read;

    fn told(text: &str, kind: FileKind) -> Vec<String> {
        let mut tried = Tried::default();
        let findings = attempt(&read(text).config, kind, &mut tried);
        findings.iter().map(|found| format!("{}: {}", found.place, found.text)).collect()
    }

    /// A file whose only address is this one.
    fn node(address: SocketAddr, rest: &str) -> String {
        format!(
            "{rest}\n[http]\nlisten = []\n[[input]]\nmqtt.listen = \"{address}\"\n\
             [[output]]\nsink = {{ discard = true }}\n"
        )
    }

    #[test]
    fn an_address_that_another_process_has_is_told() {
        let held = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = held.local_addr().unwrap();
        let text = node(address, "");
        let said = told(&text, FileKind::Node);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with(&format!("input.mqtt.listen: {address} is in use")),
            "{said:?}"
        );
        let wide = node(([0, 0, 0, 0], address.port()).into(), "");
        assert!(told(&wide, FileKind::Node)[0].contains("is in use"));
        drop(held);
        assert_eq!(told(&text, FileKind::Node), [""; 0], "and it is free again after each trial");
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_told_and_nothing_is_left_in_one_that_can() {
        let free: SocketAddr = ([127, 0, 0, 1], 0).into();
        let base = std::env::temp_dir().join(format!("tidegate-trial-{}", std::process::id()));
        std::fs::create_dir(&base).unwrap();
        let good = base.join("deep/log");
        let bound = "64MiB";
        let log = |folder: &Path| format!("[log]\nbound = \"{bound}\"\ndirectory = {folder:?}\n");
        assert_eq!(told(&node(free, &log(&good)), FileKind::Node), [""; 0]);
        assert_eq!(std::fs::read_dir(&base).unwrap().count(), 0, "nothing is left behind");
        let file = base.join("file");
        std::fs::write(&file, "").unwrap();
        let said = told(&node(free, &log(&file.join("log"))), FileKind::Node);
        assert!(said[0].contains("a file stands where a folder must be"), "{said:?}");
        let said = told(&node(free, &log(Path::new("/proc/none/log"))), FileKind::Node);
        assert!(said[0].starts_with("log.directory: /proc/none/log cannot be made"), "{said:?}");
        let large = log(&good).replace(bound, "900000GiB");
        let said = told(&node(free, &large), FileKind::Node);
        assert!(
            said.len() == 1 && said[0].starts_with("log.directory: log.bound lets it grow to"),
            "{said:?}"
        );
        std::fs::remove_dir_all(base).unwrap();
    }

    #[test]
    fn secrets_that_are_not_there_are_told() {
        let free: SocketAddr = ([127, 0, 0, 1], 0).into();
        let output = |key: &str| {
            let more = format!(
                "[[output]]\nname = \"b\"\namqp = {{ url = \"amqp://b\", user = \"u\", {key} }}\n"
            );
            told(&node(free, &more), FileKind::Node)
        };
        let said = output("password_env = \"TIDEGATE_TRIAL_UNSET\"");
        assert!(said[0].starts_with("output.amqp.password_env: the variable TIDEGATE_TRIAL_UNSET"));
        let said = output("password_file = \"/nowhere/secret\"");
        assert!(said[0].starts_with("output.amqp.password_file: /nowhere/secret: No such file"));
        assert_eq!(output("password_env = \"PATH\""), [""; 0]);
    }
}
