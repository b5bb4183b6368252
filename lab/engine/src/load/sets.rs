//! Sensor data to replay: real rows at their own times where they are at hand, else a generated set of the
//! same sizes and rates.

use std::path::Path;

use anyhow::{Context, ensure};

/// Rows of one kind of sensor, published by one client.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// Name of the client, of the stream and of the last level of the topic.
    pub name: &'static str,
    /// Name of the class that should carry it.
    pub class: &'static str,
    pub rows: Vec<String>,
    /// When each came, in seconds since the first.
    pub times: Vec<f64>,
    /// Whether the rows are real.
    pub is_real: bool,
}

/// Where rows come from, and what they are like.
struct Source {
    name: &'static str,
    class: &'static str,
    /// Below the folder of data.
    file: &'static str,
    /// Finds the payload in a line of the file; `None` for a line that is no row.
    payload: fn(&str) -> Option<&str>,
    /// Reads when the row of such a line came, in seconds since some moment.
    time: fn(&str) -> Option<f64>,
    /// Mean bytes of a real payload.
    size: usize,
    /// Real rows come so many at once, so many seconds apart.
    burst: (usize, f64),
}

const SOURCES: [Source; 3] = [
    // Factory: eight values a second of a water circulation; the first line names them.
    Source {
        name: "valve",
        class: "ls",
        file: "iot/skab_valve/valve1_0.csv",
        payload: |line| line.starts_with(char::is_numeric).then_some(line),
        time: of_day,
        size: 95,
        burst: (1, 1.0),
    },
    Source {
        name: "sys",
        class: "lt",
        file: SYS,
        payload: senml,
        time: epoch_ms,
        size: 366,
        burst: (17, 1.0),
    },
    Source {
        name: "taxi",
        class: "lt",
        file: TAXI,
        payload: senml,
        time: epoch_ms,
        size: 858,
        burst: (4, 60.0),
    },
];
const SYS: &str = "iot/riotbench/SYS_sample_data_senml.csv";
const TAXI: &str = "iot/riotbench/TAXI_sample_data_senml.csv";
/// Rows of a generated set.
const GENERATED_ROWS: usize = 1000;

/// A line is the time, a comma, and a SenML document.
fn senml(line: &str) -> Option<&str> {
    line.split_once(',').map(|(_, document)| document)
}

/// The milliseconds before the first comma.
fn epoch_ms(line: &str) -> Option<f64> {
    line.split_once(',')?.0.parse::<f64>().ok().map(|ms| ms / 1000.0)
}

/// The time of day in `2020-03-09 10:14:33;..`: the recording is of an hour of one day.
fn of_day(line: &str) -> Option<f64> {
    let time = line.split_once(';')?.0.split_once(' ')?.1;
    let parts: Result<Vec<f64>, _> = time.split(':').map(str::parse).collect();
    let parts = parts.ok().filter(|parts| parts.len() == 3)?;
    Some(parts.into_iter().fold(0.0, |sum, part| sum * 60.0 + part))
}

/// Reads all sets from below a folder.
///
/// # Errors
/// A file is there and cannot be read, or has no rows.
pub fn load(folder: &Path) -> anyhow::Result<Vec<Set>> {
    SOURCES.iter().map(|source| source.load(folder)).collect()
}

impl Source {
    fn load(&self, folder: &Path) -> anyhow::Result<Set> {
        let file = folder.join(self.file);
        let is_real = file.exists();
        let (rows, times): (Vec<String>, Vec<f64>) = if is_real {
            let text = std::fs::read_to_string(&file);
            let text = text.with_context(|| format!("reading {}", file.display()))?;
            let row = |line| Some(((self.payload)(line)?.to_owned(), (self.time)(line)?));
            text.lines().filter_map(row).unzip()
        } else {
            let (at_once, every) = self.burst;
            let time = |row| (row / at_once) as f64 * every;
            (0..GENERATED_ROWS).map(|row| (self.generate(row), time(row))).unzip()
        };
        ensure!(!rows.is_empty(), "no rows in {}", file.display());
        let first = times[0];
        let times = times.into_iter().map(|time| time - first).collect();
        Ok(Set { name: self.name, class: self.class, rows, times, is_real })
    }

    /// A SenML document near the real size, a fifth smaller or larger; the same one for the same row.
    fn generate(&self, row: usize) -> String {
        let size = self.size * (80 + row * 37 % 41) / 100;
        let mut text = format!("{{\"e\":[{{\"n\":\"source\",\"sv\":\"{}-{row}\"}}", self.name);
        for place in 0.. {
            let value = (row * 131 + place * 977) % 10_000;
            let entry = format!(",{{\"n\":\"value-{place}\",\"v\":\"{value}\"}}");
            if text.len() + entry.len() + 2 > size {
                break;
            }
            text += &entry;
        }
        text + "]}"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::arrivals::Recording;

    #[test]
    fn a_generated_set_has_the_sizes_of_the_real_one() {
        let sets = load(Path::new("/nonexistent")).unwrap();
        for (set, source) in sets.iter().zip(&SOURCES) {
            let mean = set.rows.iter().map(String::len).sum::<usize>() / set.rows.len();
            assert!(!set.is_real && mean.abs_diff(source.size) < source.size / 5, "{mean}");
            assert!(set.rows.iter().all(|row| !row.contains('\n')));
            let rate = Recording::new(set.times.clone()).unwrap().rate();
            let (at_once, every) = source.burst;
            assert!((rate * every / at_once as f64 - 1.0).abs() < 0.03, "{rate}");
        }
        assert_eq!(sets, load(Path::new("/nonexistent")).unwrap());
    }

    #[test]
    fn real_sets_are_found() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        if !folder.join(SYS).exists() {
            println!("skipped: needs ../shared/data/iot (real sensor data), not found");
            return;
        }
        let sets = load(&folder).unwrap();
        let counts: Vec<usize> = sets.iter().map(|set| set.rows.len()).collect();
        assert!(counts.iter().all(|count| *count >= 999), "{counts:?}");
        assert!(sets.iter().all(|set| set.is_real));
        let rates: Vec<f64> =
            sets.iter().map(|set| Recording::new(set.times.clone()).unwrap().rate()).collect();
        // What generated rows take over from them.
        assert!(
            rates.iter().zip(&SOURCES).all(|(rate, source)| {
                let (at_once, every) = source.burst;
                (rate * every / at_once as f64 - 1.0).abs() < 0.15
            }),
            "{rates:?}"
        );
        assert!(sets[1].rows.iter().all(|row| row.starts_with('{') && row.ends_with('}')));
    }
}
