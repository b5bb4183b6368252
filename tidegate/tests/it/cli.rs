//! The binary as people call it: what it prints and its exit codes.

use std::path::PathBuf;
use std::process::{Command, Output};

fn tidegate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .current_dir(env!("CARGO_TARGET_TMPDIR"))
        .env_remove("TIDEGATE_LOG")
        .output()
        .unwrap()
}

/// A file in the folder in which the binary runs; named by its relative path.
fn file(name: &str, text: &[u8]) -> String {
    std::fs::write(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name), text).unwrap();
    name.to_owned()
}

fn told(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn check_tells_by_its_exit_code() {
    let right = file("right.toml", b"[node]\nname = \"gate-7\"\n");
    let added = "added, as there is no [[input]]: a listener for MQTT clients at 127.0.0.1:1883 and [::1]:1883\n\
                 added, as there is no [[output]]: a sink that writes to ./tidegate-data\n";
    let sink = "output sink confirms a record when its line is synced to this machine's disk\n";
    let out = format!("right.toml: right: a node (tidegate run)\n{added}{sink}");
    assert_eq!(told(&tidegate(&["check", "--text-only", &right])), (0, out, "".into()));

    let hidden = file("hidden.toml", b"[[stream]]\n[[stream]]\ntopics = [\"a\"]\n");
    let (code, out, _) = told(&tidegate(&["check", "--text-only", &hidden]));
    assert_eq!(code, 0);
    let verdict =
        format!("hidden.toml: right, with 1 warning: a node (tidegate run)\n{added}{sink}");
    assert!(out.ends_with(&verdict), "{out}");
    assert_eq!(told(&tidegate(&["check", "--text-only", "--strict", &hidden])).0, 1);

    let outputs = b"[[output]]\namqp = { url = \"amqp://a\", persistent = false }\n\
        [[output]]\nmqtt = { url = \"mqtt://a\" }\n\
        [[output]]\nname = \"away\"\nsink = { discard = true }\n";
    let (_, out, _) = told(&tidegate(&["check", "--text-only", &file("outputs.toml", outputs)]));
    let said = [
        "output amqp confirms a record when the broker confirms it: in its memory\n",
        "output mqtt confirms a record when the broker acknowledges it: in its memory or on disk",
        "output away confirms a record at once: nothing is kept\n",
    ];
    assert!(said.iter().all(|line| out.contains(line)), "{out}");

    let wrong = file("wrong.toml", b"nod = 1\n[http]\nlisten = 7070\n");
    let (code, out, _) = told(&tidegate(&["check", "--text-only", &wrong]));
    assert_eq!(code, 1);
    assert!(
        out.contains("wrong.toml:1:1: error: unknown key \"nod\": did you mean \"node\"?"),
        "{out}"
    );
    assert!(out.contains("wrong.toml: 2 errors: a node"), "{out}");
}

#[test]
fn run_refuses_a_wrong_file_with_the_same_words() {
    let wrong = file("refused.toml", b"[limits]\nmemroy = \"1MiB\"\n");
    let (code, out, error) = told(&tidegate(&["run", "-c", &wrong]));
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(error.contains("refused.toml:2:1: error: limits: unknown key"), "{error}");
}

#[test]
fn files_that_are_no_text_are_told() {
    let (code, _, error) = told(&tidegate(&["check", "missing.toml"]));
    assert_eq!(code, 1);
    assert!(error.starts_with("tidegate: missing.toml: "), "{error}");

    let latin = file("latin.toml", b"# f\xfcr\n");
    let (code, _, error) = told(&tidegate(&["check", &latin]));
    assert_eq!(code, 1);
    assert!(error.contains("latin.toml:1:4: not UTF-8"), "{error}");
}

#[test]
fn wrong_usage_is_code_2() {
    for arguments in
        [&["chek"][..], &["check"], &["demo", "--rate", "fast"], &["--log", "loud", "top"]]
    {
        let (code, out, error) = told(&tidegate(arguments));
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {error}");
        assert!(!error.is_empty());
    }
    assert!(told(&tidegate(&["chek"])).2.contains("check"));
}

#[test]
fn top_names_the_node_that_does_not_answer() {
    // Port 1 of loopback: nobody listens there.
    let (code, _, error) = told(&tidegate(&["top", "127.0.0.1:1", "--once"]));
    assert_eq!(code, 1);
    assert!(error.contains("no node at 127.0.0.1:1"), "{error}");
}

#[test]
fn config_prints_the_reference() {
    let (code, out, _) = told(&tidegate(&["config"]));
    assert_eq!(code, 0);
    assert_eq!(out, tidegate::config::reference::render());
}

#[test]
fn config_prints_schemas_and_the_keys_of_an_orchestrator() {
    let printed = |arguments: &[&str]| {
        let (code, out, error) = told(&tidegate(arguments));
        assert_eq!((code, &*error), (0, ""), "{arguments:?}");
        out
    };
    let has = |arguments: &[&str], section: &str| {
        let schema: serde_json::Value = serde_json::from_str(&printed(arguments)).unwrap();
        schema["properties"][section].is_object()
    };
    let of_orchestrator = ["config", "--schema", "--orchestrator"];
    assert!(has(&["config", "--schema"], "stream") && has(&of_orchestrator, "orchestrator"));
    assert!(!has(&of_orchestrator, "stream"));
    assert!(printed(&["config", "--orchestrator"]).contains("\n#[orchestrator]\n"));
    assert_eq!(told(&tidegate(&["config", "--schema", "--minimal"])).0, 2);
}

#[test]
fn keys_and_users_make_a_secure_node() {
    use std::io::Write;
    use std::process::Stdio;
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let _ = std::fs::remove_dir_all(folder.join("pki"));
    let _ = std::fs::remove_file(folder.join("users"));
    assert_eq!(told(&tidegate(&["keys", "init", "pki"])).0, 0);
    let (code, _, why) = told(&tidegate(&["keys", "init", "pki"]));
    assert!(code == 1 && why.contains("rotate"), "{why}");
    let issue = ["keys", "issue", "pki", "node", "--host", "localhost", "--days", "30"];
    let (code, out, _) = told(&tidegate(&issue));
    assert_eq!((code, &*out), (0, "pki/node.pem and pki/node.key, for 30 days\n"));
    let add = |password: &[u8]| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["user", "add", "users", "plc-7"])
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(password).unwrap();
        told(&child.wait_with_output().unwrap())
    };
    assert_eq!(add(b"secret\n"), (0, "users: plc-7 added\n".into(), "".into()));
    assert_eq!(add(b"other\n").1, "users: plc-7 has a new password\n");
    assert_eq!(add(b"\n").0, 1);
    assert_eq!(told(&tidegate(&["user", "list", "users"])).1, "plc-7\n");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/secure-node.toml");
    let (code, out, _) = told(&tidegate(&["check", "--json", example]));
    assert!(code == 0 && out.contains("\"errors\":0"), "{out}");
    assert_eq!(told(&tidegate(&["user", "remove", "users", "plc-7"])).0, 0);
    assert_eq!(told(&tidegate(&["user", "remove", "users", "plc-7"])).0, 1);
    std::fs::write(folder.join("pki/node.key"), "nothing").unwrap();
    let (code, out, _) = told(&tidegate(&["check", example]));
    assert!(code == 1 && out.contains("pki/node.key: holds no private key"), "{out}");
}
