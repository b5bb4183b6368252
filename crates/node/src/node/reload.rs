//! New rules while the node works: what waits goes where it belongs now, and nothing is lost on the way.

use std::collections::BTreeMap;

use tidegate_schedule::queue::{Delivery, DeliveryKey, Place, QueueKey, RecordKey};
use tidegate_types::record::{DropReason, Fate};
use tidegate_types::units::{Size, Time};

use super::Node;
use super::admit::queue_spec;
use super::streams::StreamKey;
use crate::io::{Event, OutputId};
use crate::options::OptionsError;
use crate::rules::{Discipline, RuleId, Rules};

/// A record that is held, with its deliveries in the order of acceptance.
type Deliveries = BTreeMap<(u64, RecordKey), Vec<DeliveryKey>>;

impl Node {
    /// Puts new rules in force, or leaves all as it is and says why. A record that waits gets the class,
    /// bound and destinations of the rule that covers it now; what is under way is finished. A record on
    /// disk gets them when it is read back.
    pub(super) fn reload(&mut self, now: Time, rules: &Rules) {
        let checked = self.options.rules.updated(rules).map_err(OptionsError::from);
        let checked = checked.and_then(|rules| self.options.check_rules(&rules).map(|()| rules));
        let rules = match checked {
            Ok(rules) => rules,
            Err(error) => return self.report(Event::RulesRefused(error)),
        };
        let streams: Vec<StreamKey> = self.streams.all().map(|(key, _)| key).collect();
        for &stream in &streams {
            // A stream that is still full is found to be so by its next record.
            self.no_longer_full(stream);
        }
        self.options.rules = rules;
        let count = self.options.rules.len();
        self.tally.extend(count);
        self.full_streams.resize(count, 0);
        let held = self.deliveries();
        for stream in streams {
            self.lay_out(stream);
        }
        let mut moved = 0;
        for ((_, record), deliveries) in held {
            moved += u64::from(self.reseat(now, record, &deliveries));
        }
        self.close_unused();
        let Node { backlog, streams, options, .. } = self;
        backlog.reclass(|stream| options.rules.get(streams.get(stream).rule).class);
        self.freed.extend(self.streams.all().map(|(key, _)| key));
        self.report(Event::NewRules { moved });
    }

    fn deliveries(&self) -> Deliveries {
        let mut all = Deliveries::new();
        for key in self.queues.keys() {
            let Some(delivery) = self.queues.get(key) else { continue };
            all.entry((delivery.order, delivery.record)).or_default().push(key);
        }
        all
    }

    /// Closes the queues of earlier rules that hold nothing and to which nothing can come back.
    fn close_unused(&mut self) {
        let queue_of = |key| self.queues.get(key).map(|delivery| delivery.queue);
        let used = self.queues.keys().filter_map(queue_of).collect();
        let streams: Vec<StreamKey> = self.streams.all().map(|(key, _)| key).collect();
        for stream in streams {
            for queue in self.streams.get_mut(stream).take_unused(&used) {
                self.close_queue(queue);
            }
        }
    }

    /// Gives a stream the queues that its rule wants, if it has others.
    fn lay_out(&mut self, stream: StreamKey) {
        let rule_id = self.streams.get(stream).rule;
        let rule = self.options.rules.get(rule_id);
        let wanted = rule.to.iter().map(|&output| Some(queue_spec(rule_id, rule, output)));
        let present = self.streams.get(stream).queues().map(|queue| self.queues.spec(queue));
        if wanted.eq(present) {
            return;
        }
        let queues = self.open_queues(rule_id);
        self.streams.get_mut(stream).set_queues(&queues);
    }

    /// Puts a record where it belongs now; false if it is there already. One that is under way stays in its
    /// stream.
    fn reseat(&mut self, now: Time, record: RecordKey, deliveries: &[DeliveryKey]) -> bool {
        let Some(held) = self.held.get(record) else { return false };
        let (from, key) = (held.stream, held.record.key.clone());
        let waiting: Vec<DeliveryKey> =
            deliveries.iter().copied().filter(|&key| self.waits(key)).collect();
        let is_free = waiting.len() == held.left as usize;
        let relays = self.options.rules.get(self.streams.get(from).rule).relays;
        let rule = self.rule_of(&key, relays).filter(|_| is_free);
        let to = rule.and_then(|rule| self.stream_under(from, rule)).unwrap_or(from);
        let is_seated = |key: &DeliveryKey| {
            let queue = self.queues.get(*key).map(|delivery| delivery.queue);
            queue.is_some_and(|queue| self.streams.get(to).all_queues().any(|own| own == queue))
        };
        if to == from && waiting.iter().all(is_seated) {
            return false;
        }
        self.change_stream(record, from, to, deliveries);
        let orphans = self.seat(now, record, to, deliveries);
        for orphan in orphans {
            self.finish(now, orphan, Fate::Dropped(DropReason::Unroutable));
        }
        self.streams.note_idle(from);
        true
    }

