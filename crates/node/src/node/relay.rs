//! How long a neighbour's record stays here: it is the neighbour's until the far end has it.
//!
//! It goes back when it has waited too long for our uplink, and when the far end is silent about it for
//! too long. `fleet::custody` says why.

use tidegate_schedule::queue::{Delivery, DeliveryKey};
use tidegate_types::limits::{RELAY_ANSWER_MAX, RELAY_HOLD_MAX};
use tidegate_types::record::{DropReason, Fate, Record};
use tidegate_types::units::Time;

use super::Node;
use crate::rules::Rule;

/// When a record that waits is given up: it expires, or it goes back to the neighbour that it is of.
pub(super) fn end_of(record: &Record, rule: &Rule) -> Option<Time> {
    ends_of(record, rule).min()
}

/// All times at which it may be given up.
pub(super) fn ends_of(record: &Record, rule: &Rule) -> impl Iterator<Item = Time> + use<> {
    let is_relayed = rule.relays.is_some();
    let ours =
        [RELAY_HOLD_MAX, RELAY_ANSWER_MAX].map(|span| is_relayed.then_some(record.arrived + span));
    ours.into_iter().chain([record.expires]).flatten()
}

impl Node {
    /// A delivery is given up, if it still waits.
    pub(super) fn time_is_over(&mut self, now: Time, key: DeliveryKey) {
        if !self.queues.take(key) {
            return self.await_answer(now, key);
        }
        let record = self.record(key.into());
        let is_expired = record.is_none_or(|record| record.expires.is_some_and(|at| at <= now));
        let reason = if is_expired { DropReason::Expired } else { DropReason::GivenBack };
        self.finish(now, key, Fate::Dropped(reason));
    }

    /// What is under way already is finished, for its bytes are spent. But a neighbour's that gets no answer
    /// from the far end goes back a little later, as one that may have arrived.
    fn await_answer(&mut self, now: Time, key: DeliveryKey) {
        let Some(Delivery { spec, record, .. }) = self.queues.get(key) else { return };
        let (spec, record) = (*spec, *record);
        if self.options.rules.get(spec.rule).relays.is_none() {
            return;
        }
        let until = self.held[record].record.arrived + RELAY_ANSWER_MAX;
        if now < until {
            self.expiry.insert((until, key));
            return;
        }
        let lane = usize::from(self.options.scheduler.lane_of(spec.class));
        let lane = &mut self.outputs[usize::from(spec.output.0)].lanes[lane];
        // Of one that is handed over in part, the rest goes first.
        if self.queues.take_unconfirmed(&mut lane.unconfirmed, key) {
            self.finish(now, key, Fate::Dropped(DropReason::GivenBack));
        }
    }
}
