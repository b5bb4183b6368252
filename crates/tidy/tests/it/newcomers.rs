//! What a newcomer adds is one file and one line: tried in a copy of the rooms, which is built and run.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::tidy::files::{File, repository};
use crate::tidy::problems;
use crate::tidy::registry;

/// The new file and its text, the file with the list, and the line that it gets behind `mod baselines {`.
const NEWCOMERS: [(&str, &str, &str, &str); 3] = [
    (
        "crates/schedule/src/baselines/newest.rs",
        include_str!("newcomers/newest.rs"),
        "crates/schedule/src/lib.rs",
        r#"            Newest = "newest" in newest: "The newest record first.","#,
    ),
    (
        "crates/capacity/src/baselines/steady.rs",
        include_str!("newcomers/steady.rs"),
        "crates/capacity/src/lib.rs",
        r#"            Steady = "steady" in steady: "Half of the configured rate.","#,
    ),
    (
        "crates/fleet/src/matching/baselines/nobody.rs",
        include_str!("newcomers/nobody.rs"),
        "crates/fleet/src/matching.rs",
        r#"            Nobody = "nobody" in nobody: "Nobody helps anybody.","#,
    ),
];

/// The repository after all three were added.
fn with_newcomers() -> Vec<File> {
    let mut files = repository();
    for (path, text, list, line) in NEWCOMERS {
        let list = files.iter_mut().find(|file| file.path == list).expect("a file with a list");
        list.text = list.text.replacen("mod baselines {", &format!("mod baselines {{\n{line}"), 1);
        files.push(File::new(path, text));
    }
    files
}

#[test]
fn no_rule_asks_a_newcomer_for_another_line() {
    let mut files = with_newcomers();
    let page = registry::page(&files);
    assert!(page.contains("| `newest` |") && page.contains("| `steady` |"), "{page}");
    let old = files.iter_mut().find(|file| file.path == registry::PAGE).expect("the page");
    old.text = page;
    let problems = problems(&files);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn newcomers_of_one_file_and_one_line_run() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("newcomers");
    let copy = target.join("copy");
    let workspace = |file: &File| {
        let members = r#"["crates/*", "tidegate", "lab", "lab/engine", "lab/papers"]"#;
        file.text.replace(members, r#"["crates/*", "newcomers"]"#)
    };
    let is_wanted = |file: &&File| file.path.starts_with("crates/") || file.path == "Cargo.toml";
    for file in with_newcomers().iter().filter(is_wanted) {
        let text = if file.path == "Cargo.toml" { workspace(file) } else { file.text.clone() };
        write(&copy.join(&file.path), &text);
    }
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
    write(&copy.join("Cargo.lock"), &fs::read_to_string(lock).unwrap());
    let manifest = "[package]\nname = \"newcomers\"\nedition.workspace = true\n\n[dependencies]\n\
                    tidegate-capacity.workspace = true\ntidegate-fleet.workspace = true\n\
                    tidegate-schedule.workspace = true\ntidegate-types.workspace = true\n";
    write(&copy.join("newcomers/Cargo.toml"), manifest);
    write(&copy.join("newcomers/src/main.rs"), include_str!("newcomers/main.rs"));
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--offline", "-p", "newcomers"]).current_dir(&copy);
    let status = cargo.env("CARGO_TARGET_DIR", &target).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Writes a file unless it is as it must be, so that a second run builds only what changed.
fn write(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    let folder = path.parent().expect("a file in a folder");
    fs::create_dir_all(folder).expect("a folder for the copy");
    fs::write(path, text).expect("a file of the copy can be written");
}
