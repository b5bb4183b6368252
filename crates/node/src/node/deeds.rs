//! What acted on deliveries of logged records: told to the log with their fates, for `tidegate explain`.

use std::sync::Arc;

use slotmap::SparseSecondaryMap;
use tidegate_log::{Deed, Lever};
use tidegate_schedule::queue::DeliveryKey;

use super::base::Base;

/// Deeds of one delivery that are kept: the first ones.
const DEEDS_MAX: usize = 16;

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct Deeds(SparseSecondaryMap<DeliveryKey, Vec<Deed>>);

impl Deeds {
    /// Something acts on a delivery: now, or, where `is_last`, just before its fate.
    pub(super) fn note(
        &mut self,
        base: &Base,
        key: DeliveryKey,
        lever: Lever,
        is_last: bool,
        what: impl FnOnce() -> Arc<str>,
    ) {
        let Some(delivery) = base.holdings.delivery(key) else { return };
        if base.holdings.logged_of(delivery.record).is_none() {
            return;
        }
        let after = (!is_last).then(|| base.now.since(delivery.arrived));
        let Some(entry) = self.0.entry(key) else { return };
        let deeds = entry.or_default();
        if deeds.len() < DEEDS_MAX {
            deeds.push(Deed { lever, what: what(), after });
        }
    }

    /// Those of a delivery that ends.
    pub(super) fn take(&mut self, key: DeliveryKey) -> Vec<Deed> {
        self.0.remove(key).unwrap_or_default()
    }
}
