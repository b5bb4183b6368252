//! The process that is attacked: its configuration at default limits, its memory watched, its health asked.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tidegate_testbed::free_address;

use crate::bench::ingest::idle::Keys;
use crate::net::scratch::Scratch;
use crate::net::usage::resident_kib;

/// A process that holds more is ended: the machine is to survive the attack.
const STOP_KIB: u64 = 3 << 20;
/// Between two looks at its memory.
const WATCH: Duration = Duration::from_millis(20);
/// How long it may take to start.
const START: Duration = Duration::from_secs(20);
/// Who are remembered by nobody, for logins that are measured.
pub(super) const USERS: usize = 12;

/// What listens, beside the status page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setup {
    /// An MQTT listener; records go nowhere.
    Node,
    /// The same, and records go to a broker that is not there.
    Down,
    /// The same with a log, of 256 MiB so that it is soon full.
    Log,
    /// An MQTT listener with TLS.
    Tls,
    /// An MQTT listener with TLS and users.
    Users,
    /// An MQTT listener, and one for the members of a group.
    Group,
    /// A proxy with one route.
    Proxy,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) http: SocketAddr,
    /// MQTT, or the proxy.
    pub(super) front: SocketAddr,
    pub(super) group: SocketAddr,
}

/// See the file's header. Dropping it ends the process.
pub(super) struct Victim {
    pub(super) places: Places,
    pub(super) keys: Option<Keys>,
    process: Arc<Mutex<Child>>,
    peak_kib: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    watch: Option<JoinHandle<()>>,
    _folder: Scratch,
}

impl Victim {
    /// Starts it, with requests of a proxy going to `upstream`, and waits until its status page answers.
    pub(super) fn start(program: &Path, setup: Setup, upstream: SocketAddr) -> io::Result<Victim> {
        let folder = Scratch::new().map_err(io::Error::other)?;
        let places = Places { http: free_address(), front: free_address(), group: free_address() };
        let keys = match setup {
            Setup::Tls | Setup::Users => Some(Keys::new(program)?),
            _ => None,
        };
        let users = folder.path().join("users");
        if setup == Setup::Users {
            for number in 0..USERS {
                add_user(program, &users, &user(number))?;
            }
        }
        let text = configuration(setup, places, upstream, keys.as_ref(), &users);
        let file = folder.file("victim.toml", &text).map_err(io::Error::other)?;
        let word = if setup == Setup::Proxy { "proxy" } else { "run" };
        let child = Command::new("sh")
            .args(["-c", "ulimit -n 65536 2>/dev/null; ulimit -v 8388608; exec \"$@\"", "sh"])
            .arg(program)
            .args(["--log", "warn", word, "-c"])
            .arg(file)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let process = Arc::new(Mutex::new(child));
        let (peak_kib, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let watched = (process.clone(), peak_kib.clone(), is_over.clone());
        let watch = thread::spawn(move || watch(&watched.0, &watched.1, &watched.2));
        let victim = Victim {
            places,
            keys,
            process,
            peak_kib,
            is_over,
            watch: Some(watch),
            _folder: folder,
        };
        let begin = Instant::now();
        while get(places.http, "/readyz", Duration::from_secs(1)).is_err() {
            if begin.elapsed() > START || !victim.lives() {
                return Err(io::Error::other(format!("it does not start with\n{text}")));
            }
            thread::sleep(WATCH);
        }
        Ok(victim)
    }

    /// Whether the process runs.
    pub(super) fn lives(&self) -> bool {
        let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(process.try_wait(), Ok(None))
    }

    /// The most that it has had in memory, in MiB.
    pub(super) fn peak(&self) -> f64 {
        self.peak_kib.load(Ordering::Relaxed) as f64 / 1024.0
    }

    /// Sum of a metric's rows; NaN where it does not answer.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let Ok((_, text)) = get(self.places.http, "/metrics", Duration::from_secs(5)) else {
            return f64::NAN;
        };
        let rows = text.lines().filter_map(|line| {
            let rest = line.strip_prefix(name)?;
            let is_whole = rest.starts_with(['{', ' ']);
            is_whole.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok()).flatten()
        });
        rows.sum()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        {
            let mut process = self.process.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = self.watch.take().map(JoinHandle::join);
    }
}

fn watch(process: &Mutex<Child>, peak: &AtomicU64, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let mut child = process.lock().unwrap_or_else(PoisonError::into_inner);
        // Of a process that has ended the kernel tells nothing: the peak stays.
        if let Ok([now, most]) = resident_kib(child.id()) {
            peak.fetch_max(most, Ordering::Relaxed);
            if now > STOP_KIB {
                let _ = child.kill();
            }
        }
        drop(child);
        thread::sleep(WATCH);
    }
}

/// The name of a user, which is the password too.
pub(super) fn user(number: usize) -> String {
    format!("user-{number}")
}

fn add_user(program: &Path, file: &Path, name: &str) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(["user", "add"]).arg(file).arg(name).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(name.as_bytes())?;
    }
    let is_good = child.wait()?.success();
    is_good.then_some(()).ok_or_else(|| io::Error::other("a user cannot be added"))
}

fn configuration(
    setup: Setup,
    Places { http, front, group }: Places,
    upstream: SocketAddr,
    keys: Option<&Keys>,
    users: &Path,
) -> String {
    if setup == Setup::Proxy {
        return format!(
            "[http]\nlisten = \"{http}\"\n[[proxy.listener]]\nlisten = \"{front}\"\n\
             [[proxy.upstream]]\nname = \"app\"\nto = [\"{upstream}\"]\n\
             [[proxy.route]]\nbody = \"whole\"\n"
        );
    }
    let mut listener = format!("listen = \"{front}\"");
    if let Some(Keys { certificate, key, .. }) = keys {
        let (certificate, key) = (certificate.display(), key.display());
        listener
            .push_str(&format!(", tls = {{ certificate = \"{certificate}\", key = \"{key}\" }}"));
    }
    if setup == Setup::Users {
        listener.push_str(&format!(", users = \"{}\"", users.display()));
    }
    let output = match setup {
        Setup::Down | Setup::Log => format!("mqtt = {{ url = \"mqtt://{}\" }}", free_address()),
        _ => "sink = { discard = true }".to_owned(),
    };
    let mut text = format!(
        "[node]\nname = \"victim\"\n[http]\nlisten = \"{http}\"\n[[input]]\nmqtt = {{ {listener} }}\n\
         [[output]]\nname = \"far\"\n{output}\n"
    );
    if setup == Setup::Log {
        text.push_str("[log]\ndirectory = \"log\"\nbound = \"256MiB\"\n");
    }
    if setup == Setup::Group {
        text.push_str(&format!(
            "[group]\nlisten = \"{group}\"\nmembers = [{{ name = \"other\", address = \"{}\" }}]\n\
             [[placed]]\nname = \"one\"\ntopics = [\"placed/one\"]\nowner = \"victim\"\n",
            free_address()
        ));
    }
    text
}

/// Reads a page over a connection of its own: status and body.
pub(super) fn get(to: SocketAddr, path: &str, within: Duration) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&to, within)?;
    stream.set_read_timeout(Some(within))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok((status, body.to_owned()))
}
