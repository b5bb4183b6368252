//! `tidegate log` and `tidegate explain` on logs of every kind: sound, sealed, torn, damaged, in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::process::{Node, publish};
use tidegate_log::{
    Checkpoint, Chunk, Destinations, Entry, FateEntry, FateRun, Key, LogName, LoggedRecord, Run,
    SegmentId, StreamName, StreamState, WallTime, Writer,
};
use tidegate_types::crc::crc32c;
use tidegate_types::record::{DropReason, Fate, Properties, StreamId};
use tidegate_types::units::{Size, Time};

/// 2026-11-21T10:00:00Z.
const TEN: u64 = 1_795_255_200_000_000_000;
const SECOND: u64 = 1_000_000_000;
const KEY: [u8; 32] = [0x0f; 32];

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("inspect-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn tidegate(arguments: &[&str], key: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(arguments).env_remove("TIDEGATE_LOG").env_remove("TIDEGATE_LOG_KEY");
    if let Some(key) = key {
        command.env("TIDEGATE_LOG_KEY", key);
    }
    command.output().unwrap()
}

/// What a command says of a log: exit code, standard output, standard error.
fn told(arguments: &[&str]) -> (i32, String, String) {
    split(&tidegate(arguments, None))
}

fn split(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn record(seq: u64, key: &'static str, payload: &'static [u8], bits: u32) -> Entry {
    let arrived = Time::from_millis(seq * 1000);
    Entry::Record(Box::new(LoggedRecord {
        stream: StreamId(12),
        seq,
        destinations: Destinations(bits),
        arrived,
        deadline: arrived + Duration::from_millis(50),
        expires: Some(arrived + Duration::from_secs(3600)),
        wall: Some(WallTime { unix_ns: TEN + seq * SECOND, uncertainty: Duration::from_secs(1) }),
        source_unix_ns: None,
        class: "ls".into(),
        key: key.into(),
        properties: Properties::new(vec![("unit".into(), "bar".into())]),
        payload: payload.into(),
        foreign: None,
        packet: None,
    }))
}

/// Noted half a second after the last of them arrived.
fn fate(first: u64, last: u64, bits: u32, fate: Fate) -> Entry {
    let run = Run { first, last, destinations: Destinations(bits) };
    let unix_ns = TEN + last * SECOND + SECOND / 2;
    let wall = Some(WallTime { unix_ns, uncertainty: Duration::from_secs(1) });
    Entry::Fates(FateEntry {
        wall,
        runs: vec![FateRun { stream: StreamId(12), run, fate, by: None, deeds: Vec::new() }],
    })
}

fn checkpoint(segment: u32, live: &[(u64, u64, u32)], last_seq: u64) -> Entry {
    let mut chunk = Chunk { bytes: Size(10), ..Chunk::default() };
    for &(first, last, bits) in live {
        chunk.runs.add(Run { first, last, destinations: Destinations(bits) });
    }
    let live = if live.is_empty() { vec![] } else { vec![(SegmentId(1), chunk)] };
    let name = StreamName { stream: StreamId(12), rule: "alarms".into(), source: "plc-7".into() };
    let streams = vec![StreamState { name, last_seq, live }];
    let segment = SegmentId(segment);
    Entry::Checkpoint(Checkpoint { segment, streams, ..Checkpoint::default() })
}

/// A log of two segments: the first finished, the second open. Of records 1 to 6, number 2 was dropped at
/// the archive, number 3 has an end that no entry tells, number 6 is held at the archive.
fn write(folder: &Path, keys: &[Key]) {
    write_by(folder, [keys, keys], [0xb007, 0xb007]);
}

/// The same, each of its segments written with such keys by such a boot.
fn write_by(folder: &Path, keys: [&[Key]; 2], boots: [u64; 2]) {
    let outputs = vec!["cloud".into(), "archive".into()];
    let name = LogName { node: "gate-7".into(), incarnation: 0x1c9f, boot: boots[0], outputs };
    let mut writer = Writer::new(name.clone(), keys[0]);
    let mut writes = Vec::new();
    let entries = [
        checkpoint(1, &[], 0),
        record(1, "plant/1/alarm", b"one", 0b01),
        record(2, "plant/2/alarm", b"two \"2\"", 0b11),
        fate(1, 2, 0b01, Fate::Confirmed),
        record(3, "plant/3/state", &[0xff, 0x00], 0b01),
        fate(2, 2, 0b10, Fate::Dropped(DropReason::Expired)),
        record(4, "plant/1/alarm", b"four", 0b01),
        checkpoint(2, &[(4, 4, 0b01)], 4),
        record(5, "plant/1/alarm", b"five", 0b01),
        fate(4, 5, 0b01, Fate::Confirmed),
        record(6, "plant/1/alarm", b"six", 0b10),
    ];
    for (place, entry) in entries.iter().enumerate() {
        if place == 7 && boots[0] != boots[1] {
            writes = writer.take();
            writer = Writer::new(LogName { boot: boots[1], ..name.clone() }, keys[1]);
        }
        writer.push(place as u64 + 100, entry).unwrap();
    }
    for write in writes.into_iter().chain(writer.take()) {
        fs::write(file(folder, write.segment.0), write.bytes).unwrap();
    }
}

fn file(folder: &Path, segment: u32) -> PathBuf {
    folder.join(format!("{segment:010}.segment"))
}

/// Everything in a folder.
fn contents(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = entries.map(|path| (path.clone(), fs::read(&path).unwrap())).collect();
    all.sort();
    all
}

#[test]
fn ls_tells_what_is_in_each_segment() {
    let folder = folder("ls");
    write(&folder, &[]);
    let log = folder.to_str().unwrap();
    let before = contents(&folder);
    let (code, out, error) = told(&["log", "ls", log]);
    assert_eq!((code, &*error), (0, ""));
    insta::assert_snapshot!("log_ls", out);
    let (code, out, _) = told(&["log", "ls", log, "--json"]);
    assert_eq!(code, 0);
    let lines: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["records"], 4);
    assert_eq!((&lines[1]["held_records"], &lines[1]["state"]), (&1.into(), &"open".into()));
    assert_eq!((&lines[2]["records"], &lines[2]["held_records"]), (&6.into(), &1.into()));
    assert_eq!(contents(&folder), before, "a log that was looked into is as before");
}

