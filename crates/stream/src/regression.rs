//! The line through the last values of a field, and where it will be.
//! Source: least squares (Legendre, 1805) over a sliding window of equally spaced values.
//! Inputs: a number. Outputs: the line's value some steps ahead. O(window).
//! Deviations: none.
//! Limits: the window.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate_types::codec::Reader;
use tidegate_types::units::Time;

use super::chain::StepInstance;
use super::keyed::By;
use super::memory::{MemoryError, Saver, floats};
use super::value::{Item, StepError, Value};

/// Of one field.
#[derive(Clone, Debug)]
pub struct Regression {
    field: Arc<str>,
    into: Arc<str>,
    window: usize,
    ahead: f64,
    last: By<VecDeque<f64>>,
}

impl Regression {
    /// Of a field, over the last `window` values (at least 2) of the rows with one `by`; where the line is `ahead`
    /// steps after the newest goes `into` a field. While there is one value only, that is what is foretold.
    pub fn new(
        field: Arc<str>,
        into: Arc<str>,
        window: usize,
        ahead: f64,
        by: Option<Arc<str>>,
    ) -> Self {
        Regression { field, into, window: window.max(2), ahead, last: By::new(by, VecDeque::new()) }
    }
}

impl StepInstance for Regression {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        let number = row.number(&self.field)?;
        let last = self.last.of(row)?;
        if last.len() >= self.window {
            last.pop_front();
        }
        last.push_back(number);
        let foretold = line_at(last, last.len() as f64 - 1.0 + self.ahead);
        row.set(self.into.clone(), Value::Number(foretold));
        out.push(item);
        Ok(())
    }

    fn save(&self, to: &mut Saver) {
        self.last.save(to, |last, to| to.floats(last));
    }

    fn load(&mut self, _now: Time, from: &mut Reader<'_>) -> Result<(), MemoryError> {
        let window = self.window;
        self.last.load(from, |from| floats(window, from))
    }
}

/// The value at `x` of the line through `(0, y0), (1, y1), ...`; `y` is not empty.
fn line_at(y: &VecDeque<f64>, x: f64) -> f64 {
    let count = y.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = y.iter().sum::<f64>() / count;
    let (mut rise, mut run) = (0.0, 0.0);
    for (place, value) in y.iter().enumerate() {
        let off = place as f64 - middle;
        rise += off * (value - mean);
        run += off * off;
    }
    let slope = if run > 0.0 { rise / run } else { 0.0 };
    mean + slope * (x - middle)
}
