//! `tidegate run` from its start to its end by signals, and the demo, as processes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_testbed::wait_until;

use crate::support::process::{Node, publish};

#[test]
fn the_first_signal_delivers_what_is_held_and_tells_its_fate() {
    let mut node = Node::start(
        "gentle",
        "[node]\nname = \"gentle\"\n[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n\
         [[stream]]\naccept = \"confirmed\"\n[[output]]\nsink = { discard = true }\n\
         [http]\nlisten = \"127.0.0.1:0\"\n",
    );
    let mqtt = node.wait_for("MQTT at ");
    let page = node.wait_for("status page at http://");
    node.wait_for("ready");
    let _client = publish(&mqtt);
    let mut site = TcpStream::connect(page).unwrap();
    site.write_all(b"GET /status HTTP/1.0\r\n\r\n").unwrap();
    let mut status = String::new();
    site.read_to_string(&mut status).unwrap();
    assert!(
        status.contains("\"node\":\"gentle\"") && status.contains("\"confirmed\":1"),
        "{status}"
    );
    node.signal();
    assert_eq!(node.wait_for("stopped: "), "accepted 1, confirmed 1, dropped 0, held 0, lost 0");
    assert_eq!(node.end().code(), Some(0));
}

#[test]
fn the_service_manager_hears_of_its_life() {
    let folder = std::env::temp_dir().join(format!("tidegate-notify-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "20000");
    let config = "[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n\
                  [[output]]\nsink = { discard = true }\n[http]\nlisten = []\n";
    let mut node = Node::start_by(command, "notify", config);
    let heard = || {
        let mut words = [0; 256];
        let length = socket.recv(&mut words).unwrap();
        String::from_utf8_lossy(&words[..length]).into_owned()
    };
    assert!(heard().contains("READY=1"));
    assert!(heard().contains("WATCHDOG=1"));
    assert!(heard().contains("WATCHDOG=1"), "a sign in each period");
    node.signal();
    let mut last = heard();
    while !last.contains("STOPPING=1") {
        last = heard();
    }
    assert!(last.contains("EXTEND_TIMEOUT_USEC=10000000"), "{last}");
    assert_eq!(node.end().code(), Some(0));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_cannot_be_delivered_in_time_is_dropped_and_told() {
    let mut node = Node::start(
        "impatient",
        "[node]\nstop_timeout = \"10ms\"\n[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n\
         [[output]]\nmqtt = { url = \"mqtt://127.0.0.1:1\" }\n[http]\nlisten = []\n",
    );
    let mqtt = node.wait_for("MQTT at ");
    let _client = publish(&mqtt);
    node.signal();
    assert_eq!(
        node.wait_for("stopped: "),
        "accepted 1, confirmed 0, dropped 1 (stopped 1), held 0, lost 0"
    );
    assert_eq!(node.end().code(), Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut node = Node::start(
        "hasty",
        "[node]\nstop_timeout = \"1h\"\n[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n\
         [[output]]\nmqtt = { url = \"mqtt://127.0.0.1:1\" }\n[http]\nlisten = []\n",
    );
    let mqtt = node.wait_for("MQTT at ");
    let _client = publish(&mqtt);
    node.signal();
    node.wait_for("stopping");
    node.signal();
    node.wait_for("stopped at once");
    assert_eq!(node.end().code(), Some(143));
}

#[test]
fn more_connections_than_files_do_not_end_it() {
    let mut command = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_tidegate");
    command.args(["-c", "ulimit -n 40; exec \"$@\"", "sh", program]);
    let config = "[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n\
                  [[output]]\nsink = { discard = true }\n[http]\nlisten = []\n";
    let mut node = Node::start_by(command, "many", config);
    let mqtt = node.wait_for("MQTT at ");
    // The kernel completes connections that the node has no file for.
    let many: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(&mqtt).unwrap()).collect();
    node.wait_for("Too many open files");
    drop(many);
    let _client = publish(&mqtt);
    node.signal();
    let told = node.wait_for("stopped: ");
    assert_eq!(told, "accepted 1, confirmed 1, dropped 0, held 0, lost 0");
    assert_eq!(node.end().code(), Some(0));
}

#[test]
fn an_address_in_use_is_told_with_its_cure() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut node = Node::start(
        "taken",
        &format!(
            "[[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n[[output]]\nsink = {{ discard = true }}\n\
             [http]\nlisten = \"{address}\"\n"
        ),
    );
    let told = node.wait_for("tidegate: ");
    assert!(told.contains(&address.to_string()) && told.contains("[http] listen"), "{told}");
    assert_eq!(node.end().code(), Some(1));
}

#[test]
fn the_demo_carries_alarms_to_the_far_end() {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["demo", "--seconds", "3", "--rate", "20mbit", "--delay", "5ms"])
        .output()
        .unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    let alarms = told.lines().find(|line| line.starts_with("Alarms: ")).unwrap();
    assert!(alarms.contains("records arrived; half within"), "{told}");
}

/// A node with a log in a folder of its own, and an output to `url`.
fn durable(name: &str, url: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("log-{name}"));
    format!(
        "[node]\nname = \"{name}\"\nstop_timeout = \"10ms\"\n\
         [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n[[output]]\n{url}\n\
         [http]\nlisten = []\n[log]\ndirectory = \"{}\"\n",
        folder.display()
    )
}

