//! Smooths a noisy field, for a value that drifts.
//! Source: R. Kalman, A new approach to linear filtering and prediction problems, 1960, with one state and no control.
//! Inputs: a number, the variances of drift and of measurement. Outputs: the estimate. O(1).
//! Deviations: the first measurement is the first estimate.
//! Limits: none.

use std::sync::Arc;

use tidegate_types::codec::{Reader, Sink};
use tidegate_types::units::Time;

use super::chain::StepInstance;
use super::keyed::By;
use super::memory::{MemoryError, Saver};
use super::value::{Item, StepError, Value};

/// What is known of the value.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    value: f64,
    variance: f64,
}

/// Of one field.
#[derive(Clone, Debug)]
pub struct Kalman {
    field: Arc<str>,
    into: Arc<str>,
    drift: f64,
    noise: f64,
    all: By<Option<Estimate>>,
}

impl Kalman {
    /// Of a field; the estimate goes `into` another or the same. `drift` and `noise` are variances, of the step
    /// from one value to the next and of a measurement, both > 0; rows with one `by` belong together.
    pub fn new(
        field: Arc<str>,
        into: Arc<str>,
        drift: f64,
        noise: f64,
        by: Option<Arc<str>>,
    ) -> Self {
        Kalman { field, into, drift, noise, all: By::new(by, None) }
    }
}

impl StepInstance for Kalman {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        let measured = row.number(&self.field)?;
        let state = self.all.of(row)?;
        let estimate = match *state {
            None => Estimate { value: measured, variance: self.noise },
            Some(Estimate { value, variance }) => {
                let before = variance + self.drift;
                let gain = before / (before + self.noise);
                Estimate {
                    value: value + gain * (measured - value),
                    variance: (1.0 - gain) * before,
                }
            }
        };
        *state = Some(estimate);
        row.set(self.into.clone(), Value::Number(estimate.value));
        out.push(item);
        Ok(())
    }

    fn save(&self, to: &mut Saver) {
        self.all.save(to, |estimate, to| {
            to.flag(estimate.is_some());
            if let Some(Estimate { value, variance }) = estimate {
                to.f64(*value);
                to.f64(*variance);
            }
        });
    }

    fn load(&mut self, _now: Time, from: &mut Reader<'_>) -> Result<(), MemoryError> {
        self.all.load(from, |from| {
            if !from.flag()? {
                return Ok(None);
            }
            let (value, variance) = (from.f64()?, from.f64()?);
            from.must(variance >= 0.0, "a variance")?;
            Ok(Some(Estimate { value, variance }))
        })
    }
}
