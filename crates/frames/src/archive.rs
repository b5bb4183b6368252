//! Frames in a file, one behind the other, as a camera's node keeps them for replay; and what became of each.
//! Source: own.
//! Inputs: frames; the bytes of a file. Outputs: bytes; where each whole frame is. O(bytes).
//! Deviations: not the records' log: a frame has no fate to keep it for, and goes when newer ones need the room.
//! Limits: `super::piece::FRAME_MAX`.

use tidegate_types::crc::crc32c;

use super::piece::FRAME_MAX;

/// What each file begins with: the format's name and version.
pub const MAGIC: [u8; 8] = *b"TGFRAME1";
/// The same of a file whose entries are sealed: a salt follows.
pub const MAGIC_SEALED: [u8; 8] = *b"TGSEALD1";
/// Bytes of the salt.
pub const SALT: usize = 12;
/// Bytes that sealing adds to an entry.
pub const TAG: usize = 16;
/// Bytes before a frame: its length, its number, and the checksum of both and the frame.
pub const HEAD: usize = 4 + 8 + 4;

/// Where a frame is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedFrame {
    /// Its number.
    pub number: u64,
    /// Place of its first byte.
    pub offset: u64,
    /// Its bytes.
    pub length: u32,
}

/// What stands before a frame.
pub fn head(number: u64, frame: &[u8]) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&(frame.len() as u32).to_be_bytes());
    head[4..12].copy_from_slice(&number.to_be_bytes());
    let crc = crc32c(crc32c(0, &head[..12]), frame);
    head[12..].copy_from_slice(&crc.to_be_bytes());
    head
}

/// The bytes before the first entry of a file, and the salt of one that is sealed; `None`: it is no such file.
pub fn begin(file: &[u8]) -> Option<(usize, Option<[u8; SALT]>)> {
    let (magic, rest) = file.split_first_chunk::<8>()?;
    match *magic {
        MAGIC => Some((MAGIC.len(), None)),
        MAGIC_SEALED => Some((MAGIC_SEALED.len() + SALT, Some(*rest.first_chunk::<SALT>()?))),
        _ => None,
    }
}

/// Every whole frame of a file, and how many of its bytes are right. What comes behind a damaged frame is
/// not looked for: files are short.
pub fn scan(file: &[u8]) -> (Vec<ArchivedFrame>, usize) {
    let mut found = Vec::new();
    let Some((mut at, _)) = begin(file) else { return (found, 0) };
    while let Some(whole) = read(&file[at..]) {
        let (number, frame) = whole;
        let length = frame.len() as u32;
        found.push(ArchivedFrame { number, offset: (at + HEAD) as u64, length });
        at += HEAD + frame.len();
    }
    (found, at)
}

/// Whether a file in which no whole frame is found is one whose writing was broken off: all that is there is the
/// beginning of one. Any other may have been damaged since, or be of another version.
pub fn is_torn(file: &[u8]) -> bool {
    let Some((at, _)) = begin(file) else {
        let may_become = |magic: [u8; 8], length| {
            let known = file.len().min(magic.len());
            file.len() < length && file[..known] == magic[..known]
        };
        return may_become(MAGIC, MAGIC.len())
            || may_become(MAGIC_SEALED, MAGIC_SEALED.len() + SALT);
    };
    let entry = &file[at..];
    match entry.first_chunk::<HEAD>() {
        None => true,
        Some([a, b, c, d, ..]) => {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let is_short = length <= FRAME_MAX + TAG && entry.len() < HEAD + length;
            // Numbers are times: those of one file begin alike.
            let is_like = |at: &usize| entry.get(at + 4..at + 7) == Some(&entry[4..7]);
            let mut others = (HEAD..entry.len()).filter(is_like);
            is_short && !others.any(|at| read(&entry[at..]).is_some())
        }
    }
}

/// The frame that begins here, if it is whole.
fn read(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (number, _) = rest.split_first_chunk::<8>()?;
    let (length, number) = (u32::from_be_bytes(*length) as usize, u64::from_be_bytes(*number));
    if length > FRAME_MAX + TAG {
        return None;
    }
    let frame = bytes.get(HEAD..HEAD + length)?;
    (bytes[..HEAD] == head(number, frame)).then_some((number, frame))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(frames: &[&[u8]]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        for (number, frame) in frames.iter().enumerate() {
            file.extend(head(number as u64 + 1, frame));
            file.extend(*frame);
        }
        file
    }

    #[test]
    fn every_whole_frame_of_a_torn_file_is_found() {
        let whole = file(&[b"first", b"", b"third"]);
        let (all, right) = scan(&whole);
        let numbers: Vec<u64> = all.iter().map(|stored| stored.number).collect();
        assert_eq!((numbers, right), (vec![1, 2, 3], whole.len()));
        let ArchivedFrame { offset, length, .. } = all[2];
        assert_eq!(&whole[offset as usize..][..length as usize], b"third");
        for cut in 0..whole.len() {
            let (found, right) = scan(&whole[..cut]);
            assert!(right <= cut && found.len() < 3, "{cut}");
            assert_eq!(found[..], all[..found.len()]);
        }
    }

    #[test]
    fn a_file_that_was_broken_off_is_told_from_a_damaged_one() {
        let whole = file(&[b"first"]);
        assert!((0..whole.len()).all(|cut| is_torn(&whole[..cut])));
        let sealed = b"TGSEALD1abcdefghijkl\0\0";
        assert!((0..=sealed.len()).all(|cut| is_torn(&sealed[..cut])));
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            // A length that has grown looks like one whose end is missing.
            assert_eq!(is_torn(&damaged), (8..=10).contains(&at), "{at}");
        }
        let mut damaged = file(&[b"first", b"second"]);
        damaged[10] ^= 1;
        assert!(!is_torn(&damaged), "the second one is whole");
        assert!(!is_torn(b"TGFRAME2") && !is_torn(&[0; 40]));
    }

    #[test]
    fn a_sealed_file_begins_with_its_salt() {
        let mut sealed = b"TGSEALD1abcdefghijkl".to_vec();
        sealed.extend(head(7, b"x"));
        sealed.push(b'x');
        assert_eq!(begin(&sealed), Some((20, Some(*b"abcdefghijkl"))));
        assert_eq!(scan(&sealed).0, [ArchivedFrame { number: 7, offset: 36, length: 1 }]);
        assert_eq!((begin(&sealed[..19]), begin(b"TGFRAME2")), (None, None));
    }

    #[test]
    fn a_golden_file_is_read() {
        let golden = *b"TGFRAME1\0\0\0\x01\0\0\0\0\0\0\0\x07";
        let mut golden = golden.to_vec();
        let crc = crc32c(crc32c(0, &golden[8..]), b"x");
        golden.extend(crc.to_be_bytes());
        golden.push(b'x');
        assert_eq!(scan(&golden).0, [ArchivedFrame { number: 7, offset: 24, length: 1 }]);
    }

    proptest! {
        #[test]
        fn a_changed_byte_ends_what_is_found_there(at in 8_usize..60, with in 1_u8..) {
            let mut bytes = file(&[b"0123456789", b"abcdefghij"]);
            let place = at.min(bytes.len() - 1);
            bytes[place] ^= with;
            let expected = usize::from(place >= 8 + HEAD + 10);
            prop_assert_eq!(scan(&bytes).0.len(), expected);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut file = MAGIC.to_vec();
            file.extend(bytes);
            let _ = scan(&file);
        }
    }
}
