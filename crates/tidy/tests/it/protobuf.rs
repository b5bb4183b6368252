//! The messages of gRPC are generated from their interfaces: what is checked in is what `protox` and `prost` make of them.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// The root of the sources.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// An interface, its package, and the module of its messages.
const INTERFACES: [(&str, &str, &str); 2] = [
    ("fleet.proto", "tidegate.fleet.v1", "tidegate/src/services/fleet/wire/proto.rs"),
    ("frames.proto", "tidegate.frames.v1", "tidegate/src/services/cameras/wire/proto.rs"),
];
/// Writes the modules instead of comparing them.
const WRITE: &str = "TIDEGATE_WRITE_GENERATED";

#[test]
fn messages_are_those_of_their_interfaces() {
    for (file, package, module) in INTERFACES {
        let made = format!(
            "// Made from tidegate/proto/{file} by `{WRITE}=1 cargo test -p tidegate-tidy messages_are`: edit that file.\n{}",
            formatted(&generated(file, package))
        );
        let module = Path::new(ROOT).join(module);
        if env::var_os(WRITE).is_some() {
            fs::write(&module, &made).unwrap();
        }
        let kept = fs::read_to_string(&module).unwrap();
        assert!(kept == made, "{} is not what {file} says: set {WRITE}=1", module.display());
    }
}

fn generated(file: &str, package: &str) -> String {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    fs::create_dir_all(&out).expect("a folder beside the tests");
    let files = protox::compile([file], [Path::new(ROOT).join("tidegate/proto")])
        .expect("an interface that is right");
    prost_build::Config::new()
        .bytes(["."])
        .out_dir(&out)
        .compile_fds(files)
        .expect("messages of it");
    fs::read_to_string(out.join(format!("{package}.rs"))).expect("the messages")
}

fn formatted(code: &str) -> String {
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024", "--config-path"])
        .arg(ROOT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("rustfmt is there");
    rustfmt.stdin.take().expect("a pipe").write_all(code.as_bytes()).expect("it reads");
    let done = rustfmt.wait_with_output().expect("it ends");
    assert!(done.status.success());
    String::from_utf8(done.stdout).expect("text")
}
