//! A run is kept, and the page shows it.

use std::path::Path;
use std::process::{Command, Output};

fn lab(results: &Path, words: &[&str]) -> Output {
    let mut lab = Command::new(env!("CARGO_BIN_EXE_lab"));
    lab.current_dir(results.parent().unwrap()).arg("--results").arg(results).args(words);
    lab.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_run_is_kept_and_shown_and_the_history_only_grows_when_asked() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("report");
    // What an earlier run of this test left.
    let _ = std::fs::remove_dir_all(&folder);
    let results = folder.join("results");
    std::fs::create_dir_all(folder.join("bench")).unwrap();
    let nothing = lab(&results, &["report"]);
    assert!(!nothing.status.success() && text(&nothing.stderr).contains("no results in"));

    let run = lab(&results, &["sim", "node-hol", "--seed", "7", "--scheduler", "tidegate"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stderr).contains("kept as"), "{}", text(&run.stderr));
    let report = lab(&results, &["report"]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = std::fs::read_to_string(results.join("report.md")).unwrap();
    for part in [
        "## `lab sim node-hol --seed 7 --scheduler tidegate`",
        "seed 7",
        "| `alarm_p99_tidegate` |",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    assert!(!folder.join("bench/history.jsonl").exists(), "nobody asked for a line");

    let broken = lab(&results, &["sim", "no-such-scenario"]);
    assert!(!broken.status.success());
    assert_eq!(std::fs::read_dir(&results).unwrap().count(), 2, "a run, and the page");
}

#[test]
fn figures_of_a_debug_build_are_not_recorded() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record");
    std::fs::create_dir_all(folder.join("bench")).unwrap();
    let words = ["--record", "sim", "node-hol", "--scheduler", "tidegate"];
    let run = lab(&folder.join("results"), &words);
    let lines = std::fs::read_to_string(folder.join("bench/history.jsonl")).unwrap_or_default();
    if cfg!(debug_assertions) {
        assert!(text(&run.stderr).contains("release builds"), "{}", text(&run.stderr));
        assert_eq!((run.status.success(), lines.len()), (false, 0));
    } else {
        assert!(run.status.success() && lines.contains("alarm_p99_tidegate"), "{lines}");
    }
}
