//! A host of a world: a network namespace with its loopback up.
//!
//! Names carry the process's id, so that runs do not meet and the leavings of a dead one are known.

use std::fs::File;
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::{NetError, is_alive, run};

/// Namespaces of ours: this, the process's id, a number of the run, and the host's name.
const PREFIX: &str = "tidegate-lab-";
/// Where `ip` keeps the namespaces that have names.
const NAMESPACES: &str = "/run/netns";

/// The namespace. Dropping it ends every process in it and removes it.
#[derive(Debug)]
pub struct Host {
    namespace: String,
}

impl Host {
    /// Makes a namespace. `run` is of [`next_run`].
    pub fn new(run_number: u32, name: &str) -> Result<Host, NetError> {
        let namespace = format!("{PREFIX}{}-{run_number}-{name}", std::process::id());
        run("ip", &["netns", "add", &namespace])?;
        let host = Host { namespace };
        host.ip(&["link", "set", "lo", "up"])?;
        Ok(host)
    }

    /// What `ip` calls it.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Runs `ip` for it.
    pub fn ip(&self, words: &[&str]) -> Result<String, NetError> {
        run("ip", &[&["-n", self.namespace()], words].concat())
    }

    /// A command that will run on it; its process is the program itself, not `ip`.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace]).arg(program.as_ref());
        command
    }

    /// Makes a socket that is the host's, bound to one of its addresses.
    pub(crate) fn udp(&self, address: SocketAddrV4) -> Result<UdpSocket, NetError> {
        // A socket belongs to where the thread was that made it, and stays there.
        self.inside("bind a socket", || UdpSocket::bind(address))
    }

    /// Makes a listener that is the host's, at one of its addresses.
    pub fn listen(&self, address: SocketAddrV4) -> Result<TcpListener, NetError> {
        self.inside("listen", || TcpListener::bind(address))
    }

    pub fn connect(&self, to: SocketAddrV4) -> Result<TcpStream, NetError> {
        self.inside("connect", || TcpStream::connect(to))
    }

    /// Lets it pass on packets that are not for it.
    pub fn forward(&self) -> Result<(), NetError> {
        // This folder shows the namespace of the thread that looks.
        self.inside("forward packets", || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
    }

    /// Segments that its TCP has sent so far, and how many of them again.
    pub fn segments(&self) -> Result<(u64, u64), NetError> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/snmp");
        Ok(segments(&self.inside("read counters", read)?))
    }

    /// Starts a thread that is on this host: sockets that it and the threads that it starts make are the host's.
    /// The work is not begun where the host cannot be entered.
    ///
    /// # Errors
    /// The system has no thread, or the namespace cannot be opened.
    pub fn thread(&self, work: impl FnOnce() + Send + 'static) -> Result<(), NetError> {
        let failed = format!("could not enter the namespace {}", self.namespace);
        let io = |source| NetError::Io { doing: failed.clone(), source };
        let file = File::open(Path::new(NAMESPACES).join(&self.namespace)).map_err(io)?;
        let enter = move || {
            let network = Some(LinkNameSpaceType::Network);
            if move_into_link_name_space(file.as_fd(), network).is_ok() {
                work();
            }
        };
        std::thread::Builder::new().name("client".into()).spawn(enter).map_err(io)?;
        Ok(())
    }

    /// Does something in a thread that is on this host: sockets that it makes are the host's.
    pub(super) fn inside<T: Send>(
        &self,
        doing: &str,
        work: impl FnOnce() -> std::io::Result<T> + Send,
    ) -> Result<T, NetError> {
        let failed = || format!("could not {doing} in {}", self.namespace);
        let work = || {
            self.enter()?;
            work().map_err(|source| NetError::Io { doing: failed(), source })
        };
        std::thread::scope(|scope| match scope.spawn(work).join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    }

    /// Moves the calling thread to it, until the thread ends.
    fn enter(&self) -> Result<(), NetError> {
        let entered = File::open(Path::new(NAMESPACES).join(&self.namespace)).and_then(|file| {
            let network = Some(LinkNameSpaceType::Network);
            Ok(move_into_link_name_space(file.as_fd(), network)?)
        });
        let doing = || format!("could not enter the namespace {}", self.namespace);
        entered.map_err(|source| NetError::Io { doing: doing(), source })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        remove(&self.namespace);
    }
}

/// OutSegs and RetransSegs of Linux's table: a line of names, then one of values.
fn segments(table: &str) -> (u64, u64) {
    let mut lines = table.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let value = |wanted: &str| {
        let mut pairs = names.split_whitespace().zip(values.split_whitespace());
        pairs.find(|(name, _)| *name == wanted).and_then(|(_, value)| value.parse().ok())
    };
    (value("OutSegs").unwrap_or(0), value("RetransSegs").unwrap_or(0))
}

/// Worlds of one process are numbered, so that tests can run beside each other.
pub fn next_run() -> u32 {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    RUNS.fetch_add(1, Ordering::Relaxed)
}

/// Removes the namespaces of lab processes that are no more.
pub fn remove_stale() -> Result<(), NetError> {
    remove_of(|id| !is_alive(id))
}

/// Removes the namespaces of some owners.
fn remove_of(is_gone: impl Fn(u32) -> bool) -> Result<(), NetError> {
    let list = run("ip", &["netns", "list"])?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| owner_of(name).is_some_and(&is_gone)).for_each(remove);
    Ok(())
}

/// Ends what runs in a namespace of ours and removes it. A namespace that resists is left to the next
/// run: there is nobody to tell at this point.
fn remove(namespace: &str) {
    let processes = run("ip", &["netns", "pids", namespace]).unwrap_or_default();
    // A thread of this process that is there would make it one of them.
    let own = std::process::id().to_string();
    let ids: Vec<&str> = processes.split_whitespace().filter(|id| *id != own).collect();
    if !ids.is_empty() {
        let _ = run("kill", &[&["-9"], &ids[..]].concat());
    }
    let _ = run("ip", &["netns", "delete", namespace]);
}

/// The process that made a namespace of ours; `None` for those of others.
fn owner_of(namespace: &str) -> Option<u32> {
    namespace.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_by_their_names() {
        let table = "Ip: A\nIp: 1\nTcp: InSegs OutSegs RetransSegs\nTcp: 9 70 3\nUdp: B\n";
        assert_eq!((segments(table), segments("")), ((70, 3), (0, 0)));
    }

    #[test]
    fn only_our_own_namespaces_are_taken_for_stale() {
        assert_eq!(owner_of("tidegate-lab-4711-0-edge"), Some(4711));
        assert_eq!(owner_of("tidegate-lab-x-0-edge"), None);
        assert_eq!(owner_of("blue"), None);
    }

    #[test]
    fn what_a_dead_run_left_is_removed() {
        if let Err(error) = Host::new(next_run(), "probe") {
            println!("skipped: {error}");
            return;
        }
        // The owner lives, so that the other tests, which remove what is stale, leave it alone.
        let dead = format!("{PREFIX}1-{}-edge", std::process::id());
        run("ip", &["netns", "add", &dead]).unwrap();
        let mut sleeper =
            Command::new("ip").args(["netns", "exec", &dead, "sleep", "600"]).spawn().unwrap();
        // It is inside when it is listed.
        while run("ip", &["netns", "pids", &dead]).unwrap().trim().is_empty() {
            std::thread::yield_now();
        }
        remove_of(|id| id == 1).unwrap();
        assert!(!run("ip", &["netns", "list"]).unwrap().contains(&dead));
        assert!(!sleeper.wait().unwrap().success(), "it was ended with its namespace");
    }
}
