//! Replays every file of the fuzz corpora on stable Rust, and seeded mutations of each: the fuzzer's poor cousin, which runs
//! with every test. Holds corpora and targets together.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[expect(unreachable_pub, reason = "public to the fuzz targets")]
#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

/// Mutations of each file of a corpus.
const ROUNDS: usize = 500;
/// The same of targets that make a whole node, a script or a picture of each.
const ROUNDS_OF_SLOW: usize = 10;
const SLOW: [&str; 7] =
    ["config", "frames", "log_scan", "node_ops", "reload", "script_calls", "script_text"];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz").join(name)
}

/// The files of a corpus, in the order of their names.
fn files_of(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = fs::read_dir(folder("corpus").join(target)).unwrap();
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has no corpus");
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn every_input_of_every_corpus_keeps_the_promises() {
    for (target, run) in fuzz::TARGETS {
        for (path, bytes) in files_of(target) {
            // Shown only if the target panics: then this names the input.
            println!("{target}: {}", path.display());
            run(&bytes);
        }
    }
}

/// A small generator of the xorshift kind: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }
}

/// Changes, repeats, inserts or removes bytes, a few times.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    const TELLING: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'A', b'F', 0xce];
    for _ in 0..=random.below(4) {
        let place = random.below(bytes.len() + 1);
        match random.below(6) {
            0 if place < bytes.len() => bytes[place] ^= 1 << random.below(8),
            1 if place < bytes.len() => bytes[place] = TELLING[random.below(8)],
            2 => bytes.truncate(place),
            3 => bytes.insert(place, TELLING[random.below(8)]),
            4 => {
                let end = (place + random.below(16)).min(bytes.len());
                let piece = bytes[place..end].to_vec();
                bytes.splice(place..place, piece);
            }
            _ => {
                let from = random.below(other.len() + 1);
                bytes.splice(place..place, other[from..].iter().copied());
            }
        }
    }
}

/// Says which input it was, if the target panics.
struct Input<'a>(&'a str, &'a [u8]);

impl Drop for Input<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}: {:?}", self.0, self.1);
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// With `TIDEGATE_FUZZ_SECONDS` each target has so long, in place of a number of rounds; `TIDEGATE_FUZZ_TARGET` chooses one,
/// `TIDEGATE_FUZZ_SEED` other mutations.
#[test]
fn mutations_of_every_corpus_keep_the_promises() {
    let time = number_of("TIDEGATE_FUZZ_SECONDS").map(Duration::from_secs);
    let only = std::env::var("TIDEGATE_FUZZ_TARGET").ok().filter(|name| name != "all");
    for (target, run) in fuzz::TARGETS {
        if only.as_ref().is_some_and(|only| only != target) {
            continue;
        }
        let seed = number_of("TIDEGATE_FUZZ_SEED").unwrap_or(0x9e37_79b9_7f4a_7c15).max(1);
        let (files, mut random) = (files_of(target), Random(seed));
        let each = if SLOW.contains(target) { ROUNDS_OF_SLOW } else { ROUNDS };
        let (begin, mut count) = (Instant::now(), 0);
        while time.map_or(count < each * files.len(), |time| begin.elapsed() < time) {
            let (mut bytes, other) =
                (files[count % files.len()].1.clone(), random.below(files.len()));
            mutate(&mut random, &mut bytes, &files[other].1);
            let input = Input(target, &bytes);
            run(input.1);
            count += 1;
        }
        println!("{target}: {count} mutations");
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
