//! Loads end to end, short: many publishers through a real node, every record verified by each consumer.

use std::process::Command;

/// What the load benchmark says with these options; `None` where it was skipped.
fn load(words: &[&str]) -> Option<String> {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    lab.args(["--results", concat!(env!("CARGO_TARGET_TMPDIR"), "/load"), "bench", "load"]);
    let output = lab.args(words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    // Generated rows in place of real ones are a remark, not a skipped run.
    let skipped =
        text.lines().find(|line| line.starts_with("skipped: ") && !text.contains("FIGURE"));
    if let Some(line) = skipped {
        println!("{line}");
    }
    skipped.is_none().then_some(text)
}

fn figure(text: &str, name: &str) -> f64 {
    let prefix = format!("FIGURE load_{name} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    let value =
        line.and_then(|rest| rest.split(' ').next()).unwrap_or_else(|| panic!("no {name}: {text}"));
    value.parse().unwrap()
}

#[test]
fn a_thousand_publishers_reach_files_rabbitmq_and_mosquitto() {
    for to in ["files", "rabbitmq", "mosquitto"] {
        let words = ["--to", to, "--publishers", "1000", "--per-second", "500", "--seconds", "2"];
        let Some(text) = load(&words) else { return };
        let of = |what: &str| figure(&text, &format!("random_{what}"));
        assert!(of("sent") > 800.0, "{to}: {text}");
        assert_eq!([of("accepted"), of("arrived")], [of("sent"); 2], "{to}: {text}");
        assert_eq!(
            [of("lost_accepted"), of("duplicates"), of("out_of_order")],
            [0.0; 3],
            "{to}: {text}"
        );
    }
}

#[test]
fn rows_of_sensor_data_are_replayed_without_the_data_too() {
    let words = ["--to", "files", "--arrivals", "recorded", "--data", "nowhere"];
    let more = ["--publishers", "30", "--per-second", "300", "--seconds", "2"];
    let Some(text) = load(&[&words[..], &more].concat()) else { return };
    assert!(text.contains("skipped: needs nowhere"), "{text}");
    for set in ["valve", "sys", "taxi"] {
        let of = |what: &str| figure(&text, &format!("{set}_{what}"));
        assert_eq!([of("sent"), of("arrived")], [of("accepted"); 2], "{text}");
        assert!(of("sent") > 100.0, "{text}");
    }
}
