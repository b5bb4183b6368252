//! Every configuration that a reader may copy from a document is right.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::assemble::node_options;
use tidegate::config::read;
use tidegate::metrics::{ALL, Metric};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What is wrong with a configuration; nothing if all is well.
fn complaints(file: &str, text: &str) -> String {
    let reading = read(text);
    let told = reading.render(file, text);
    if told.is_empty() {
        node_options(&reading.config, 1, 1).expect("a file without findings makes a node");
    }
    told
}

/// The blocks between ```toml and ```.
fn blocks(document: &str) -> Vec<&str> {
    let parts = document.split("```toml\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default()).collect()
}

#[test]
fn configurations_in_documents_are_right() {
    for document in ["README.md", "docs/SCRIPTS.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let blocks = blocks(&text);
        assert!(!blocks.is_empty(), "{document} shows no configuration");
        for block in blocks {
            assert_eq!(complaints(document, block), "", "{block}");
        }
    }
}

#[test]
fn the_guide_says_of_each_metric_what_the_node_says() {
    let guide = fs::read_to_string(root().join("docs/OPERATING.md")).unwrap();
    for Metric { name, kind, help } in ALL {
        let kind = format!("{kind:?}").to_lowercase();
        let row = format!("| `{name}` | {kind} | {help} |\n");
        assert!(guide.contains(&row), "the guide lacks\n{row}");
    }
}