/// Lines of records in a sink's folder: beside them is a file that says how far they are safe.
fn lines_in(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let records = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let texts = records.filter_map(|path| std::fs::read_to_string(path).ok());
    texts.map(|text| text.lines().count()).sum()
}

#[test]
fn what_was_acknowledged_is_sent_after_a_kill() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("log-killed");
    let _ = std::fs::remove_dir_all(&folder);
    // A broker that is not there: the record waits.
    let nowhere = "name = \"out\"\nmqtt = { url = \"mqtt://127.0.0.1:1\" }";
    let mut node = Node::start("killed", &durable("killed", nowhere));
    let mqtt = node.wait_for("MQTT at ");
    let _client = publish(&mqtt);
    node.process.kill().unwrap();
    node.end();
    // The same again, stopped gently: what the log has is not dropped.
    let mut node = Node::start("killed", &durable("killed", nowhere));
    let mqtt = node.wait_for("MQTT at ");
    let _client = publish(&mqtt);
    node.signal();
    let told = node.wait_for("stopped: ");
    assert!(told.contains("dropped 0") && told.contains("lost 0"), "{told}");
    assert_eq!(node.end().code(), Some(0));
    let records = folder.with_file_name("log-killed-records");
    let _ = std::fs::remove_dir_all(&records);
    let sink = format!("name = \"out\"\nsink = {{ directory = {records:?} }}");
    let mut node = Node::start("killed", &durable("killed", &sink).replace("10ms", "10s"));
    // A node that is stopped leaves to the log what it has not read back yet.
    wait_until("both records to be read back", || lines_in(&records) == 2);
    node.signal();
    let told = node.wait_for("stopped: ");
    assert!(told.contains("confirmed 2, dropped 0, held 0, lost 0"), "{told}");
    assert_eq!(node.end().code(), Some(0));
}

#[test]
fn a_log_has_one_process_and_a_standby_takes_over() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("log-twice");
    let _ = std::fs::remove_dir_all(&folder);
    let config = durable("twice", "sink = { discard = true }");
    let mut first = Node::start("twice", &config);
    first.wait_for("ready");
    let mut second = Node::start("twice-again", &config);
    second.wait_for("another process uses");
    assert_eq!(second.end().code(), Some(1));
    let mut standby = Node::start("twice-standby", &format!("{config}standby = true\n"));
    standby.wait_for("standing by");
    first.process.kill().unwrap();
    first.end();
    standby.wait_for("taking over");
    let mqtt = standby.wait_for("MQTT at ");
    let _client = publish(&mqtt);
    standby.signal();
    assert!(standby.wait_for("stopped: ").contains("confirmed 1"));
}

#[test]
fn new_rules_are_taken_from_a_right_file_and_not_from_a_wrong_one() {
    let nowhere = "[[output]]\nmqtt = { url = \"mqtt://127.0.0.1:1\" }\n[http]\nlisten = []\n";
    let base = format!(
        "[node]\nstop_timeout = \"10ms\"\n[[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n{nowhere}"
    );
    let mut node = Node::start("reload", &base);
    let mqtt = node.wait_for("MQTT at ");
    node.wait_for("ready");
    let _client = publish(&mqtt);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("reload.toml");
    let hang_up = || {
        let id = node.process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    };
    std::fs::write(&file, format!("{base}[[stream]]\ntopics = [\"t\"]\nclas = \"ls\"\n")).unwrap();
    hang_up();
    let told = node.wait_for("the new configuration is not used: ");
    assert!(told.contains("clas"), "{told}");
    // This time nobody says so: the file is looked at.
    std::fs::write(&file, format!("{base}[[stream]]\ntopics = [\"t\"]\nclass = \"ls\"\n")).unwrap();
    let told = node.wait_for("new rules are in force");
    assert!(told.ends_with("moved=1"), "{told}");
    node.signal();
    assert_eq!(node.end().code(), Some(0));
}

#[test]
fn sys_topics_are_told_to_subscribers_here_and_nowhere_else() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sys-topics");
    let _ = std::fs::remove_dir_all(&folder);
    let config = format!(
        "[node]\nsys_interval = \"20ms\"\n[[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
         [[output]]\nsink = {{ directory = {folder:?} }}\n"
    );
    let mut node = Node::start("sys-topics", &config);
    let address = node.wait_for("MQTT at ");
    let mut client = publish(&address);
    // A client may not say it, whatever its rights.
    client.write_all(b"\x30\x16\0\x13$SYS/broker/versionx").unwrap();
    client.write_all(b"\x82\x18\0\x07\0\x13$SYS/broker/version\0").unwrap();
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"\x90\x03\0\x07\0");
    let mut head = [0; 23];
    client.read_exact(&mut head).unwrap();
    assert_eq!(&head[4..], b"$SYS/broker/version");
    let mut version = vec![0; usize::from(head[1]) - 21];
    client.read_exact(&mut version).unwrap();
    let expected = format!("tidegate version {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(version).unwrap(), expected);
    node.signal();
    assert!(node.end().success());
    assert_eq!(lines_in(&folder), 1, "what was published alone");
}

