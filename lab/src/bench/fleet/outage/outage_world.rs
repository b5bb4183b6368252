//! The world of `fleet-outage`: for each load a node with a neighbour, a node alone and a bridge, all with uplinks of
//! their own to one broker.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tidegate::support::tls::authority::Authority;

use super::{DRAIN, Failure, OUTAGE, Party, begins, length};
use crate::load::{Job, Pass, READY};
use crate::net::scratch::Scratch;
use crate::net::wire;
use crate::rig::brokers::MQTT_PORT;
use crate::world::World;

/// Of an uplink that is idle.
pub(super) const RTT: Duration = Duration::from_millis(40);
/// The classes: names and bounds.
pub(super) const CLASSES: [(&str, &str); 3] = [("ls", "50ms"), ("nm", "500ms"), ("lt", "1s")];
/// Payloads of the classes.
const SIZES: [&str; 3] = ["200B", "500B", "1000B"];
/// Certificates are good for a day.
const DAYS: u64 = 1;
/// Doors of the broker: a port for each uplink that can be refused.
const DOORS: usize = 1900;

/// What a node has to carry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    pub(super) letter: char,
    /// Records a second of each class.
    per_second: [u32; 3],
}

/// A quarter of the uplink, and nine tenths of it.
pub(super) const LOADS: [Load; 2] = [
    Load { name: "light", letter: 'l', per_second: [10, 20, 20] },
    Load { name: "busy", letter: 'b', per_second: [20, 40, 160] },
];

/// The name of the source of a class of a party.
pub(super) fn source(class: &str, letter: char, party: Party) -> String {
    format!("{class}{}", host(letter, party))
}

/// The same of the neighbour's.
pub(super) fn lender(class: &str, letter: char) -> String {
    format!("{class}{letter}lend")
}

fn host(letter: char, party: Party) -> String {
    let name = match party {
        Party::Fleet => "own",
        Party::Alone => "alone",
        Party::Bridge => "bridge",
    };
    format!("{letter}{name}")
}

/// The world, and the folder with its keys, which must outlive it. `program` leads its fleets.
pub(super) fn world(
    failure: Failure,
    (outages, seed): (u64, u64),
    program: &Path,
) -> anyhow::Result<(World, Scratch)> {
    let scratch = Scratch::new()?;
    let authority = Authority::at(scratch.path());
    authority.init()?;
    let mut text = format!(
        "name = \"fleet-outage\"\nlength = \"{}s\"\ndrain = \"{DRAIN}s\"\nseed = {seed}\n",
        length(outages)
    );
    let hosts = LOADS.iter().flat_map(|load| {
        let own = Party::ALL.map(|party| host(load.letter, party));
        own.into_iter().chain([format!("{}lend", load.letter)])
    });
    let hosts: Vec<String> = hosts.chain(["cloud".into()]).collect();
    let _ = writeln!(text, "hosts = {hosts:?}");
    // The links between neighbours come first, so that they reach each other by them.
    for Load { letter, .. } in LOADS {
        let ends = [format!("{letter}own"), format!("{letter}lend")];
        let way = "rate = \"1gbit\", delay = \"1ms\", queue = \"1MiB\"";
        let _ = writeln!(
            text,
            "[[link]]\nname = \"{letter}lan\"\nends = {ends:?}\nuplink = {{ {way} }}"
        );
    }
    for host in &hosts[..hosts.len() - 1] {
        let way =
            format!("rate = \"2mbit\", delay = \"{}ms\", queue = \"256KiB\"", RTT.as_millis() / 2);
        let _ = writeln!(
            text,
            "[[link]]\nname = \"up{host}\"\nends = [{host:?}, \"cloud\"]\nuplink = {{ {way} }}"
        );
    }
    text += "[[process]]\nname = \"broker\"\nhost = \"cloud\"\nbroker = \"mosquitto\"\n\
             settings = '''\npersistence false\nmax_queued_messages 0\n'''\n";
    for (place, load) in LOADS.iter().enumerate() {
        text += &fleet((place, load), &authority, &scratch, program)?;
        for (number, party) in Party::ALL.into_iter().enumerate() {
            let door = DOORS + place * Party::ALL.len() + number;
            text += &self::door(&host(load.letter, party), door)?;
            text += &process(load, party, door, scratch.path());
            text += &sources(&host(load.letter, party), load.per_second);
            text += &faults(failure, outages, &host(load.letter, party));
        }
        let lender = format!("{}lend", load.letter);
        text += &node(
            &lender,
            MQTT_PORT.into(),
            Some((&format!("{}own", load.letter), scratch.path())),
        );
        text += &sources(&lender, LOADS[0].per_second);
    }
    let world = World::parse(&text).with_context(|| format!("the world:\n{text}"))?;
    Ok((world, scratch))
}

