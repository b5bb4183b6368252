//! The log by itself: its threads are told entries and say what is safe, as the loop of a node would.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use tidegate::node::contract::Arrival;
use tidegate::node::log_store::{self, Beginning, CommitCounts, Spool, SpoolOptions};
use tidegate_log::{
    Append, Checkpoint, Destinations, Entry, Key, LogName, LoggedRecord, SegmentId, StreamName,
};
use tidegate_node::io::Input;
use tidegate_types::record::{Properties, StreamId};
use tidegate_types::units::Time;
use tokio::sync::mpsc;

use super::AHEAD;
use super::payloads::Payloads;

/// Records of a segment: somewhat below the 64 MiB that are the default.
const SEGMENT_RECORDS: u64 = 150_000;

/// Records a second that are safe.
pub(super) async fn run(folder: &Path, group: usize, time: Duration) -> anyhow::Result<f64> {
    let options = SpoolOptions {
        directory: folder.join("log"),
        keys: vec![Key::new(&[0x5a; 32])],
        commit_max: group,
        commit_delay: Duration::ZERO,
        standby: false,
    };
    let opened = log_store::open(&options, "bench").await?;
    let name = LogName {
        node: "bench".into(),
        incarnation: opened.incarnation,
        boot: opened.boot,
        outputs: vec!["cloud".into()],
    };
    let (sender, mut arrivals) = mpsc::channel(64);
    let beginning = Beginning { folder: opened.folder, name, lengths: opened.recovery.segments };
    let spool = Spool::start(beginning, &options, CommitCounts::default(), sender.clone())?;
    let mut entries = Entries::new(group);
    let start = Instant::now();
    let (mut told, mut safe) = (0, 0);
    while start.elapsed() < time {
        while told - safe < AHEAD * group as u64 {
            spool.append(entries.next(group));
            told += group as u64;
        }
        match arrivals.recv().await.context("the log is gone")? {
            Arrival::Input(Input::Appended { .. }) => safe += group as u64,
            other => anyhow::bail!("the log cannot be written: {other:?}"),
        }
    }
    let rate = safe as f64 / start.elapsed().as_secs_f64();
    spool.finish().await;
    Ok(rate)
}

/// What a node would append.
struct Entries {
    payloads: Payloads,
    number: u64,
    records: u64,
    segment: u32,
}

impl Entries {
    fn new(group: usize) -> Entries {
        Entries { payloads: Payloads::new(group), number: 0, records: 0, segment: 0 }
    }

    /// The next records, and before them what begins a segment, if one is due.
    fn next(&mut self, group: usize) -> Vec<Append> {
        let mut appends = Vec::with_capacity(group + 1);
        if self.records >= u64::from(self.segment) * SEGMENT_RECORDS {
            self.segment += 1;
            let segment = SegmentId(self.segment);
            self.push(
                &mut appends,
                Entry::Checkpoint(Checkpoint { segment, ..Checkpoint::default() }),
            );
            let (rule, source) = ("bench".into(), "bench".into());
            let name = StreamName { stream: StreamId(1), rule, source };
            self.push(&mut appends, Entry::Stream(name));
        }
        for _ in 0..group {
            self.records += 1;
            let record = record(self.records, self.payloads.of(self.records));
            self.push(&mut appends, Entry::Record(Box::new(record)));
        }
        appends
    }

    fn push(&mut self, appends: &mut Vec<Append>, entry: Entry) {
        self.number += 1;
        appends.push(Append { number: self.number, entry });
    }
}

fn record(seq: u64, payload: Bytes) -> LoggedRecord {
    let arrived = Time::from_nanos(seq * 1000);
    LoggedRecord {
        stream: StreamId(1),
        seq,
        destinations: Destinations(1),
        arrived,
        deadline: arrived + Duration::from_millis(100),
        expires: None,
        wall: None,
        source_unix_ns: None,
        class: "bench".into(),
        key: Bytes::from_static(b"bench"),
        properties: Properties::default(),
        payload,
        foreign: None,
        packet: None,
    }
}
