//! Adds to rows what a table knows, or what is always the same.

use std::sync::Arc;

use super::chain::StepInstance;
use super::csv::Table;
use super::value::{Item, Row, StepError};

/// Adds the columns of the line whose key a field names.
#[derive(Clone, Debug)]
pub struct Join {
    /// The field with the key.
    pub field: Arc<str>,
    /// The lines.
    pub table: Table,
    /// Which columns; all where there is none.
    pub add: Arc<[Arc<str>]>,
    /// Whether a row ends here that the table does not know.
    pub drops_unknown: bool,
}

impl StepInstance for Join {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        let key = row.find(&self.field).ok_or(StepError::Field)?.text();
        match self.table.find(&key) {
            Some(line) => {
                let wanted = |name: &Arc<str>| self.add.is_empty() || self.add.contains(name);
                for (name, value) in line.iter().filter(|(name, _)| wanted(name)) {
                    row.set(name.clone(), value.clone());
                }
            }
            None if self.drops_unknown => return Ok(()),
            None => {}
        }
        out.push(item);
        Ok(())
    }
}

/// Adds fields that are always the same.
#[derive(Clone, Debug)]
pub struct Annotate(pub Arc<Row>);

impl StepInstance for Annotate {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        self.0.iter().for_each(|(name, value)| row.set(name.clone(), value.clone()));
        out.push(item);
        Ok(())
    }
}
