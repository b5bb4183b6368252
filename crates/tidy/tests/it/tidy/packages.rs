//! How many packages a newcomer's first build compiles: `make run` stays within five minutes.

use std::collections::BTreeSet;
use std::process::Command;

/// Packages of the program and of its build scripts when the number was first held (docs/decisions/0094).
const PACKAGES: usize = 192;
/// What came since: how many packages, and why they are worth their seconds.
const RISES: &[(usize, &str)] = &[
    (11, "one core became twelve crates of our own: a room each"),
    (3, "completions and manual pages by the parser's own project (docs/decisions/0104)"),
    (1, "frames of WebSocket by a well-kept codec (docs/decisions/0118)"),
    (15, "certificates and public keys by a well-kept reader of X.509 (docs/decisions/0113)"),
];

/// Every package that `cargo build -p tidegate` compiles here.
fn packages() -> BTreeSet<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    tree.args(["tree", "--locked", "--offline", "--package", "tidegate"]);
    tree.args(["--edges", "normal,build", "--prefix", "none", "--format", "{p}"]);
    let output = tree.output().expect("cargo runs: it runs this test");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names of packages");
    text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

#[test]
fn the_first_build_gains_no_packages_without_a_reason() {
    let packages = packages();
    let limit = PACKAGES + RISES.iter().map(|(count, _)| count).sum::<usize>();
    println!("{} packages (at most {limit})", packages.len());
    assert!(
        packages.len() <= limit,
        "{} packages in place of {limit}: put what is heavy behind a feature, or add to RISES why it is worth it",
        packages.len()
    );
}
