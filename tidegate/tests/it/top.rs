//! `tidegate top` as a process: on a terminal, for a pipe, and while its node restarts.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tidegate_testbed::free_address;

use crate::support::process::Node;

fn config(http: &str) -> String {
    format!(
        "[node]\nname = \"gate-7\"\n[http]\nlisten = \"{http}\"\n\
         [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
         [[output]]\nname = \"cloud\"\nmqtt = {{ url = \"mqtt://127.0.0.1:1\" }}\n"
    )
}

fn node(name: &str, http: &str) -> Node {
    let mut node = Node::start(name, &config(http));
    // Either comes first.
    node.wait_for_all(&["no connection", "ready"]);
    node
}

/// Ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn top(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    let output = command.arg("top").args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_look_says_why_an_output_is_down_and_has_no_colours_for_a_pipe() {
    let address = free_address().to_string();
    let _node = node("top-once", &address);
    let told = top(&[&address, "--once"]);
    assert!(
        told.contains("cloud down: 127.0.0.1:1: Connection refused") && !told.contains('\x1b'),
        "{told}"
    );
    let told = top(&[&address, "--once", "--view", "streams"]);
    assert!(told.contains("stream") && told.contains("default"), "{told}");
    let told = top(&[&address, "--once", "--json"]);
    let status: Value = serde_json::from_str(told.strip_suffix('\n').unwrap()).unwrap();
    assert_eq!((status["node"].as_str(), told.lines().count()), (Some("gate-7"), 1));
    assert!(status["outputs"][0]["trouble"].as_str().unwrap().starts_with("127.0.0.1:1: "));
}

#[test]
fn a_restart_of_the_node_is_survived() {
    let address = free_address().to_string();
    let first = node("top-first", &address);
    let child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["top", &address, "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut top = Ended(child);
    let mut lines = BufReader::new(top.0.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let before = next()["incarnation"].clone();
    assert!(before.is_string());
    drop(first);
    let away = std::iter::repeat_with(&mut next).find(|line| line["away_seconds"].is_number());
    let away = away.unwrap();
    assert_eq!(away["address"], *address);
    assert!(away["error"].as_str().unwrap().contains("no node at"), "{away}");
    let _second = node("top-second", &address);
    let back = std::iter::repeat_with(&mut next).find(|line| line["incarnation"].is_string());
    assert_ne!(back.unwrap()["incarnation"], before);
}

/// What `top` writes to a terminal of 80 columns and 24 rows until `q` is pressed.
fn on_a_terminal(address: &str, colours: bool) -> Option<String> {
    let program = env!("CARGO_BIN_EXE_tidegate");
    let mut command = Command::new("script");
    let size = "stty cols 80 rows 24";
    command
        .args(["-qec", &format!("{size}; exec {program} top {address}"), "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    if !colours {
        command.env("NO_COLOR", "1");
    }
    let mut terminal = Ended(command.spawn().ok()?);
    let mut keys = terminal.0.stdin.take().unwrap();
    let mut shown = BufReader::new(terminal.0.stdout.take().unwrap());
    // Help, and then a key that ends it: the screens come in the order of the keys.
    let mut all = Vec::new();
    let mut until = |what: &str, all: &mut Vec<u8>| {
        while !String::from_utf8_lossy(all).contains(what) {
            let bytes = shown.fill_buf().unwrap();
            let count = bytes.len();
            assert!(count > 0, "no {what:?} in {:?}", String::from_utf8_lossy(all));
            all.extend_from_slice(bytes);
            shown.consume(count);
        }
    };
    until("[1 overview]", &mut all);
    keys.write_all(b"4").unwrap();
    until("[4 outputs]", &mut all);
    keys.write_all(b"?").unwrap();
    until("anything but 0 is a bug", &mut all);
    keys.write_all(b"q").unwrap();
    until("\x1b[?1049l", &mut all);
    assert!(terminal.0.wait().unwrap().success());
    Some(String::from_utf8(all).unwrap())
}

#[test]
fn a_terminal_has_keys_and_colours_and_is_given_back() {
    let address = free_address().to_string();
    let _node = node("top-terminal", &address);
    let Some(shown) = on_a_terminal(&address, true) else {
        println!("skipped: needs script (util-linux), not found");
        return;
    };
    assert!(shown.starts_with("\x1b[?1049h\x1b[?25l"), "{shown:?}");
    assert!(shown.contains("\x1b[31m"), "what is down is red: {shown:?}");
    for screen in shown.split("\x1b[H").skip(1) {
        assert_eq!(screen.matches("\r\n").count(), 23, "{screen:?}");
    }
    let plain = on_a_terminal(&address, false).unwrap();
    assert!(!plain.contains("\x1b[31m") && !plain.contains("\x1b[2m"), "{plain:?}");
}
