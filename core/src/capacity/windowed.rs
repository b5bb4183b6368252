//! The largest or smallest value of a sliding window of time, exact, in amortised O(1).

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::Time;

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
pub struct Windowed {
    extreme: Extreme,
    candidates: VecDeque<(Time, f64)>,
}

impl Windowed {
    /// An empty window.
    pub fn new(extreme: Extreme) -> Self {
        Windowed { extreme, candidates: VecDeque::new() }
    }

    /// Adds a value and forgets what is older than `window`. Panics on NaN.
    pub fn push(&mut self, now: Time, window: Duration, value: f64) {
        assert!(!value.is_nan(), "a measured value is a number");
        while self.candidates.back().is_some_and(|&(_, last)| self.covers(value, last)) {
            self.candidates.pop_back();
        }
        if self.candidates.len() == CANDIDATES_MAX {
            self.candidates.pop_front();
        }
        self.candidates.push_back((now, value));
        self.expire(now, window);
    }

    /// Forgets what is older than `window`, but never the newest value.
    pub fn expire(&mut self, now: Time, window: Duration) {
        while self.candidates.len() > 1 && self.candidates[0].0 + window < now {
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
    use super::*;

    #[test]
    fn the_largest_of_the_window_is_found_and_forgotten() {
        let mut window = Windowed::new(Extreme::Max);
        let span = Duration::from_millis(10);
        for (at, value, expected) in
            [(0, 3.0, 3.0), (5, 1.0, 3.0), (9, 2.0, 3.0), (12, 0.0, 2.0), (40, 1.0, 1.0)]
        {
            window.push(Time::from_millis(at), span, value);
            assert_eq!(window.get(), Some(expected), "at {at} ms");
        }
    }

    #[test]
    fn the_smallest_as_well_and_the_newest_is_never_forgotten() {
        let mut window = Windowed::new(Extreme::Min);
        window.push(Time::ZERO, Duration::ZERO, 3.0);
        window.expire(Time::from_millis(99), Duration::ZERO);
        assert_eq!(window.get(), Some(3.0));
        window.clear();
        assert_eq!(window.get(), None);
    }
}
