//! A linear model that was trained elsewhere.

use std::sync::Arc;

use super::chain::StepInstance;
use super::value::{Item, StepError, Value};

/// The model.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Its value where all fields are 0.
    pub intercept: f64,
    /// Fields, and what one of each adds.
    pub weights: Arc<[(Arc<str>, f64)]>,
    /// Where the value goes.
    pub into: Arc<str>,
}

impl StepInstance for Linear {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        let mut sum = self.intercept;
        for (field, weight) in self.weights.iter() {
            sum += weight * row.number(field)?;
        }
        if !sum.is_finite() {
            return Err(StepError::Number);
        }
        row.set(self.into.clone(), Value::Number(sum));
        out.push(item);
        Ok(())
    }
}
