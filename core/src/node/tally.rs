//! Counts and times of every rule: what the audit equation, metrics and the status page are made of.

use crate::queue::Delivery;
use crate::record::Fate;
use crate::rules::RuleId;
use crate::status::{Counts, Stages};
use crate::units::{Size, Time};

/// Counts and times, one entry a rule.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) rules: Vec<(Counts, Stages)>,
    /// Offers refused before a rule was found.
    pub(super) refused: u64,
}

impl Tally {
    pub(super) fn new(rules: usize) -> Self {
        Tally { rules: vec![Default::default(); rules], refused: 0 }
    }

    fn counts(&mut self, rule: RuleId) -> &mut Counts {
        &mut self.rules[usize::from(rule.0)].0
    }

    pub(super) fn stages(&mut self, rule: RuleId) -> &mut Stages {
        &mut self.rules[usize::from(rule.0)].1
    }

    pub(super) fn refused(&mut self, rule: Option<RuleId>) {
        match rule {
            Some(rule) => self.counts(rule).refused += 1,
            None => self.refused += 1,
        }
    }

    /// A record was accepted, with so many deliveries of this size.
    pub(super) fn accepted(&mut self, rule: RuleId, deliveries: usize, size: Size) {
        let counts = self.counts(rule);
        counts.records += 1;
        counts.accepted += deliveries as u64;
        counts.accepted_bytes += size.0 * deliveries as u64;
    }

    /// The last byte of a delivery was handed to the wire.
    pub(super) fn handed(&mut self, now: Time, rule: RuleId, arrived: Time, delivery: &Delivery) {
        let stages = self.stages(rule);
        stages.wait.record(delivery.progress.picked_at.since(arrived));
        stages.transmit.record(now.since(delivery.progress.picked_at));
        stages.residence.record(now.since(arrived));
        if now > delivery.deadline {
            self.counts(rule).violated += 1;
        }
    }

    /// A delivery is sent again.
    pub(super) fn again(&mut self, rule: RuleId) {
        self.counts(rule).again += 1;
    }

    /// A delivery has its fate.
    pub(super) fn finished(&mut self, now: Time, rule: RuleId, delivery: &Delivery, fate: Fate) {
        let counts = self.counts(rule);
        match fate {
            Fate::Confirmed => {
                counts.confirmed += 1;
                counts.confirmed_bytes += delivery.size.0;
                if let Some(handed_at) = delivery.progress.handed_at {
                    self.stages(rule).confirm.record(now.since(handed_at));
                }
            }
            Fate::Dropped(reason) => counts.dropped[reason.index()] += 1,
        }
    }
}
