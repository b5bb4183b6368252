//! What a step remembers, for each value of a field.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_types::codec::{Reader, Sink};

use super::memory::{MemoryError, Saver};
use super::value::{Row, StepError};

/// Values of a field that a step tells apart; the half that was not seen for longest is then forgotten.
pub const KEYS_MAX: usize = 10_000;

/// States, by a field, or one for all.
#[derive(Clone, Debug)]
pub(super) struct By<S> {
    field: Option<Arc<str>>,
    initial: S,
    all: BTreeMap<Arc<str>, (u64, S)>,
    seen: u64,
}

impl<S: Clone> By<S> {
    pub(super) fn new(field: Option<Arc<str>>, initial: S) -> Self {
        By { field, initial, all: BTreeMap::new(), seen: 0 }
    }

    /// The name of the field, for rows that stand for many.
    pub(super) fn field(&self) -> Option<&Arc<str>> {
        self.field.as_ref()
    }

    /// The state that a row belongs to.
    ///
    /// # Errors
    /// The row lacks the field.
    pub(super) fn of(&mut self, row: &Row) -> Result<&mut S, StepError> {
        let key = match &self.field {
            Some(field) => row.find(field).ok_or(StepError::Field)?.text(),
            None => "".into(),
        };
        self.seen += 1;
        if self.all.len() >= KEYS_MAX && !self.all.contains_key(&key) {
            let mut seen: Vec<u64> = self.all.values().map(|(seen, _)| *seen).collect();
            let (_, middle, _) = seen.select_nth_unstable(KEYS_MAX / 2);
            let middle = *middle;
            self.all.retain(|_, (seen, _)| *seen >= middle);
        }
        let initial = &self.initial;
        let (seen, state) = self.all.entry(key).or_insert_with(|| (0, initial.clone()));
        *seen = self.seen;
        Ok(state)
    }

    /// Adds all states, the one that was not seen for longest first.
    pub(super) fn save(&self, to: &mut Saver, state: impl Fn(&S, &mut Saver)) {
        let mut all: Vec<_> = self.all.iter().collect();
        all.sort_unstable_by_key(|(_, (seen, _))| *seen);
        to.count(all.len());
        for (key, (_, its)) in all {
            to.bytes(key.as_bytes());
            state(its, to);
        }
    }

    /// Takes all states.
    ///
    /// # Errors
    /// They are malformed, or more than there may be.
    pub(super) fn load(
        &mut self,
        from: &mut Reader<'_>,
        mut state: impl FnMut(&mut Reader<'_>) -> Result<S, MemoryError>,
    ) -> Result<(), MemoryError> {
        let count = from.count(if self.field.is_some() { KEYS_MAX } else { 1 })?;
        for _ in 0..count {
            let key = from.text()?;
            from.must(self.field.is_some() || key.is_empty(), "no key")?;
            let is_new = !self.all.contains_key(key);
            from.must(is_new, "a key that did not come before")?;
            self.seen += 1;
            let its = (self.seen, state(from)?);
            self.all.insert(key.into(), its);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;

    #[test]
    fn what_was_not_seen_for_longest_is_forgotten() {
        let mut all = By::new(Some("id".into()), 0);
        let mut count = |id: usize| {
            let row: Row = [("id".into(), Value::Number(id as f64))].into_iter().collect();
            let state = all.of(&row).unwrap();
            *state += 1;
            let count = *state;
            assert!(all.all.len() <= KEYS_MAX);
            count
        };
        for id in 0..KEYS_MAX + 1 {
            assert_eq!(count(id), 1);
        }
        assert_eq!(count(KEYS_MAX), 2);
        assert_eq!(count(KEYS_MAX - 1), 2);
        assert_eq!(count(0), 1, "it was forgotten");
        assert_eq!(all.of(&Row::default()), Err(StepError::Field));
    }
}
