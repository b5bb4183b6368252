//! Real recordings of links are read, and the model carries what they carried.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_lab::link::{CHANCE, Direction, Options, Outcome, Profile, Service, trace};
use tidegate_types::units::Time;

/// The files of a folder of recordings, or none with the reason printed.
fn files(folder: &str, what: &str) -> Vec<(PathBuf, String)> {
    // Beside the repository, or further up where it is one of several work trees.
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut folders = above.map(|above| above.join("shared/data/net").join(folder));
    let Some(entries) = folders.find_map(|folder| folder.read_dir().ok()) else {
        println!("skipped: needs ../shared/data/net/{folder} ({what}), not found");
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// What a link without propagation carries of full packets, if it always has one, in bytes.
fn carried(service: Service, until: Time) -> u64 {
    let options = Options { service, ..Options::new(1, Duration::ZERO, 2 * CHANCE) };
    let mut link = Direction::new(options, 1);
    let mut now = Time::ZERO;
    (0..2).for_each(|_| link.offer(now, CHANCE, ()));
    while let Some(next) = link.next_timeout().filter(|next| *next <= until) {
        now = next;
        while let Some(Outcome::Arrived { .. }) = link.poll(now) {
            link.offer(now, CHANCE, ());
        }
    }
    link.counts().arrived_bytes
}

#[test]
fn a_mahimahi_recording_is_carried_chance_by_chance() {
    const MILLIS: u64 = 100_000;
    for (path, text) in files("mahimahi", "recorded LTE and UMTS") {
        let chances = text.lines().filter(|line| line.parse::<u64>().unwrap() <= MILLIS).count();
        // Packets of one chance each: two in the queue are enough for any millisecond.
        let bytes = carried(trace::parse(&text).unwrap(), Time::from_millis(MILLIS));
        assert_eq!(bytes, chances as u64 * CHANCE, "{}", path.display());
    }
}

#[test]
fn tables_of_rates_are_carried_as_they_say() {
    let folders = [
        ("norway_hsdpa", "recorded 3G"),
        ("zhuge_wifi_4g_5g", "recorded Wi-Fi, 4G and 5G"),
        ("puffer_2022-02-18", "throughput of video sessions"),
    ];
    for (folder, what) in folders {
        for (path, text) in files(folder, what) {
            let rows: Vec<(f64, f64)> = text
                .lines()
                .map(|line| line.split_whitespace().map(|word| word.parse().unwrap()))
                .map(|mut words| (words.next().unwrap(), words.next().unwrap()))
                .collect();
            // The first five seconds, or what there is of them.
            let (first, last) = (rows[0].0, rows[rows.len() - 1].0);
            let end = last.min(first + 5.0);
            let part = |pair: &[(f64, f64)]| (pair[1].0.min(end) - pair[0].0).max(0.0) * pair[0].1;
            let bytes: f64 = rows.windows(2).map(part).sum::<f64>() * 1e6 / 8.0;
            let service = trace::parse(&text).unwrap();
            assert!(matches!(&service, Service::Rate(profile) if *profile != Profile::constant(0)));
            let seen = carried(service, Time::from_secs_f64(end - first)) as f64;
            // But for the packet on the wire at the end, and whole bits a second.
            let error = (seen - bytes).abs();
            assert!(error <= CHANCE as f64 + 10.0, "{}: {seen}, not {bytes}", path.display());
        }
    }
}
