//! Nodes of a group as processes: topics move while they are used, and nodes are killed in the middle of it.

pub(crate) mod client;
mod killed;
mod linked;
mod moving;
mod once;
mod placing;
mod planned;
mod proving;
mod referred;
mod remembering;

use std::iter::repeat_with;
use std::path::PathBuf;
use std::process::Command;
use tidegate_testbed::free_port;
pub(crate) use tidegate_testbed::wait_until;

use crate::support::certificates::{Authority, Issued};
use crate::support::process::Node;

/// What a node shows to the others of its group, and whose proof it believes.
#[derive(Clone)]
struct Proof {
    ca: PathBuf,
    own: Issued,
}

impl Proof {
    fn of(authority: &Authority, own: &Issued) -> Proof {
        Proof { ca: authority.ca(), own: own.clone() }
    }

    /// As keys of `[group]`.
    fn keys(&self) -> String {
        let Issued { certificate, key } = &self.own;
        format!("ca = {:?}\ncertificate = {certificate:?}\nkey = {key:?}\n", self.ca)
    }
}

/// What a command said, and whether it did what it was to do.
fn told(mut command: Command) -> (bool, String, String) {
    let output = command.output().unwrap();
    let [out, errors] = [output.stdout, output.stderr].map(|it| String::from_utf8(it).unwrap());
    (output.status.success(), out, errors)
}

/// Nodes `a`, `b` and `c`, of which `a` owns the topic at first.
struct Trio {
    name: &'static str,
    folder: PathBuf,
    /// Of MQTT and of the group, for each.
    ports: Vec<(u16, u16)>,
    more: &'static str,
    /// What each shows to the others; nothing where they need not.
    proofs: Vec<Proof>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

impl Trio {
    fn new(name: &'static str, more: &'static str) -> Trio {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("group-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let ports = repeat_with(|| (free_port(), free_port())).take(3).collect();
        Trio { name, folder, ports, more, proofs: Vec::new() }
    }

    /// The same for nodes that prove who they are.
    fn proven(name: &'static str, more: &'static str, authority: &Authority) -> Trio {
        let proofs = NAMES.map(|name| Proof::of(authority, &authority.issue(name)));
        Trio { proofs: proofs.into(), ..Trio::new(name, more) }
    }

    fn config(&self, place: usize) -> String {
        let (mqtt, group) = self.ports[place];
        let others = (0..3).filter(|other| *other != place);
        let member = |other: usize| {
            let (mqtt, group) = self.ports[other];
            format!(
                "{{ name = \"{}\", address = \"127.0.0.1:{group}\", clients = \"127.0.0.1:{mqtt}\" }}",
                NAMES[other]
            )
        };
        let members = others.map(member).collect::<Vec<_>>().join(", ");
        let name = NAMES[place];
        let proof = self.proofs.get(place).map(Proof::keys).unwrap_or_default();
        let of = |kind: &str| self.folder.join(format!("{name}-{kind}"));
        format!(
            "[node]\nname = {name:?}\nstop_timeout = \"1s\"\n[http]\nlisten = []\n\
             [log]\ndirectory = {:?}\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:{mqtt}\" }}\n\
             [group]\nlisten = \"127.0.0.1:{group}\"\nmembers = [{members}]\nstate = {:?}\n{proof}\
             [[placed]]\nname = \"t\"\ntopics = [\"t/#\"]\nowner = \"a\"\n\
             [[output]]\nsink = {{ directory = {:?} }}\n{}",
            of("log"),
            of("group"),
            of("data"),
            self.more,
        )
    }

    fn start(&self, place: usize) -> Node {
        let name = format!("group-{}-{}", self.name, NAMES[place]);
        let mut node = Node::start(&name, &self.config(place));
        node.wait_for("ready;");
        // A log that nobody reads would hold the process up.
        let errors = node.take_log();
        std::thread::spawn(move || std::io::copy(&mut { errors }, &mut std::io::sink()));
        node
    }

    fn mqtt(&self, place: usize) -> u16 {
        self.ports[place].0
    }

    fn file(&self, place: usize) -> PathBuf {
        let name = format!("group-{}-{}.toml", self.name, NAMES[place]);
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
    }

    /// `tidegate move`.
    fn order(&self, to: usize, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(["move", "t", "--to", NAMES[to]]).args(more).arg("-c").arg(self.file(to));
        command
    }

    /// Moves it; whether it has moved.
    fn give(&self, to: usize, more: &[&str]) -> bool {
        self.order(to, more).output().unwrap().status.success()
    }

    /// Payloads in the files of all nodes.
    fn written(&self) -> Vec<String> {
        let mut all = Vec::new();
        for name in NAMES {
            let path = self.folder.join(format!("{name}-data/records.jsonl"));
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // The last line may be in the making.
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            for line in whole.lines() {
                let value: serde_json::Value = serde_json::from_str(line).unwrap();
                all.extend(value["text"].as_str().map(str::to_owned));
            }
        }
        all
    }
}
