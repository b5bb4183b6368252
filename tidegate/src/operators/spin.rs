//! A step that does nothing for a given time on a processor: a measuring tool, for what a broker does under load.

use std::hint::black_box;
use std::time::Duration;

use tidegate_stream::{Item, StepError, StepInstance};

use crate::script::vm::thread_time;

/// The time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spin(pub(super) Duration);

impl StepInstance for Spin {
    fn run(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), StepError> {
        let time = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        let end = thread_time().saturating_add(time);
        while thread_time() < end {
            // Between two looks at the clock, some work that stays in the processor.
            black_box((0..500_u64).fold(0, |sum: u64, number| black_box(sum ^ number)));
        }
        out.push(item);
        Ok(())
    }
}
