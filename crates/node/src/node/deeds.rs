//! What acted on deliveries of logged records: told to the log with their fates, for `tidegate explain`.

use std::sync::Arc;

use slotmap::SparseSecondaryMap;
use tidegate_log::{Deed, Lever};
use tidegate_schedule::queue::{Delivery, DeliveryKey};

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

    /// Those of a delivery that is forgotten.
    pub(super) fn take(&mut self, key: DeliveryKey) -> Vec<Deed> {
        // Mostly there is none, and a map hashes what it removes even then.
        if self.0.is_empty() { Vec::new() } else { self.0.remove(key).unwrap_or_default() }
    }

    /// Those of a delivery that ends, and when it left its queue, where that is not what its class promises: most leave
    /// in time and untouched, and what is alike of consecutive records is one run of the log.
    pub(super) fn end(
        &mut self,
        base: &Base,
        (key, delivery): (DeliveryKey, &Delivery),
        is_lent: bool,
    ) -> Vec<Deed> {
        let mut deeds = self.take(key);
        let at = delivery.progress.handed_at;
        let is_late = delivery.deadline < at;
        let is_touched = is_lent || deeds.iter().any(|deed| deed.after.is_some());
        if delivery.progress.is_handed() && (is_late || is_touched) {
            let what = base.options.classes.spec(delivery.spec.class).name.clone();
            let place = deeds.iter().position(|deed| deed.after.is_none()).unwrap_or(deeds.len());
            let waited = at.since(delivery.arrived);
            let after = Some(if is_touched { waited } else { Deed::coarse(waited) });
            deeds.insert(place, Deed { lever: Lever::Queue, what, after });
        }
        deeds
    }
}
