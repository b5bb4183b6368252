//! What the demo replays: real sensor data where it is at hand, else a generated set of the same sizes.

use std::path::Path;

use anyhow::{Context, ensure};

/// Rows of one kind of sensor, published by one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Set {
    /// Name of the client, of the stream and of the last level of the topic.
    pub(super) name: &'static str,
    /// Name of the class that should carry it.
    pub(super) class: &'static str,
    /// One payload each.
    pub(super) rows: Vec<String>,
    /// Whether the rows are real.
    pub(super) is_real: bool,
}

/// Where rows come from, and what they are like.
struct Source {
    name: &'static str,
    class: &'static str,
    /// Below the folder of data.
    file: &'static str,
    /// Finds the payload in a line of the file; `None` for a line that is no row.
    payload: fn(&str) -> Option<&str>,
    /// Mean bytes of a real payload.
    size: usize,
}

/// The alarms first.
const SOURCES: [Source; 3] = [
    // Factory: eight values a second of a water circulation; the first line names them.
    Source {
        name: "valve",
        class: "ls",
        file: "iot/skab_valve/valve1_0.csv",
        payload: |line| line.starts_with(char::is_numeric).then_some(line),
        size: 95,
    },
    Source { name: "sys", class: "lt", file: SYS, payload: senml, size: 366 },
    Source { name: "taxi", class: "lt", file: TAXI, payload: senml, size: 858 },
];
const SYS: &str = "iot/riotbench/SYS_sample_data_senml.csv";
const TAXI: &str = "iot/riotbench/TAXI_sample_data_senml.csv";
/// Rows of a generated set.
const GENERATED_ROWS: usize = 1000;

/// A line is the time, a comma, and a SenML document.
fn senml(line: &str) -> Option<&str> {
    line.split_once(',').map(|(_, document)| document)
}

/// Reads all sets from below a folder.
///
/// # Errors
/// A file is there and cannot be read, or has no rows.
pub(super) fn load(folder: &Path) -> anyhow::Result<Vec<Set>> {
    SOURCES.iter().map(|source| source.load(folder)).collect()
}

impl Source {
    fn load(&self, folder: &Path) -> anyhow::Result<Set> {
        let file = folder.join(self.file);
        let is_real = file.exists();
        let rows = if is_real {
            let text = std::fs::read_to_string(&file);
            let text = text.with_context(|| format!("reading {}", file.display()))?;
            text.lines().filter_map(self.payload).map(Into::into).collect()
        } else {
            (0..GENERATED_ROWS).map(|row| self.generate(row)).collect::<Vec<String>>()
        };
        ensure!(!rows.is_empty(), "no rows in {}", file.display());
        Ok(Set { name: self.name, class: self.class, rows, is_real })
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

    #[test]
    fn a_generated_set_has_the_sizes_of_the_real_one() {
        let sets = load(Path::new("/nonexistent")).unwrap();
        for (set, source) in sets.iter().zip(&SOURCES) {
            let mean = set.rows.iter().map(String::len).sum::<usize>() / set.rows.len();
            assert!(!set.is_real && mean.abs_diff(source.size) < source.size / 5, "{mean}");
            assert!(set.rows.iter().all(|row| !row.contains('\n')));
        }
        assert_eq!(sets, load(Path::new("/nonexistent")).unwrap());
    }

    #[test]
    fn real_sets_are_found() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
        if !folder.join(SYS).exists() {
            println!("skipped: needs ../shared/data/iot (real sensor data), not found");
            return;
        }
        let sets = load(&folder).unwrap();
        let counts: Vec<usize> = sets.iter().map(|set| set.rows.len()).collect();
        assert!(counts.iter().all(|count| *count >= 999), "{counts:?}");
        assert!(sets.iter().all(|set| set.is_real));
        assert!(sets[1].rows.iter().all(|row| row.starts_with('{') && row.ends_with('}')));
    }
}