#[test]
fn an_output_leads_elsewhere_and_a_listener_comes_while_records_wait_and_none_is_lost() {
    let far = |name: &str| {
        let config = "[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n[http]\nlisten = []\n\
                      [[output]]\nsink = { discard = true }\n";
        let mut node = Node::start(name, config);
        let address = node.wait_for("MQTT at ");
        (node, address)
    };
    let ((mut one, at_one), (mut two, at_two)) = (far("anew-one"), far("anew-two"));
    let listener = "[[input]]\nmqtt = { listen = \"127.0.0.1:0\" }\n";
    let leading = |to: &str, more: &str| {
        format!(
            "{listener}{more}[http]\nlisten = []\n[[output]]\nmqtt = {{ url = \"mqtt://{to}\" }}\n"
        )
    };
    // Nobody listens there.
    let mut node = Node::start("anew", &leading("127.0.0.1:1", ""));
    let mqtt = node.wait_for("MQTT at ");
    node.wait_for("ready");
    let first = publish(&mqtt);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("anew.toml");
    std::fs::write(&file, leading(&at_one, "")).unwrap();
    node.wait_for("output \"mqtt\" begins anew");
    one.wait_for("ready");
    let second = publish(&mqtt);
    // The same with another listener, which is opened before anything changes.
    std::fs::write(&file, leading(&at_two, listener)).unwrap();
    let another = node.wait_for("listening at ");
    node.wait_for("output \"mqtt\" begins anew");
    let third = publish(another.split_whitespace().next().unwrap());
    // What needs a new start is named, and changes nothing.
    std::fs::write(&file, leading(&at_two, listener) + "unconfirmed_max = 100\n").unwrap();
    assert!(node.wait_for("changes of ").starts_with("[[output]] need a new start"));
    node.signal();
    let counts = node.wait_for("stopped: ");
    assert!(counts.starts_with("accepted 3, confirmed 3, dropped 0, held 0, lost 0"), "{counts}");
    drop((first, second, third));
    let mut arrived = 0;
    for far in [&mut one, &mut two] {
        far.signal();
        let counts = far.wait_for("accepted ");
        let number = counts.split(',').next().unwrap();
        arrived += number.parse::<u64>().unwrap();
    }
    assert!(arrived >= 3, "{arrived} arrived");
}

#[test]
fn outputs_come_and_go_at_work_and_a_kill_loses_nothing_of_them() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let [near, far] = ["comes-near", "comes-far"].map(|name| folder.join(name));
    for gone in [&near, &far, &folder.join("log-comes")] {
        let _ = std::fs::remove_dir_all(gone);
    }
    // Nobody listens there: what goes to it waits.
    let nowhere =
        |name: &str| format!("name = \"{name}\"\nmqtt = {{ url = \"mqtt://127.0.0.1:1\" }}\n");
    let sink =
        |name: &str, to: &Path| format!("name = \"{name}\"\nsink = {{ directory = {to:?} }}\n");
    let both = |one: &str, other: &str| durable("comes", &format!("{one}[[output]]\n{other}"));
    let to = |text: String, to: &str| format!("{text}[[stream]]\nto = [{to}]\n");
    let mut node = Node::start("comes", &durable("comes", &nowhere("near")));
    let mqtt = node.wait_for("MQTT at ");
    node.wait_for("ready");
    let first = publish(&mqtt);
    let text = to(both(&nowhere("near"), &nowhere("far")), "\"near\", \"far\"");
    node.reload("comes", &text);
    let second = publish(&mqtt);
    // Without a name the first output is meant: of those that there are now.
    node.reload("comes", &durable("comes", &nowhere("far")));
    let third = publish(&mqtt);
    let more = both(&nowhere("far"), &sink("near-2", &near));
    node.reload("comes", &to(more, "\"far\", \"near-2\""));
    let fourth = publish(&mqtt);
    wait_until("the output that came to have its record", || lines_in(&near) == 1);
    node.process.kill().unwrap();
    node.end();
    drop((first, second, third, fourth));
    let mut node = Node::start("comes", &durable("comes", &sink("far", &far)));
    wait_until("all that waited to arrive", || lines_in(&far) >= 4);
    node.signal();
    let told = node.wait_for("stopped: ");
    assert!(told.contains("held 0, lost 0"), "{told}");
    assert_eq!((lines_in(&far), lines_in(&near)), (4, 1));
}
