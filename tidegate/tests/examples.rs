//! Every example is a right configuration, and every text near one is read without a panic.

use std::path::Path;

use tidegate::assemble::node_options;
use tidegate::config::{read, reference};

#[test]
fn every_example_is_a_whole_node() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let reading = read(&text);
            assert_eq!(reading.render(&path.display().to_string(), &text), "");
            node_options(&reading.config, 1, 1).unwrap();
            seen += 1;
        }
    }
    assert!(seen >= 4, "{seen} examples");
}

/// Numbers without meaning, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

#[test]
fn damaged_files_are_told_and_what_passes_is_a_whole_node() {
    let reference = reference::render();
    let lines: Vec<&str> = reference.lines().filter(|line| !line.starts_with('#')).collect();
    let pieces = [
        "=", "[[", "]]", "\"", "'", "{", "}", "[stream]", "1e999", "nan", "-1", "\u{0}", "ü",
        "true", "[]",
    ];
    let mut numbers = Numbers(1);
    let mut right = 0;
    for _ in 0..2000 {
        let mut text: Vec<String> = lines.iter().map(ToString::to_string).collect();
        for _ in 0..=numbers.below(3) {
            let at = numbers.below(text.len());
            match numbers.below(4) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, lines[numbers.below(lines.len())].into()),
                2 => text[at].push_str(pieces[numbers.below(pieces.len())]),
                _ => {
                    let key = text[at].split('=').next().unwrap_or_default().to_owned();
                    text[at] = format!("{key}= {}", pieces[numbers.below(pieces.len())]);
                }
            }
        }
        let text = text.join("\n");
        let reading = read(&text);
        let _ = reading.render("damaged.toml", &text);
        if reading.counts().0 == 0 {
            node_options(&reading.config, 1, 1).unwrap();
            right += 1;
        }
    }
    assert!((1..2000).contains(&right), "{right}");
}
