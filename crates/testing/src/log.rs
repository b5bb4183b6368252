//! What must hold for any bytes that stand where a log should.

use tidegate_log::{Checkpoint, Entry};
use tidegate_log::{
    FRAME, Header, Key, LogName, OpenedHeader, Scanned, Scanner, SegmentBytes, SegmentId,
    SegmentWindow, TAG_LENGTH, Writer, fetch, find_footer, recover,
};
use tidegate_types::crc::crc32c;
use tidegate_types::record::StreamId;
use tidegate_types::units::Size;

/// Reads bytes as a log. The first one chooses: as a segment, as bodies of entries with true checksums
/// (which no fuzzer would find), or as what stands behind a sealed header. Panics where recovery does not
/// keep its promises.
pub fn scan_log(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let keys = [Key::new(&[9; 32])];
    let keys = if choice % 3 == 2 { &keys[..] } else { &[] };
    let segment = match choice % 3 {
        0 => bytes.to_vec(),
        1 => framed(bytes),
        _ => [head(keys).0, bytes.to_vec()].concat(),
    };
    let part = SegmentBytes {
        segment: SegmentId(1),
        size: Size(segment.len() as u64),
        bytes: Some(&segment),
    };
    let Ok(recovery) = recover(&[part], keys) else { return };
    for damage in &recovery.damage {
        assert!(damage.from < damage.to || damage.to == 0, "{damage:?}");
        assert!(damage.to <= segment.len() as u64, "{damage:?}");
    }
    assert!(recovery.live().all(|(_, at, run)| run.first <= run.last && at <= SegmentId(u32::MAX)));
    let Ok(opened) = Header::open(&segment, keys) else { return };
    let mut at = opened.length;
    for found in Scanner::new(&opened, &segment) {
        // Nothing is skipped, nothing is read twice.
        let (from, to) = match found {
            Scanned::Frame(frame) => (frame.offset, frame.end()),
            Scanned::Damage { from, to, .. } => (from, to),
        };
        assert!(from == at && to > from && to <= segment.len(), "{found:?} after {at}");
        at = to;
    }
    find_footer(&opened, &segment);
    check_fetch(&opened, &segment);
}

/// Reading in small windows finds the records that reading at once does, where nothing is damaged.
fn check_fetch(opened: &OpenedHeader, segment: &[u8]) {
    let streams = (0..4).map(StreamId).collect();
    let all = SegmentWindow { from: 0, bytes: segment, is_last: true };
    let whole = fetch(opened, all, &streams, Size(u64::MAX));
    assert!(whole.is_end && whole.next as usize <= segment.len());
    let is_sound = Scanner::new(opened, segment).all(|found| matches!(found, Scanned::Frame(_)));
    let (mut from, mut length, mut records) = (0_u32, 40, 0);
    if !is_sound {
        return;
    }
    loop {
        let end = (from as usize + length).min(segment.len());
        let bytes = &segment[from as usize..end];
        let window = SegmentWindow { from, bytes, is_last: end == segment.len() };
        let part = fetch(opened, window, &streams, Size(100));
        assert!(part.next > from || part.needs.is_some_and(|needs| needs > length) || part.is_end);
        records += part.records.len();
        (from, length) = (part.next, part.needs.unwrap_or(40));
        if part.is_end {
            assert_eq!(records, whole.records.len());
            break;
        }
    }
}

/// The bytes of a header, and its salt.
fn head(keys: &[Key]) -> (Vec<u8>, u32) {
    let name = LogName { node: "fuzz".into(), incarnation: 1, boot: 2, outputs: vec!["a".into()] };
    let mut writer = Writer::new(name, keys);
    let checkpoint = Checkpoint { segment: SegmentId(1), ..Checkpoint::default() };
    let pushed = writer.push(1, &Entry::Checkpoint(checkpoint));
    let bytes = pushed.map(|()| writer.take().remove(0).bytes).unwrap_or_default();
    let length = Header::open(&bytes, keys).map_or(0, |opened| opened.length);
    let salt = Header::open(&bytes, keys).map_or(0, |opened| opened.salt);
    (bytes[..length].to_vec(), salt)
}

/// A segment of entries with these bodies: each is a kind, a length, and so many bytes.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let (mut segment, salt) = head(&[]);
    let mut sequence = 0_u64;
    while let [kind, length, rest @ ..] = bytes {
        let (body, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        sequence += 1;
        let mut frame = vec![0; FRAME];
        frame[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
        frame[8..16].copy_from_slice(&sequence.to_le_bytes());
        frame[16] = kind % 8;
        frame.extend(body);
        let crc = crc32c(salt, &frame[4..]);
        frame[..4].copy_from_slice(&crc.to_le_bytes());
        segment.extend(frame);
        bytes = rest;
    }
    segment.extend([0; TAG_LENGTH]);
    segment
}
