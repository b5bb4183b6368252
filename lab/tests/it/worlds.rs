//! One file for virtual time and for real processes.

use std::path::PathBuf;
use std::process::Command;

use tidegate_lab::world::{Delivered, World};
use tidegate_lab::{cli, sim};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("worlds").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap()
}

fn options(words: &[&str]) -> sim::Options {
    cli::sim(words).unwrap()
}

/// Why virtual time does not play a world.
fn refusal(text: &str) -> String {
    let world = World::parse(text).unwrap();
    format!("{:#}", sim::play(&world, &path(""), None).unwrap_err())
}

#[test]
fn the_head_of_line_file_plays_in_virtual_time_and_keeps_its_checks() {
    let file = path("hol.toml");
    let words = [file.to_str().unwrap()];
    let found = sim::run(&options(&words)).unwrap();
    assert_eq!(found.value("hol_lost_accepted"), Some(0.0), "{found:#?}");
    assert_eq!(found.broken, [""; 0]);
    let (world, folder) = World::read(&file).unwrap();
    let played = sim::play(&world, &folder, None).unwrap();
    let Delivered { offered, accepted, came, .. } = &played.records["alarm"];
    assert_eq!((*offered, *accepted, came.len()), (150, 150, 150));
    assert!(played.carried.1 > 1.9, "the link is in use: {:?}", played.carried);
}

#[test]
fn by_one_connection_an_alarm_waits_for_the_rest_of_one_record_and_for_no_more() {
    let longest = |text: &str| {
        let played = sim::play(&World::parse(text).unwrap(), &path(""), None).unwrap();
        let Delivered { accepted, came, .. } = &played.records["alarm"];
        assert_eq!((*accepted, came.len()), (150, 150));
        came.iter().map(|came| came.took).max().unwrap()
    };
    let one = text("hol-one-connection.toml");
    let each = one.replace(", connections = \"one\"", "");
    assert_ne!(one, each);
    let (one, each) = (longest(&one), longest(&each));
    // A record of 20 kB takes 80 ms on this line.
    let most = each + std::time::Duration::from_millis(90);
    assert!(each < one && one <= most, "{one:?} by one connection, {each:?} by one for each class");
}

#[test]
fn checks_and_faults_of_a_file_count_in_virtual_time() {
    let strict = text("hol.toml").replace("p99 = \"250ms\"", "p99 = \"20ms\"");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("strict.toml");
    std::fs::write(&file, strict).unwrap();
    let words = [file.to_str().unwrap()];
    let broken = sim::run(&options(&words)).unwrap().broken;
    assert!(broken[0].contains("alarm p99 is"), "{broken:?}");
    let fault = "\n[[fault]]\nat = \"10s\"\nlink = \"lte\"\nchange = \"down\"\n\
                 \n[[fault]]\nat = \"14s\"\nlink = \"lte\"\nchange = \"up\"\n";
    let world = World::parse(&(text("hol.toml") + fault)).unwrap();
    let played = sim::play(&world, &path(""), None).unwrap();
    let undisturbed =
        sim::play(&World::parse(&text("hol.toml")).unwrap(), &path(""), None).unwrap();
    let bulk = [&played, &undisturbed].map(|played| played.records["bulk"].came.len());
    // Four of thirty seconds are gone, and the connection's start after them.
    assert!(bulk[0] * 10 >= bulk[1] * 7, "{bulk:?}: the connection did not recover");
    let alarms = &played.records["alarm"];
    let slow = alarms.came.iter().filter(|came| came.took.as_secs_f64() > 1.0).count();
    assert!((10..40).contains(&slow), "{slow} alarms waited for the link");
    assert_eq!(alarms.came.len(), 150, "and all came");
    let broker = fault.replace("link = \"lte\"", "process = \"broker\"");
    let broker = broker.replace("\"down\"", "\"kill\"").replace("\"up\"", "\"restart\"");
    let world = World::parse(&(text("hol.toml") + &broker)).unwrap();
    let played = sim::play(&world, &path(""), None).unwrap();
    assert!(played.broken.is_empty(), "{:?}", played.broken);
    assert_eq!(played.records["alarm"].came.len(), 150);
}

#[test]
fn what_only_real_processes_can_play_is_named() {
    let hol = text("hol.toml");
    let refused = |from: &str, to: &str| {
        assert!(hol.contains(from), "{from}");
        refusal(&hol.replace(from, to))
    };
    assert!(refusal(&text("kill.toml")).starts_with("the node has a log"));
    assert!(refusal(&text("two-paths.toml")).starts_with("0 nodes: only `lab bench`"));
    let program = "[[process]]\nname = \"gate\"";
    let other = "[[process]]\nname = \"x\"\nhost = \"edge\"\ncommand = [\"true\"]\n\n";
    let text = refused(program, &format!("{other}{program}"));
    assert!(text.starts_with("process x is any program"), "{text}");
    let text = refused("latency = \"50ms\"", "latency = \"50\"");
    assert!(text.contains("the configuration of gate") && text.contains("gate:7:11"), "{text}");
    let text = refused("from = \"edge\"\nto = \"gate\"", "from = \"cloud\"\nto = \"gate\"");
    assert!(text.starts_with("source alarm does not go from the node's own host"), "{text}");
}

/// Three seconds of the head-of-line world over a faster link to Mosquitto, with real processes.
#[test]
fn a_file_plays_with_real_processes_and_nothing_is_lost() {
    let short = text("hol.toml")
        .replace("length = \"30s\"", "length = \"3s\"")
        .replace("rate = \"2mbit\"", "rate = \"4mbit\"")
        .replace("broker = \"rabbitmq\"", "broker = \"mosquitto\"")
        .replace("goodput = \"1.5mbit\"", "")
        .replace("p99 = \"250ms\"\n", "");
    let (before, _) = short.split_once("amqp = ").unwrap();
    let after = short.split_once("\n'''\n\n# Published").unwrap().1;
    let short =
        format!("{before}mqtt = {{ url = \"mqtt://{{cloud}}\" }}\n'''\n\n# Published{after}");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("short.toml");
    std::fs::write(&file, short).unwrap();
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    let output = lab.args(["bench", file.to_str().unwrap()]).output().unwrap();
    let [out, error] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let skipped = out.lines().chain(error.lines()).find(|line| {
        line.starts_with("skipped: ") || (line.contains("needs ") && line.contains("not found"))
    });
    if let Some(line) = skipped {
        return println!("skipped: {line}");
    }
    assert!(output.status.success(), "{out}{error}");
    assert!(out.contains("FIGURE hol_lost_accepted 0 records"), "{out}");
    assert!(out.contains("FIGURE hol_alarm_p50_real_over_virtual"), "{out}");
    let row = out.lines().find(|line| line.starts_with("bulk ")).unwrap();
    let counts: Vec<&str> = row.split_whitespace().skip(1).take(4).collect();
    assert_eq!(counts, ["60", "60", "0", "60"], "{out}");
}
