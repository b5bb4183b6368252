//! Which places of a stream have come: complete, twice, or after a later one.

use std::collections::BTreeMap;

/// Places from 0, kept as ranges without a gap: a stream that comes in order takes the room of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// First place of a range, and the place after its last one.
    ranges: BTreeMap<u64, u64>,
    newest: Option<u64>,
    count: u64,
}

/// How a record came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coming {
    /// After all that came before it have lower places.
    InOrder,
    /// After one of a higher place.
    Late,
    /// It has come before.
    Again,
}

impl Sequence {
    /// Takes the record of a place.
    pub fn take(&mut self, place: u64) -> Coming {
        let before = self.ranges.range(..=place).next_back().map(|(first, end)| (*first, *end));
        if before.is_some_and(|(_, end)| place < end) {
            return Coming::Again;
        }
        let first = before.filter(|(_, end)| *end == place).map_or(place, |(first, _)| first);
        let end = self.ranges.remove(&(place + 1)).unwrap_or(place + 1);
        self.ranges.insert(first, end);
        self.count += 1;
        let is_late = self.newest.is_some_and(|newest| newest > place);
        self.newest = self.newest.max(Some(place));
        if is_late { Coming::Late } else { Coming::InOrder }
    }

    /// Whether the record of a place has come.
    pub fn has(&self, place: u64) -> bool {
        self.ranges.range(..=place).next_back().is_some_and(|(_, end)| place < *end)
    }

    /// Different records that came.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_comes_in_order_takes_the_room_of_one_range() {
        let mut sequence = Sequence::default();
        assert!((0..1000).all(|place| sequence.take(place) == Coming::InOrder));
        assert_eq!((sequence.ranges.len(), sequence.count()), (1, 1000));
        assert_eq!(sequence.take(7), Coming::Again);
        assert_eq!([1002, 1001].map(|place| sequence.take(place)), [Coming::InOrder, Coming::Late]);
        assert!(sequence.has(1002) && !sequence.has(1000));
    }

    proptest! {
        #[test]
        fn it_is_a_set(places in proptest::collection::vec(0u64..40, 0..80)) {
            let (mut sequence, mut set, mut newest) = (Sequence::default(), BTreeSet::new(), None);
            for place in places {
                let expected = match (set.insert(place), newest > Some(place)) {
                    (false, _) => Coming::Again,
                    (true, true) => Coming::Late,
                    (true, false) => Coming::InOrder,
                };
                newest = newest.max(Some(place));
                prop_assert_eq!(sequence.take(place), expected);
            }
            prop_assert_eq!(sequence.count(), set.len() as u64);
            prop_assert!((0..41).all(|place| sequence.has(place) == set.contains(&place)));
        }
    }
}
