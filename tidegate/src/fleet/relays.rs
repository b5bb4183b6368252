//! What our uplink carries for neighbours, counted where their records are answered for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::class::ClassId;
use tidegate_core::units::Size;

/// Bytes that the far end has of each neighbour and class, since they were last taken. Cheap to clone; all
/// clones are the same.
#[derive(Clone, Debug, Default)]
pub struct RelayCounts(Arc<Mutex<Counts>>);

/// By neighbour and class.
type Counts = BTreeMap<(Arc<str>, ClassId), Size>;

impl RelayCounts {
    /// The far end has a neighbour's record.
    pub fn count(&self, neighbour: &Arc<str>, class: ClassId, size: Size) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry((neighbour.clone(), class)).or_default() += size;
    }

    /// All that was counted since the last call.
    pub fn take(&self) -> BTreeMap<(Arc<str>, ClassId), Size> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
