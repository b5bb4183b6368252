//! Averages of blocks, and how far predictions are off (RIoTBench's block average and error estimate).

use std::sync::Arc;

use tidegate_types::codec::{Reader, Sink};
use tidegate_types::units::Time;

use super::chain::StepInstance;
use super::keyed::By;
use super::memory::{MemoryError, Saver};
use super::value::{Item, StepError, Value};

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    count: u64,
    sum: f64,
    /// Of the last whole block.
    last: Option<f64>,
}

/// The mean of the last whole block of values; of those so far, while there is none.
#[derive(Clone, Debug)]
pub struct BlockAverage {
    field: Arc<str>,
    into: Arc<str>,
    size: u64,
    blocks: By<Block>,
}

impl BlockAverage {
    /// Of a field, over blocks of `size` rows with one `by`; the mean goes `into` a field.
    pub fn new(field: Arc<str>, into: Arc<str>, size: u64, by: Option<Arc<str>>) -> Self {
        BlockAverage { field, into, size: size.max(1), blocks: By::new(by, Block::default()) }
    }
}

impl StepInstance for BlockAverage {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        let number = row.number(&self.field)?;
        let block = self.blocks.of(row)?;
        block.count += 1;
        block.sum += number;
        let mean = block.sum / block.count as f64;
        let told = block.last.unwrap_or(mean);
        if block.count >= self.size {
            *block = Block { last: Some(mean), ..Block::default() };
        }
        row.set(self.into.clone(), Value::Number(told));
        out.push(item);
        Ok(())
    }

    fn save(&self, to: &mut Saver) {
        self.blocks.save(to, |Block { count, sum, last }, to| {
            to.u64(*count);
            to.f64(*sum);
            to.flag(last.is_some());
            last.iter().for_each(|last| to.f64(*last));
        });
    }

    fn load(&mut self, _now: Time, from: &mut Reader<'_>) -> Result<(), MemoryError> {
        let size = self.size;
        self.blocks.load(from, |from| {
            let count = from.u64()?;
            from.must(count < size, "a block that is not full")?;
            let sum = from.f64()?;
            let last = if from.flag()? { Some(from.f64()?) } else { None };
            Ok(Block { count, sum, last })
        })
    }
}

/// `(predicted - measured) / average`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// The field that was measured.
    pub field: Arc<str>,
    /// The field that was predicted.
    pub predicted: Arc<str>,
    /// The field that it is measured by.
    pub average: Arc<str>,
    /// Where the error goes.
    pub into: Arc<str>,
}

impl StepInstance for ErrorEstimate {
    fn run(&mut self, mut item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let row = item.row_mut()?;
        let off = row.number(&self.predicted)? - row.number(&self.field)?;
        let error = off / row.number(&self.average)?;
        if !error.is_finite() {
            return Err(StepError::Number);
        }
        row.set(self.into.clone(), Value::Number(error));
        out.push(item);
        Ok(())
    }
}
