//! Scores that are kept in a file as they come, so that a run that was ended goes on later.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::Score;

/// Of which recording, from where on, and of which sender.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) source: String,
    pub(super) recording: String,
    pub(super) seed: u64,
    pub(super) sender: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    score: Score,
}

/// All scores so far, and the file that has them, a line each.
#[derive(Debug, Default)]
pub(super) struct Scores {
    all: BTreeMap<Key, Score>,
    file: Option<File>,
}

impl Scores {
    /// Those of a file, which may be new; of none without one. A line that was being written when a run was ended is void.
    ///
    /// # Errors
    /// A file that cannot be read or written, or is none of ours.
    pub(super) fn open(file: Option<&Path>) -> anyhow::Result<Scores> {
        let Some(path) = file else { return Ok(Scores::default()) };
        let opening = || format!("opening the scores in {}", path.display());
        let file = File::options().create(true).read(true).append(true).open(path);
        let mut file = file.with_context(opening)?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(opening)?;
        let whole = text.rfind('\n').map_or(0, |last| last + 1);
        file.set_len(whole as u64).with_context(opening)?;
        let mut all = BTreeMap::new();
        for line in text[..whole].lines() {
            let Line { key, score } = serde_json::from_str(line).with_context(opening)?;
            all.insert(key, score);
        }
        Ok(Scores { all, file: Some(file) })
    }

    pub(super) fn get(&self, key: &Key) -> Option<Score> {
        self.all.get(key).copied()
    }

    /// Adds one, in the file as well.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn add(&mut self, key: Key, score: Score) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            let text = serde_json::to_string(&Line { key: key.clone(), score })? + "\n";
            file.write_all(text.as_bytes()).context("writing a score")?;
        }
        self.all.insert(key, score);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::scratch::Scratch;

    #[test]
    fn what_was_played_stays_played_though_the_last_line_is_torn() {
        let scratch = Scratch::new().unwrap();
        let file = scratch.path().join("scores");
        let key = |seed| Key {
            source: "norway".into(),
            recording: "bus".into(),
            seed,
            sender: "tide".into(),
        };
        let score = Score { p50: 40.0, p99: 90.0, calm_p99: 80.0, share: 0.9 };
        let mut scores = Scores::open(Some(&file)).unwrap();
        scores.add(key(1), score).unwrap();
        File::options().append(true).open(&file).unwrap().write_all(b"{\"source\": \"nor").unwrap();
        for seed in [2, 3] {
            let mut scores = Scores::open(Some(&file)).unwrap();
            assert_eq!((scores.get(&key(1)), scores.get(&key(seed))), (Some(score), None));
            scores.add(key(seed), score).unwrap();
        }
        std::fs::write(&file, "none\n").unwrap();
        assert!(Scores::open(Some(&file)).is_err());
        assert_eq!(Scores::open(None).unwrap().get(&key(1)), None);
    }
}
