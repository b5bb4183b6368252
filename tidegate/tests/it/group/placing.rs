//! `tidegate place` and `tidegate drain` at two nodes: a bound that is missed beside long records is kept elsewhere, a node
//! becomes empty and stays so, and no record is lost on the way.

use std::iter::repeat_with;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tidegate_testbed::free_port;

use crate::group::client::{Publisher, Subscriber};
use crate::group::wait_until;
use crate::support::process::Node;

const NAMES: [&str; 2] = ["a", "b"];
/// Of rounds: each sees two records of `slow`.
const EVERY: &str = "2s";

/// Nodes `a` and `b` with one thread for operators; `a` owns all at first.
struct Pair {
    folder: PathBuf,
    ports: Vec<u16>,
}

impl Pair {
    fn new() -> Pair {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("group-placing");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Pair { folder, ports: repeat_with(free_port).take(4).collect() }
    }

    fn file(place: usize) -> PathBuf {
        let name = format!("group-placing-{}.toml", NAMES[place]);
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
    }

    /// Records of `slow` take a processor for longer than those of `fast` may wait. Both together leave more than
    /// half of it, for a machine that has less than it should.
    fn config(&self, place: usize) -> String {
        let (name, other) = (NAMES[place], NAMES[1 - place]);
        let (mqtt, group) = (self.ports[place], self.ports[2 + place]);
        let far = self.ports[3 - place];
        let unit = |name: &str| {
            format!(
                "[[placed]]\nname = {name:?}\ntopics = [\"t/{name}\", \"done/{name}\"]\nowner = \"a\"\n"
            )
        };
        let operator = |name: &str, bound: &str, spin: &str| {
            format!(
                "[[operator]]\nname = {name:?}\nfrom = [\"t/{name}\"]\nto = \"done/%2\"\n\
                 bound = {bound:?}\ndo = [{{ spin = {spin:?} }}]\n"
            )
        };
        format!(
            "[node]\nname = {name:?}\nstop_timeout = \"1s\"\npool_threads = 1\n[http]\nlisten = []\n\
             [[input]]\nmqtt = {{ listen = \"127.0.0.1:{mqtt}\" }}\n[[stream]]\nto = []\n\
             [group]\nlisten = \"127.0.0.1:{group}\"\nstate = {:?}\n\
             members = [{{ name = {other:?}, address = \"127.0.0.1:{far}\" }}]\n{}{}{}{}",
            self.folder.join(format!("{name}-group")),
            unit("slow"),
            unit("fast"),
            operator("slow", "10s", "400ms"),
            operator("fast", "150ms", "1ms"),
        )
    }

    fn start(&self, place: usize) -> Node {
        let mut node = Node::start(&format!("group-placing-{}", NAMES[place]), &self.config(place));
        node.wait_for("ready;");
        let errors = node.take_log();
        std::thread::spawn(move || std::io::copy(&mut { errors }, &mut std::io::sink()));
        node
    }
}

/// A command, by the file of `a`.
fn tidegate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments).arg("-c").arg(Pair::file(0)).output().unwrap()
}

fn told(output: &Output) -> String {
    let [out, errors] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{out}{errors}")
}

/// All rounds of `tidegate place --once` with more arguments.
fn place(more: &[&str]) -> Vec<Value> {
    let arguments = ["place", "--once", "--json", "--every", EVERY, "--rest", "100ms"];
    let output = tidegate(&[&arguments, more].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Where topics are, as the last round of `place` saw it; moves of that round aside.
fn owner(unit: &str) -> String {
    let rounds = place(&["--dry-run"]);
    let topics = rounds.last().unwrap()["topics"].as_array().unwrap();
    let found = topics.iter().find(|topic| topic["name"] == unit).unwrap();
    found["node"].as_str().unwrap().to_owned()
}

#[test]
fn a_missed_bound_is_kept_elsewhere_and_a_node_is_drained_and_nothing_is_lost() {
    let pair = Pair::new();
    let _a = pair.start(0);
    let b = pair.start(1);
    let done = Subscriber::start(pair.ports[0], "done", "done/+");
    let slow = Publisher::start(pair.ports[0], "slow", Duration::from_secs(1));
    let fast = Publisher::start(pair.ports[0], "fast", Duration::from_millis(25));
    wait_until("records to flow", || slow.answered() >= 2 && fast.answered() >= 20);

    // What is late twice in a row goes where it is not.
    let mut reasons = Vec::new();
    wait_until("fast to leave a", || {
        for round in place(&[]) {
            let moves = round["moves"].as_array().unwrap().clone();
            reasons.extend(moves.into_iter().filter(|step| step["moved"] == true));
        }
        !reasons.is_empty()
    });
    let first = &reasons[0];
    assert_eq!(
        (&first["topic"], &first["from"], &first["to"], &first["reason"]),
        (&"fast".into(), &"a".into(), &"b".into(), &"missed".into()),
        "{first}"
    );
    assert_eq!(owner("fast"), "b");

    // Its bound would be missed at a again: it stays, and says why; by force it goes.
    let drained = tidegate(&["drain", "b", "--every", EVERY]);
    assert!(
        !drained.status.success() && told(&drained).contains("fast stays at b"),
        "{}",
        told(&drained)
    );
    let refused = tidegate(&["move", "slow", "--to", "b"]);
    assert!(!refused.status.success() && told(&refused).contains("b drains"), "{}", told(&refused));
    let drained = tidegate(&["drain", "b", "--force", "--every", EVERY]);
    assert!(drained.status.success(), "{}", told(&drained));
    assert!(told(&drained).contains("b owns no topics"), "{}", told(&drained));
    assert_eq!(owner("fast"), "a");

    // That it drains is known after a restart; and nothing comes, though a bound is missed.
    drop(b);
    let away = place(&[]);
    assert!(away.last().unwrap()["wrong"].to_string().contains("away"), "{away:?}");
    let _b = pair.start(1);
    wait_until("both members to answer", || {
        let rounds = place(&[]);
        assert!(
            rounds.iter().all(|round| round["moves"] == Value::Array(Vec::new())),
            "{rounds:?}"
        );
        let nodes = rounds.last().unwrap()["nodes"].clone();
        nodes[1]["is_here"] == true && nodes[1]["is_draining"] == true
    });
    assert!(tidegate(&["drain", "b", "--undo"]).status.success());
    // What waits for a slow operator must end in time for a move.
    let slow = slow.finish();
    wait_until("slow to be at b", || tidegate(&["move", "slow", "--to", "b"]).status.success());

    let counts = [("slow", slow), ("fast", fast.finish())];
    wait_until("all results", || done.seen().len() as u64 >= counts[0].1 + counts[1].1);
    for (name, count) in counts {
        assert!(done.of(name).into_iter().eq(1..=count), "{name}: {:?}", done.of(name));
    }
}
