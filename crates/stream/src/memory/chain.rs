//! What a whole chain remembers of one key: its steps, one behind the other.

use bytes::Bytes;
use tidegate_types::codec::{Reader, Sink};
use tidegate_types::units::Time;

use super::{MemoryError, Saver, VERSION};
use crate::chain::{Chain, ChainInstance};

impl ChainInstance {
    /// What it remembers, in at most `most` bytes; `None` where no step remembers anything.
    ///
    /// # Errors
    /// It is too large, or a script's function did not save.
    pub fn save(&self, now: Time, most: usize) -> Result<Option<Bytes>, MemoryError> {
        let mut to = Saver { now, bytes: vec![VERSION], most, error: None };
        let mut is_empty = true;
        to.count(self.runs().len());
        for run in self.runs() {
            let at = to.bytes.len();
            to.count(0);
            let begin = to.bytes.len();
            run.save(&mut to);
            if let Some(error) = to.error {
                return Err(error);
            }
            let length = to.bytes.len() - begin;
            is_empty &= length == 0;
            to.bytes[at..begin].copy_from_slice(&(length as u32).to_le_bytes());
        }
        Ok((!is_empty).then(|| to.bytes.into()))
    }
}

impl Chain {
    /// What works on one key, with what another one of the same steps has saved.
    ///
    /// # Errors
    /// It was no chain of such steps.
    pub fn load(&self, now: Time, bytes: &[u8]) -> Result<ChainInstance, MemoryError> {
        let mut from = Reader::new(bytes);
        let version = from.u8()?;
        if version != VERSION {
            return Err(MemoryError::Version(version));
        }
        let mut work = self.start();
        let count = from.count(usize::MAX)?;
        from.must(count == work.runs().len(), "as many steps as the chain has")?;
        for run in work.runs_mut() {
            let mut its = Reader::new(from.bytes()?);
            run.load(now, &mut its)?;
            its.end()?;
        }
        from.end()?;
        Ok(work)
    }
}
