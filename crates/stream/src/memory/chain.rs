//! What a whole chain remembers of one key: its steps, one behind the other.

use bytes::Bytes;
use tidegate_types::units::Time;

use super::{Loader, MemoryError, Saver, VERSION, must};
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
        let mut from = Loader::new(now, bytes);
        let [version] = from.take()?;
        if version != VERSION {
            return Err(MemoryError::Version(version));
        }
        let mut work = self.start();
        must(from.count(usize::MAX)? == work.runs().len(), "steps")?;
        for run in work.runs_mut() {
            let mut its = Loader::new(now, from.bytes()?);
            run.load(&mut its)?;
            its.end()?;
        }
        from.end()?;
        Ok(work)
    }
}
