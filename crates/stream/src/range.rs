//! Lets rows pass whose field is within a range.

use std::sync::Arc;

use super::chain::Run;
use super::value::{Fault, Item};

/// The range.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    /// Of this field.
    pub field: Arc<str>,
    /// At least.
    pub min: f64,
    /// At most.
    pub max: f64,
}

impl Run for Range {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), Fault> {
        let number = item.row_mut()?.number(&self.field)?;
        if (self.min..=self.max).contains(&number) {
            out.push(item);
        }
        Ok(())
    }
}
