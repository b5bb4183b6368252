//! What `tidegate check` says about wrong files: texts that people read, held as snapshots.

use tidegate::config::read;

fn told(text: &str) -> String {
    read(text).render("node.toml", text)
}

/// The told text is that of the snapshot.
macro_rules! told_is {
    ($text:expr) => {
        let text: &str = $text;
        insta::assert_snapshot!(told(text));
    };
}

#[test]
fn an_empty_file_is_a_right_one() {
    assert_eq!(told(""), "");
}

#[test]
fn unknown_keys_suggest_the_nearest() {
    told_is!(
        r#"
nod = { name = "gate-7" }

[node]
nmae = "gate-7"

[[stream]]
topic = ["factory/#"]
priority = 1

[[output]]
amqp = { url = "amqp://10.0.0.1", exchnage = "telemetry" }
"#
    );
}

#[test]
fn values_of_a_wrong_kind_show_a_right_one() {
    told_is!(
        r#"
[node]
name = 7
scheduler = "natve"
stop_timeout = "10 sec"

[[input]]
mqtt = { listen = "localhost:1883" }

[[class]]
name = "ls"
latency = 50

[[stream]]
topics = "factory/#"
full = "drop-odlest"
accept = "durable"
memory = "16 megs"

[[output]]
sink = { discard = true }
rate = "18 MB/s"

[limits]
connections = -1
"#
    );
}

#[test]
fn names_must_lead_somewhere() {
    told_is!(
        r#"
[[class]]
name = "alarm"
latency = "50ms"
[[class]]
name = "bulk"
latency = "1s"

[[stream]]
topics = ["a/#"]
class = "alram"
to = ["clowd", "archive", "archive"]

[[stream]]
topics = ["b/#"]
class = "ls"

[[output]]
name = "cloud"
amqp = { url = "amqp://10.0.0.1" }
[[output]]
name = "archive"
sink = {}
"#
    );
}

#[test]
fn values_must_be_within_bounds() {
    told_is!(
        r#"
[node]
name = "a/b"

[[input]]
mqtt = {}
replay = { file = "readings.dat", speed = -1, topic = "a/#" }
[[input]]
[[input]]
mqtt = { listen = ["127.0.0.1:1883", "127.0.0.1:7070"] }

[[class]]
name = "nm"
latency = "500ms"
min_share = 0.7
[[class]]
name = "ls"
latency = "50ms"
min_share = 1.5
[[class]]
name = "ls"

[[stream]]
topics = ["a/#/b", "a+"]
latency = "0s"
class = "nm"
to = []
[[stream]]
topics = []

[[output]]
amqp = { url = "amqp://guest:guest@10.0.0.1" }
[[output]]
amqp = { user = "gate", password_env = "A", password_file = "B" }
rate = "2mbit"
law = "bbr"
[[output]]
name = "files"
sink = { files = 0 }
mqtt = { url = "http://10.0.0.1" }
law = "known"

[[output]]
name = "gate"
amqp = { url = "amqp://10.0.0.1", user = "gate" }
uplink = "lte"
[[output]]
name = "site"
mqtt = { url = "mqtt://10.0.0.1", password_env = "A" }
uplink = "lte"

[limits]
memory = "1MiB"
record_max = "1MiB"
"#
    );
}

#[test]
fn hidden_streams_are_warnings() {
    let text = r#"
[[stream]]
topics = ["factory/#"]
class = "ls"
[[stream]]
name = "plc"
topics = ["factory/+/plc/#", "factory/7"]
latency = "20ms"
[[stream]]
topics = ["factory/1/#", "building/#"]
[[stream]]
name = "rest"
block_max = "2s"
full = "reject"
memory = "1GiB"
[[stream]]
topics = ["late"]
"#;
    told_is!(text);
    assert_eq!(read(text).counts(), (0, 5));
}

#[test]
fn syntax_errors_are_all_told() {
    told_is!(
        "[node]\nname = gate-7\n\n[[stream]\nlatency = 50ms\nttl = \n[[output]]\nsink = {}\n\
         sink = {}\nlawn = \"tide\"\n"
    );
}

#[test]
fn values_without_quotes_are_understood() {
    told_is!(
        "[[stream]]\nlatency = 50ms # soon\nttl = \ntopics = [\"a/#\"]\n[[output]]\nname = cloud 7\n\
         sink = { discard = yes }\nrate = auto\n"
    );
}

#[test]
fn tables_and_values_are_not_the_same() {
    told_is!(
        "node = 3\nhttp = []\nstream = {}\n[[output]]\nsink = true\nrate = {}\n[[input]]\nmqtt = [\"[::]:1\"]\n"
    );
}

