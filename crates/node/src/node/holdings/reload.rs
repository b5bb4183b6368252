//! New rules while the node works: what waits goes where it belongs now, and nothing is lost on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_schedule::queue::{DeliveryKey, QueueKey, RecordKey};
use tidegate_types::units::{Size, Time};

use super::account::DeliveryAccount;
use super::streams::StreamKey;
use super::{Holdings, queue_spec};
use crate::options::NodeOptions;
use crate::rules::{Discipline, RuleId};

/// Records with their deliveries, in the order of acceptance.
pub(crate) type Deliveries = BTreeMap<(u64, RecordKey), Vec<DeliveryKey>>;

impl Holdings {
    /// All records in memory with their deliveries.
    pub(crate) fn by_acceptance(&self) -> Deliveries {
        let mut all = Deliveries::new();
        for key in self.queues.keys() {
            let Some(delivery) = self.queues.get(key) else { continue };
            all.entry((delivery.order, delivery.record)).or_default().push(key);
        }
        all
    }

    /// There are other outputs now, the known ones at their places.
    pub(crate) fn extend_outputs(&mut self, options: Arc<NodeOptions>) {
        self.queues.extend(options.outputs.len());
        self.lay_out(options);
    }

    /// There are other rules now: gives each stream the queues that its rule wants, if it has others.
    pub(crate) fn lay_out(&mut self, options: Arc<NodeOptions>) {
        self.options = options;
        self.tally.extend(self.options.rules.len());
        let streams: Vec<StreamKey> = self.streams.all().map(|(key, _)| key).collect();
        for stream in streams {
            let rule_id = self.streams.get(stream).rule;
            let rule = self.options.rules.get(rule_id);
            let wanted = rule.to.iter().map(|&output| Some(queue_spec(rule_id, rule, output)));
            let present = self.streams.get(stream).queues().map(|queue| self.queues.spec(queue));
            if !wanted.eq(present) {
                let queues = self.open_queues(rule_id);
                self.streams.get_mut(stream).set_queues(&queues);
            }
        }
    }

    /// Closes the queues of earlier rules that hold nothing and to which nothing can come back.
    pub(crate) fn close_unused(&mut self) {
        let queue_of = |key| self.queues.get(key).map(|delivery| delivery.queue);
        let used = self.queues.keys().filter_map(queue_of).collect();
        let streams: Vec<StreamKey> = self.streams.all().map(|(key, _)| key).collect();
        for stream in streams {
            for queue in self.streams.get_mut(stream).take_unused(&used) {
                self.queues.close(queue);
            }
        }
    }

    /// The stream of the same source under another rule; `None` where there is no place for one more.
    pub(crate) fn stream_under(&mut self, from: StreamKey, rule: RuleId) -> Option<StreamKey> {
        let stream = self.streams.get(from);
        if stream.rule == rule {
            return Some(from);
        }
        let name = stream.name.clone();
        let known = self.streams.find(rule, &name);
        known.or_else(|| self.create_stream(rule, name))
    }

    /// Puts a record where it belongs now; `None` if it is there already. One that is under way stays in its
    /// stream. Answers with the stream that it left, and the deliveries that go nowhere any more.
    pub(crate) fn reseat(
        &mut self,
        now: Time,
        record: RecordKey,
        deliveries: &[DeliveryKey],
    ) -> Option<(StreamKey, Vec<DeliveryKey>)> {
        let held = self.records.get(record)?;
        let (from, key) = (held.stream, held.record.key.clone());
        let waiting: Vec<DeliveryKey> =
            deliveries.iter().copied().filter(|&key| self.is_waiting(key)).collect();
        let is_free = waiting.len() == held.left as usize;
        let rules = &self.options.rules;
        let old = rules.get(self.streams.get(from).rule);
        let rule = match old.relays {
            Some(class) => rules.relaying(class, old.is_reserved()),
            None if old.is_bound => Some(self.streams.get(from).rule),
            None => rules.covering(&key),
        };
        let rule = rule.filter(|_| is_free);
        let to = rule.and_then(|rule| self.stream_under(from, rule)).unwrap_or(from);
        let is_seated = |key: &DeliveryKey| {
            let queue = self.queues.get(*key).map(|delivery| delivery.queue);
            queue.is_some_and(|queue| self.streams.get(to).all_queues().any(|own| own == queue))
        };
        if to == from && waiting.iter().all(is_seated) {
            return None;
        }
        self.change_stream(record, to, deliveries);
        Some((from, self.seat(now, record, deliveries)))
    }

