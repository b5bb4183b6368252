//! What a generated record says about itself: its stream, its place in it, and when it was due.
//!
//! The stamp is text at the head of the payload, so that any consumer of any broker can read it.

use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};

/// What fills a payload behind its stamp: text, as some consumers want it.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// How the word of a payload begins that is the value it carries; no letter of what fills it.
const VALUE: char = '=';
/// Values are below this.
const VALUES: u64 = 10_000;

/// The head of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Its stream; no spaces.
    pub stream: String,
    /// Its place in the stream, from 0.
    pub seq: u64,
    /// When it was due to be sent, in nanoseconds since the Unix epoch: a client that is late counts
    /// against the contestant that made it wait.
    pub due_ns: u64,
}

impl Stamp {
    /// A payload of `size` bytes; more if the stamp does not fit. It is filled with text in which nothing
    /// repeats: a contestant that compresses would else carry next to nothing.
    pub fn payload(&self, size: usize) -> Vec<u8> {
        self.filled(format!("{} {} {} ", self.stream, self.seq, self.due_ns), size)
    }

    /// The same with a value in it.
    pub fn measured(&self, value: i64, size: usize) -> Vec<u8> {
        let Stamp { stream, seq, due_ns } = self;
        self.filled(format!("{stream} {seq} {due_ns} {VALUE}{value} "), size)
    }

    /// What the sensor of this stream shows for this record: anything below 10,000.
    pub fn value(&self) -> i64 {
        let name = self.stream.bytes().fold(0, |all, byte| all * 31 + u128::from(byte));
        let mut random = oorandom::Rand64::new(name << 64 | u128::from(self.seq));
        random.rand_range(0..VALUES) as i64
    }

    /// The value in a payload; `None` where there is none.
    pub(crate) fn value_in(payload: &[u8]) -> Option<i64> {
        let word = payload.split(|byte| *byte == b' ').nth(3)?;
        std::str::from_utf8(word).ok()?.strip_prefix(VALUE)?.parse().ok()
    }

    fn filled(&self, head: String, size: usize) -> Vec<u8> {
        let mut payload = head.into_bytes();
        let mut random = oorandom::Rand64::new((self.due_ns ^ self.seq << 40).into());
        while payload.len() < size {
            let word = random.rand_u64().to_be_bytes();
            let left = size - payload.len();
            let letters = word.iter().map(|byte| LETTERS[usize::from(byte % 64)]);
            payload.extend(letters.take(left));
        }
        payload
    }

    /// The group of its stream.
    pub fn group(&self) -> &str {
        Stamp::group_of(&self.stream)
    }

    /// The group of a stream by its name: of `alarm.17`, the eighteenth publisher's, it is `alarm`.
    pub(crate) fn group_of(stream: &str) -> &str {
        stream.split_once('.').map_or(stream, |(group, _)| group)
    }

    /// Reads the head of a payload.
    pub fn read(payload: &[u8]) -> anyhow::Result<Stamp> {
        const HEAD_MAX: usize = 128;
        let head = String::from_utf8_lossy(&payload[..payload.len().min(HEAD_MAX)]);
        head.parse()
    }
}

impl FromStr for Stamp {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Stamp> {
        let mut words = text.split(' ');
        let (Some(stream), Some(seq), Some(due)) = (words.next(), words.next(), words.next())
        else {
            bail!("a payload without a stamp: {text:?}");
        };
        let number = |word: &str| word.parse().with_context(|| format!("no stamp: {text:?}"));
        Ok(Stamp { stream: stream.into(), seq: number(seq)?, due_ns: number(due)? })
    }
}

/// Nanoseconds since the Unix epoch: the one clock of all processes of a benchmark.
pub fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_says_what_it_is() {
        let stamp = Stamp { stream: "alarm".into(), seq: 7, due_ns: 1_700_000_000_000_000_000 };
        let payload = stamp.payload(200);
        assert_eq!(payload.len(), 200);
        assert_eq!(Stamp::read(&payload).unwrap(), stamp);
        assert!(payload.is_ascii() && stamp.payload(0).len() < 50);
        let long = stamp.payload(20_000);
        let four: std::collections::BTreeSet<&[u8]> = long[50..].windows(4).collect();
        assert!(four.len() > 19_900, "{} of 19,947 are different", four.len());
        assert!(Stamp::read(b"hello").is_err() && Stamp::read(b"a b c").is_err());
    }

    #[test]
    fn a_payload_may_carry_a_value() {
        let stamp = |seq| Stamp { stream: "alarm".into(), seq, due_ns: 1_700_000_000_000_000_000 };
        let payload = stamp(7).measured(-42, 200);
        assert_eq!((payload.len(), Stamp::value_in(&payload)), (200, Some(-42)));
        assert_eq!(Stamp::read(&payload).unwrap(), stamp(7));
        assert_eq!(Stamp::value_in(&stamp(7).payload(200)), None);
        let values: Vec<i64> = (0..1000).map(|seq| stamp(seq).value()).collect();
        let mean = values.iter().sum::<i64>() / 1000;
        assert!(
            values.iter().all(|value| (0..10_000).contains(value)) && (4500..5500).contains(&mean)
        );
        assert_eq!(stamp(7).value(), values[7]);
    }
}
