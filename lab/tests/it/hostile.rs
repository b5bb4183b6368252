//! Strangers against the whole program: bytes, refusals, progress and loss; times are for `lab bench hostile`.

use std::process::Command;

/// Attacks one after the other; each has a process of its own and is judged by what can be counted.
fn hold(attacks: &[&str]) {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    let results = format!("{}/hostile-{}", env!("CARGO_TARGET_TMPDIR"), attacks[0]);
    lab.args(["--results", &results, "bench", "hostile", "--short", "--untimed"]).args(attacks);
    let output = lab.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn half_a_connect_and_large_wills_cost_little_and_stop_nobody() {
    hold(&["partial-connects", "wills"]);
}
