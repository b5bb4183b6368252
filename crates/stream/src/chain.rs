//! Steps one after another.

use std::fmt;
use std::sync::Arc;

use tidegate_types::codec::Reader;
use tidegate_types::units::Time;

use super::ROWS_MAX;
use super::memory::{MemoryError, Saver};
use super::value::{Fault, Item};

/// One step of an operator, as it is configured. Whatever is a [`Run`] and can be copied is one: the copy is
/// what works on a key.
pub trait Step: fmt::Debug + Send + Sync {
    /// The step for one key, with nothing seen yet.
    fn start(&self) -> Box<dyn Run>;
}

impl<R: Run + Clone + fmt::Debug + Sync + 'static> Step for R {
    fn start(&self) -> Box<dyn Run> {
        Box::new(self.clone())
    }
}

/// A step at work: it sees the items of one key, in their order.
pub trait Run: Send {
    /// Takes an item and adds what becomes of it: nothing, one or several.
    ///
    /// # Errors
    /// It could not; then the item ends here.
    fn run(&mut self, item: Item, out: &mut Vec<Item>) -> Result<(), Fault>;

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
pub struct Chain(Arc<[Arc<dyn Step>]>);

impl Chain {
    /// Of these steps, in order.
    pub fn new(steps: Vec<Arc<dyn Step>>) -> Self {
        Chain(steps.into())
    }

    /// What works on one key.
    pub fn start(&self) -> Work {
        Work(self.0.iter().map(|step| step.start()).collect())
    }
}

/// A chain at work on one key.
pub struct Work(Vec<Box<dyn Run>>);

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work({} steps)", self.0.len())
    }
}

impl Work {
    pub(super) fn runs(&self) -> &[Box<dyn Run>] {
        &self.0
    }

    pub(super) fn runs_mut(&mut self) -> &mut [Box<dyn Run>] {
        &mut self.0
    }

    /// What comes out at the end for one item; `failed` is told of each item, of the first or one that a
    /// step made of it, that ended before. At most `ROWS_MAX` are under way between two steps.
    pub fn run(&mut self, item: Item, mut failed: impl FnMut(Fault)) -> Vec<Item> {
        let mut items = vec![item];
        for step in &mut self.0 {
            let mut out = Vec::new();
            for item in items {
                if let Err(fault) = step.run(item, &mut out) {
                    failed(fault);
                }
                if out.len() > ROWS_MAX {
                    out.truncate(ROWS_MAX);
                    failed(Fault::Bound);
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