    /// The record counts for another stream from now on.
    fn change_stream(&mut self, record: RecordKey, to: StreamKey, deliveries: &[DeliveryKey]) {
        let carried: Size = deliveries.iter().map(|key| self.replaced_size(*key)).sum();
        let held = &mut self.records[record];
        let from = std::mem::replace(&mut held.stream, to);
        let (size, key) = (held.size + carried, held.record.key.clone());
        let count = deliveries.len() as u64;
        self.transfer([from, to], count, size, [DeliveryAccount::free, DeliveryAccount::hold]);
        self.streams.get_mut(from).forget_newest(&key, record);
        let stream = self.streams.get_mut(to);
        if self.options.rules.get(stream.rule).discipline == Discipline::NewestOnly {
            let known = stream.newest_of(&key).and_then(|(_, deliveries)| deliveries.first());
            let order = |key: &DeliveryKey| self.queues.get(*key).map(|delivery| delivery.order);
            // One that came later stays the newest; this one is sent as well.
            if known.and_then(order) < deliveries.first().and_then(order) {
                let newest = stream.newest.get_or_insert_default();
                newest.insert(key, (record, deliveries.to_vec()));
            }
        }
    }

    /// Puts the deliveries of a record in the queues of its stream, each in that of its output. One goes to
    /// the stream's first output where none of theirs is left. Answers with those that have no place.
    fn seat(
        &mut self,
        now: Time,
        record: RecordKey,
        deliveries: &[DeliveryKey],
    ) -> Vec<DeliveryKey> {
        let stream = self.streams.get(self.records[record].stream);
        let options = self.options.clone();
        let outputs = &options.rules.get(stream.rule).to;
        let deadline = self.deadline_under(record, stream.rule);
        let of_set = deliveries.iter().filter_map(|key| self.coflows.deadline(*key));
        let deadline = of_set.fold(deadline, Time::min);
        let queues: Vec<QueueKey> = stream.queues().collect();
        let mut orphans = Vec::new();
        let mut is_any_seated = false;
        for &key in deliveries {
            let Some(delivery) = self.queues.get(key) else { continue };
            let waits = self.is_waiting(key);
            match outputs.iter().position(|&output| output == delivery.spec.home) {
                // What is under way is finished where it began.
                _ if !waits => is_any_seated = true,
                Some(place) => {
                    // One that a script sent elsewhere goes by its own output again, until a script looks.
                    self.reroute(key, outputs[place]);
                    is_any_seated |= self.queues.reseat(key, queues[place], deadline, now);
                }
                None => orphans.push(key),
            }
        }
        let mut rerouted = orphans.iter();
        if !is_any_seated && let Some(&key) = rerouted.next() {
            self.reroute(key, outputs[0]);
        }
        let rest = rerouted.copied().collect();
        for key in orphans {
            // Those that end now count for the new rule, as their record does.
            self.queues.reseat(key, queues[0], deadline, now);
        }
        rest
    }

    /// The deadline of a held record under a rule. One of an earlier process stays past its own.
    fn deadline_under(&self, record: RecordKey, rule: RuleId) -> Time {
        let held = &self.records[record].record;
        match held.deadline {
            Time::ZERO => Time::ZERO,
            _ => held.arrived + self.options.rules.get(rule).latency,
        }
    }
}
