//! Whose mistake a publish under two identities is: every packet between paho and a node that is killed is
//! written down.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::support::process::Node;
use crate::support::relay::{Relay, cut_off, published_after_release};
use tidegate_testbed::free_port;

use super::{Folder, Insisting, python, script};

/// Publishes of one client.
const COUNT: u32 = 200;
/// The connection is cut after so many completed publishes more: the PUBCOMP that follows is lost.
const CUTS: [usize; 3] = [3, 21, 40];
/// Attempts to connect that fail in a row after each.
const REFUSALS: usize = 2;

/// Repeats of which all packets are shown.
const SHOWN: usize = 3;

/// What a client did, by the numbers of its publishes.
struct Played {
    /// Accepted under more than one identity.
    twice: BTreeSet<u32>,
    /// Published again by the client after it had sent their PUBREL.
    repeated: BTreeSet<u32>,
    /// Those whose PUBCOMP was cut off.
    cut: BTreeSet<u32>,
}

/// Kills the node at each cut.
fn play(python: &'static str, version: u32, way: &'static str) -> Played {
    let name = format!("once-captured-{version}-{way}");
    let folder = Folder::new(&name);
    let port = free_port();
    let config = folder.config(&format!("mqtt = {{ listen = \"127.0.0.1:{port}\" }}"));
    let start = || {
        let mut node = Node::start(&name, &config);
        node.wait_for("ready");
        node
    };
    let mut node = start();
    let relay = Relay::start(port, REFUSALS);
    let through = relay.port;
    let mut cuts = CUTS.into_iter();
    relay.cut_at(cuts.next().unwrap_or_default());
    let mut client = Insisting::new(move || {
        let mut command = Command::new(python);
        command.arg(script("paho_client.py")).arg(through.to_string());
        command.args([version, 2, COUNT].map(|number| number.to_string())).arg(way);
        command
    });
    while relay.wait_for_cut(|| client.is_done()) {
        drop(node);
        node = start();
        relay.cut_at(cuts.next().unwrap_or_default());
        relay.go_on();
    }
    assert_eq!(client.starts, 1, "paho gave up");
    assert_eq!(cuts.next(), None, "it ended before the last cut");
    folder.wait(COUNT);
    let repeats = published_after_release(&relay.seen());
    println!("paho, version {version}, {way}: {} published again after a PUBREL", repeats.len());
    for (number, packets) in repeats.iter().take(SHOWN) {
        let packets: Vec<String> = packets.iter().map(ToString::to_string).collect();
        println!("number {number}: {}", packets.join("; "));
    }
    let accepted = folder.accepted();
    assert_eq!(accepted.len(), COUNT as usize, "accepted and lost");
    let twice = accepted.into_iter().filter(|(_, names)| names.len() > 1);
    Played {
        twice: twice.map(|(number, _)| number).collect(),
        repeated: repeats.into_keys().collect(),
        cut: cut_off(&relay.seen()),
    }
}

/// paho 1.6 as it is publishes anew what it has released, when two attempts to connect in a row fail. The same
/// with nine lines mended does not, and is heard once.
#[test]
fn what_paho_is_heard_of_twice_it_published_after_its_release() {
    let needs = "paho for python3 (python3-paho-mqtt)";
    let Some(python) = python("import paho.mqtt.client", needs) else { return };
    let is_first = "import paho.mqtt as p; assert p.__version__.startswith('1.')";
    let is_old = Command::new(python).args(["-c", is_first]).stderr(Stdio::null()).status();
    for version in [4, 5] {
        let Played { twice, repeated, cut } = play(python, version, "as-it-is");
        assert_eq!(cut.len(), CUTS.len());
        assert!(twice.is_subset(&repeated), "of the node's own: {:?}", &twice - &repeated);
        // The node had answered the releases of these: it had to forget their identifiers.
        if is_old.as_ref().is_ok_and(|status| status.success()) {
            assert!(cut.is_subset(&twice), "nothing is shown: {cut:?} {twice:?}");
        }
        let Played { twice, repeated, cut } = play(python, version, "mended");
        assert_eq!(cut.len(), CUTS.len());
        assert_eq!((twice, repeated), Default::default());
    }
}