/// A file as a running node or a crash leaves it: room behind what was written.
fn make_room(folder: &Path, segment: u32) {
    let path = file(folder, segment);
    let length = fs::metadata(&path).unwrap().len();
    fs::File::options().write(true).open(path).unwrap().set_len(length + 100_000).unwrap();
}

#[test]
fn room_ahead_is_neither_damage_nor_an_end() {
    let folders = [folder("filled"), folder("roomy")];
    folders.iter().for_each(|folder| write(folder, &[]));
    for segment in [1, 2] {
        make_room(&folders[1], segment);
    }
    let [filled, roomy] = folders.each_ref().map(|folder| folder.to_str().unwrap());
    for command in ["cat", "export"] {
        assert_eq!(told(&["log", command, filled]), told(&["log", command, roomy]));
    }
    let (code, out, error) = told(&["log", "verify", roomy]);
    assert_eq!((code, &*error), (0, ""));
    assert!(out.contains("records 6: sound") && !out.contains("torn"), "{out}");
    let (code, out, _) = told(&["log", "ls", roomy]);
    assert!(code == 0 && out.contains("finished\n") && out.contains("open\n"), "{out}");
}

#[test]
fn cat_tells_records_and_their_fates() {
    let folder = folder("cat");
    write(&folder, &[]);
    let log = folder.to_str().unwrap();
    let (code, out, error) = told(&["log", "cat", log, "--payload"]);
    assert_eq!((code, &*error), (0, ""));
    insta::assert_snapshot!("log_cat", out);
    let seqs = |filters: &[&str]| {
        let (code, out, _) = told(&[&["log", "cat", log, "--json"], filters].concat());
        assert_eq!(code, 0);
        let id = |line: &str| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
        };
        out.lines().map(id).collect::<String>()
    };
    assert_eq!(seqs(&[]), "123456");
    assert_eq!(seqs(&["--topic", "plant/+/alarm"]), "12456");
    assert_eq!(seqs(&["--from", "2026-11-21T10:00:03Z", "--to", "2026-11-21T10:00:05"]), "345");
    assert_eq!(seqs(&["--from", "2026-11-21T10:00:05Z"]), "56");
    assert_eq!(seqs(&["--to", "2026-11-21"]), "");
    assert_eq!(seqs(&["--stream", "alarms", "--seq", "2-3"]), "23");
    assert_eq!([seqs(&["--stream", "12"]), seqs(&["--stream", "13"])], ["123456", ""]);
    let (_, out, _) = told(&["log", "cat", log, "--seq", "6", "--json", "--payload"]);
    insta::assert_snapshot!("log_cat_json", out);
}

