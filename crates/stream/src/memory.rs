//! What operators remember, as bytes: a node that takes over a topic goes on with it.
//!
//! What works on one key is written by [`crate::ChainInstance::save`] and read by [`crate::Chain::load`]: a version, then for each step how
//! many bytes it has, and those, in which numbers are little-endian. A time is written as how long ago it was, for no
//! two nodes have one clock. Bytes come from another node: steps check all that they read, so that a
//! step never holds more than it would have come to by itself. `bundle` is what several keys remember.

pub mod bundle;
mod chain;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_types::codec::{Malformed, Reader, Sink};
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
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// There is more of it than there is room for.
    #[error("it is too large")]
    Large,
    /// The step itself, such as a script's own function, did not do it.
    #[error("{0}")]
    Step(String),
}

/// Takes what steps remember, up to a number of bytes.
#[derive(Debug)]
pub struct Saver {
    now: Time,
    bytes: Vec<u8>,
    most: usize,
    error: Option<MemoryError>,
}

impl Sink for Saver {
    fn put(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > self.most {
            self.fail(MemoryError::Large);
        }
        if self.error.is_none() {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

impl Saver {
    /// Nothing of this chain is to be saved.
    pub fn fail(&mut self, error: MemoryError) {
        self.error.get_or_insert(error);
    }

    /// Adds how long ago a time was, and `before`.
    pub(super) fn age(&mut self, of: Time, before: Duration) {
        let age = (self.now.since(of) + before).as_nanos();
        self.u64(u64::try_from(age).unwrap_or(u64::MAX));
    }

    pub(super) fn floats(&mut self, all: &VecDeque<f64>) {
        self.count(all.len());
        all.iter().for_each(|number| self.f64(*number));
    }
}

/// A number that is finite.
pub(super) fn finite(from: &mut Reader<'_>) -> Result<f64, Malformed> {
    let number = from.f64()?;
    from.must(number.is_finite(), "a finite number").map(|()| number)
}

/// At most so many finite numbers.
pub(super) fn floats(most: usize, from: &mut Reader<'_>) -> Result<VecDeque<f64>, MemoryError> {
    let count = from.count(most)?;
    Ok(from.values(count, 8, finite)?.into())
}
