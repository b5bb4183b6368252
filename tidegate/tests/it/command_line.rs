//! What a newcomer asks of the command line: one way to name a file, every kind of file checked, and told the truth
//! before the start.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A folder of its own for a test, empty at first.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("command-line-{name}"));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        name.to_owned()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(arguments).current_dir(&self.0).env_remove("TIDEGATE_LOG");
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        told(&self.command(arguments).output().unwrap())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.command(arguments).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The exit code and all that was said.
fn told(output: &Output) -> (i32, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}

/// A node that uses nothing of the machine.
const QUIET: &str = "[http]\nlisten = []\n[[input]]\nmqtt.listen = \"127.0.0.1:0\"\n\
                     [[output]]\nsink = { discard = true }\n";

#[test]
fn the_first_step_of_the_guide_yields_a_right_file() {
    let folder = Folder::new("first-step");
    for arguments in [&["config"][..], &["config", "--minimal"]] {
        let (code, text) = folder.run(arguments);
        assert_eq!(code, 0);
        let file = folder.file("node.toml", &text);
        let report = folder.json(&["check", "--json", &file]);
        assert_eq!(report["errors"], 0, "{report}");
        let report = folder.json(&["check", "--json", "--text-only", &file]);
        assert_eq!(report["findings"], Value::Array(Vec::new()));
    }
}

#[test]
fn a_file_is_named_in_the_same_way_everywhere() {
    let folder = Folder::new("one-name");
    let node = folder.file("node.toml", "[log]\ndirectory = \"log\"\nkey = 1\n");
    let fleet = folder.file("fleet.toml", "[orchestrator]\nkeys = 1\n");
    let proxy = folder.file("proxy.toml", "[[proxy.listener]]\nlisten = 1\n");
    let topics = folder.file("topics.toml", "[[topic]]\nname = 1\n");
    for (command, file, words) in [
        (&["check"][..], &node, "log: unknown key \"key\""),
        (&["run"], &node, "log: unknown key \"key\""),
        (&["place"], &node, "log: unknown key \"key\""),
        (&["log", "ls"], &node, "log: unknown key \"key\""),
        (&["log", "verify"], &node, "log: unknown key \"key\""),
        (&["fleet", "status"], &node, "log: unknown key \"key\""),
        (&["fleet", "grants"], &fleet, "orchestrator: unknown key \"keys\""),
        (&["orchestrate"], &fleet, "orchestrator: unknown key \"keys\""),
        (&["check"], &fleet, "orchestrator: unknown key \"keys\""),
        (&["proxy"], &proxy, "proxy.toml:2:"),
        (&["ext-proc"], &proxy, "proxy.toml:2:"),
        (&["envoy-config"], &proxy, "proxy.toml:2:"),
        (&["plan"], &topics, "topics.toml"),
    ] {
        for way in [&[file.as_str()][..], &["-c", file], &["--config", file]] {
            let (code, said) = folder.run(&[command, way].concat());
            assert!(code == 1 || command == ["log", "verify"] && code == 2, "{command:?}: {said}");
            assert!(said.contains(words), "{command:?} {way:?}: {said}");
        }
        let (code, _) = folder.run(&[command, &[file.as_str(), "-c", file]].concat());
        assert_eq!(code, 2, "{command:?}: two files are too many");
    }
    for (command, rest) in
        [("move", &["a", "--to", "b"][..]), ("drain", &["a"]), ("explain", &["--topic", "a"])]
    {
        let (code, said) = folder.run(&[&[command], rest, &["-c", &node]].concat());
        assert!(code == 1 && said.contains("unknown key \"key\""), "{command}: {said}");
    }
}

