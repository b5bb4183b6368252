//! Replays every file of the fuzz corpora on stable Rust, and holds corpora and targets together.

use std::fs;
use std::path::PathBuf;

#[expect(unreachable_pub, reason = "public to the fuzz targets")]
#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(name)
}

#[test]
fn every_input_of_every_corpus_keeps_the_promises() {
    for (target, run) in fuzz::TARGETS {
        let files = fs::read_dir(folder("corpus").join(target)).unwrap();
        let mut count = 0;
        for file in files.map(|file| file.unwrap().path()) {
            // Shown only if the target panics: then this names the input.
            println!("{target}: {}", file.display());
            run(&fs::read(&file).unwrap());
            count += 1;
        }
        assert!(count > 0, "{target} has no corpus");
    }
}

/// With `TIDEGATE_WRITE_CORPUS=1` this writes the files in place of comparing them.
#[test]
fn the_seeds_are_in_their_corpora() {
    for (target, name, bytes) in fuzz::seeds::seeds() {
        assert!(fuzz::TARGETS.iter().any(|(known, _)| *known == target), "no target {target}");
        let path = folder("corpus").join(target).join(name);
        if std::env::var_os("TIDEGATE_WRITE_CORPUS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &bytes).unwrap();
        }
        let kept = fs::read(&path).unwrap_or_default();
        assert_eq!(kept, bytes, "{target}/{name}: run this with TIDEGATE_WRITE_CORPUS=1");
    }
}

#[test]
fn every_target_can_be_fuzzed() {
    let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
    for (target, _) in fuzz::TARGETS {
        let file = format!("fuzz_targets/{target}.rs");
        assert!(manifest.contains(&format!("name = \"{target}\"\npath = \"{file}\"")), "{target}");
        let call = format!("tidegate_fuzz::{target}(data)");
        assert!(fs::read_to_string(folder(&file)).unwrap().contains(&call), "{target}");
    }
}
