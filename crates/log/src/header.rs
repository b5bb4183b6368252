//! The head of a segment: what it is, whose it is, and which version wrote it.

use std::sync::Arc;

use tidegate_types::codec::{Malformed, Reader, Sink};
use tidegate_types::crc::crc32c;

use super::seal::{Key, Keys, SegmentKey, TAG_LENGTH};
use super::{Defect, SegmentId, VERSION};

/// What every segment begins with.
pub const MAGIC: [u8; 8] = *b"tidegate";
/// Feature bit: bodies of entries are sealed.
pub const SEALED: u16 = 1;
/// Feature bit: the header is there twice, so that no single block of a disk takes a segment with it.
pub const TWICE: u16 = 2;
/// Feature bit: sessions may say whose they are.
pub const OWNERS: u16 = 4;
/// Feature bit: fates may tell what acted on a delivery before.
pub const DEEDS: u16 = 8;
/// Where the second copy begins. A longer header has none.
pub const COPY_AT: usize = 4096;
/// Longest header: a name and some outputs.
pub const HEADER_MAX: usize = 64 * 1024;
/// Bytes before the node's name.
const FIXED: usize = 40;
/// The sequence that the header's own nonce has; no entry ever has it.
const HEADER_SEQUENCE: u64 = u64::MAX;

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The node whose log it is.
    pub node: Arc<str>,
    /// Which life of that node's log.
    pub incarnation: u64,
    /// A random number of the process that wrote it: monotonic times compare only within a boot.
    pub boot: u64,
    /// Its place in the log.
    pub segment: SegmentId,
    /// The node's outputs: bit `n` of `Destinations` means the one at place `n`.
    pub outputs: Vec<Arc<str>>,
    /// Whether its entries are sealed.
    pub is_sealed: bool,
}

/// A header as it was read.
#[derive(Clone, Debug)]
pub struct OpenedHeader {
    /// What it says.
    pub header: Header,
    /// Its length: where the first entry begins.
    pub length: usize,
    /// What the checksums of the segment's entries begin with: nothing that was not written for this
    /// very segment, in this very boot, is ever taken for an entry of it.
    pub salt: u32,
    /// The key that opens its entries, if they are sealed.
    pub key: Option<SegmentKey>,
    /// Whether the header is there twice.
    pub is_twice: bool,
    /// Whether the second copy was read, because the first one is damaged.
    pub is_copy: bool,
    /// Whether its fates tell what acted on deliveries: older ones never do.
    pub tells_deeds: bool,
}

impl Header {
    /// The key of its segment's entries.
    pub(super) fn key(&self, key: &Key) -> SegmentKey {
        key.of_segment(self.boot, self.segment)
    }

    /// Its bytes, both copies and what is between them, and the salt of the segment's entries. `key` is the
    /// one that seals, if one does.
    pub(super) fn encode(&self, key: Option<&SegmentKey>) -> (Vec<u8>, u32) {
        let (mut bytes, salt) = self.encode_once(key, TWICE | OWNERS | DEEDS);
        if bytes.len() > COPY_AT {
            return self.encode_once(key, OWNERS | DEEDS);
        }
        let length = bytes.len();
        bytes.resize(COPY_AT, 0);
        bytes.extend_from_within(..length);
        (bytes, salt)
    }

    fn encode_once(&self, key: Option<&SegmentKey>, features: u16) -> (Vec<u8>, u32) {
        let mut bytes = Vec::new();
        bytes.put(&MAGIC);
        bytes.u16(VERSION);
        bytes.u16(features | if key.is_some() { SEALED } else { 0 });
        bytes.u32(0);
        bytes.u64(self.incarnation);
        bytes.u64(self.boot);
        bytes.u32(self.segment.0);
        bytes.count(self.outputs.len());
        bytes.name(&self.node);
        self.outputs.iter().for_each(|name| bytes.name(name));
        let length = bytes.len() + TAG_LENGTH + 4;
        bytes[12..16].copy_from_slice(&(length as u32).to_le_bytes());
        let tag = key.and_then(|key| key.seal(HEADER_SEQUENCE, &bytes, &mut []));
        bytes.put(&tag.unwrap_or_default());
        let crc = crc32c(0, &bytes);
        bytes.u32(crc);
        (bytes, crc)
    }

