//! The sink on real files, and on a disk that is full.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::logs::Logs;
use crate::support::node::{End, Node};
use bytes::Bytes;
use tidegate::output::sink::{FileOptions, SinkOptions};
use tidegate_types::units::Size;

/// A folder, possibly a small disk of its own; removed at the end.
struct Folder {
    path: PathBuf,
    is_disk: bool,
}

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("tidegate-sink-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder { path, is_disk: false }
    }

    /// A disk of so many KiB; `None` where we may not make one.
    fn disk(name: &str, kib: u32) -> Option<Folder> {
        let mut folder = Folder::new(name);
        let options = format!("size={kib}k");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tidegate-test"])
            .arg(&folder.path)
            .output();
        folder.is_disk = mount.is_ok_and(|mount| mount.status.success());
        folder.is_disk.then_some(folder)
    }

    fn sink(&self) -> SinkOptions {
        SinkOptions::Files(FileOptions {
            directory: self.path.join("records"),
            file_max: Size::from_mib(64),
            files: 2,
            sync: true,
            classes: ["ls".into(), "lt".into()].into(),
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_disk {
            let _ = Command::new("umount").arg(&self.path).status();
        }
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Every line of the written file: it is whole, and its record.
fn seqs(folder: &Path) -> Vec<u64> {
    let text = fs::read_to_string(folder.join("records/records.jsonl")).unwrap();
    assert!(text.ends_with('\n'));
    let seq = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["id"].as_str().unwrap().rsplit('/').next().unwrap().parse().unwrap()
    };
    text.lines().map(seq).collect()
}

#[tokio::test]
async fn every_record_has_its_line() {
    let folder = Folder::new("plain");
    let mut node = Node::start(folder.sink(), 2, 100);
    (1..=1000).for_each(|number| node.offer(number, "plant/1", vec![b'x'; 20_000].into()));
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    node.stop().await;
    let seqs = seqs(&folder.path);
    assert_eq!((seqs.len(), seqs.iter().collect::<BTreeSet<_>>().len()), (1000, 1000));
}

#[tokio::test]
async fn nothing_is_written_where_all_is_discarded() {
    let mut node = Node::start(SinkOptions::Discard, 1, 100);
    (1..=1000).for_each(|number| node.offer(number, "plant/1", Bytes::new()));
    node.run_until(Node::is_done).await;
    node.stop().await;
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_is_told_once() {
    let Some(folder) = Folder::disk("full", 512) else {
        println!("skipped: needs the right to mount a tmpfs, not found");
        return;
    };
    let logs = Logs::collect();
    let filler = folder.path.join("filler");
    fs::write(&filler, vec![0; 400 * 1024]).unwrap();
    let mut node = Node::start(folder.sink(), 2, 100);
    (1..=400).for_each(|number| node.offer(number, "plant/1", vec![b'x'; 500].into()));
    node.run_until(|_| logs.count("the sink cannot be written") > 0).await;
    assert!(logs.count("records.jsonl: No space left") > 0);
    assert!(!node.is_done());
    fs::remove_file(&filler).unwrap();
    node.run_until(Node::is_done).await;
    assert!(node.fates.values().all(|end| *end == End::Confirmed));
    node.stop().await;
    let seqs = seqs(&folder.path);
    let once: BTreeSet<_> = seqs.iter().collect();
    println!("full disk: {} lines for {} records", seqs.len(), once.len());
    assert_eq!((seqs.len(), once.len()), (400, 400), "each once");
    assert_eq!(logs.count("the sink cannot be written"), 1);
    assert_eq!(logs.count("the sink is written again"), 1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_is_named_and_a_stop_is_heard() {
    let logs = Logs::collect();
    let options = SinkOptions::Files(FileOptions {
        directory: "/proc/nothing".into(),
        file_max: Size::from_mib(1),
        files: 2,
        sync: true,
        classes: [].into(),
    });
    let mut node = Node::start(options, 1, 100);
    node.offer(1, "plant/1", Bytes::new());
    node.run_until(|_| logs.count("/proc/nothing/records.jsonl") > 0).await;
    node.stop().await;
}
