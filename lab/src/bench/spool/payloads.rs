//! What is in the records: bytes that no store can make smaller, for one of them compresses.

use bytes::Bytes;

use super::SIZE;

/// So many different records.
const POOL: u64 = 4096;

/// Random payloads, one behind the other.
pub(super) struct Payloads {
    bytes: Bytes,
}

impl Payloads {
    /// For groups of at most so many records.
    pub(super) fn new(group: usize) -> Payloads {
        let mut random = oorandom::Rand64::new(1);
        let words = (POOL as usize + group) * SIZE / 8;
        let bytes: Vec<u8> = (0..words).flat_map(|_| random.rand_u64().to_le_bytes()).collect();
        Payloads { bytes: bytes.into() }
    }

    pub(super) fn of(&self, number: u64) -> Bytes {
        self.of_group(number, 1)
    }

    /// Of so many from `first` on, one behind the other.
    pub(super) fn of_group(&self, first: u64, group: usize) -> Bytes {
        let begin = (first % POOL) as usize * SIZE;
        self.bytes.slice(begin..begin + group * SIZE)
    }
}
