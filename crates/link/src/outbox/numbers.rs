//! Data sequence numbers that were given and never sent: they are given again.

/// Runs of numbers that may wait to be given again: with more of them records that have begun are sent. A run for which no stream
/// comes stays a gap at the far end, which bears as many as records of its window.
const RUNS_MAX: usize = 64;

/// Data sequence numbers that were given and never sent, as runs: first one and count.
#[derive(Debug, Default)]
pub(super) struct SpareNumbers(pub(super) Vec<(u64, u64)>);

impl SpareNumbers {
    /// So many numbers in a row, all greater than `after`; `next` is the one behind all that were ever given.
    pub(super) fn take(&mut self, count: u64, after: u64, next: &mut u64) -> u64 {
        let fits = |&(first, spare): &(u64, u64)| spare >= count && first > after;
        if let Some(place) = self.0.iter().position(fits) {
            let (first, spare) = self.0[place];
            if spare == count {
                self.0.swap_remove(place);
            } else {
                self.0[place] = (first + count, spare - count);
            }
            return first;
        }
        let first = *next;
        *next += count;
        first
    }

    /// These were not sent. Answers whether they can be given again.
    pub(super) fn put(&mut self, (mut first, mut count): (u64, u64), next: &mut u64) -> bool {
        let is_last = first + count == *next;
        if !is_last && self.0.len() >= RUNS_MAX {
            return false;
        }
        while let Some(place) = self
            .0
            .iter()
            .position(|&(other, spare)| other + spare == first || first + count == other)
        {
            let (other, spare) = self.0.swap_remove(place);
            (first, count) = (first.min(other), count + spare);
        }
        if first + count == *next {
            *next = first;
        } else {
            self.0.push((first, count));
        }
        true
    }
}
