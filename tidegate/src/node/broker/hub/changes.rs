//! Which topics the last changes of the table were of: a publisher asks again for these, and for no others.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_types::topic::Filter;

/// Changes that are remembered: a publisher that missed more asks again for all of its topics.
const CHANGES: usize = 64;
/// Bytes of a filter that is remembered: a longer one may be of any topic. So all of them are little to keep, and to match
/// with each topic that a publisher knows.
const FILTER_MAX: usize = 256;

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct Changes(VecDeque<Option<Arc<Filter>>>);

impl Changes {
    /// Something changed for topics that match a filter, or for any.
    pub(super) fn note(&mut self, filter: Option<&Filter>) {
        if self.0.len() == CHANGES {
            self.0.pop_front();
        }
        let filter = filter.filter(|filter| filter.as_str().len() <= FILTER_MAX);
        self.0.push_back(filter.cloned().map(Arc::new));
    }

    /// The filters of so many last changes; `None`: any topic may be concerned.
    pub(super) fn last(&self, count: u64) -> Option<Vec<Arc<Filter>>> {
        let from = self.0.len().checked_sub(usize::try_from(count).ok()?)?;
        self.0.range(from..).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_remembered_may_be_anything() {
        let mut changes = Changes::default();
        assert_eq!((changes.last(0), changes.last(1)), (Some(Vec::new()), None));
        let filter = |number: usize| Arc::new(Filter::new(&number.to_string()).unwrap());
        (0..CHANGES + 1).for_each(|number| changes.note(Some(&filter(number))));
        assert_eq!(changes.last(2), Some(vec![filter(CHANGES - 1), filter(CHANGES)]));
        assert_eq!(changes.last(CHANGES as u64).map(|all| all.len()), Some(CHANGES));
        assert_eq!(changes.last(CHANGES as u64 + 1), None);
        changes.note(None);
        assert_eq!((changes.last(0), changes.last(1)), (Some(Vec::new()), None));
        changes.note(Some(&filter(0)));
        assert!(changes.last(1).is_some());
        changes.note(Some(&Filter::new(&"a".repeat(FILTER_MAX + 1)).unwrap()));
        assert_eq!(changes.last(1), None, "it is too long");
    }
}
