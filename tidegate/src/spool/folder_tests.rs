//! What a start does about files that are not as they should be.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate_log::{
    COPY_AT, Checkpoint, Chunk, DamageKind, Destinations, Entry, LogName, Run, SegmentId,
    StreamName, StreamState, Writer,
};
use tidegate_types::record::StreamId;
use tidegate_types::units::Size;

use super::folder::{Opened, open_on, segment_path};
use super::{SpoolOptions, damaged_ranges};
use crate::disk::model::Memory;
use crate::disk::{Disk, How};

const LOG: &str = "/log";

/// A log of so many segments: each owes a record to each one before.
fn log(segments: u32) -> Memory {
    let disk = Memory::default();
    disk.make_folder(Path::new(LOG), 0).unwrap();
    for id in 1..=segments {
        disk.rot(&path(id), Some(segment(id)));
    }
    disk
}

fn path(id: u32) -> PathBuf {
    segment_path(Path::new(LOG), SegmentId(id))
}

fn segment(id: u32) -> Vec<u8> {
    let (node, outputs) = ("gate".into(), vec!["cloud".into()]);
    let mut writer = Writer::new(LogName { node, incarnation: 7, boot: 3, outputs }, &[]);
    let mut live = Vec::new();
    for before in 1..id {
        let mut chunk = Chunk { bytes: Size(9), ..Chunk::default() };
        let (first, destinations) = (u64::from(before), Destinations::one(0));
        chunk.runs.add(Run { first, last: first, destinations });
        live.push((SegmentId(before), chunk));
    }
    let stream = StreamId(1);
    let name = StreamName { stream, rule: "plc".into(), source: "press".into() };
    let streams = vec![StreamState { name, last_seq: u64::from(id), live }];
    let checkpoint = Checkpoint { segment: SegmentId(id), streams, ..Checkpoint::default() };
    writer.push(u64::from(id) * 10, &Entry::Checkpoint(checkpoint)).unwrap();
    writer.finish();
    writer.take().into_iter().flat_map(|write| write.bytes).collect()
}

fn open(disk: &Memory) -> Opened {
    let options = SpoolOptions {
        directory: LOG.into(),
        keys: Vec::new(),
        commit_max: 1,
        commit_delay: Duration::ZERO,
        standby: false,
    };
    open_on(Arc::new(disk.clone()), None, &options, "gate", (1, 2)).unwrap()
}

fn told(opened: &Opened) -> Vec<(u32, DamageKind)> {
    opened.recovery.damage.iter().map(|damage| (damage.segment.0, damage.verdict)).collect()
}

fn quarantined(disk: &Memory) -> Vec<String> {
    let files = disk.files(&Path::new(LOG).join("quarantine"));
    files.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn an_empty_segment_and_stray_files_do_not_block_a_start() {
    let disk = log(2);
    let names =
        ["0000000003.segment", "7.segment", "+8.segment", "notes.txt", "00000000010.segment"];
    for name in names {
        disk.open(&Path::new(LOG).join(name), How::New).unwrap();
    }
    // A folder that is called like a segment.
    disk.make_folder(&path(9), 0).unwrap();
    let opened = open(&disk);
    assert_eq!(told(&opened), []);
    assert_eq!(opened.recovery.next_segment(), SegmentId(3));
    assert!(disk.open(&path(3), How::New).is_ok(), "nothing stands in the way of the next segment");
    let left: Vec<PathBuf> = disk.files(Path::new(LOG));
    assert!(names[1..].iter().all(|name| left.contains(&Path::new(LOG).join(name))), "{left:?}");
}

#[test]
fn damaged_files_go_to_quarantine_and_are_never_deleted() {
    let disk = log(5);
    let mut head = segment(2);
    (head[5], head[COPY_AT + 5]) = (0, 0);
    disk.rot(&path(2), Some(head.clone()));
    disk.rot(&path(6), Some(segment(1)));
    let mut spare = segment(5);
    spare[20] ^= 1;
    disk.rot(&path(5), Some(spare.clone()));
    let opened = open(&disk);
    let expected = [(6, DamageKind::Other), (5, DamageKind::Spare), (2, DamageKind::Header)];
    assert_eq!(told(&opened), expected);
    assert_eq!((damaged_ranges(&opened.recovery), opened.folder.quarantined()), (3, 2));
    // All that is owed is still owed, of the one that is gone too: the node counts it.
    assert_eq!(opened.recovery.live().count(), 4);
    let files = ["0000000002.segment", "0000000005.damaged", "0000000006.segment"];
    assert_eq!(quarantined(&disk), files);
    // Nothing needs the fifth any more, in this life or the next one.
    let again = open(&disk);
    assert!(
        again.folder.discard(SegmentId(5)).unwrap() && !again.folder.discard(SegmentId(4)).unwrap()
    );
    assert_eq!(disk.content(&Path::new(LOG).join("quarantine/0000000005.segment")), spare);
    assert_eq!(disk.content(&Path::new(LOG).join("quarantine/0000000002.segment")), head);
    // The same number once more.
    disk.rot(&path(2), Some(head));
    open(&disk);
    assert!(
        quarantined(&disk).contains(&"0000000002.segment+1".to_owned()),
        "{:?}",
        quarantined(&disk)
    );
}

#[test]
fn exchanged_files_are_read_in_each_others_place() {
    let disk = log(5);
    disk.rot(&path(3), Some(segment(5)));
    disk.rot(&path(5), Some(segment(3)));
    let opened = open(&disk);
    assert_eq!(told(&opened), [(3, DamageKind::Moved), (5, DamageKind::Moved)]);
    assert_eq!(opened.recovery.live().count(), 4, "the newest checkpoint is read where it stands");
    assert_eq!(opened.folder.path(SegmentId(3)), path(5));
    assert!(opened.recovery.is_certain && opened.folder.quarantined() == 0);
}

#[test]
fn a_segment_is_read_where_it_stands_though_its_own_file_is_of_no_use() {
    // The only one that is left stands in another file, and its own holds nothing or something else.
    for own in [vec![0xff; 9000], segment(1)] {
        let disk = log(0);
        disk.rot(&path(2), Some(own));
        disk.rot(&path(6), Some(segment(2)));
        disk.rot(&path(1), Some(segment(1)));
        let opened = open(&disk);
        assert!(opened.recovery.segments.contains_key(&SegmentId(2)), "{:?}", told(&opened));
        assert_eq!((opened.folder.path(SegmentId(2)), opened.folder.quarantined()), (path(6), 1));
        assert_eq!(opened.recovery.live().count(), 1);
    }
}

#[test]
fn what_lies_in_quarantine_counts_until_a_newer_checkpoint_is_there() {
    let disk = log(3);
    disk.rot(&path(3), Some(vec![0xff; 9000]));
    for _ in 0..2 {
        // The second start does not meet the file any more.
        let opened = open(&disk);
        assert!(!opened.recovery.is_certain);
        assert_eq!(opened.recovery.next_segment(), SegmentId(4));
    }
    disk.rot(&path(4), Some(segment(4)));
    assert!(open(&disk).recovery.is_certain);
}