    /// Reads the head of a segment: its second copy where the first one is damaged. Bytes after it are not
    /// looked at.
    ///
    /// # Errors
    /// See [`Defect`]: only `Damaged` is about the bytes; the others mean that this process must not
    /// use the log.
    pub fn open(bytes: &[u8], keys: &Keys) -> Result<OpenedHeader, Defect> {
        let first = Header::open_once(bytes, keys);
        let is_copy = matches!(first, Err(Defect::Damaged));
        let opened = match bytes.get(COPY_AT..).filter(|_| is_copy) {
            Some(copy) => Header::open_once(copy, keys)?,
            None => first?,
        };
        match opened.is_twice {
            true => Ok(OpenedHeader { length: COPY_AT + opened.length, is_copy, ..opened }),
            // A header that has no copy is not found where copies are.
            false if is_copy => Err(Defect::Damaged),
            false => Ok(opened),
        }
    }

    /// Whether each copy of a segment's header that there should be is whole.
    pub fn is_whole(opened: &OpenedHeader, segment: &[u8]) -> bool {
        let Some(length) = opened.length.checked_sub(COPY_AT).filter(|_| opened.is_twice) else {
            return true;
        };
        !opened.is_copy && segment.get(..length) == segment.get(COPY_AT..opened.length)
    }

