//! The replay input against a stand-in for the node's loop.

use crate::support::PATIENCE;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate::input::replay::{
    self, Format, KeyTemplate, Pace, Payload, ReplayError, ReplayFile, ReplayOptions, Replayed,
    RowError, Rules, SourceTime,
};
use tidegate::node::contract::{Arrival, Clock, Intake, Notice, NoticeSender};
use tidegate_node::io::Input;
use tidegate_types::record::{Offered, RefuseReason, SourceId};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

struct Node {
    arrivals: mpsc::Receiver<Arrival>,
    notices: NoticeSender,
    name: String,
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<Replayed, ReplayError>>,
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("what must come does not come")
}

impl Node {
    async fn start(options: ReplayOptions) -> Self {
        let (sender, mut arrivals) = mpsc::channel(4);
        let (stop, stopped) = watch::channel(false);
        let intake = Intake::new(sender, Clock::start());
        let running = tokio::spawn(replay::run(options, intake, stopped));
        match soon(arrivals.recv()).await {
            Some(Arrival::Open { name, notices, reply, .. }) => {
                reply.send(SourceId(5)).unwrap();
                Node { arrivals, notices, name: name.to_string(), stop, running }
            }
            other => panic!("expected a source, got {other:?}"),
        }
    }

    /// The next offer; `None` when the replay has ended.
    async fn offer(&mut self) -> Option<Vec<Offered>> {
        match soon(self.arrivals.recv()).await {
            Some(Arrival::Input(Input::Arrived(records))) => Some(records),
            Some(Arrival::Close(source)) => {
                assert_eq!(source, SourceId(5));
                None
            }
            other => panic!("expected records, got {other:?}"),
        }
    }

    async fn all(&mut self) -> Vec<Offered> {
        let mut all = Vec::new();
        while let Some(records) = self.offer().await {
            all.extend(records);
        }
        all
    }

    async fn result(self) -> Result<Replayed, ReplayError> {
        soon(self.running).await.unwrap()
    }
}

