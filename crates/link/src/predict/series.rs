//! Delays of one path at even distances in time.

use std::collections::VecDeque;

/// Cells that are remembered: five seconds of 10 ms.
pub(super) const LENGTH: usize = 512;
/// A gap of more cells begins the series anew: what was before says nothing.
const GAP_MAX: u64 = 100;

/// The values of the last cells, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct Series {
    values: VecDeque<f64>,
    /// Number of the newest cell.
    newest: u64,
}

impl Series {
    /// A finite value of a cell: the newest of that cell counts, and older cells stay as they are. Answers whether
    /// the cell is new. Cells without a value have that of the one before.
    pub fn push(&mut self, cell: u64, value: f64) -> bool {
        assert!(value.is_finite(), "a delay is a number");
        if let Some(last) = self.values.back_mut() {
            if cell <= self.newest {
                if cell == self.newest {
                    *last = value;
                }
                return false;
            }
            let (last, gap) = (*last, cell - self.newest - 1);
            if gap > GAP_MAX {
                self.values.clear();
            } else {
                self.values.extend((0..gap).map(|_| last));
            }
        }
        self.values.push_back(value);
        self.newest = cell;
        let excess = self.values.len().saturating_sub(LENGTH);
        self.values.drain(..excess);
        true
    }

    /// The newest value; 0 of an empty series.
    pub fn last(&self) -> f64 {
        self.values.back().copied().unwrap_or_default()
    }

    /// Number of the newest cell.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// The values, the oldest first.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = f64> + ExactSizeIterator {
        self.values.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(series: &Series) -> Vec<f64> {
        series.values().collect()
    }

    #[test]
    fn gaps_are_filled_and_the_newest_of_a_cell_counts() {
        let mut series = Series::default();
        assert!(series.push(7, 1.0) && !series.push(7, 2.0));
        assert!(series.push(10, 3.0) && !series.push(9, 9.0));
        assert_eq!((values(&series), series.newest()), (vec![2.0, 2.0, 2.0, 3.0], 10));
    }

    #[test]
    fn a_long_silence_begins_anew_and_old_cells_are_forgotten() {
        let mut series = Series::default();
        assert!((0..600).all(|cell| series.push(cell, cell as f64)));
        assert_eq!(
            (values(&series).len(), values(&series)[0] as u64),
            (LENGTH, 600 - LENGTH as u64)
        );
        series.push(599 + GAP_MAX + 2, 5.0);
        assert_eq!(values(&series), [5.0]);
    }
}