#[test]
fn export_rescues_what_is_held() {
    let folder = folder("export");
    write(&folder, &[]);
    let log = folder.to_str().unwrap();
    let rescued = folder.join("rescued.jsonl");
    let target = rescued.to_str().unwrap();
    let (code, out, error) = told(&["log", "export", log, "--held", "-o", target]);
    assert_eq!((code, &*out, error), (0, "", format!("records in {target}: 1\n")));
    let line: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&rescued).unwrap()).unwrap();
    assert_eq!((&line["text"], &line["deliveries"]["archive"]), (&"six".into(), &"held".into()));
    assert_eq!(told(&["log", "export", log, "-o", target]).0, 1, "no file is overwritten");
    let (code, out, _) = told(&["log", "export", log, "--format", "csv", "--seq", "2-3"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!("log_export_csv", out.replace('\r', ""));
    let (_, out, _) = told(&["log", "export", log, "--seq", "1", "--payload", "base64"]);
    assert!(out.contains("\"base64\":\"b25l\"") && !out.contains("\"text\""), "{out}");
}

#[test]
fn explain_tells_a_life_and_invents_nothing() {
    let folder = folder("explain");
    write(&folder, &[]);
    let log = folder.to_str().unwrap();
    let mut lives = String::new();
    for seq in [2, 3, 6] {
        let identity = format!("gate-7/1c9f/12/{seq}");
        let (code, out, error) = told(&["explain", &identity, "-d", log]);
        assert_eq!((code, &*error), (0, ""));
        lives.push_str(&out);
    }
    insta::assert_snapshot!("explain", lives);
    let (code, out, _) = told(&["explain", "--topic", "plant/1/#", "--last", "2", "-d", log]);
    let ids: Vec<&str> = out.lines().filter(|line| line.starts_with("gate")).collect();
    assert_eq!(code, 0);
    assert_eq!(ids, ["gate-7/0000000000001c9f/12/5", "gate-7/0000000000001c9f/12/6"]);
    let mut unknown = String::new();
    for identity in [
        "gate-7/1c9f/12/7",
        "gate-7/1c9f/13/1",
        "gate-7/b007/12/1",
        "gate-7/2/12/1",
        "other/1c9f/12/1",
    ] {
        let (code, out, _) = told(&["explain", identity, "-d", log]);
        assert_eq!(code, 1);
        unknown.push_str(&out);
    }
    insta::assert_snapshot!("explain_unknown", unknown);
    let (code, _, error) = told(&["explain", "gate-7/12/345", "-d", log]);
    assert!(code == 2 && error.contains("NODE/INCARNATION/STREAM/SEQ"), "{error}");
}

#[test]
fn verify_names_the_lines_of_a_sink_that_are_damaged_or_missing() {
    let folder = folder("verify_sink");
    fs::create_dir_all(&folder).unwrap();
    let line = |text: &str| format!("{text},\"crc\":\"{:08x}\"}}\n", crc32c(0, text.as_bytes()));
    let lines = [1, 2, 3, 5].map(|number| line(&format!("{{\"line\":{number},\"id\":\"gate\"")));
    let (current, closed) = (folder.join("records.jsonl"), folder.join("records.1.jsonl"));
    fs::write(&closed, lines[..2].concat()).unwrap();
    fs::write(&current, &lines[2]).unwrap();
    let verify = || told(&["log", "verify", folder.to_str().unwrap()]);
    let (code, out, _) = verify();
    assert!(code == 0 && out.ends_with("lines 3: sound\n"), "{out}");
    fs::write(&current, [&lines[2], &lines[3], "{\"line\":6"].concat()).unwrap();
    fs::write(&closed, lines[..2].concat().replace("\"line\":2", "\"line\":9")).unwrap();
    let (code, out, _) = verify();
    let named = format!("records.1.jsonl: damaged, bytes {} to ", lines[0].len());
    assert!(code == 1 && out.starts_with(&named), "{out}");
    assert!(out.contains("line 2 is missing\nline 4 is missing\nrecords.jsonl: torn end"), "{out}");
    assert!(out.ends_with("lines 3: damaged places 1, missing lines 2\n"), "{out}");
}

#[test]
fn verify_names_what_is_damaged() {
    let folder = folder("verify");
    write(&folder, &[]);
    let log = folder.to_str().unwrap();
    let verify = || told(&["log", "verify", log]);
    let (code, out, _) = verify();
    assert!(code == 0 && out.ends_with("records 6: sound\n"), "{out}");
    // A torn end is no damage.
    let newest = fs::read(file(&folder, 2)).unwrap();
    fs::write(file(&folder, 2), &newest[..newest.len() - 2]).unwrap();
    let (code, out, _) = verify();
    assert!(code == 0 && out.starts_with("segment 2: torn end, bytes "), "{out}");
    fs::write(file(&folder, 2), &newest).unwrap();
    // One byte of a payload.
    let first = fs::read(file(&folder, 1)).unwrap();
    let mut spoilt = first.clone();
    let at = first.windows(3).position(|bytes| bytes == b"one").unwrap();
    spoilt[at] ^= 1;
    fs::write(file(&folder, 1), &spoilt).unwrap();
    let (code, out, _) = verify();
    assert!(code == 1 && out.starts_with("segment 1: corrupt, bytes "), "{out}");
    assert!(out.ends_with("records 5: damaged in 1 place\n"), "{out}");
    let (code, out, error) = told(&["log", "cat", log]);
    assert_eq!((code, out.lines().count()), (1, 5), "the rest is printed");
    assert!(error.contains("damaged places passed: 1"), "{error}");
    // The head.
    fs::write(file(&folder, 1), [0; 100]).unwrap();
    let (code, out, _) = verify();
    assert!(code == 1 && out.contains("segment 1: its head is damaged"), "{out}");
    assert!(told(&["log", "ls", log]).1.contains("damaged"));
    // A segment of which records are owed is gone.
    fs::remove_file(file(&folder, 1)).unwrap();
    assert_eq!(verify().0, 0, "a released segment is no damage");
    let (code, out, error) = told(&["log", "verify", "no-such-folder"]);
    assert_eq!((code, &*out), (2, ""));
    assert!(error.contains("no-such-folder"), "{error}");
}

#[test]
fn an_end_that_was_cut_off_is_told_from_a_torn_one() {
    let folder = folder("cut");
    write_by(&folder, [&[], &[]], [0xb007, 0xb008]);
    let log = folder.to_str().unwrap();
    assert_eq!(told(&["log", "verify", log]).0, 0, "a killed process leaves no footer");
    let first = fs::read(file(&folder, 1)).unwrap();
    let at = first.windows(4).position(|bytes| bytes == b"four").unwrap();
    fs::write(file(&folder, 1), &first[..at]).unwrap();
    let (code, out, _) = told(&["log", "verify", log]);
    let wanted = "segment 1: its end is cut off: 1 entries before segment 2 are missing\n";
    assert!(code == 1 && out.contains(wanted), "{out}");
}

#[test]
fn a_missing_segment_is_named() {
    let folder = folder("missing");
    write(&folder, &[]);
    let log = folder.to_str().unwrap();
    // Without the second segment's fates, record 4 is owed.
    let second = fs::read(file(&folder, 2)).unwrap();
    let at = second.windows(4).position(|bytes| bytes == b"five").unwrap();
    fs::write(file(&folder, 2), &second[..at]).unwrap();
    fs::remove_file(file(&folder, 1)).unwrap();
    let (code, out, _) = told(&["log", "verify", log]);
    let wanted = "segment 1: missing, and with it records without a fate: 1\n";
    assert!(code == 1 && out.contains(wanted), "{out}");
}

#[test]
fn a_sealed_log_needs_its_key_and_is_not_touched() {
    let folder = folder("sealed");
    let keys = folder.join("keys");
    fs::create_dir_all(&keys).unwrap();
    let logs = folder.join("log");
    fs::create_dir_all(&logs).unwrap();
    write(&logs, &[Key::new(&KEY)]);
    let right = keys.join("right");
    fs::write(&right, format!("{}\n", "0f".repeat(32))).unwrap();
    let wrong = keys.join("wrong");
    fs::write(&wrong, "f0".repeat(32)).unwrap();
    let (log, right, wrong) =
        (logs.to_str().unwrap(), right.to_str().unwrap(), wrong.to_str().unwrap());
    let before = contents(&logs);
    for command in ["ls", "cat", "export"] {
        let (code, out, error) = told(&["log", command, log]);
        assert_eq!((code, &*out), (1, ""), "{command}");
        assert!(error.contains("no key is configured") && error.contains("--key-file"), "{error}");
    }
    let (code, _, error) = told(&["log", "verify", log, "--key-file", wrong]);
    assert!(code == 2 && error.contains("another key than"), "{error}");
    let (code, out, _) = told(&["log", "verify", log, "--key-file", wrong, "--key-file", right]);
    assert!(code == 0 && out.contains("records 6: sound"), "{out}");
    let by_variable = tidegate(&["log", "cat", log, "--payload"], Some(&"0f".repeat(32)));
    assert!(split(&by_variable).1.contains("four"));
    let config = folder.join("node.toml");
    let text = format!("[log]\ndirectory = {log:?}\nkey_file = {right:?}\n");
    fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    assert!(told(&["log", "ls", "-c", config]).1.contains("yes"));
    assert_eq!(told(&["explain", "gate-7/1c9f/12/1", "-c", config]).0, 0);
    assert_eq!(contents(&logs), before);
}

#[test]
fn what_an_old_key_sealed_is_named_and_the_rest_is_read() {
    let folder = folder("rotated");
    let (old, new) = ([Key::new(&[1; 32])], [Key::new(&KEY)]);
    write_by(&folder, [&old, &new], [0xb007, 0xb008]);
    let log = folder.to_str().unwrap();
    let told = |command: &str| split(&tidegate(&["log", command, log], Some(&"0f".repeat(32))));
    let (code, out, _) = told("ls");
    assert!(code == 0 && out.contains("locked") && out.contains("open"), "{out}");
    let (code, out, error) = told("cat");
    assert_eq!((code, out.lines().count()), (1, 2));
    assert!(error.starts_with("segment 1 could not be read"), "{error}");
    let (code, _, error) = told("verify");
    assert!(code == 2 && error.contains("segment 1: it is encrypted with another key"), "{error}");
}

#[test]
fn a_log_in_use_is_read_without_its_lock() {
    let folder = folder("in-use");
    let log = folder.join("log");
    let log = log.to_str().unwrap();
    let config = format!(
        "[node]\nname = \"busy\"\nstop_timeout = \"10ms\"\n\
         [[input]]\nmqtt = {{ listen = \"127.0.0.1:0\" }}\n\
         [[output]]\nname = \"out\"\nmqtt = {{ url = \"mqtt://127.0.0.1:1\" }}\n\
         [http]\nlisten = []\n[log]\ndirectory = {log:?}\n"
    );
    let mut node = Node::start("in-use", &config);
    let mqtt = node.wait_for("MQTT at ");
    let _client = publish(&mqtt);
    let (code, out, error) = told(&["log", "cat", log, "--payload"]);
    assert_eq!((code, &*error), (0, ""));
    assert!(out.contains("  t  2 B  out: held\n    hi\n"), "{out}");
    let id = out.split_whitespace().nth(1).unwrap();
    let (code, life, _) = told(&["explain", id, "-d", log]);
    assert!(code == 0 && life.contains("held: no fate yet"), "{life}");
    let (code, out, _) = told(&["log", "verify", log]);
    assert!(code == 0 && out.contains("records 1: sound"), "{out}");
    assert!(told(&["log", "ls", log]).1.contains("segments 1, "));
    node.signal();
    node.wait_for("stopped: ");
    assert_eq!(node.end().code(), Some(0));
    let (_, out, _) = told(&["log", "ls", log]);
    assert!(out.contains("finished") && out.contains("records 1, held 1"), "{out}");
}
