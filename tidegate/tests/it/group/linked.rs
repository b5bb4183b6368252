//! Two members of a group with a link between them, and a node outside that brings records to the one that does not own
//! their topic: each record is in the group once, wherever it came in and whichever way it goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_testbed::free_port;

use crate::group::client::{Publisher, Subscriber};
use crate::group::wait_until;
use crate::support::certificates::Authority;
use crate::support::process::Node;

/// Between two publishes.
const PAUSE: Duration = Duration::from_millis(2);

fn start(name: &str, config: &str) -> Node {
    let mut node = Node::start(&format!("group-linked-{name}"), config);
    node.wait_for("ready;");
    let errors = node.take_log();
    std::thread::spawn(move || std::io::copy(&mut { errors }, &mut std::io::sink()));
    node
}

/// Numbers of a publisher in the file of a node's sink, in order.
fn written(folder: &Path, publisher: &str) -> Vec<u64> {
    let text = std::fs::read_to_string(folder.join("records.jsonl")).unwrap_or_default();
    // The last line may be in the making.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let number = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        value["text"].as_str()?.strip_prefix(publisher)?.strip_prefix(':')?.parse().ok()
    };
    let mut all: Vec<u64> = whole.lines().filter_map(number).collect();
    all.sort_unstable();
    all
}

#[test]
fn what_a_link_brings_goes_to_its_owner_and_what_the_owner_sends_by_a_link_does_not_come_back() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("group-linked");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let authority = Authority::new("group-linked");
    let keys = |name: &str| {
        let own = authority.issue(name);
        format!(
            "ca = {:?}, certificate = {:?}, key = {:?}",
            authority.ca(),
            own.certificate,
            own.key
        )
    };
    let [a_mqtt, a_group, b_mqtt, b_group, b_link, c_mqtt] = std::array::from_fn(|_| free_port());
    let sink = |name: &str| folder.join(format!("{name}-data"));
    let head = |name: &str, mqtt: u16| {
        format!(
            "[node]\nname = {name:?}\nstop_timeout = \"1s\"\n[http]\nlisten = []\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:{mqtt}\" }}\n"
        )
    };
    let group = |name: &str, own: u16, other: &str, far: u16| {
        format!(
            "[group]\nlisten = \"127.0.0.1:{own}\"\nstate = {:?}\n\
             members = [{{ name = {other:?}, address = \"127.0.0.1:{far}\" }}]\n\
             [[placed]]\nname = \"t\"\ntopics = [\"t/#\"]\nowner = \"a\"\n\
             [[output]]\nname = \"files\"\nsink = {{ directory = {:?} }}\n",
            folder.join(format!("{name}-group")),
            sink(name)
        )
    };
    let to_b = |name: &str| {
        format!(
            "[[output]]\nname = \"b\"\nlink = {{ to = \"127.0.0.1:{b_link}\", {} }}\n",
            keys(name)
        )
    };
    let listen =
        format!("[[input]]\nlink = {{ listen = \"127.0.0.1:{b_link}\", {} }}\n", keys("b"));
    let b = format!("{}{listen}{}", head("b", b_mqtt), group("b", b_group, "a", a_group));
    let _b = start("b", &b);
    let both = "[[stream]]\nname = \"both\"\nto = [\"files\", \"b\"]\n";
    let a = group("a", a_group, "b", b_group);
    let _a = start("a", &format!("{}{both}{a}{}", head("a", a_mqtt), to_b("a")));
    let _c = start("c", &format!("{}{}", head("c", c_mqtt), to_b("c")));

    let subscribers =
        [Subscriber::start(a_mqtt, "at-a", "t/#"), Subscriber::start(b_mqtt, "at-b", "t/#")];
    let publishers = [("near", a_mqtt), ("there", b_mqtt), ("outside", c_mqtt)];
    let publishers = publishers.map(|(name, port)| (name, Publisher::start(port, name, PAUSE)));
    for (_, publisher) in &publishers {
        wait_until("records to flow", || publisher.answered() >= 100);
    }
    for (name, publisher) in publishers {
        let count = publisher.finish();
        let all = || (1..=count).collect::<Vec<u64>>();
        for node in ["a", "b"] {
            wait_until("the sinks", || written(&sink(node), name).len() as u64 >= count);
            assert_eq!(written(&sink(node), name), all(), "{name} at {node}");
        }
        for subscriber in &subscribers {
            wait_until("subscribers", || subscriber.of(name).len() as u64 >= count);
            assert_eq!(subscriber.of(name), all(), "{name}");
        }
    }
}
