//! A record of the link's benchmarks: which stream, its place in it, and when it was due.

use oorandom::Rand64;

/// Bytes of the head.
pub(super) const HEAD: usize = 24;
/// Sizes with their heads: what a log-uniform choice gives.
const SIZES: (f64, f64) = (1000.0, 64_000.0);

/// The head of a record; the rest is filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) stream: u32,
    /// Bytes of all of it.
    pub(super) size: u32,
    /// Its place in its stream, from 0.
    pub(super) seq: u64,
    /// When it was due, in nanoseconds since the Unix epoch.
    pub(super) due_ns: u64,
}

impl Record {
    /// Its bytes.
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let end = to.len() + self.size as usize;
        to.extend(self.size.to_le_bytes());
        to.extend(self.stream.to_le_bytes());
        to.extend(self.seq.to_le_bytes());
        to.extend(self.due_ns.to_le_bytes());
        to.resize(end, b'.');
    }

    /// Reads a head; `None` if there are too few bytes, or it is none of ours.
    pub(super) fn read(bytes: &[u8]) -> Option<Record> {
        let (size, rest) = bytes.split_first_chunk()?;
        let (stream, rest) = rest.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let (due_ns, _) = rest.split_first_chunk()?;
        let record = Record {
            size: u32::from_le_bytes(*size),
            stream: u32::from_le_bytes(*stream),
            seq: u64::from_le_bytes(*seq),
            due_ns: u64::from_le_bytes(*due_ns),
        };
        (record.size as usize >= HEAD && record.size <= 1 << 20).then_some(record)
    }
}

/// Records one after the other, each of the next stream.
#[derive(Clone, Debug)]
pub(super) struct Records {
    random: Rand64,
    streams: u32,
    sent: u64,
    most: f64,
}

impl Records {
    /// So many streams, of sizes up to `most`.
    pub(super) fn new(streams: u32, most: u32, seed: u64) -> Records {
        let most = f64::from(most).min(SIZES.1);
        Records { random: Rand64::new(seed.into()), streams, sent: 0, most }
    }

    pub(super) fn next(&mut self, due_ns: u64) -> Record {
        let (least, most) = (SIZES.0, self.most);
        let size = least * (most / least).powf(self.random.rand_float());
        let streams = u64::from(self.streams);
        let (stream, seq) = ((self.sent % streams) as u32, self.sent / streams);
        self.sent += 1;
        Record { stream, size: size as u32, seq, due_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_and_sizes_are_log_uniform() {
        let mut records = Records::new(64, 64_000, 7);
        let mut sum = 0.0;
        for number in 0..6400 {
            let record = records.next(number);
            assert_eq!((u64::from(record.stream), record.seq), (number % 64, number / 64));
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            assert_eq!((bytes.len(), Record::read(&bytes)), (record.size as usize, Some(record)));
            sum += f64::from(record.size);
        }
        // (64000 - 1000) / ln 64
        assert!((sum / 6400.0 / 15_148.0 - 1.0).abs() < 0.05, "{}", sum / 6400.0);
        assert_eq!(Record::read(&[0; HEAD]), None);
    }
}
