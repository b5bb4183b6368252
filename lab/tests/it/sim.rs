//! The targets of the node, in virtual time, and that a run can be repeated.

use tidegate_lab::cli::sim;
use tidegate_lab::report::Findings;
use tidegate_lab::sim::{Options, run};

fn options(words: &[&str]) -> Result<Options, clap::Error> {
    sim(words)
}

/// What `lab sim` finds with these words.
fn lab(words: &[&str]) -> Findings {
    let found = run(&options(words).unwrap()).unwrap();
    assert_eq!(found.broken, [""; 0]);
    found
}

fn figure(found: &Findings, name: &str) -> f64 {
    found.value(name).unwrap_or_else(|| panic!("no {name} in {found:#?}"))
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/worlds/van.toml");
    let words = [path, "--seed", "7"];
    assert_eq!(lab(&words), lab(&words));
    assert_ne!(lab(&words), lab(&[path, "--seed", "8"]));
}

#[test]
fn node_hol_keeps_its_targets() {
    for seed in ["1", "2"] {
        let found = lab(&["node-hol", "--seed", seed]);
        assert!(figure(&found, "alarm_p99_tidegate") <= 150.0, "{found:#?}");
        assert!(figure(&found, "alarm_p99_polled") <= 150.0, "{found:#?}");
        assert!(figure(&found, "alarm_p99_native") >= 1000.0, "{found:#?}");
        assert!(figure(&found, "bulk_goodput_ratio") >= 0.95, "{found:#?}");
        assert!(figure(&found, "lost_accepted").abs() < 0.5, "{found:#?}");
    }
}

#[test]
fn node_steps_keeps_its_targets() {
    let found = lab(&["node-steps"]);
    assert!(figure(&found, "steps_alarm_p99") <= 150.0, "{found:#?}");
    let bound = figure(&found, "steps_drop_bound");
    assert!(figure(&found, "steps_drop_worst") <= bound, "{found:#?}");
    assert!(figure(&found, "steps_share_from_3_s") >= 0.9, "{found:#?}");
    assert!(figure(&found, "lost_accepted").abs() < 0.5, "{found:#?}");
    // The disturbances that must not hurt: shape of the feedback, path, idleness.
    for case in [
        "polled_each_5_ms_whole",
        "batched_5_20_ms_whole",
        "batched_18_mbit_s_whole",
        "held_40_of_100_ms_whole",
        "held_18_mbit_s_whole",
        "path_30_80_ms_later",
        "path_50_65_ms_later",
        "path_80_30_ms_later",
        "idle_then_burst_later",
        "idle_falls_to_2_later",
    ] {
        assert!(figure(&found, &format!("{case}_p99")) <= 150.0, "{case}: {found:#?}");
        assert!(figure(&found, &format!("{case}_share")) >= 0.95, "{case}: {found:#?}");
    }
}

#[test]
fn the_sources_of_a_native_node_wait_behind_each_other() {
    let found = lab(&["node-hol", "--scheduler", "native"]);
    assert!(figure(&found, "alarm_p99_native") >= 1000.0, "{found:#?}");
    assert_eq!(found.value("alarm_p99_tidegate"), None, "{found:#?}");
}

#[test]
fn mistakes_are_named() {
    let error = |words: &[&str]| match options(words) {
        Ok(options) => format!("{:#}", run(&options).unwrap_err()),
        Err(error) => error.to_string(),
    };
    assert!(error(&["node-hill"]).contains("node-hill"));
    assert!(error(&["node-hol", "--law", "tied"]).contains("tide, tide-beside, bbr"));
    assert!(error(&["node-hol", "--sead", "1"]).contains("--sead"));
    assert!(error(&["nowhere.toml"]).contains("cannot read nowhere.toml"));
}
