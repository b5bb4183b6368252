//! Fills a field that is missing with the mean of those before it (RIoTBench's interpolation).

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
pub struct Interpolate {
    field: Arc<str>,
    window: usize,
    last: By<VecDeque<f64>>,
}

impl Interpolate {
    /// Of a field, from the last `window` values of the rows with the same `by`.
    pub fn new(field: Arc<str>, window: usize, by: Option<Arc<str>>) -> Self {
        Interpolate { field, window: window.max(1), last: By::new(by, VecDeque::new()) }
    }
}

impl StepInstance for Interpolate {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        let last = self.last.of(row)?;
        match row.find(&self.field).map(|value| value.number().ok_or(StepError::Number)) {
            Some(number) => {
                if last.len() >= self.window {
                    last.pop_front();
                }
                last.push_back(number?);
            }
            // Nothing is known yet: the row stays as it is.
            None if last.is_empty() => {}
            None => {
                let mean = last.iter().sum::<f64>() / last.len() as f64;
                row.set(self.field.clone(), Value::Number(mean));
            }
        }
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
