//! A set of numbers that are mostly contiguous, as runs.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Runs by their first number; no two touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    runs: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Whether the number is in it.
    pub fn contains(&self, number: u64) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, &end)| number <= end)
    }

    /// Adds all numbers of a run that is not empty.
    pub fn insert(&mut self, run: RangeInclusive<u64>) {
        let (mut start, mut end) = run.into_inner();
        assert!(start <= end, "a run has a number at least");
        // Each run that overlaps or touches the new one becomes a part of it.
        while let Some((&first, &last)) = self.runs.range(..=end.saturating_add(1)).next_back() {
            if last.saturating_add(1) < start {
                break;
            }
            self.runs.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.runs.insert(start, end);
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The runs, the largest numbers first.
    pub fn newest_first(&self) -> impl Iterator<Item = RangeInclusive<u64>> {
        self.runs.iter().rev().map(|(&start, &end)| start..=end)
    }

    /// Takes the run of the smallest numbers out.
    pub fn pop_oldest(&mut self) -> Option<RangeInclusive<u64>> {
        self.runs.pop_first().map(|(start, end)| start..=end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_set_of_what_was_put_in(
            runs in prop::collection::vec((0u64..60, 0u64..6), 0..30),
        ) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            for (start, more) in runs {
                ranges.insert(start..=start + more);
                model.extend(start..=start + more);
            }
            prop_assert!((0..70).all(|number| ranges.contains(number) == model.contains(&number)));
            let mut shown: Vec<u64> = ranges.newest_first().flatten().collect();
            shown.sort_unstable();
            prop_assert_eq!(shown, model.iter().copied().collect::<Vec<_>>());
            let ends = model.iter().filter(|number| !model.contains(&(*number + 1)));
            prop_assert_eq!(ranges.runs(), ends.count());
        }
    }

    #[test]
    fn the_largest_number_is_one_as_well() {
        let mut ranges = Ranges::default();
        ranges.insert(u64::MAX..=u64::MAX);
        ranges.insert(0..=u64::MAX - 1);
        assert_eq!(ranges.pop_oldest(), Some(0..=u64::MAX));
        assert_eq!(ranges.pop_oldest(), None);
    }
}
