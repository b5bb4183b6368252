//! Connections that are gone, and whose last records wait for room.

use std::collections::BTreeMap;

use tidegate_types::record::{Owner, SourceId};

/// How many there may be, of all and of one user or address: each has a batch or two in memory. Records of those beyond
/// are refused.
const ALL_MAX: usize = 256;
const ONE_MAX: usize = 16;

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct Closing(BTreeMap<SourceId, Option<Owner>>);

impl Closing {
    /// Takes one that is gone; false where there is no place for it.
    pub(super) fn admit(&mut self, source: SourceId, owner: Option<&Owner>) -> bool {
        let of_one = self.0.values().filter(|other| other.as_ref() == owner).count();
        let has_place = self.0.len() < ALL_MAX && of_one < ONE_MAX;
        if has_place {
            self.0.insert(source, owner.cloned());
        }
        has_place
    }

    /// Its records have their fate; false where it is none of these.
    pub(super) fn remove(&mut self, source: SourceId) -> bool {
        self.0.remove(&source).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_the_places_of_all() {
        let mut closing = Closing::default();
        let greedy = Owner::User("greedy".into());
        let taken = (0..300).filter(|number| closing.admit(SourceId(*number), Some(&greedy)));
        assert_eq!(taken.count(), ONE_MAX);
        assert!(closing.admit(SourceId(300), Some(&Owner::User("other".into()))));
        assert!(closing.remove(SourceId(0)) && !closing.remove(SourceId(0)));
        assert!(closing.admit(SourceId(0), Some(&greedy)));
        let many = (301..1000).filter(|number| {
            closing.admit(SourceId(*number), Some(&Owner::User(number.to_string().into())))
        });
        assert_eq!(many.count(), ALL_MAX - ONE_MAX - 1);
    }
}
