//! The targets of the node, in virtual time, and that a run can be repeated.

use tidegate_lab::sim::{Options, run};

/// The lines of `lab sim` with these words.
fn lab(words: &[&str]) -> Vec<String> {
    run(&Options::parse(words).unwrap()).unwrap()
}

fn figure(lines: &[String], name: &str) -> f64 {
    let start = format!("FIGURE {name} ");
    let line = lines.iter().find_map(|line| line.strip_prefix(&start));
    let value = line.unwrap_or_else(|| panic!("no {name} in {lines:#?}")).split(' ').next();
    value.unwrap().parse().unwrap()
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
        let lines = lab(&["node-hol", "--seed", seed]);
        assert!(figure(&lines, "alarm_p99_tidegate") <= 150.0, "{lines:#?}");
        assert!(figure(&lines, "alarm_p99_polled") <= 150.0, "{lines:#?}");
        assert!(figure(&lines, "alarm_p99_native") >= 1000.0, "{lines:#?}");
        assert!(figure(&lines, "bulk_goodput_ratio") >= 0.95, "{lines:#?}");
        assert!(figure(&lines, "lost_accepted").abs() < 0.5, "{lines:#?}");
    }
}

#[test]
fn node_steps_keeps_its_targets() {
    let lines = lab(&["node-steps"]);
    assert!(figure(&lines, "steps_alarm_p99") <= 150.0, "{lines:#?}");
    let bound = figure(&lines, "steps_drop_bound");
    assert!(figure(&lines, "steps_drop_worst") <= bound, "{lines:#?}");
    assert!(figure(&lines, "steps_share_from_3_s") >= 0.9, "{lines:#?}");
    assert!(figure(&lines, "lost_accepted").abs() < 0.5, "{lines:#?}");
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
        assert!(figure(&lines, &format!("{case}_p99")) <= 150.0, "{case}: {lines:#?}");
        assert!(figure(&lines, &format!("{case}_share")) >= 0.95, "{case}: {lines:#?}");
    }
}

#[test]
fn the_sources_of_a_native_node_wait_behind_each_other() {
    let lines = lab(&["node-hol", "--scheduler", "native"]);
    assert!(figure(&lines, "alarm_p99_native") >= 1000.0, "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("alarm_p99_tidegate")), "{lines:#?}");
}

#[test]
fn mistakes_are_named() {
    let error = |words: &[&str]| match Options::parse(words) {
        Ok(options) => run(&options).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(
        error(&["node-hill"]).contains("\"node-hill\"")
            || error(&["node-hill"]).contains("node-hill")
    );
    assert!(error(&["node-hol", "--law", "tied"]).contains("tide, bbr"));
    assert!(error(&["node-hol", "--sead", "1"]).contains("--sead"));
    assert!(error(&["nowhere.toml"]).contains("cannot read nowhere.toml"));
}
