//! What tests and benchmarks with real processes share.
//!
//! [`wait_until`] waits for what leaves no word; [`free_port`] gives ports to programs that cannot choose one themselves, or that must come back at the same one; [`kill_under_crowd`] kills a broker under a crowd of clients, and counts what each of them did not get.

#![forbid(unsafe_code)]

mod crowd;

use std::fs::{File, create_dir_all};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub use self::crowd::{
    CrowdAccount, CrowdBroker, CrowdOptions, ManyAccount, ManyOptions, kill_under_crowd,
    kill_with_many,
};

/// Ports below those that systems give to outgoing connections, which would otherwise take one between its choice and its
/// use (Linux: from 32768 on).
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// Long enough for a broker on a busy machine; reached only where a test fails.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How often something is looked at that leaves no word.
const POLL: Duration = Duration::from_millis(20);

/// What this process holds, until it ends.
static HELD: Mutex<Held> = Mutex::new(Held { tried: 0, locks: Vec::new() });

struct Held {
    tried: u16,
    locks: Vec<File>,
}

/// A port of this machine, for TCP and UDP, that no other caller on it gets before this process has ended.
///
/// # Panics
/// There is none left, or the folder for temporary files takes no locks.
pub fn free_port() -> u16 {
    let folder = std::env::temp_dir().join("tidegate-ports");
    create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut held = HELD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Processes begin at places of their own, so that each finds one soon.
    let start = std::process::id().wrapping_mul(641) as u16 % COUNT;
    while held.tried < COUNT {
        let port = FIRST + (start + held.tried) % COUNT;
        held.tried += 1;
        if let Some(lock) = lock(folder.join(port.to_string())).filter(|_| is_free(port)) {
            held.locks.push(lock);
            return port;
        }
    }
    panic!("no free port from {FIRST} to {}", FIRST + COUNT - 1)
}

/// A loopback address with such a port.
///
/// # Panics
/// As [`free_port`].
pub fn free_address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()))
}

/// Waits until a port that its last user has given back can be had again. The descriptors of this process are held by each
/// process that another thread is starting, from its fork to its execution.
///
/// # Panics
/// It is in use for two minutes.
pub fn wait_until_free(port: u16) {
    wait_until(&format!("port {port} to be free"), || is_free(port));
}

/// Waits for something that leaves no word, by looking again and again.
///
/// # Panics
/// It does not come within two minutes: long enough for any machine, so that no test depends on its speed.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(POLL);
    }
}

/// Holds a port against other callers; the lock ends with the process, however that ends.
fn lock(path: PathBuf) -> Option<File> {
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    file.try_lock().is_ok().then_some(file)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("0.0.0.0", port)).is_ok() && UdpSocket::bind(("0.0.0.0", port)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_given_twice_and_none_that_outgoing_connections_get() {
        let ports: Vec<u16> = (0..50).map(|_| free_port()).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 50);
        assert!(ports.iter().all(|port| (FIRST..FIRST + COUNT).contains(port)), "{ports:?}");
    }

    #[test]
    fn what_another_process_holds_is_passed_over() {
        let port = free_port();
        let path = std::env::temp_dir().join("tidegate-ports").join(port.to_string());
        assert!(lock(path).is_none(), "port {port} can be taken twice");
    }
}