#[test]
fn every_kind_of_file_is_known_and_checked() {
    let folder = Folder::new("kinds");
    let ok = |name: &str, text: &str, kind: &str| {
        let report = folder.json(&["check", "--json", "--text-only", &folder.file(name, text)]);
        assert_eq!((&report["kind"], &report["errors"]), (&kind.into(), &0.into()), "{report}");
    };
    ok("node.toml", QUIET, "node");
    let proxy = "[[proxy.listener]]\nlisten = \"127.0.0.1:8080\"\n[[proxy.upstream]]\nname = \"a\"\n\
                 to = [\"127.0.0.1:3000\"]\n[[proxy.route]]\nto = \"a\"\n";
    ok("proxy.toml", proxy, "proxy");
    ok("both.toml", &format!("{QUIET}{proxy}"), "node-and-proxy");
    let files = "ca = \"a\"\ncertificate = \"b\"\nkey = \"c\"\n";
    ok("fleet.toml", &format!("[orchestrator]\n{files}"), "orchestrator");
    let topic =
        "[[topic]]\nname = \"a\"\nrate = 40\nwork = \"12ms\"\nbound = \"300ms\"\nsubscribers = 1\n";
    ok("topics.toml", topic, "plan");
    ok("right.luau", "function on_message(h)\nend\n", "script");
    let wrong = |name: &str, text: &str, words: &str| {
        let (code, said) = folder.run(&["check", &folder.file(name, text)]);
        assert!(code == 1 && said.contains(words), "{said}");
    };
    wrong("wrong.luau", "function on_message(h\n", "a script");
    wrong("wrong-topics.toml", "[[topic]]\nname = \"a\"\n", "topics and nodes");
    wrong("world.toml", "hosts = [\"edge\"]\n", "lab sim");
}

#[test]
fn a_file_for_another_command_is_told_which_one() {
    let folder = Folder::new("other-command");
    let fleet = folder.file("fleet.toml", "[orchestrator]\n");
    let (code, said) = folder.run(&["run", &fleet]);
    assert!(code == 1 && said.contains("an orchestrator (tidegate orchestrate)"), "{said}");
    let node = folder.file("node.toml", QUIET);
    let (code, said) = folder.run(&["orchestrate", &node]);
    assert!(code == 1 && said.contains("a node (tidegate run)"), "{said}");
    // With an upstream that is wrong the command ends before it starts, after it has told its warnings.
    let both = format!(
        "{QUIET}[[proxy.listener]]\nlisten = \"127.0.0.1:0\"\n[[stream]]\nto = [\"gone\"]\n"
    );
    let (code, said) = folder.run(&["run", &folder.file("both.toml", &both)]);
    assert!(
        code == 1 && said.contains("warning: proxy: `tidegate run` leaves this section aside"),
        "{said}"
    );
    let (_, said) = folder.run(&["proxy", "both.toml"]);
    assert!(said.contains("warning: input: `tidegate proxy` leaves this section aside"), "{said}");
}

#[test]
fn what_fails_at_the_start_is_told_before() {
    let folder = Folder::new("before");
    let report = |text: &str| folder.json(&["check", "--json", &folder.file("node.toml", text)]);
    let finding = |report: &Value| {
        let found = &report["findings"][0];
        assert_eq!(report["findings"].as_array().unwrap().len(), 1, "{report}");
        let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
        (text("severity"), text("key"), text("text"))
    };
    let clean = report(QUIET);
    assert_eq!(clean["findings"], Value::Array(Vec::new()));
    assert_eq!(clean["tried"]["addresses"], 1);
    let variable = "[[output]]\nname = \"b\"\namqp = { url = \"amqp://b\", user = \"u\", password_env = \"TIDEGATE_UNSET\" }\n";
    let (severity, key, text) = finding(&report(&format!("{QUIET}{variable}")));
    assert_eq!((severity.as_str(), key.as_str()), ("warning", "output.amqp.password_env"));
    assert!(text.contains("TIDEGATE_UNSET is not set here"), "{text}");
    let log = "[log]\ndirectory = \"/proc/none/log\"\n";
    let (severity, key, text) = finding(&report(&format!("{QUIET}{log}")));
    assert_eq!((severity.as_str(), key.as_str()), ("error", "log.directory"));
    assert!(text.contains("cannot be made"), "{text}");
    let twice = QUIET.replace("\"127.0.0.1:0\"", "[\"0.0.0.0:18831\", \"127.0.0.1:18831\"]");
    let said = folder.run(&["check", &folder.file("twice.toml", &twice)]).1;
    assert!(said.contains("error: input.mqtt.listen: 127.0.0.1:18831 and 0.0.0.0:18831"), "{said}");
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let (severity, _, text) =
        finding(&report(&QUIET.replace("127.0.0.1:0", &format!("127.0.0.1:{port}"))));
    assert!(severity == "warning" && text.contains("in use by another process"), "{text}");
    let alone = folder.json(&["check", "--json", "--text-only", "node.toml"]);
    assert_eq!((&alone["errors"], &alone["tried"]), (&0.into(), &Value::Null));
}

