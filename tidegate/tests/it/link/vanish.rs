//! Interfaces that vanish and come back, between two namespaces.

use std::path::PathBuf;
use std::process::Command;

use crate::link::far::files;
use crate::link::processes::wait_until;
use crate::support::certificates::Authority;
use crate::support::process::Node;

/// Two namespaces, which go with the test.
struct Spaces {
    names: [String; 2],
}

fn ip(arguments: &str) -> bool {
    let output = Command::new("ip").args(arguments.split_whitespace()).output();
    output.is_ok_and(|output| output.status.success())
}

impl Spaces {
    /// `None` where we may not make them.
    fn new() -> Option<Spaces> {
        let name = |end: &str| format!("tgl-{}-{end}", std::process::id());
        let spaces = Spaces { names: [name("edge"), name("far")] };
        let are_made = spaces.names.iter().all(|name| ip(&format!("netns add {name}")));
        are_made.then_some(spaces)
    }

    /// Joins them by an interface of this name and network at both ends.
    fn join(&self, interface: &str, network: &str, metric: u32) {
        let [edge, far] = &self.names;
        for command in [
            format!(
                "link add {interface} netns {edge} type veth peer name {interface} netns {far}"
            ),
            format!("-n {edge} addr add {network}.1/24 dev {interface}"),
            format!("-n {far} addr add {network}.2/24 dev {interface}"),
            format!("-n {edge} link set {interface} up"),
            format!("-n {far} link set {interface} up"),
            // To the one address of the far node that all paths lead to.
            format!(
                "-n {edge} route add 10.78.0.1/32 via {network}.2 dev {interface} metric {metric}"
            ),
        ] {
            assert!(ip(&command), "ip {command}");
        }
    }

    fn command(&self, end: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[end]]).arg(env!("CARGO_BIN_EXE_tidegate"));
        command
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&format!("netns del {name}"));
        }
    }
}

#[test]
fn an_interface_that_vanishes_costs_no_record_and_is_used_again() {
    const RECORDS: usize = 3000;
    let Some(spaces) = Spaces::new() else {
        eprintln!("skipped: needs the right to make network namespaces, not found");
        return;
    };
    spaces.join("wan0", "10.78.1", 10);
    spaces.join("lte00", "10.78.2", 20);
    for command in [
        format!("-n {} addr add 10.78.0.1/32 dev lo", spaces.names[1]),
        format!("-n {} link set lo up", spaces.names[1]),
    ] {
        assert!(ip(&command), "ip {command}");
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("link-vanish");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let readings = folder.join("readings.csv");
    let lines: String = (0..RECORDS).map(|number| format!("{number},{number}\n")).collect();
    std::fs::write(&readings, format!("time,number\n{lines}")).unwrap();
    let authority = Authority::new("link-vanish");
    let far_files = files(&authority, &authority.issue_for("far", "10.78.0.1"));
    let edge_files = files(&authority, &authority.issue("gate-7"));
    let far = format!(
        "[http]\nlisten = []\n[[input]]\nlink = {{ listen = \"0.0.0.0:7443\", {far_files} }}\n\
         [[output]]\nsink = {{ directory = {:?} }}\n",
        folder.join("data")
    );
    let mut far = Node::start_by(spaces.command(1), "link-vanish-far", &far);
    far.wait_for("ready");
    let edge = format!(
        "[http]\nlisten = []\n\
         [[input]]\nreplay = {{ file = {readings:?}, records_per_second = 500.0 }}\n\
         [[output]]\nlink = {{ to = \"10.78.0.1:7443\", {edge_files}, paths = [\"wan0\", \"lte00\"] }}\n"
    );
    let mut edge = Node::start_by(spaces.command(0), "link-vanish-edge", &edge);
    let written = || {
        let text = std::fs::read_to_string(folder.join("data/records.jsonl")).unwrap_or_default();
        text.lines().count()
    };
    wait_until("the first records", || written() > 300);
    assert!(ip(&format!("-n {} link del wan0", spaces.names[0])));
    edge.wait_for("there is no interface wan0 (now)");
    let before = written();
    wait_until("records by the other path", || written() > before + 300);
    spaces.join("wan0", "10.78.3", 10);
    let again = edge.wait_for("path is connected");
    assert!(again.contains("path=wan0"), "{again}");
    wait_until("all records", || written() == RECORDS);
}
