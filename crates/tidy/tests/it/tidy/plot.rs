//! The plot of the README is what the table of docs/BENCHMARKS.md gives: `scripts/plot.py` draws it, and
//! is asked here.

use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

const TABLE: &str = "docs/BENCHMARKS.md";

/// Whether the plot agrees with `table`; `None`, saying so, where there is no Python.
#[expect(clippy::print_stdout, reason = "it says what it skips")]
fn agrees(table: &Path) -> Option<bool> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let mut check = Command::new("python3");
    check.arg(root.join("scripts/plot.py")).arg("--check").arg("--table").arg(root.join(table));
    let Ok(output) = check.output() else {
        println!("skipped: needs python3, not found");
        return None;
    };
    print!("{}", String::from_utf8_lossy(&output.stderr));
    Some(output.status.success())
}

#[test]
fn the_plot_shows_what_the_table_says() {
    if let Some(agrees) = agrees(Path::new(TABLE)) {
        assert!(agrees, "scripts/plot.py draws docs/alarms.svg anew");
    }
}

#[test]
fn a_plot_of_another_table_is_found() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let text = fs::read_to_string(root.join(TABLE)).expect("the table can be read");
    let row = "| Tidegate to RabbitMQ | 13 / ";
    assert!(text.contains(row), "the table has Tidegate's row");
    let other = env::temp_dir().join(format!("tidegate-tidy-{}.md", process::id()));
    fs::write(&other, text.replace(row, "| Tidegate to RabbitMQ | 12 / "))
        .expect("a file can be written");
    let found = agrees(&other);
    fs::remove_file(&other).expect("the file is there");
    if let Some(agrees) = found {
        assert!(!agrees, "another figure was not noticed");
    }
}
