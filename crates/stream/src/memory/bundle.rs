//! What the keys of operators remember, gathered to go along with the topics that they belong to.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_types::codec::{Reader, Sink};

use super::{MemoryError, VERSION};

/// Bytes of a bundle: half of what may wait for a member of a group, so that nothing else must give way.
pub const BUNDLE_MAX: usize = 4 << 20;

/// What one key of one operator remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// The operator's name.
    pub operator: Arc<str>,
    /// A number that is the same for operators that do the same.
    pub definition: u64,
    /// The key.
    pub key: Bytes,
    /// What [`super::ChainInstance::save`] gave.
    pub memory: Bytes,
}

impl KeyState {
    /// Bytes that it takes in a bundle.
    pub fn size(&self) -> usize {
        8 + 3 * 4 + self.operator.len() + self.key.len() + self.memory.len()
    }
}

/// All of them, one behind the other.
pub fn pack(all: &[KeyState]) -> Bytes {
    let mut to = BytesMut::with_capacity(1 + all.iter().map(KeyState::size).sum::<usize>());
    to.u8(VERSION);
    for kept in all {
        to.u64(kept.definition);
        [kept.operator.as_bytes(), &kept.key, &kept.memory].iter().for_each(|part| to.bytes(part));
    }
    to.freeze()
}

/// What [`pack`] has gathered.
///
/// # Errors
/// It is of another version, too large or damaged.
pub fn unpack(bytes: &Bytes) -> Result<Vec<KeyState>, MemoryError> {
    let mut from = Reader::new(bytes);
    let version = from.u8()?;
    if version != VERSION {
        return Err(MemoryError::Version(version));
    }
    if bytes.len() > BUNDLE_MAX {
        return Err(MemoryError::Large);
    }
    let mut all = Vec::new();
    while !from.is_empty() {
        let definition = from.u64()?;
        let operator = from.text()?.into();
        let [key, memory] = [from.bytes()?, from.bytes()?].map(|part| bytes.slice_ref(part));
        all.push(KeyState { operator, definition, key, memory });
    }
    Ok(all)
}
