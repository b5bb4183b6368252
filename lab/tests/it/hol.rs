//! The head-of-line benchmark end to end, short: that it measures at all, and leaves nothing behind.

use std::process::Command;

/// What the benchmark says of a contestant under two seconds of load; `None` where it was skipped.
fn bench(contestant: &str) -> Option<String> {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    lab.args(["--results", concat!(env!("CARGO_TARGET_TMPDIR"), "/hol")]);
    lab.args(["bench", "hol", "--seconds", "2", "--drain", "20", "--only", contestant]);
    let output = lab.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let skipped = text.lines().find(|line| line.starts_with("skipped: "));
    if let Some(line) = skipped {
        println!("{line}");
    }
    skipped.is_none().then_some(text)
}

fn figure(text: &str, name: &str) -> f64 {
    let prefix = format!("FIGURE {name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    let value =
        line.and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("no {name}: {text}"));
    value.parse().unwrap()
}

/// All of two seconds' load arrived, once.
fn all_arrived(contestant: &str) {
    let Some(text) = bench(contestant) else { return };
    let name = contestant.replace('-', "_");
    let of = |what: &str| figure(&text, &format!("hol_{name}_{what}"));
    assert_eq!([of("alarm_sent"), of("alarm_accepted"), of("alarm_got")], [10.0; 3], "{text}");
    assert_eq!([of("bulk_sent"), of("bulk_accepted"), of("bulk_got")], [40.0; 3], "{text}");
    assert_eq!([of("alarm_duplicates"), of("bulk_lost_accepted")], [0.0; 2], "{text}");
    assert!(of("alarm_p99") > 0.0);
}

#[test]
fn mosquittos_bridge_is_measured_and_loses_nothing() {
    all_arrived("mosquitto-bridge");
}

#[test]
fn the_forwarder_to_rabbitmq_is_measured_and_loses_nothing() {
    all_arrived("mosquitto-forwarder");
}

#[test]
fn nats_is_measured_with_and_without_a_stream() {
    all_arrived("nats-leaf");
    all_arrived("nats-stream");
}

#[test]
fn zenoh_is_measured() {
    all_arrived("zenoh");
}

#[test]
fn tidegate_carries_the_same_load_to_rabbitmq_and_loses_nothing() {
    all_arrived("tidegate");
}