    pub(super) fn waits(&self, key: DeliveryKey) -> bool {
        matches!(self.queues.get(key).map(Delivery::place), Some(Place::Waiting(_)))
    }

    /// The record counts for another stream from now on.
    fn change_stream(
        &mut self,
        record: RecordKey,
        from: StreamKey,
        to: StreamKey,
        deliveries: &[DeliveryKey],
    ) {
        let held = &mut self.held[record];
        held.stream = to;
        let (mut size, key, count) = (held.size, held.record.key.clone(), deliveries.len() as u64);
        let replaced = deliveries.iter().filter_map(|key| self.adapted.replaced(*key));
        size += replaced.map(|record| record.size()).sum::<Size>();
        let stream = self.streams.get_mut(from);
        stream.bytes -= size;
        stream.held -= count;
        let is_newest = stream.newest_of(&key).is_some_and(|(newest, _)| *newest == record);
        if let Some(newest) = stream.newest.as_mut().filter(|_| is_newest) {
            newest.remove(&key);
        }
        let old = stream.rule;
        let stream = self.streams.get_mut(to);
        stream.bytes += size;
        stream.held += count;
        let new = stream.rule;
        self.tally.moved(old, new, count);
        if self.options.rules.get(new).discipline == Discipline::NewestOnly {
            let known = stream.newest_of(&key).and_then(|(_, deliveries)| deliveries.first());
            let order = |key: &DeliveryKey| self.queues.get(*key).map(|delivery| delivery.order);
            // One that came later stays the newest; this one is sent as well.
            if known.and_then(order) < deliveries.first().and_then(order) {
                let newest = stream.newest.get_or_insert_default();
                newest.insert(key, (record, deliveries.to_vec()));
            }
        }
    }

    /// Puts the deliveries in the queues of a stream, each in that of its output. One goes to the stream's
    /// first output where none of theirs is left. Returns those that have no place.
    fn seat(
        &mut self,
        now: Time,
        record: RecordKey,
        stream: StreamKey,
        deliveries: &[DeliveryKey],
    ) -> Vec<DeliveryKey> {
        let rule_id = self.streams.get(stream).rule;
        let queues: Vec<QueueKey> = self.streams.get(stream).queues().collect();
        let deadline = self.deadline_under(record, rule_id);
        let outputs = self.options.rules.get(rule_id).to.clone();
        let mut orphans = Vec::new();
        let mut is_any_seated = false;
        for &key in deliveries {
            let Some(delivery) = self.queues.get(key) else { continue };
            let waits = self.waits(key);
            match outputs.iter().position(|&output| output == delivery.spec.home) {
                // What is under way is finished where it began.
                _ if !waits => is_any_seated = true,
                Some(place) => {
                    // One that a script sent elsewhere goes by its own output again, until a script looks.
                    self.reroute(key, outputs[place]);
                    is_any_seated |= self.queues.reseat(key, queues[place], deadline, now)
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

    /// The size of a delivery is another one on its way to another output.
    pub(super) fn reroute(&mut self, key: DeliveryKey, to: OutputId) {
        let Some(delivery) = self.queues.get(key).filter(|delivery| delivery.spec.output != to)
        else {
            return;
        };
        let overhead = |output: OutputId| self.options.outputs[usize::from(output.0)].overhead;
        let size = delivery.size - overhead(delivery.spec.output) + overhead(to);
        if delivery.ready {
            self.queues.resize(key, size);
        }
    }

    /// The deadline of a held record under a rule. One of an earlier process stays past its own.
    pub(super) fn deadline_under(&self, record: RecordKey, rule: RuleId) -> Time {
        let held = &self.held[record].record;
        match held.deadline {
            Time::ZERO => Time::ZERO,
            _ => held.arrived + self.options.rules.get(rule).latency,
        }
    }
}
