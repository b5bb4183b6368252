//! Lets rows pass whose field is within a range.

use std::sync::Arc;

use super::chain::StepInstance;
use super::value::{Item, StepError};

/// The range.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeFilter {
    /// Of this field.
    pub field: Arc<str>,
    /// At least.
    pub min: f64,
    /// At most.
    pub max: f64,
}

impl StepInstance for RangeFilter {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let number = item.row_mut()?.number(&self.field)?;
        if (self.min..=self.max).contains(&number) {
            out.push(item);
        }
        Ok(())
    }
}
