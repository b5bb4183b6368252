//! What acted on deliveries of logged records: told to the log with their fates, for `tidegate explain`.

use std::sync::Arc;
use std::time::Duration;

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
        self.0.remove(key).unwrap_or_default()
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
            let after = Some(if is_touched { waited } else { coarse(waited) });
            deeds.insert(place, Deed { lever: Lever::Queue, what, after });
        }
        deeds
    }
}

/// A time in two digits: after an outage every record is late, each by a time of its own, and those that are nearly
/// alike are one run of the log.
fn coarse(span: Duration) -> Duration {
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    let unit = 10_u64.pow(nanos.checked_ilog10().unwrap_or(0).saturating_sub(1));
    Duration::from_nanos(nanos / unit * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_record_is_late_by_two_digits() {
        let spans = [0, 9, 99, 123, 12_999, 1_299_999_999, u64::MAX];
        let told = spans.map(|nanos| coarse(Duration::from_nanos(nanos)).as_nanos());
        let coarse = [0, 9, 99, 120, 12_000, 1_200_000_000, 18_000_000_000_000_000_000];
        assert_eq!(told, coarse);
    }
}
