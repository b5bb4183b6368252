//! Counts and times of every rule: what the audit equation, metrics and the status page are made of.

use tidegate_schedule::queue::Delivery;
use tidegate_types::record::{DropReason, Fate};
use tidegate_types::units::{Size, Time};

use crate::rules::RuleId;
use crate::status::{Counts, Stages};

/// Counts and times, one entry a rule.
#[derive(Debug)]
pub(super) struct Tally {
    rules: Vec<(Counts, Stages)>,
    /// Offers refused before a rule was found.
    refused: u64,
}

impl Tally {
    pub(super) fn new(rules: usize) -> Self {
        Tally { rules: vec![Default::default(); rules], refused: 0 }
    }

    /// Room for more rules.
    pub(super) fn extend(&mut self, rules: usize) {
        self.rules.resize_with(rules, Default::default);
    }

    /// Counts and times of each rule.
    pub(super) fn rules(&self) -> &[(Counts, Stages)] {
        &self.rules
    }

    /// All counts together.
    pub(super) fn total(&self) -> Counts {
        let mut total = Counts { refused: self.refused, ..Counts::default() };
        self.rules.iter().for_each(|(counts, _)| total.add(counts));
        total
    }

    fn counts(&mut self, rule: RuleId) -> &mut Counts {
        &mut self.rules[usize::from(rule.0)].0
    }

    fn stages(&mut self, rule: RuleId) -> &mut Stages {
        &mut self.rules[usize::from(rule.0)].1
    }

    pub(super) fn refused(&mut self, rule: Option<RuleId>) {
        match rule {
            Some(rule) => self.counts(rule).refused += 1,
            None => self.refused += 1,
        }
    }

    /// Records were accepted, here or by an earlier process, with so many deliveries of so many bytes together.
    pub(super) fn accepted(&mut self, rule: RuleId, records: u64, deliveries: u64, bytes: Size) {
        let counts = self.counts(rule);
        counts.records += records;
        counts.accepted += deliveries;
        counts.accepted_bytes += bytes.0;
    }

    /// A record belongs to another rule now, with all its deliveries.
    pub(super) fn moved(&mut self, from: RuleId, to: RuleId, deliveries: u64) {
        if from != to {
            self.counts(from).accepted -= deliveries;
            self.counts(to).accepted += deliveries;
        }
    }

    /// Deliveries ended that were in no queue.
    pub(super) fn dropped(&mut self, rule: RuleId, deliveries: u64, reason: DropReason) {
        self.counts(rule).dropped[reason.index()] += deliveries;
    }

    /// The last byte of a delivery was handed to the wire. One that is sent again counts in the times
    /// again, for that is how long it took, but it violates its bound once.
    pub(super) fn handed(&mut self, now: Time, delivery: &mut Delivery) {
        let (rule, arrived) = (delivery.spec.rule, delivery.arrived);
        let stages = self.stages(rule);
        let progress = &mut delivery.progress;
        stages.wait.record(progress.picked_at.since(arrived));
        stages.transmit.record(now.since(progress.picked_at));
        stages.residence.record(now.since(arrived));
        progress.handed_at = now;
        if now > delivery.deadline && !progress.is_violated {
            progress.is_violated = true;
            self.violated(rule);
        }
    }

    /// The deadline of a delivery passed while it waited.
    pub(super) fn violated(&mut self, rule: RuleId) {
        self.counts(rule).violated += 1;
    }

    /// A delivery is sent again.
    pub(super) fn again(&mut self, rule: RuleId) {
        self.counts(rule).again += 1;
    }

    /// A delivery has its fate.
    pub(super) fn finished(&mut self, now: Time, delivery: &Delivery, fate: Fate) {
        let rule = delivery.spec.rule;
        let counts = self.counts(rule);
        match fate {
            Fate::Confirmed => {
                counts.confirmed += 1;
                counts.confirmed_bytes += delivery.size.0;
                if delivery.progress.is_handed() {
                    self.stages(rule).confirm.record(now.since(delivery.progress.handed_at));
                }
            }
            Fate::Dropped(reason) => counts.dropped[reason.index()] += 1,
        }
    }
}
