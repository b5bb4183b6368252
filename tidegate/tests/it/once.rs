//! QoS 2 and a node that is killed: each publish is accepted once, whoever was cut off at what.
//!
//! What a killed node had sent and not noted as confirmed goes out again, under the same identity: so the
//! identities are counted, not the lines.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says how often it killed and why it skips"
)]

mod captured;
mod driven;

use crate::support::PATIENCE;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_testbed::free_port;

use crate::support::process::Node;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const POLL: Duration = Duration::from_millis(20);
/// A node is killed once it has sent this part of all numbers.
const PART: usize = 20;

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    /// A node with its log here and its records in files here.
    fn config(&self, input: &str) -> String {
        format!(
            "[node]\nname = \"once\"\n[[input]]\n{input}\n\
             [[output]]\nsink = {{ directory = {:?} }}\n[http]\nlisten = []\n\
             [log]\ndirectory = {:?}\n",
            self.0.join("out"),
            self.0.join("log"),
        )
    }

    /// Under how many identities each number was accepted.
    fn accepted(&self) -> BTreeMap<u32, BTreeSet<String>> {
        let mut accepted: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
        let lines = fs::read_to_string(self.0.join("out/records.jsonl")).unwrap_or_default();
        // A kill may leave half a line, which comes again as a whole.
        let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
        for line in lines.collect::<Vec<serde_json::Value>>() {
            let bytes = match (line["text"].as_str(), line["base64"].as_str()) {
                (Some(text), _) => text.as_bytes().to_vec(),
                (None, Some(coded)) => STANDARD.decode(coded).unwrap(),
                (None, None) => continue,
            };
            let Ok(number) = <[u8; 4]>::try_from(bytes) else { continue };
            let identities = accepted.entry(u32::from_be_bytes(number)).or_default();
            identities.insert(line["id"].as_str().unwrap().to_owned());
        }
        accepted
    }

    /// Lines in the sink, those that came again included.
    fn lines(&self) -> usize {
        let bytes = fs::read(self.0.join("out/records.jsonl")).unwrap_or_default();
        bytes.iter().filter(|byte| **byte == b'\n').count()
    }

    /// Waits until the last of `count` numbers is there.
    fn wait(&self, count: u32) {
        let until = Instant::now() + PATIENCE;
        while self.accepted().len() < count as usize && Instant::now() < until {
            std::thread::sleep(POLL);
        }
    }

    /// The same, then looks at them all.
    fn check(&self, count: u32) {
        self.wait(count);
        let accepted = self.accepted();
        let missing: Vec<u32> =
            (0..count).filter(|number| !accepted.contains_key(number)).collect();
        assert!(missing.is_empty(), "accepted and lost: {missing:?}");
        let twice: Vec<_> = accepted.iter().filter(|(_, names)| names.len() > 1).collect();
        assert!(twice.is_empty(), "accepted twice: {twice:?}");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A Python that can run this program; `None`, and the reason told, where there is none.
fn python(program: &str, needs: &str) -> Option<&'static str> {
    let runs = |python: &&str| {
        let mut command = Command::new(python);
        let run = command.args(["-c", program]).stdout(Stdio::null()).stderr(Stdio::null());
        run.status().is_ok_and(|status| status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(runs);
    if found.is_none() {
        println!("skipped: needs {needs}, not found");
    }
    found
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mqtt").join(name)
}

/// Starts the node again and again, each time killed in the middle of its work, until `is_done`; then it
/// is left to live.
fn killed_until(
    (name, input): (&str, &str),
    folder: &Folder,
    count: u32,
    mut is_done: impl FnMut() -> bool,
) -> (u32, Node) {
    let config = folder.config(input);
    let mut kills = 0;
    loop {
        let mut node = Node::start(name, &config);
        node.wait_for("ready");
        let goal = folder.lines() + count as usize / PART;
        let until = Instant::now() + PATIENCE;
        while folder.lines() < goal {
            if is_done() {
                return (kills, node);
            }
            assert!(Instant::now() < until, "nothing is accepted after {kills} kills");
            std::thread::sleep(POLL);
        }
        kills += 1;
        // Dropped: killed by SIGKILL.
    }
}

/// A client that stops when the node does is started again.
struct Insisting {
    command: Box<dyn Fn() -> Command>,
    child: Child,
    starts: u32,
}

impl Insisting {
    fn new(command: impl Fn() -> Command + 'static) -> Insisting {
        let child = command().stderr(Stdio::null()).spawn().unwrap();
        Insisting { command: Box::new(command), child, starts: 1 }
    }

    /// Whether it has done all.
    fn is_done(&mut self) -> bool {
        let Some(status) = self.child.try_wait().unwrap() else { return false };
        if status.success() {
            return true;
        }
        self.starts += 1;
        assert!(self.starts < 2000, "the client fails again and again");
        self.child = (self.command)().stderr(Stdio::null()).spawn().unwrap();
        false
    }
}

impl Drop for Insisting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A publisher that keeps its state on disk, against a node that dies under it.
#[test]
fn a_killed_node_takes_each_publish_once() {
    const COUNT: u32 = 1500;
    let Some(python) = python("pass", "python3") else { return };
    let folder = Folder::new("once-raw");
    let port = free_port();
    let input = format!("mqtt = {{ listen = \"127.0.0.1:{port}\" }}");
    let state = folder.0.join("state");
    let mut client = Insisting::new(move || {
        let mut command = Command::new(python);
        command.arg(script("qos2_client.py")).arg(port.to_string());
        command.arg(&state).arg(COUNT.to_string());
        command
    });
    let (kills, node) = killed_until(("once-raw", &input), &folder, COUNT, || client.is_done());
    println!("{COUNT} publishes with QoS 2, the node killed {kills} times");
    assert!(kills > 2, "{kills} kills");
    folder.check(COUNT);
    drop(node);
}

/// paho goes on by itself with what it holds in memory.
#[test]
fn paho_is_heard_once_by_a_killed_node() {
    const COUNT: u32 = 6000;
    let needs = "paho for python3 (python3-paho-mqtt)";
    let Some(python) = python("import paho.mqtt.client", needs) else { return };
    for version in [4, 5] {
        let name = format!("once-paho-{version}");
        let folder = Folder::new(&name);
        let port = free_port();
        let input = format!("mqtt = {{ listen = \"127.0.0.1:{port}\" }}");
        let mut client = Insisting::new(move || {
            let mut command = Command::new(python);
            command.arg(script("paho_client.py")).arg(port.to_string());
            command.args([version, 2, COUNT].map(|number| number.to_string()));
            command
        });
        let (kills, node) = killed_until((&name, &input), &folder, COUNT, || client.is_done());
        println!("paho, version {version}: {COUNT} publishes, the node killed {kills} times");
        assert_eq!(client.starts, 1, "paho gave up");
        assert!(kills > 2, "{kills} kills");
        folder.check(COUNT);
        drop(node);
    }
}

/// The node is the client of a broker that sends with QoS 2.
#[test]
fn a_killed_subscriber_takes_each_record_once() {
    const COUNT: u32 = 1500;
    let Some(python) = python("pass", "python3") else { return };
    let folder = Folder::new("once-broker");
    let port = free_port();
    let conf = folder.0.join("mosquitto.conf");
    fs::write(
        &conf,
        format!("listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n"),
    )
    .unwrap();
    let broker = |program: &str| {
        let mut command = Command::new(program);
        command.arg("-c").arg(&conf).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
    };
    let Some(mut broker) = broker("mosquitto").or_else(|| broker("/usr/sbin/mosquitto")) else {
        println!("skipped: needs mosquitto, not found");
        return;
    };
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(POLL);
    }
    let input =
        format!("mqtt_client = {{ url = \"mqtt://127.0.0.1:{port}\", topics = [\"t\"], qos = 2 }}");
    // The broker keeps what is published from the first subscription on.
    let mut first = Node::start("once-broker", &folder.config(&input));
    first.wait_for("subscribed at the broker");
    drop(first);
    let state = folder.0.join("state");
    let mut client = Insisting::new(move || {
        let mut command = Command::new(python);
        command.arg(script("qos2_client.py")).arg(port.to_string());
        command.arg(&state).arg(COUNT.to_string());
        command
    });
    let (kills, node) = killed_until(("once-broker", &input), &folder, COUNT, || {
        client.is_done() && folder.accepted().len() == COUNT as usize
    });
    println!("{COUNT} records of a broker with QoS 2, the node killed {kills} times");
    assert!(kills > 2, "{kills} kills");
    folder.check(COUNT);
    drop(node);
    let _ = broker.kill();
    let _ = broker.wait();
}
