//! What our uplink carries for neighbours, counted where their records are answered for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_types::class::ClassId;
use tidegate_types::units::Size;

/// Bytes that the far end has of each neighbour and class, since they were last taken: as the node counts
/// what its uplink carries, for grants are of that. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct RelayCounts {
    counts: Arc<Mutex<Counts>>,
    overhead: Size,
}

/// By neighbour and class.
type Counts = BTreeMap<(Arc<str>, ClassId), Size>;

impl RelayCounts {
    /// Of an uplink that carries so much with each record.
    pub fn new(overhead: Size) -> Self {
        RelayCounts { counts: Arc::default(), overhead }
    }

    /// The far end has a neighbour's record of so many bytes: key, properties and payload.
    pub fn count(&self, neighbour: &Arc<str>, class: ClassId, size: Size) {
        let mut all = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *all.entry((neighbour.clone(), class)).or_default() += size + self.overhead;
    }

    /// All that was counted since the last call.
    pub fn take(&self) -> BTreeMap<(Arc<str>, ClassId), Size> {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair that helps is one that carries half of its grant: counted in other bytes than the grant is, a
    /// pair of small records would be parted, though it does what it can.
    #[test]
    fn what_is_carried_is_counted_as_what_is_granted() {
        let relays = RelayCounts::new(Size(300));
        let (neighbour, class): (Arc<str>, _) = ("gate-1".into(), ClassId(2));
        relays.count(&neighbour, class, Size(488));
        relays.clone().count(&neighbour, class, Size(100));
        assert_eq!(
            relays.take().into_iter().collect::<Vec<_>>(),
            [((neighbour, class), Size(1188))]
        );
        assert!(relays.take().is_empty());
    }
}