    /// Reads one copy.
    fn open_once(bytes: &[u8], keys: &Keys) -> Result<OpenedHeader, Defect> {
        let fixed = bytes.get(..FIXED).ok_or(Defect::Damaged)?;
        let length = u32::from_le_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]) as usize;
        if fixed[..8] != MAGIC || length > HEADER_MAX {
            return Err(Defect::Damaged);
        }
        let whole = bytes.get(..length).ok_or(Defect::Damaged)?;
        let (rest, crc) = whole.split_last_chunk::<4>().ok_or(Defect::Damaged)?;
        let salt = u32::from_le_bytes(*crc);
        if crc32c(0, rest) != salt {
            return Err(Defect::Damaged);
        }
        // From here on the bytes are what was written.
        let mut reader = Reader::new(&rest[8..]);
        let version = reader.u16().map_err(|_| Defect::Damaged)?;
        let features = reader.u16().map_err(|_| Defect::Damaged)?;
        if version != VERSION || features & !(SEALED | TWICE | OWNERS | DEEDS) != 0 {
            return Err(Defect::Newer { version, features });
        }
        let is_sealed = features & SEALED != 0;
        let header = Header::decode(reader, is_sealed).map_err(|_| Defect::Damaged)?;
        let (open, tag) = rest.split_at(rest.len() - TAG_LENGTH);
        let opens = |key: &SegmentKey| key.unseal(HEADER_SEQUENCE, open, tag).is_some();
        let key = match is_sealed {
            false => None,
            true if keys.is_empty() => return Err(Defect::NoKey),
            true => {
                let mut keys = keys.iter().map(|key| header.key(key));
                Some(keys.find(opens).ok_or(Defect::WrongKey)?)
            }
        };
        let is_twice = features & TWICE != 0;
        let tells_deeds = features & DEEDS != 0;
        Ok(OpenedHeader { header, length, salt, key, is_twice, is_copy: false, tells_deeds })
    }

    fn decode(mut reader: Reader<'_>, is_sealed: bool) -> Result<Self, Malformed> {
        reader.u32()?;
        let (incarnation, boot) = (reader.u64()?, reader.u64()?);
        let segment = SegmentId(reader.u32()?);
        let outputs = reader.u32()?;
        let node = reader.name()?.into();
        let outputs = (0..outputs).map(|_| Ok(reader.name()?.into())).collect::<Result<_, _>>()?;
        reader.take(TAG_LENGTH)?;
        reader.end()?;
        Ok(Header { node, incarnation, boot, segment, outputs, is_sealed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let outputs = vec!["cloud".into(), "archive".into()];
        let (incarnation, boot, segment) = (7, 9, SegmentId(3));
        Header { node: "gate-7".into(), incarnation, boot, segment, outputs, is_sealed: false }
    }

    #[test]
    fn what_was_written_is_read() {
        let (mut bytes, salt) = header().encode(None);
        let length = bytes.len();
        bytes.extend([1, 2, 3]);
        let opened = Header::open(&bytes, &[]).unwrap();
        assert_eq!((opened.header, opened.length, opened.salt), (header(), length, salt));
    }

    #[test]
    fn every_bit_is_protected_and_nothing_short_is_a_header() {
        let (bytes, _) = header().encode(None);
        let length = bytes.len() - COPY_AT;
        for bit in 0..length * 8 {
            let mut bytes = bytes[..length].to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::open(&bytes, &[]).unwrap_err(), Defect::Damaged, "bit {bit}");
        }
        for length in 0..length {
            assert_eq!(Header::open(&bytes[..length], &[]).unwrap_err(), Defect::Damaged);
        }
    }

    #[test]
    fn either_copy_of_a_header_will_do() {
        let (whole, salt) = header().encode(None);
        let length = whole.len() - COPY_AT;
        let opened = Header::open(&whole, &[]).unwrap();
        assert!(Header::is_whole(&opened, &whole) && !opened.is_copy);
        for at in (0..length).flat_map(|at| [at, COPY_AT + at]) {
            let mut bytes = whole.clone();
            bytes[at] ^= 4;
            let opened = Header::open(&bytes, &[]).unwrap();
            assert_eq!(
                (&opened.header, opened.length, opened.salt),
                (&header(), whole.len(), salt)
            );
            assert!(!Header::is_whole(&opened, &bytes), "byte {at}");
        }
        let mut bytes = whole;
        bytes[..COPY_AT].fill(0);
        assert_eq!(Header::open(&bytes, &[]).unwrap().header, header());
        bytes[COPY_AT + 5] ^= 1;
        assert_eq!(Header::open(&bytes, &[]).unwrap_err(), Defect::Damaged);
    }

    #[test]
    fn a_header_longer_than_a_copys_place_stands_alone() {
        let outputs = (0..30).map(|place| format!("{place:0200}").into()).collect();
        let long = Header { outputs, ..header() };
        let (bytes, _) = long.encode(None);
        let opened = Header::open(&bytes, &[]).unwrap();
        assert_eq!((opened.length, opened.is_twice), (bytes.len(), false));
        assert!(bytes.len() > COPY_AT && Header::is_whole(&opened, &bytes));
    }

    #[test]
    fn something_newer_and_a_wrong_key_are_named() {
        let newer = |place: usize, value| {
            let (mut bytes, _) = header().encode_once(None, TWICE);
            bytes[place] = value;
            let end = bytes.len() - 4;
            let crc = crc32c(0, &bytes[..end]);
            bytes[end..].copy_from_slice(&crc.to_le_bytes());
            Header::open(&bytes, &[]).unwrap_err()
        };
        assert_eq!(newer(8, 2), Defect::Newer { version: 2, features: TWICE });
        assert_eq!(newer(10, 16), Defect::Newer { version: 1, features: 16 });
        let [old, new] = [Key::new(&[1; 32]), Key::new(&[2; 32])];
        let sealed = Header { is_sealed: true, ..header() };
        let (bytes, _) = sealed.encode(Some(&sealed.key(&old)));
        assert_eq!(Header::open(&bytes, &[]).unwrap_err(), Defect::NoKey);
        assert_eq!(Header::open(&bytes, std::slice::from_ref(&new)).unwrap_err(), Defect::WrongKey);
        assert_eq!(Header::open(&bytes, &[new, old]).unwrap().header, sealed);
    }
}
