//! `lab net run` end to end: a world is played and judged, and nothing of it is left, even by a kill.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Two hosts and a link; a load on it where `rest` has one.
const WORLD: &str = r#"
name = "test"
hosts = ["edge", "cloud"]
drain = "500ms"
[[link]]
name = "lte"
ends = ["edge", "cloud"]
uplink = { rate = "2mbit", delay = "20ms", queue = "64KB" }
"#;

/// A load of a tenth of the link.
const LOAD: &str = r#"
length = "1s"
[[load]]
name = "alarm"
from = "edge"
link = "lte"
per-second = 100
size = "250B"
"#;

/// The world's file. Keys of the whole world, which `rest` begins with, come before its first table.
fn file(name: &str, rest: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = folder.join(format!("{name}.toml"));
    let (keys, tables) = rest.split_once("[[").unwrap_or((rest, ""));
    let tables = if tables.is_empty() { String::new() } else { format!("[[{tables}") };
    let text = WORLD.replacen("[[link]]", &format!("{keys}[[link]]"), 1) + &tables;
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path
}

fn lab(file: &PathBuf, words: &[&str]) -> Command {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    lab.args(["net", "run"]).arg(file).args(words);
    lab
}

/// What it said; `None` where it was skipped.
fn said(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let skipped = text.lines().find(|line| line.starts_with("skipped: "));
    if let Some(line) = skipped {
        println!("{line}");
    }
    skipped.is_none().then_some(text)
}

fn namespaces() -> String {
    let list = Command::new("ip").args(["netns", "list"]).output().unwrap();
    String::from_utf8(list.stdout).unwrap()
}

#[test]
fn a_world_is_played_and_its_checks_hold() {
    let checks = "[[check]]\nload = \"alarm\"\np50 = \"1s\"\nlost = 0.0\n";
    let output = lab(&file("holds", &format!("{LOAD}{checks}")), &[]).output().unwrap();
    let Some(text) = said(&output) else { return };
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("FIGURE net_test_alarm_lost 0 %"), "{text}");
    let p50 = text.lines().find_map(|line| line.strip_prefix("FIGURE net_test_alarm_p50 "));
    let p50: f64 = p50.unwrap().trim_end_matches(" ms").parse().unwrap();
    assert!(p50 >= 20.0, "nothing is faster than the link: {p50}");
}

#[test]
fn what_does_not_hold_fails_the_run() {
    let rest = "[[fault]]\nat = \"0s\"\nlink = \"lte\"\nchange = { loss = 1.0 }\n\
        [[check]]\nload = \"alarm\"\nlost = 0.5\n";
    let output = lab(&file("fails", &format!("{LOAD}{rest}")), &[]).output().unwrap();
    let Some(text) = said(&output) else { return };
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("does not hold: alarm lost"), "{error}");
    assert!(text.contains("0.0 s: lte: loss 1"), "{text}");
}

#[test]
fn others_take_their_part_by_real_connections() {
    let cross = "queue = \"64KB\", cross = { rate = \"1mbit\", tcp = 1.0, sources = 4 }";
    let world = file("others", LOAD);
    let text = std::fs::read_to_string(&world).unwrap().replace("queue = \"64KB\"", cross);
    std::fs::write(&world, text).unwrap();
    let output = lab(&world, &[]).output().unwrap();
    let Some(text) = said(&output) else { return };
    for ends in ["edge to cloud", "cloud to edge"] {
        let start = format!("lte, {ends}: connections of others carried ");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        let rate = line.and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("{text}"));
        assert!(rate.parse::<f64>().unwrap() > 0.0, "{text}");
    }
}

#[test]
fn a_program_runs_on_a_host_and_ends_the_world() {
    let words = ["--on", "cloud", "--", "sh", "-c", "echo from {cloud} to {edge.lte}; exit 3"];
    let output = lab(&file("program", ""), &words).output().unwrap();
    let Some(text) = said(&output) else { return };
    assert!(text.contains("from 10.212.0.2 to 10.212.0.1"), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("exit status: 3"));
}

#[test]
fn a_signal_ends_a_world_without_end_with_its_table() {
    let rest = "[[process]]\nname = \"route\"\nhost = \"edge\"\ncommand = [\"echo\", \"on\"]\n";
    let mut endless = lab(&file("endless", rest), &[]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(endless.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.find(|line| line.starts_with("skipped: ") || line == "[route] on").unwrap();
    if first.starts_with("skipped: ") {
        endless.wait().unwrap();
        return println!("{first}");
    }
    let id = endless.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert!(lines.any(|line| line.starts_with("lte, cloud to edge ")));
    assert!(endless.wait().unwrap().success());
    assert!(!namespaces().contains(&format!("tidegate-lab-{id}-")), "{}", namespaces());
}

#[test]
fn what_a_killed_lab_left_is_removed_at_the_next_start() {
    let rest = "[[process]]\nname = \"sleeper\"\nhost = \"edge\"\n\
        command = [\"sh\", \"-c\", \"echo pid $$; exec sleep 600\"]\n";
    let world = file("killed", rest);
    let mut victim = lab(&world, &[]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    let sleeper = lines.find(|line| line.starts_with("skipped: ") || line.contains("] pid "));
    victim.kill().unwrap();
    let own = format!("tidegate-lab-{}-", victim.id());
    // Until it is waited for, its id is taken and its namespaces belong to somebody.
    let left = namespaces().contains(&own);
    victim.wait().unwrap();
    let sleeper = sleeper.unwrap();
    let Some((_, sleeper)) = sleeper.split_once("] pid ") else {
        println!("{sleeper}");
        return;
    };
    assert!(left, "a killed process cannot clean up");
    assert!(lab(&world, &["--", "true"]).status().unwrap().success());
    assert!(!namespaces().contains(&own), "{}", namespaces());
    let state = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "it still runs: {state}");
}