/// Keys of two neighbours, and their orchestrator on the lender's host.
fn fleet(
    (place, load): (usize, &Load),
    keys: &Authority,
    scratch: &Scratch,
    program: &Path,
) -> anyhow::Result<String> {
    let [own, lender] = wire::addresses(place).map(|address| address.to_string());
    let letter = load.letter;
    keys.issue(&format!("{letter}own"), &[own], DAYS)?;
    keys.issue(&format!("{letter}lend"), std::slice::from_ref(&lender), DAYS)?;
    let name = format!("{letter}orch");
    let issued = keys.issue(&name, &[lender], DAYS)?;
    let config = format!(
        "[orchestrator]\nlisten = \"0.0.0.0:7400\"\nca = {:?}\ncertificate = {:?}\nkey = {:?}\n",
        scratch.path().join("ca.pem"),
        issued.certificate,
        issued.key
    );
    let file = scratch.file(&format!("{name}.toml"), &config)?.display().to_string();
    let program = program.display().to_string();
    let words = [program, "orchestrate".into(), "-c".into(), file];
    Ok(format!(
        "[[process]]\nname = {name:?}\nhost = \"{letter}lend\"\ncommand = {words:?}\nready = \"ready, \"\n"
    ))
}

/// The door of an uplink at the broker.
fn door(host: &str, port: usize) -> anyhow::Result<String> {
    let listen = ([0, 0, 0, 0], u16::try_from(port)?).into();
    let to = ([127, 0, 0, 1], MQTT_PORT).into();
    let program = std::env::current_exe()?.display().to_string();
    let [command, job] = Job::Pass(Pass { listen, to }).words();
    let words = [program, command, job];
    Ok(format!(
        "[[process]]\nname = \"door{host}\"\nhost = \"cloud\"\ncommand = {words:?}\nready = {READY:?}\n"
    ))
}

fn process(load: &Load, party: Party, door: usize, keys: &Path) -> String {
    let host = host(load.letter, party);
    match party {
        Party::Fleet => {
            let lender = format!("{}lend", load.letter);
            node(&host, door, Some((&lender, keys)))
        }
        Party::Alone => node(&host, door, None),
        Party::Bridge => format!(
            "[[process]]\nname = {host:?}\nhost = {host:?}\nbroker = \"mosquitto\"\nsettings = '''\n\
             persistence false\nmax_queued_messages 0\nconnection cloud\naddress {{cloud.up{host}}}:{door}\n\
             topic # out 1\nbridge_protocol_version mqttv50\nnotifications false\nrestart_timeout 1\n'''\n"
        ),
    }
}

/// A node that sends to a port of the broker, with its neighbour and the folder of keys where it has one.
fn node(host: &str, port: usize, peer: Option<(&str, &Path)>) -> String {
    let mut text = format!(
        "[[process]]\nname = {host:?}\nhost = {host:?}\ntidegate = '''\n[node]\nname = {host:?}\n\
         [limits]\nmemory = \"256MiB\"\n[[input]]\nmqtt = {{ listen = \"0.0.0.0:{MQTT_PORT}\" }}\n"
    );
    for (class, latency) in CLASSES {
        let _ = writeln!(text, "[[class]]\nname = {class:?}\nlatency = {latency:?}");
    }
    for (class, _) in CLASSES {
        let topic = format!("{class}{host}");
        let _ = writeln!(
            text,
            "[[stream]]\nname = {topic:?}\ntopics = [{topic:?}]\nclass = {class:?}\nmemory = \"64MiB\""
        );
    }
    let _ = writeln!(
        text,
        "[[output]]\nname = \"cloud\"\nrate = \"2mbit\"\nmqtt = {{ url = \"mqtt://{{cloud.up{host}}}:{port}\" }}"
    );
    if let Some((peer, keys)) = peer {
        let lender = if host.ends_with("lend") { host } else { peer };
        let file = |name: String| format!("{:?}", keys.join(name));
        let _ = writeln!(
            text,
            "[fleet]\norchestrators = [\"{{{lender}}}:7400\"]\noutput = \"cloud\"\nlisten = \"0.0.0.0:7444\"\n\
             ca = {}\ncertificate = {}\nkey = {}\n[[fleet.peer]]\nname = {peer:?}\nto = \"{{{peer}}}:7444\"",
            file("ca.pem".into()),
            file(format!("{host}.pem")),
            file(format!("{host}.key"))
        );
    }
    text + "'''\n"
}

fn sources(host: &str, per_second: [u32; 3]) -> String {
    let mut text = String::new();
    for (((class, _), size), per_second) in CLASSES.into_iter().zip(SIZES).zip(per_second) {
        let name = format!("{class}{host}");
        let _ = writeln!(
            text,
            "[[source]]\nname = {name:?}\nfrom = {host:?}\nto = {host:?}\nat = \"broker\"\ntopic = {name:?}\n\
             per-second = {per_second}\narrivals = \"poisson\"\nsize = {size:?}"
        );
    }
    text
}

fn faults(failure: Failure, outages: u64, host: &str) -> String {
    let mut text = String::new();
    let mut fault = |at: u64, what: &str| {
        let _ = writeln!(text, "[[fault]]\nat = \"{at}s\"\n{what}");
    };
    for at in begins(outages) {
        match failure {
            Failure::Stalled => {
                let rate =
                    |rate| format!("link = \"up{host}\"\nchange = {{ rate = \"{rate}mbit\" }}");
                fault(at, &rate(0));
                fault(at + OUTAGE, &rate(2));
            }
            Failure::Refused => {
                fault(at, &format!("process = \"door{host}\"\nchange = \"kill\""));
                fault(at + OUTAGE, &format!("process = \"door{host}\"\nchange = \"restart\""));
            }
        }
    }
    text
}
