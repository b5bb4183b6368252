//! The world of four nodes: a local network between them, a 4G uplink each, orchestrators and etcd away.

use std::fmt::Write as _;
use std::path::Path;
use std::slice::from_ref;

use anyhow::Context;
use tidegate::support::tls::authority::{Authority, Issued};

use crate::net::scratch::Scratch;
use crate::net::wire;
use crate::rig;
use crate::world::World;

/// Nodes, the busy one first.
pub(super) const NODES: usize = 4;
/// Members of etcd, and orchestrators.
const CONTROL: usize = 3;
/// Payload that makes a record of 844 bytes on the wire, as in `lab/worlds/janus-4g.toml`.
const PAYLOAD: &str = "485B";
/// The classes: names, bounds, and what an idle node has of each a second.
pub(super) const CLASSES: [(&str, &str); 3] = [("ls", "50ms"), ("nm", "500ms"), ("lt", "1s")];
const IDLE: f64 = 30.0;
/// The number of the link to the orchestrators: after those of the local network.
const CONTROL_LINK: usize = NODES;
/// Certificates are good for a day.
const DAYS: u64 = 1;

/// What differs from world to world.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) name: &'static str,
    /// Whether the nodes are a fleet.
    pub(super) is_fleet: bool,
    /// Whether they keep logs, for they are killed.
    pub(super) has_logs: bool,
    /// Records a second of the busy node's classes.
    pub(super) busy: [f64; 3],
    /// Seconds of load, and afterwards at most.
    pub(super) length: u64,
    pub(super) drain: u64,
    /// Tables `[[fault]]` and `[[check]]`.
    pub(super) more: String,
    pub(super) seed: u64,
}

/// The world of a plan, and the folder with its keys, which must outlive it.
pub(super) fn world(plan: &Plan) -> anyhow::Result<(World, Scratch)> {
    let scratch = Scratch::new()?;
    let mut text = format!(
        "name = {:?}\nlength = \"{}s\"\ndrain = \"{}s\"\nseed = {}\n",
        plan.name, plan.length, plan.drain, plan.seed
    );
    let gates = (1..=NODES).map(|gate| format!("\"gate{gate}\"")).collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "hosts = [{gates}, \"lan\", \"control\", \"cloud\"]");
    text += &links();
    let broker = "[[process]]\nname = \"broker\"\nhost = \"cloud\"\nbroker = \"rabbitmq\"\n";
    text += broker;
    if plan.is_fleet {
        text += &control(&scratch)?;
    }
    for gate in 1..=NODES {
        text += &process(plan, gate, scratch.path());
        text += &sources(plan, gate);
    }
    text += &plan.more;
    let world = World::parse(&text).with_context(|| format!("the world of {}", plan.name))?;
    Ok((world, scratch))
}

/// The local network in the middle, 5 ms from node to node; control is 75 ms from each; uplinks of 4G. The
/// local links come first, so that nodes reach each other by them.
fn links() -> String {
    let mut text = String::new();
    let mut link = |name: &str, ends: [&str; 2], way: &str| {
        let _ = writeln!(text, "[[link]]\nname = {name:?}\nends = {ends:?}\nuplink = {{ {way} }}");
    };
    for gate in 1..=NODES {
        let way = "rate = \"1gbit\", delay = \"2500us\", queue = \"1MiB\"";
        link(&format!("lan{gate}"), [&format!("gate{gate}"), "lan"], way);
    }
    link("ctl", ["lan", "control"], "rate = \"1gbit\", delay = \"72ms\", queue = \"1MiB\"");
    for gate in 1..=NODES {
        let way = "rate = \"18mbit\", delay = \"50ms\", queue = \"1MiB\"";
        link(&format!("up{gate}"), [&format!("gate{gate}"), "cloud"], way);
    }
    text
}

/// Keys for everybody, members of etcd and orchestrators, each as a process on the host `control`.
fn control(scratch: &Scratch) -> anyhow::Result<String> {
    let authority = Authority::at(scratch.path());
    authority.init()?;
    for gate in 1..=NODES {
        let host = wire::addresses(gate - 1)[0].to_string();
        authority.issue(&format!("gate{gate}"), &[host], DAYS)?;
    }
    let host = wire::addresses(CONTROL_LINK)[1].to_string();
    let client = |place: usize| format!("https://{host}:{}", 2370 + place);
    let members: Vec<String> = (1..=CONTROL).map(client).collect();
    let mut text = String::new();
    for place in 1..=CONTROL {
        let own = authority.issue(&format!("etcd{place}"), from_ref(&host), DAYS)?;
        text += &etcd(place, &members[place - 1], &own, scratch.path());
    }
    for place in 1..=CONTROL {
        let own = authority.issue(&format!("orch{place}"), from_ref(&host), DAYS)?;
        text += &orchestrator(place, (&host, &members), &own, scratch)?;
    }
    Ok(text)
}

/// A process on the host `control`; with `ready`, what it says when the next one may start.
fn command(name: &str, words: &[String], ready: Option<&str>) -> String {
    let mut text =
        format!("[[process]]\nname = {name:?}\nhost = \"control\"\ncommand = {words:?}\n");
    if let Some(ready) = ready {
        let _ = writeln!(text, "ready = {ready:?}");
    }
    text
}