#[test]
fn a_broken_name_brings_no_false_alarm() {
    told_is!(
        r#"
[[clas]]
name = "alarm"
latency = "50ms"

[[stream]]
class = "alarm"
to = ["cloud"]

[[output]]
nam = "cloud"
amqp = { url = 5 }
"#
    );
}

#[test]
fn long_and_odd_lines_are_shown_in_part() {
    let text =
        format!("# ünïcödé\nname = \"{}\"\n\"\\u001b[31m\" = 1\n\"ü\" = {{ }}", "x".repeat(500));
    told_is!(&text);
}

#[test]
fn a_thousand_mistakes_are_told_as_a_hundred() {
    let text: String = (0..1000).map(|n| format!("key{n} = {n}\n")).collect();
    assert_eq!(read(&text).diagnostics.len(), 100);
}

#[test]
fn tls_users_and_rights_need_each_other() {
    let text = r#"
[[input]]
[input.mqtt]
listen = "0.0.0.0:8883"
tls = { key = "node.key" }
user_from = "certificate"
anonymous = true
allow = [{ user = "plc-*" }, { topics = ["a/#/b"] }]
[[input]]
[input.mqtt]
listen = "0.0.0.0:1883"
users = "users"
allow = []
[[output]]
amqp = { url = "amqps://h", certificate = "a.pem" }
[[input]]
[input.mqtt]
listen = "127.0.0.1:8083"
websocket = { origins = ["*", "desk.example", "https://desk.example/"] }
proxy_protocol = ["10.0.0.0/33"]
[[output]]
mqtt = { url = "mqtt://h", ca = "ca.pem", alpn = "mqtt" }
[[output]]
name = "two"
mqtt = { url = "mqtts://h", alpn = "" }
"#;
    insta::assert_snapshot!(read(text).render("node.toml", text));
}

#[test]
fn files_are_looked_at_only_where_it_is_asked() {
    let text = "[[input]]\n[input.mqtt]\nlisten = \"127.0.0.1:1\"\nusers = \"/nowhere/users\"\n\
                tls = { certificate = \"/nowhere/node.pem\", key = \"/nowhere/node.key\" }\n";
    assert_eq!(read(text).render("node.toml", text), "");
    let told = tidegate::assembly::read_with_files(text).render("node.toml", text);
    for words in ["/nowhere/users: No such file", "/nowhere/node.pem: No such file"] {
        assert!(told.contains(words), "{told}");
    }
}

#[test]
fn links_prove_who_they_are_and_name_their_paths() {
    told_is!(
        r#"
[limits]
record_max = "12MiB"

[[input]]
link = { certificate = "node.pem", window = "16MiB", from = [] }

[[output]]
name = "hq"
law = "bbr"
queue = "20ms"
link = { to = "hq.example", paths = ["wlan0", "a network", "wlan0"] }

[[output]]
name = "beside"
uplink = "hq"
mqtt = { url = "mqtt://10.0.0.2" }
"#
    );
}

#[test]
fn cameras_need_somebody_who_sees_them() {
    let published = told("[[camera]]\nname = \"door\"\n");
    assert!(published.contains("nobody can publish its frames"), "{published}");
    let read = told("[[camera]]\nname = \"door\"\nsource = \"rtsp://door.example/1\"\n");
    assert!(read.contains("nobody can subscribe to its frames"), "{read}");
    let both = "[[camera]]\nname = \"door\"\nsource = \"rtsp://door.example/1\"\n\
                [frames]\nlisten = \"127.0.0.1:7420\"\n";
    assert_eq!(told(both), "");
}

#[test]
fn members_of_a_group_on_other_machines_prove_who_they_are() {
    let here = r#"
[node]
name = "a"
[[placed]]
name = "t"
topics = ["t/#"]
owner = "a"
[group]
listen = "127.0.0.1:7446"
members = [{ name = "b", address = "localhost:7447" }]
"#;
    assert_eq!(told(here), "", "one machine needs no proofs");
    for (from, to) in [("localhost", "10.0.0.2"), ("127.0.0.1", "0.0.0.0")] {
        let open = told(&here.replace(from, to));
        assert!(open.contains("error: group:") && open.contains("prove who they are"), "{open}");
        assert!(open.contains("missing: ca, certificate, key"), "{open}");
    }
    let half = told(&format!("{here}ca = \"ca.pem\"\n"));
    assert!(half.contains("missing: certificate, key"), "{half}");
}
