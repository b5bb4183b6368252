//! The largest or smallest value of a sliding window, exact, in amortised O(1).
//!
//! A place in the window is any number that never falls: nanoseconds for a window of time, the number of
//! a round trip for a window that stands still while nothing is sent.

use std::collections::VecDeque;

/// Which extreme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

/// Bound on the candidates kept: a monotone queue is short, but feedback from outside must not grow it.
const CANDIDATES_MAX: usize = 256;

/// A monotone queue of candidates: each is more extreme than all that came later.
#[derive(Clone, Debug)]
pub struct WindowFilter {
    extreme: Extreme,
    candidates: VecDeque<(u64, f64)>,
}

impl WindowFilter {
    /// An empty window.
    pub fn new(extreme: Extreme) -> Self {
        WindowFilter { extreme, candidates: VecDeque::new() }
    }

    /// Adds a value at its place and forgets what is more than `span` behind it. Panics on NaN.
    pub fn push(&mut self, place: u64, span: u64, value: f64) {
        assert!(!value.is_nan(), "a measured value is a number");
        while self.candidates.back().is_some_and(|&(_, last)| self.covers(value, last)) {
            self.candidates.pop_back();
        }
        if self.candidates.len() == CANDIDATES_MAX {
            // The newest but one goes: the extreme itself must stay.
            self.candidates.pop_back();
        }
        self.candidates.push_back((place, value));
        while self.candidates.len() > 1 && self.candidates[0].0.saturating_add(span) < place {
            self.candidates.pop_front();
        }
    }

    /// The extreme; `None` while empty.
    pub fn get(&self) -> Option<f64> {
        self.candidates.front().map(|&(_, value)| value)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.candidates.clear();
    }

    fn covers(&self, new: f64, old: f64) -> bool {
        match self.extreme {
            Extreme::Max => new >= old,
            Extreme::Min => new <= old,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_is_found_and_the_newest_is_never_forgotten() {
        let mut window = WindowFilter::new(Extreme::Min);
        assert_eq!(window.get(), None);
        window.push(0, 0, 3.0);
        window.push(99, 0, 4.0);
        assert_eq!(window.get(), Some(4.0));
        window.clear();
        assert_eq!(window.get(), None);
    }

    proptest! {
        #[test]
        fn the_largest_of_the_window_is_exact(
            steps in prop::collection::vec((0u64..4, 0.0..100.0f64), 1..200),
            span in 0u64..20,
        ) {
            let mut window = WindowFilter::new(Extreme::Max);
            let mut seen: Vec<(u64, f64)> = Vec::new();
            let mut place = 0;
            for (step, value) in steps {
                place += step;
                seen.push((place, value));
                window.push(place, span, value);
                let inside = seen.iter().filter(|(at, _)| at + span >= place);
                let expected = inside.map(|&(_, value)| value).fold(f64::MIN, f64::max);
                prop_assert_eq!(window.get(), Some(expected));
            }
        }
    }
}
