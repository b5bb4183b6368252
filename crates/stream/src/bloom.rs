//! Sets that take a few bits a member and err to one side only.
//! Source: B. Bloom, Space/time trade-offs in hash coding with allowable errors, 1970; two hashes for all as Kirsch and
//! Mitzenmacher, 2006.
//! Inputs: texts. Outputs: whether one is in the set, wrongly yes in a given share of cases. O(hashes).
//! Deviations: none.
//! Limits: `BITS_MAX`.

use std::sync::Arc;

use tidegate_types::codec::{Malformed, Reader, Sink};
use tidegate_types::units::Time;

use super::chain::StepInstance;
use super::memory::{MemoryError, Saver};
use super::value::{Item, StepError};

/// Bits of one set: 16 MiB.
const BITS_MAX: u64 = 1 << 27;

/// A set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BloomFilter {
    bits: Vec<u64>,
    hashes: u32,
}

impl BloomFilter {
    /// An empty set for so many members, of which a stranger is wrongly one in this share of cases: it has
    /// `-n ln p / ln2^2` bits and `bits / n ln 2` hashes. `members >= 1`, `share` in (0, 1).
    pub fn new(members: u64, share: f64) -> BloomFilter {
        let ln2 = std::f64::consts::LN_2;
        let share = share.clamp(1e-9, 0.999);
        let bits = (members.max(1) as f64 * -share.ln() / (ln2 * ln2)).ceil();
        let bits = (bits as u64).clamp(64, BITS_MAX).next_multiple_of(64);
        let hashes = (bits as f64 / members.max(1) as f64 * ln2).round().clamp(1.0, 30.0) as u32;
        BloomFilter { bits: vec![0; (bits / 64) as usize], hashes }
    }

    /// Adds a member; false where it seems to be one already.
    pub fn insert(&mut self, member: &str) -> bool {
        let mut is_new = false;
        for (word, bit) in self.places(member) {
            is_new |= self.bits[word] & bit == 0;
            self.bits[word] |= bit;
        }
        is_new
    }

    /// Whether it seems to be a member: true for each that is one.
    pub fn contains(&self, member: &str) -> bool {
        self.places(member).all(|(word, bit)| self.bits[word] & bit != 0)
    }

    /// Adds its words; runs of empty ones, of which a young set is full, take eight bytes.
    fn save(&self, to: &mut Saver) {
        let mut left = &self.bits[..];
        while !left.is_empty() {
            let empty = left.iter().take_while(|word| **word == 0).count();
            let rest = &left[empty..];
            let full = rest.iter().take_while(|word| **word != 0).count();
            to.count(empty);
            to.count(full);
            rest[..full].iter().for_each(|word| to.u64(*word));
            left = &rest[full..];
        }
    }

    /// Takes the words of a set of the same size; it is empty.
    fn load(&mut self, from: &mut Reader<'_>) -> Result<(), Malformed> {
        let mut left = &mut self.bits[..];
        while !left.is_empty() {
            let empty = from.count(left.len())?;
            let full = from.count(left.len() - empty)?;
            from.must(empty + full > 0, "some words of a set")?;
            let (words, rest) = left.split_at_mut(empty + full);
            for word in &mut words[empty..] {
                *word = from.u64()?;
            }
            left = rest;
        }
        Ok(())
    }

    fn places(&self, member: &str) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (first, second) = hashes(member.as_bytes());
        let count = self.bits.len() as u64 * 64;
        (0..u64::from(self.hashes)).map(move |round| {
            let place = first.wrapping_add(round.wrapping_mul(second)) % count;
            ((place / 64) as usize, 1 << (place % 64))
        })
    }
}

/// Two hashes that know nothing of each other: FNV-1a, and its value mixed once more. Odd, so that all rounds differ.
fn hashes(bytes: &[u8]) -> (u64, u64) {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let first = bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    let mut random = tidegate_types::random::SplitMix(first);
    (random.number(), random.number() | 1)
}

/// Lets rows pass whose field is a member of a set.
#[derive(Clone, Debug)]
pub struct Bloom {
    /// Of this field.
    pub field: Arc<str>,
    /// Who passes.
    pub members: Arc<BloomFilter>,
}

impl StepInstance for Bloom {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let text = item.row_mut()?.find(&self.field).ok_or(StepError::Field)?.text();
        if self.members.contains(&text) {
            out.push(item);
        }
        Ok(())
    }
}

/// Lets rows pass whose field was not seen before. Two sets take turns, so that it works for ever: what was seen
/// among the last `members` values is known.
#[derive(Clone, Debug)]
pub struct Deduplicate {
    /// Of this field.
    field: Arc<str>,
    empty: Arc<BloomFilter>,
    members: u64,
    young: BloomFilter,
    old: BloomFilter,
    count: u64,
}

impl Deduplicate {
    /// Of a field, with room for so many values.
    pub fn new(field: Arc<str>, members: u64, share: f64) -> Deduplicate {
        let empty = BloomFilter::new(members, share / 2.0);
        let (young, old) = (empty.clone(), empty.clone());
        Deduplicate { field, empty: Arc::new(empty), members: members.max(1), young, old, count: 0 }
    }
}

impl StepInstance for Deduplicate {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let text = item.row_mut()?.find(&self.field).ok_or(StepError::Field)?.text();
        let was_known = self.old.contains(&text);
        if !self.young.insert(&text) {
            return Ok(());
        }
        self.count += 1;
        if self.count >= self.members {
            self.count = 0;
            self.old = std::mem::replace(&mut self.young, (*self.empty).clone());
        }
        if !was_known {
            out.push(item);
        }
        Ok(())
    }

    fn save(&self, to: &mut Saver) {
        to.u64(self.count);
        self.young.save(to);
        self.old.save(to);
    }

    fn load(&mut self, _now: Time, from: &mut Reader<'_>) -> Result<(), MemoryError> {
        self.count = from.u64()?;
        from.must(self.count < self.members, "a set that is not full")?;
        self.young.load(from)?;
        Ok(self.old.load(from)?)
    }
}
