//! How far one predictor was off of late.

use std::collections::VecDeque;

use super::series::Series;

/// Weight of a new error: about the last second counts.
const WEIGHT: f64 = 1.0 / 64.0;
/// Forecasts that wait for their cell: more than any horizon has.
const WAITING_MAX: usize = 128;

/// What was said, and its mean absolute error.
#[derive(Clone, Debug, Default)]
pub(super) struct Judge {
    /// Forecasts by the cell that they are for.
    said: VecDeque<(u64, f64)>,
    error: Option<f64>,
}

impl Judge {
    /// Compares what was said about the newest cell with it.
    pub(super) fn compare(&mut self, series: &Series) {
        while let Some(&(cell, said)) =
            self.said.front().filter(|(cell, _)| *cell <= series.newest())
        {
            self.said.pop_front();
            if cell == series.newest() {
                let off = (said - series.last()).abs();
                self.error = Some(self.error.map_or(off, |error| error + WEIGHT * (off - error)));
            }
        }
    }

    /// Remembers a forecast, so many cells ahead.
    pub(super) fn say(&mut self, series: &Series, cells: usize, value: f64) {
        if self.said.len() == WAITING_MAX {
            self.said.pop_front();
        }
        let cell = series.newest() + cells as u64;
        // A horizon that becomes shorter would put forecasts out of order.
        while self.said.back().is_some_and(|(later, _)| *later >= cell) {
            self.said.pop_back();
        }
        self.said.push_back((cell, value));
    }

    /// The mean absolute error; infinite while nothing is known.
    pub(super) fn error(&self) -> f64 {
        self.error.unwrap_or(f64::INFINITY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_count_when_their_cell_has_come() {
        let (mut judge, mut series) = (Judge::default(), Series::default());
        for cell in 0..5 {
            series.push(cell, 10.0 * cell as f64);
            judge.compare(&series);
            assert_eq!(judge.error().is_finite(), cell >= 2, "{cell}");
            judge.say(&series, 2, 10.0 * cell as f64);
        }
        assert!((judge.error() - 20.0).abs() < 1e-9);
        judge.say(&series, 1, 0.0);
        assert_eq!(judge.said.len(), 1, "what was said of later cells is taken back");
    }
}