/// A file that goes away with its test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, content: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tidegate-{}-{name}", std::process::id()));
        std::fs::File::create(&path).unwrap().write_all(content.as_bytes()).unwrap();
        Temporary(path)
    }

    fn file(&self, key: &str) -> ReplayFile {
        file(&self.0, key)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn file(path: &Path, key: &str) -> ReplayFile {
    let key = KeyTemplate::new(key).unwrap();
    let rules = Rules { format: Format::Auto, key, time: None, payload: Payload::Json };
    ReplayFile { path: path.into(), rules }
}

fn fast(files: Vec<ReplayFile>) -> ReplayOptions {
    ReplayOptions { pace: Pace::Recorded { speed: 1e6 }, ..ReplayOptions::new("replay", files) }
}

fn payload(record: &Offered) -> String {
    String::from_utf8(record.payload.to_vec()).unwrap()
}

#[tokio::test]
async fn files_are_merged_by_their_own_clocks() {
    let early = Temporary::new("early.csv", "time,v\n1000,a1\n1010,a2\n1030,a3\n");
    let late = Temporary::new("late.csv", "time;v\n9000;b1\n9005;b2\n9020;b3\n9001;b4\n");
    let options = fast(vec![early.file("a/{v}"), late.file("b/{v}")]);
    let options = ReplayOptions { source_time: SourceTime::Recorded, ..options };
    let mut node = Node::start(options).await;
    assert_eq!(node.name, "replay");
    let records = node.all().await;
    let keys: Vec<_> = records.iter().map(|record| record.key.as_ref()).collect();
    let expected: [&[u8]; 7] = [b"a/a1", b"b/b1", b"b/b2", b"a/a2", b"b/b3", b"b/b4", b"a/a3"];
    assert_eq!(keys, expected);
    assert_eq!(payload(&records[0]), r#"{"time":1000,"v":"a1"}"#);
    assert_eq!(records[0].source_unix_ns, Some(1_000_000_000_000));
    assert!(records.iter().all(|record| record.token.is_none() && record.source == SourceId(5)));
    assert_eq!(node.result().await.unwrap(), Replayed { offered: 7, refused: 0 });
}

#[tokio::test]
async fn a_replay_repeats_until_it_is_stopped() {
    let rows = Temporary::new("repeat.csv", "time,v\n1,a\n2,b\n");
    let mut node =
        Node::start(ReplayOptions { repeat: true, ..fast(vec![rows.file("{v}")]) }).await;
    let mut keys = Vec::new();
    while keys.len() < 1000 {
        keys.extend(node.offer().await.unwrap().into_iter().map(|record| record.key));
    }
    assert!(keys.iter().step_by(2).all(|key| key == "a"));
    assert!(keys.iter().skip(1).step_by(2).all(|key| key == "b"));
    node.stop.send(true).unwrap();
    node.all().await;
    node.result().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_the_replay() {
    const HOUR: Duration = Duration::from_secs(3600);
    let rows = Temporary::new("pause.csv", "time,v\n1,a\n2,b\n3,c\n");
    let options =
        ReplayOptions { reliable: true, ..ReplayOptions::new("r", vec![rows.file("{v}")]) };
    let mut node = Node::start(options).await;
    // What becomes overdue in the pause goes together after it.
    for expected in [&["a"][..], &["b", "c"]] {
        let records = node.offer().await.unwrap();
        assert!(records.iter().map(|record| &record.key).eq(expected));
        node.notices.send(Notice::Pause);
        for record in &records {
            node.notices.send(Notice::Accept(record.token.unwrap(), Ok(())));
        }
        if expected == ["a"] {
            assert!(tokio::time::timeout(HOUR, node.arrivals.recv()).await.is_err());
            node.notices.send(Notice::Resume);
        }
    }
    assert!(node.offer().await.is_none());
}

#[tokio::test]
async fn a_reliable_replay_offers_again_what_found_no_room() {
    let rows = Temporary::new("reliable.csv", "time,v\n1,a\n1,b\n1,c\n");
    let mut node =
        Node::start(ReplayOptions { reliable: true, ..fast(vec![rows.file("{v}")]) }).await;
    let first = node.offer().await.unwrap();
    assert_eq!(first.len(), 3);
    let answers = [Ok(()), Err(RefuseReason::Full), Err(RefuseReason::NoRule)];
    for (record, answer) in first.iter().zip(answers) {
        node.notices.send(Notice::Accept(record.token.unwrap(), answer));
    }
    let again = node.offer().await.unwrap();
    assert_eq!((again.len(), &again[0].key), (1, &first[1].key));
    node.notices.send(Notice::Accept(again[0].token.unwrap(), Ok(())));
    assert!(node.offer().await.is_none());
    assert_eq!(node.result().await.unwrap(), Replayed { offered: 3, refused: 1 });
}

#[tokio::test]
async fn errors_name_file_and_line() {
    let rows = Temporary::new("wrong.csv", "time,v\n1,a\nnoon,b\n");
    let mut node = Node::start(fast(vec![rows.file("{v}")])).await;
    node.all().await;
    let error = node.result().await.unwrap_err();
    assert!(matches!(
        &error,
        ReplayError::Row { line: 3, source: RowError::Time { field, value }, .. }
            if field == "time" && value == "noon"
    ));
    assert!(error.to_string().contains("wrong.csv, line 3: field \"time\": \"noon\""), "{error}");

    let missing = ReplayOptions::new("r", vec![file(Path::new("no-such-file.csv"), "k")]);
    let mut node = Node::start(missing).await;
    node.all().await;
    assert!(matches!(node.result().await, Err(ReplayError::Read { .. })));
}

#[tokio::test]
async fn real_sensor_data_is_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data/iot");
    let cases = [
        ("riotbench/SYS_sample_data_senml.csv", "city/{source}", 1000),
        ("riotbench/TAXI_sample_data_senml.csv", "taxi/{taxi_identifier}", 1000),
        ("skab_valve/valve1_0.csv", "valve/{file}", 1147),
        ("nab/machine_temperature_system_failure.csv", "machine/{file}", 22_695),
    ];
    for (name, key, rows) in cases {
        let path = folder.join(name);
        if !path.exists() {
            println!("skipped: needs ../shared/data/iot/{name} (real sensor data), not found");
            continue;
        }
        let options =
            ReplayOptions { pace: Pace::Recorded { speed: 1e9 }, ..fast(vec![file(&path, key)]) };
        let mut node = Node::start(options).await;
        let records = node.all().await;
        node.result().await.unwrap();
        assert_eq!(records.len(), rows, "{name}");
        assert!(payload(&records[0]).starts_with('{'), "{name}");
    }
}
