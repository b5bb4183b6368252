//! Every example is a right configuration, and every text near one is read without a panic.

use std::path::Path;

use tidegate::assembly::node_options;
use tidegate::config::{read, reference};
use tidegate::services::operators::chain;
use tidegate_stream::{Item, ItemContent};
use tidegate_types::units::Time;

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
    let reference = reference::with_samples();
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

/// What the operator of this name in an example makes of payloads, and how many it could not work on.
fn operated(example: &str, name: &str, payloads: &[String]) -> (Vec<serde_json::Value>, usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join("examples").join(example)).expect("the example");
    let here = format!("\"{}/examples/", root.display());
    let reading = read(&text.replace("\"examples/", &here));
    let operator = reading.config.operator.iter().find(|operator| operator.label() == name);
    let mut work = chain(operator.expect("it is there")).expect("right steps").start();
    let (mut out, mut failed) = (Vec::new(), 0);
    for payload in payloads {
        let content = ItemContent::Payload(payload.clone().into());
        for item in work.run(Item { at: Time::ZERO, content }, |_| failed += 1) {
            out.push(serde_json::from_slice(&item.into_payload()).expect("JSON"));
        }
    }
    (out, failed)
}

/// The rides of the sample, if it is there.
fn rides() -> Option<Vec<String>> {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut files =
        above.map(|folder| folder.join("shared/data/iot/riotbench/TAXI_sample_data_senml.csv"));
    let Some(text) = files.find_map(|file| std::fs::read_to_string(file).ok()) else {
        eprintln!("skipped: needs ../shared/data/iot/riotbench (RIoTBench's samples), not found");
        return None;
    };
    let line = |line: &str| line.split_once(',').map(|(_, pack)| pack.to_owned());
    Some(text.lines().filter_map(line).collect())
}

/// The number in an entry of a ride, read without our parser.
fn entry(ride: &str, name: &str) -> f64 {
    let pack: serde_json::Value = serde_json::from_str(ride).expect("JSON");
    let entries = pack["e"].as_array().expect("entries");
    let entry = entries.iter().find(|entry| entry["n"] == name).expect("an entry of this name");
    entry["v"].as_str().and_then(|text| text.parse().ok()).expect("a number")
}

#[test]
fn the_dataflows_of_riotbench() {
    let Some(rides) = rides() else { return };
    let is_sane = |ride: &&String| {
        (0.1..=50.0).contains(&entry(ride, "trip_distance"))
            && (2.5..=200.0).contains(&entry(ride, "fare_amount"))
    };
    let (clean, failed) = operated("riotbench.toml", "etl", &rides);
    assert_eq!((clean.len(), failed), (rides.iter().filter(is_sane).count(), 0));
    for pack in &clean {
        let entries = pack.as_array().unwrap();
        for name in ["payment", "cashless", "taxi_city", "tip_amount"] {
            assert!(entries.iter().any(|entry| entry["n"] == name), "{name} in {pack}");
        }
        assert!(entries[0]["bt"].is_number());
    }
    let (trend, failed) = operated("riotbench.toml", "stats-trend", &rides);
    assert_eq!((trend.len(), failed), (rides.len(), 0));
    let (taxis, failed) = operated("riotbench.toml", "stats-taxis", &rides);
    assert_eq!((taxis.len(), failed), (rides.len() / 100, 0));
    assert!(taxis.iter().all(|row| (1..=100).contains(&row["taxis"].as_u64().unwrap())));
    let (moments, failed) = operated("riotbench.toml", "stats-moment", &rides);
    assert_eq!((moments.len(), failed), (rides.len() / 100, 0));
    let (predicted, failed) = operated("riotbench.toml", "pred", &rides);
    assert_eq!((predicted.len(), failed), (rides.len(), 0));
    let off = predicted.iter().map(|row| {
        (row["fare_predicted"].as_f64().unwrap() - row["fare_amount"].as_f64().unwrap()).abs()
    });
    let off = off.sum::<f64>() / rides.len() as f64;
    let fare =
        rides.iter().map(|ride| entry(ride, "fare_amount")).sum::<f64>() / rides.len() as f64;
    assert!(off < fare / 4.0, "predictions of {fare} are off by {off}");
}

#[test]
fn a_region_of_taxis_hears_how_fast_they_are() {
    let gps = |taxi: u32, speed: u32| {
        format!("{{\"taxi\":\"t-{taxi}\",\"lat\":40.7512,\"lon\":-73.9871,\"speed\":{speed}}}")
    };
    let payloads = [gps(1, 7), gps(2, 9), gps(3, 99), gps(1, 11), gps(4, 5)];
    let (out, failed) = operated("taxi.toml", "traffic", &payloads);
    assert_eq!((out, failed), (vec![serde_json::json!({ "mean_speed": 8 })], 0));
}

#[test]
fn areas_that_earn_much_and_have_few_empty_taxis_are_profitable() {
    let ride = |taxi: &str, at: u32, from: &str, to: &str, earned: u32| {
        format!(
            "{{\"taxi\":\"{taxi}\",\"at\":{at},\"from\":\"{from}\",\"to\":\"{to}\",\"earned\":{earned}}}"
        )
    };
    // From a 10 and 30 are earned, from b 15. Two taxis stand in a, one in b: 10 a taxi and 15. Then one leaves a; after a
    // quarter of an hour only the last ride counts.
    let rides = [
        ride("1", 0, "1-1", "1-1", 10),
        ride("2", 10, "1-1", "1-1", 30),
        ride("3", 20, "2-2", "2-2", 15),
        ride("2", 30, "1-1", "3-3", 20),
        ride("4", 1000, "2-2", "2-2", 8),
    ];
    let (out, failed) = operated("taxi.toml", "profitable", &rides);
    let areas: Vec<_> = out.iter().map(|row| row["areas"].as_str().unwrap()).collect();
    assert_eq!((areas, failed), (vec!["1-1", "2-2 1-1", "1-1 2-2", "2-2"], 0));
}