fn etcd(place: usize, client: &str, own: &Issued, folder: &Path) -> String {
    let peer = |place: usize| format!("http://127.0.0.1:{}", 2390 + place);
    let all = (1..=CONTROL).map(|place| format!("etcd{place}={}", peer(place)));
    let file = |file: &Path| file.display().to_string();
    let name = format!("etcd{place}");
    let options = [
        ("--name", name.clone()),
        ("--data-dir", file(&folder.join(&name))),
        ("--initial-cluster", all.collect::<Vec<_>>().join(",")),
        ("--listen-peer-urls", peer(place)),
        ("--initial-advertise-peer-urls", peer(place)),
        ("--listen-client-urls", client.to_owned()),
        ("--advertise-client-urls", client.to_owned()),
        ("--trusted-ca-file", file(&folder.join("ca.pem"))),
        ("--cert-file", file(&own.certificate)),
        ("--key-file", file(&own.key)),
        ("--logger", "zap".into()),
    ];
    let mut words = vec!["etcd".to_owned(), "--client-cert-auth".into()];
    words.extend(options.into_iter().flat_map(|(key, value)| [key.to_owned(), value]));
    // The first ones wait for the others.
    let ready = (place == CONTROL).then_some("serving client traffic");
    command(&name, &words, ready)
}

fn orchestrator(
    place: usize,
    (host, members): (&str, &[String]),
    own: &Issued,
    scratch: &Scratch,
) -> anyhow::Result<String> {
    let (name, port) = (format!("orch{place}"), orchestrator_port(place));
    let config = format!(
        "[orchestrator]\nlisten = \"0.0.0.0:{port}\"\nadvertise = \"{host}:{port}\"\netcd = {members:?}\n\
         ca = {:?}\ncertificate = {:?}\nkey = {:?}\n",
        scratch.path().join("ca.pem"),
        own.certificate,
        own.key
    );
    let file = scratch.file(&format!("{name}.toml"), &config)?.display().to_string();
    let program = rig::tidegate_program()?.display().to_string();
    let words = [program, "orchestrate".into(), "-c".into(), file];
    let mut text = command(&name, &words, Some("standing for election"));
    if place == 1 {
        // It leads, for the others come later.
        let words = ["sh", "-c", "sleep 2; echo waited"].map(str::to_owned);
        text += &command("wait", &words, Some("waited"));
    }
    Ok(text)
}

fn orchestrator_port(place: usize) -> usize {
    7400 + place
}

fn process(plan: &Plan, gate: usize, keys: &Path) -> String {
    let mut text = format!(
        "[[process]]\nname = \"gate{gate}\"\nhost = \"gate{gate}\"\ntidegate = '''\n[node]\n\
         name = \"gate{gate}\"\n[limits]\nmemory = \"512MiB\"\n\
         [[input]]\nmqtt = {{ listen = \"{{gate{gate}}}:1883\" }}\n"
    );
    if plan.has_logs {
        let _ = writeln!(text, "[log]\ndirectory = \"log-{gate}\"");
    }
    for (class, latency) in CLASSES {
        let _ = writeln!(text, "[[class]]\nname = {class:?}\nlatency = {latency:?}");
    }
    for (class, _) in CLASSES {
        let name = format!("{class}{gate}");
        let _ = writeln!(
            text,
            "[[stream]]\nname = {name:?}\ntopics = [{name:?}]\nclass = {class:?}\nmemory = \"128MiB\""
        );
    }
    text += "[[output]]\nname = \"cloud\"\nrate = \"18mbit\"\nunconfirmed_max = 4096\n\
             amqp = { url = \"amqp://{cloud}:5672\", exchange = \"amq.topic\", user = \"tidegate\", \
             password_env = \"BROKER_PASSWORD\" }\n";
    if plan.is_fleet {
        let orchestrators = (1..=CONTROL).map(|place| {
            let port = orchestrator_port(place);
            format!("\"{{control}}:{port}\"")
        });
        let orchestrators = orchestrators.collect::<Vec<_>>().join(", ");
        let file = |name: String| format!("{:?}", keys.join(name));
        let _ = writeln!(
            text,
            "[fleet]\norchestrators = [{orchestrators}]\noutput = \"cloud\"\nlisten = \"0.0.0.0:7444\"\n\
             advertise = \"{{gate{gate}}}:7444\"\nca = {}\ncertificate = {}\nkey = {}",
            file("ca.pem".into()),
            file(format!("gate{gate}.pem")),
            file(format!("gate{gate}.key"))
        );
    }
    text += "'''\n";
    text
}

fn sources(plan: &Plan, gate: usize) -> String {
    let mut text = String::new();
    let rates = if gate == 1 { plan.busy } else { [IDLE; 3] };
    // Publishers of nodes that are killed come back with what was not acknowledged: they send evenly.
    let arrivals = if plan.has_logs { "constant" } else { "poisson" };
    for ((class, _), rate) in CLASSES.into_iter().zip(rates) {
        let name = format!("{class}{gate}");
        let _ = writeln!(
            text,
            "[[source]]\nname = {name:?}\nfrom = \"gate{gate}\"\nto = \"gate{gate}\"\nat = \"broker\"\n\
             topic = {name:?}\nper-second = {rate:?}\narrivals = {arrivals:?}\nsize = {PAYLOAD:?}"
        );
        if plan.has_logs {
            let _ = writeln!(text, "[[check]]\nsource = {name:?}\nlost = 0.0");
        }
    }
    text
}
