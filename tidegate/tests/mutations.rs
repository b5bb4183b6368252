//! Thousands of seeded mutations of every corpus of what brokers and the far ends of links say, on stable Rust: the fuzzer's
//! poor cousin, which runs with every test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

/// Mutations of each file of a corpus.
const ROUNDS: u64 = 500;

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

fn mutations_of(corpus: &str, run: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(corpus);
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for seed in &seeds {
        for _ in 0..ROUNDS {
            let (mut bytes, other) = (seed.clone(), &seeds[random.below(seeds.len())]);
            mutate(&mut random, &mut bytes, other);
            run(&bytes);
        }
    }
}

#[test]
fn amqp_brokers_may_say_anything() {
    mutations_of("amqp_client", tidegate::output::amqp::fuzz);
}

#[test]
fn mqtt_brokers_may_say_anything() {
    mutations_of("mqtt_client", tidegate::output::mqtt::fuzz);
}

#[test]
fn far_ends_of_links_may_say_anything() {
    mutations_of("link_packets", tidegate_core::testing::hear);
}