#[test]
fn certificates_are_tried_and_must_lead_to_their_authority() {
    let folder = Folder::new("certificates");
    for authority in ["one", "two"] {
        assert_eq!(folder.run(&["keys", "init", authority]).0, 0);
        assert_eq!(folder.run(&["keys", "issue", authority, "gate", "--host", "localhost"]).0, 0);
    }
    let link = |ca: &str, key: &str| {
        let text = format!(
            "{QUIET}[[input]]\nlink = {{ listen = \"127.0.0.1:0\", ca = \"{ca}/ca.pem\", \
             certificate = \"one/gate.pem\", key = \"{key}\" }}\n"
        );
        folder.json(&["check", "--json", &folder.file("node.toml", &text)])
    };
    let right = link("one", "one/gate.key");
    assert_eq!(right["findings"], Value::Array(Vec::new()), "{right}");
    let stranger = link("two", "one/gate.key");
    let text = stranger["findings"][0]["text"].as_str().unwrap();
    assert!(text.contains("not signed by an authority of two/ca.pem"), "{text}");
    let crossed = link("one", "two/gate.key");
    assert_eq!(crossed["errors"], 1);
    let text = crossed["findings"][0]["text"].as_str().unwrap();
    assert!(text.contains("another key than the certificate's"), "{text}");
}

#[test]
fn a_broker_by_tls_is_believed_by_what_the_system_trusts() {
    let folder = Folder::new("roots");
    assert_eq!(folder.run(&["keys", "init", "pki"]).0, 0);
    let output = "[[output]]\nname = \"cloud\"\nmqtt.url = \"mqtts://broker.example\"\n";
    let file = folder.file("node.toml", &format!("{QUIET}{output}"));
    let check = |bundle: &str| {
        let mut command = folder.command(&["check", &file]);
        told(&command.env("SSL_CERT_FILE", bundle).output().unwrap())
    };
    let (code, said) = check("pki/ca.pem");
    assert!(code == 0 && said.contains("node.toml: right: "), "{said}");
    let (code, said) = check("nowhere.pem");
    assert!(code == 1 && said.contains("no public authorities are here"), "{said}");
    assert!(said.contains("ca-certificates"), "{said}");
}

#[test]
fn an_open_listener_without_a_login_is_warned_of() {
    let folder = Folder::new("open");
    let warnings = |mqtt: &str| {
        let text = QUIET.replace("mqtt.listen = \"127.0.0.1:0\"", mqtt);
        folder.json(&["check", "--json", "--text-only", &folder.file("node.toml", &text)])
    };
    for open in ["0.0.0.0:0", "[::]:0", "10.0.0.1:0"] {
        let report = warnings(&format!("mqtt.listen = \"{open}\""));
        assert_eq!(report["warnings"], 1, "{report}");
        assert!(report["findings"][0]["text"].as_str().unwrap().contains("without a login"));
    }
    let tls = "{ certificate = \"a\", key = \"b\", client_ca = \"c\" }";
    for closed in [
        "mqtt.listen = [\"127.0.0.1:0\", \"[::1]:0\"]".to_owned(),
        "mqtt = { listen = \"0.0.0.0:0\", anonymous = true }".to_owned(),
        format!("mqtt = {{ listen = \"0.0.0.0:0\", tls = {tls} }}"),
    ] {
        assert_eq!(warnings(&closed)["warnings"], 0, "{closed}");
    }
}

#[test]
fn a_file_of_cameras_opens_no_listener_for_mqtt() {
    let folder = Folder::new("cameras");
    let cameras = "[frames]\nlisten = \"127.0.0.1:0\"\n[[camera]]\nname = \"door\"\n";
    let file = folder.file("cameras.toml", cameras);
    let report = folder.json(&["check", "--json", "--text-only", &file]);
    let notes = report["notes"].to_string();
    assert!(!notes.contains("1883") && notes.contains("a sink"), "{report}");
}

#[test]
fn completions_and_pages_come_from_the_program() {
    let folder = Folder::new("shell");
    for (shell, words) in
        [("bash", "complete -F"), ("zsh", "#compdef tidegate"), ("fish", "complete -c tidegate")]
    {
        let (code, text) = folder.run(&["completions", shell]);
        assert!(code == 0 && text.contains(words) && text.contains("orchestrate"), "{shell}");
    }
    assert_eq!(folder.run(&["man", "deep/man1"]).0, 0);
    let page = std::fs::read_to_string(folder.0.join("deep/man1/tidegate-check.1")).unwrap();
    assert!(page.contains("\\-\\-text\\-only") && page.contains("Exits with 0"), "{page}");
    assert!(folder.0.join("deep/man1/tidegate-log-ls.1").exists());
}
