//! Follows the files of the embedded sink, as `tail -F` does: `records.jsonl` is written, and becomes
//! `records.1.jsonl` when it is full.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use bytes::Bytes;
use serde::Deserialize;
use tokio::time::sleep;

use super::consume::Delivery;

/// Between two looks: what comes in between seems so much later.
const PAUSE: Duration = Duration::from_millis(1);
const CHUNK: usize = 256 * 1024;

/// The reader of a sink's folder.
#[derive(Debug)]
pub(super) struct Tail {
    folder: PathBuf,
    file: Option<File>,
    /// Read, and not yet taken.
    text: Vec<u8>,
    taken: usize,
}

/// A line of the sink, as far as it matters here.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    properties: Vec<(String, String)>,
    text: Option<String>,
}

impl Tail {
    /// Reads from the beginning of what is there, and of what is to come.
    pub(super) fn new(folder: &Path) -> Tail {
        Tail { folder: folder.to_owned(), file: None, text: Vec::new(), taken: 0 }
    }

    /// The next record. Cancel-safe.
    ///
    /// # Errors
    /// A line that is none of the sink's, a payload that is no text, or files that went faster than they
    /// were read.
    pub(super) async fn next(&mut self) -> anyhow::Result<Delivery> {
        loop {
            let rest = &self.text[self.taken..];
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let delivery = delivery(&rest[..end]);
                self.taken += end + 1;
                return delivery;
            }
            if !self.read()? {
                sleep(PAUSE).await;
            }
        }
    }

    /// Reads more; says whether there was more.
    fn read(&mut self) -> anyhow::Result<bool> {
        let current = self.folder.join("records.jsonl");
        let reading = || format!("reading {}", current.display());
        let Some(file) = &mut self.file else {
            match File::open(&current) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error).with_context(reading),
            }
            return Ok(true);
        };
        // Looked at before the read: a file that was replaced by then is at its end when nothing comes.
        let newest = std::fs::metadata(&current).map(|found| found.ino());
        self.text.drain(..self.taken);
        self.taken = 0;
        let mut chunk = vec![0; CHUNK];
        let length = file.read(&mut chunk).with_context(reading)?;
        self.text.extend_from_slice(&chunk[..length]);
        let own = file.metadata()?.ino();
        if length == 0 && newest.is_ok_and(|newest| newest != own) {
            let last = std::fs::metadata(self.folder.join("records.1.jsonl"))?.ino();
            ensure!(last == own, "the sink's files went faster than they were read");
            self.file = None;
            return Ok(true);
        }
        Ok(length > 0)
    }
}

fn delivery(line: &[u8]) -> anyhow::Result<Delivery> {
    let text = || String::from_utf8_lossy(line).into_owned();
    let line: Line =
        serde_json::from_slice(line).with_context(|| format!("no line of the sink: {}", text()))?;
    let payload = line.text.with_context(|| format!("a payload that is no text: {}", text()))?;
    let headers: BTreeMap<String, String> = line.properties.into_iter().collect();
    Ok(Delivery { tag: 0, headers, payload: Bytes::from(payload) })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::net::scratch::Scratch;

    fn append(folder: &Path, text: &str) {
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.append(true).create(true).open(folder.join("records.jsonl")).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn rotate(folder: &Path) {
        std::fs::rename(folder.join("records.jsonl"), folder.join("records.1.jsonl")).unwrap();
    }

    #[tokio::test]
    async fn records_are_followed_over_half_lines_and_from_file_to_file() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.path();
        let mut tail = Tail::new(folder);
        let payload = async |tail: &mut Tail| {
            let delivery = tail.next().await.unwrap();
            String::from_utf8(delivery.payload.to_vec()).unwrap()
        };
        append(folder, "{\"id\":\"a\",\"properties\":[[\"k\",\"v\"]],\"text\":\"one\"}\n{\"te");
        let first = tail.next().await.unwrap();
        assert_eq!((&first.payload[..], first.headers["k"].as_str()), (&b"one"[..], "v"));
        append(folder, "xt\":\"two\"}\n{\"text\":\"three\"}\n");
        rotate(folder);
        append(folder, "{\"text\":\"four\"}\n");
        for expected in ["two", "three", "four"] {
            assert_eq!(payload(&mut tail).await, expected);
        }
        append(folder, "{\"base64\":\"AA==\"}\n");
        assert!(tail.next().await.unwrap_err().to_string().contains("no text"));
    }

    #[tokio::test]
    async fn a_missed_file_is_told() {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.path();
        let mut tail = Tail::new(folder);
        append(folder, "{\"text\":\"one\"}\n");
        tail.next().await.unwrap();
        for _ in 0..2 {
            rotate(folder);
            append(folder, "{\"text\":\"more\"}\n");
        }
        assert!(tail.next().await.unwrap_err().to_string().contains("faster"));
    }
}
