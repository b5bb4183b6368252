//! Steps one after another.

use std::fmt;
use std::sync::Arc;

use tidegate_types::codec::Reader;
use tidegate_types::units::Time;

use super::ROWS_MAX;
use super::memory::{MemoryError, Saver};
use super::value::{Item, StepError};

/// One step of an operator, as it is configured. Whatever is a [`StepInstance`] and can be copied is one: the copy is
/// what works on a key.
pub trait OperatorStep: fmt::Debug + Send + Sync {
    /// The step for one key, with nothing seen yet.
    fn start(&self) -> Box<dyn StepInstance>;
}

impl<R: StepInstance + Clone + fmt::Debug + Sync + 'static> OperatorStep for R {
    fn start(&self) -> Box<dyn StepInstance> {
        Box::new(self.clone())
    }
}

/// A step at work: it sees the items of one key, in their order.
pub trait StepInstance: Send {
    /// Takes an item and adds what becomes of it: nothing, one or several.
    ///
    /// # Errors
    /// It could not; then the item ends here.
    fn run(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), StepError>;

    /// Adds what it remembers: nothing where it has no memory, or where that cannot leave this process.
    fn save(&self, _to: &mut Saver) {}

    /// Goes on with what another run of the same step has saved, all of it. It has seen nothing yet.
    ///
    /// # Errors
    /// No such step has saved it.
    fn load(&mut self, _now: Time, _from: &mut Reader<'_>) -> Result<(), MemoryError> {
        Ok(())
    }
}

/// The steps of an operator.
#[derive(Clone, Debug, Default)]
pub struct Chain(Arc<[Arc<dyn OperatorStep>]>);

impl Chain {
    /// Of these steps, in order.
    pub fn new(steps: Vec<Arc<dyn OperatorStep>>) -> Self {
        Chain(steps.into())
    }

    /// What works on one key.
    pub fn start(&self) -> ChainInstance {
        ChainInstance(self.0.iter().map(|step| step.start()).collect())
    }
}

/// A chain at work on one key.
pub struct ChainInstance(Vec<Box<dyn StepInstance>>);

impl fmt::Debug for ChainInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work({} steps)", self.0.len())
    }
}

impl ChainInstance {
    pub(super) fn runs(&self) -> &[Box<dyn StepInstance>] {
        &self.0
    }

    pub(super) fn runs_mut(&mut self) -> &mut [Box<dyn StepInstance>] {
        &mut self.0
    }

    /// What comes out at the end for one item; `failed` is told of each item, of the first or one that a
    /// step made of it, that ended before. At most `ROWS_MAX` are under way between two steps.
    pub fn run(&mut self, item: Item, mut failed: impl FnMut(StepError)) -> Vec<Item> {
        let mut items = vec![item];
        for step in &mut self.0 {
            let mut out = Vec::new();
            for item in items {
                if let Err(fault) = step.run(item, &mut out) {
                    failed(fault);
                }
                if out.len() > ROWS_MAX {
                    out.truncate(ROWS_MAX);
                    failed(StepError::Bound);
                }
            }
            items = out;
            if items.is_empty() {
                break;
            }
        }
        items
    }
}
