//! What operators remember, as bytes: a node that takes over a topic goes on with it.
//!
//! What works on one key is written by [`crate::ChainInstance::save`] and read by [`crate::Chain::load`]: a version, then for each step how
//! many bytes it has, and those, in which numbers are little-endian. A time is written as how long ago it was, for no
//! two nodes have one clock. Bytes come from another node: [`Loader`] and the steps check all that they read, so that a
//! step never holds more than it would have come to by itself. `bundle` is what several keys remember.

pub mod bundle;
mod chain;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::units::Time;

/// The version of these forms.
pub const VERSION: u8 = 1;

/// Why nothing is saved, or what was saved is of no use here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Another version wrote it.
    #[error("it has the form of version {0}, and this node knows {VERSION}")]
    Version(u8),
    /// No step of this kind has written it.
    #[error("malformed {0}")]
    Malformed(&'static str),
    /// There is more of it than there is room for.
    #[error("it is too large")]
    Large,
    /// A script's own function did not do it.
    #[error("{0}")]
    Script(String),
}

use MemoryError::Malformed;

/// Takes what steps remember.
#[derive(Debug)]
pub struct Saver {
    now: Time,
    bytes: Vec<u8>,
    most: usize,
    error: Option<MemoryError>,
}

impl Saver {
    fn put(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > self.most {
            self.fail(MemoryError::Large);
        }
        if self.error.is_none() {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Nothing of this chain is to be saved.
    pub fn fail(&mut self, error: MemoryError) {
        self.error.get_or_insert(error);
    }

    /// Adds a whole number.
    pub fn number(&mut self, number: u64) {
        self.put(&number.to_le_bytes());
    }

    /// Adds a number.
    pub fn float(&mut self, number: f64) {
        self.number(number.to_bits());
    }

    /// Adds how many of something follow.
    pub fn count(&mut self, count: usize) {
        self.put(&(count as u32).to_le_bytes());
    }

    /// Adds whether something is so.
    pub fn flag(&mut self, is_so: bool) {
        self.put(&[u8::from(is_so)]);
    }

    /// Adds bytes, and how many they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
    }

    /// Adds how long ago a time was, and `before`.
    pub(super) fn age(&mut self, of: Time, before: Duration) {
        let age = (self.now.since(of) + before).as_nanos();
        self.number(u64::try_from(age).unwrap_or(u64::MAX));
    }

    pub(super) fn floats(&mut self, all: &VecDeque<f64>) {
        self.count(all.len());
        all.iter().for_each(|number| self.float(*number));
    }
}

/// Reads what steps have saved.
#[derive(Debug)]
pub struct Loader<'a> {
    now: Time,
    left: &'a [u8],
}

impl<'a> Loader<'a> {
    fn new(now: Time, bytes: &'a [u8]) -> Self {
        Loader { now, left: bytes }
    }

    /// The time on this node's clock.
    pub(super) fn now(&self) -> Time {
        self.now
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], MemoryError> {
        let (first, left) = self.left.split_first_chunk().ok_or(Malformed("end"))?;
        self.left = left;
        Ok(*first)
    }

    /// A whole number.
    ///
    /// # Errors
    /// There is none; so for all others.
    pub fn number(&mut self) -> Result<u64, MemoryError> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number that is one.
    ///
    /// # Errors
    /// It is none.
    pub fn float(&mut self) -> Result<f64, MemoryError> {
        let number = f64::from_bits(self.number()?);
        if number.is_nan() { Err(Malformed("number")) } else { Ok(number) }
    }

    /// How many of something follow.
    ///
    /// # Errors
    /// More than `most`.
    pub fn count(&mut self, most: usize) -> Result<usize, MemoryError> {
        let count = u32::from_le_bytes(self.take()?) as usize;
        if count > most { Err(Malformed("count")) } else { Ok(count) }
    }

    /// Whether something is so.
    ///
    /// # Errors
    /// It is neither so nor not.
    pub fn flag(&mut self) -> Result<bool, MemoryError> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(Malformed("flag")),
        }
    }

    /// Bytes.
    ///
    /// # Errors
    /// There are fewer.
    pub fn bytes(&mut self) -> Result<&'a [u8], MemoryError> {
        let length = self.count(self.left.len())?;
        let (bytes, left) = self.left.split_at_checked(length).ok_or(Malformed("end"))?;
        self.left = left;
        Ok(bytes)
    }

    /// A text.
    ///
    /// # Errors
    /// It is none.
    pub fn text(&mut self) -> Result<&'a str, MemoryError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed("text"))
    }

    pub(super) fn shared_text(&mut self) -> Result<Arc<str>, MemoryError> {
        self.text().map(Into::into)
    }

    pub(super) fn age(&mut self) -> Result<Duration, MemoryError> {
        self.number().map(Duration::from_nanos)
    }

    pub(super) fn floats(&mut self, most: usize) -> Result<VecDeque<f64>, MemoryError> {
        let count = self.count(most)?;
        let number = |_| self.float().and_then(finite);
        (0..count).map(number).collect()
    }

    /// Whether all was read.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    fn end(&self) -> Result<(), MemoryError> {
        if self.is_empty() { Ok(()) } else { Err(Malformed("end")) }
    }
}

/// The number, where it is finite.
pub(super) fn finite(number: f64) -> Result<f64, MemoryError> {
    if number.is_finite() { Ok(number) } else { Err(Malformed("number")) }
}

/// An error where something is not so.
pub(super) fn must(is_so: bool, what: &'static str) -> Result<(), MemoryError> {
    if is_so { Ok(()) } else { Err(Malformed(what)) }
}
