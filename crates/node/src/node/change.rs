//! What is changed of what waits: by scripts and the console (the verdicts of BumbleBee's Table I), by
//! endpoints, and by new rules.
//!
//! An edit names a delivery. One that left meanwhile, that is under way or in another queue is not touched,
//! so a stale handle is harmless.

use bytes::Bytes;
use tidegate_schedule::queue::{Delivery, DeliveryKey, MoveTarget, QueueSpec};
use tidegate_types::record::{DropReason, Fate, Offered, Record, SourceId, WorkId};
use tidegate_types::units::{Size, Time};

use super::Node;
use super::admission::size_of;
use super::holdings::{Keep, StreamKey};
use super::preparation::changed;
use crate::io::{Content, Destination, Edit, Event, Otherwise, OutputId, QueueId};
use crate::options::OptionsError;
use crate::rules::Rules;

/// The connection of what scripts insert: none that is ever open, so nobody is answered.
const NOBODY: SourceId = SourceId(u32::MAX);

/// Edits.
impl Node {
    /// Applies edits in order.
    pub(super) fn edit(&mut self, now: Time, queue: QueueId, operations: Vec<Edit>) {
        for operation in operations {
            let id = operation.delivery();
            if self.holdings.queues().is_waiting_in(queue.into(), id.into()) {
                self.edit_one(now, id.into(), operation);
            }
        }
    }

    fn edit_one(&mut self, now: Time, key: DeliveryKey, operation: Edit) {
        match operation {
            Edit::Drop(_) => self.finish(now, key, Fate::Dropped(DropReason::Script)),
            Edit::MoveFront(_) => self.holdings.move_to(key, MoveTarget::Next),
            Edit::MoveBack(_) => self.holdings.move_to(key, MoveTarget::Last),
            Edit::Redirect(_, Destination::Output(output)) => self.send_elsewhere(now, key, output),
            Edit::Redirect(_, Destination::Session(_)) => {
                let problem = "a redirection to a local subscriber";
                self.outbox.report(Event::Unsupported(problem));
            }
            Edit::Replace(_, content) => {
                if !self.replace(key, content) {
                    self.fail_guarded(now, key);
                }
            }
            Edit::Guard(_, otherwise) => self.preparation.guard(key, otherwise),
            Edit::Fail(_, otherwise) => self.fail(now, key, otherwise),
            Edit::Insert(_, content) => self.insert_after(now, key, content),
            Edit::Transform { endpoint, ordered, .. } => {
                let holdings = &mut self.holdings;
                match self.preparation.transform(holdings, key, endpoint, ordered) {
                    Some(transform) => self.outbox.push(transform),
                    None => self.fail_guarded(now, key),
                }
            }
        }
    }

    /// Sends a waiting record by another output, in the class and with the deadline that it has.
    fn send_elsewhere(&mut self, now: Time, key: DeliveryKey, to: OutputId) {
        let Some(&Delivery { record, spec, .. }) = self.holdings.delivery(key) else { return };
        if !self.egress.has_output(to) {
            let problem = "a redirection to an output that does not exist";
            return self.outbox.report(Event::Unsupported(problem));
        }
        if to == spec.output {
            return;
        }
        let Some(held) = self.holdings.record(record) else { return };
        if to != spec.home && self.space().is_destination(held.stream, to) {
            // It goes there anyway, and must not go twice.
            return self.finish(now, key, Fate::Dropped(DropReason::Script));
        }
        let Some(queue) = self.holdings.queue_towards(&self.options, record, spec, to) else {
            return;
        };
        self.holdings.move_towards(now, &self.options, key, queue);
        if let Some(&Delivery { size, .. }) = self.holdings.delivery(key) {
            let spec = QueueSpec { output: to, ..spec };
            self.egress.count_arrival(now, &self.options, spec, size);
        }
    }

    /// Lets a waiting delivery carry something else under its record's identity; false where that is too
    /// large, or there is no memory for it.
    fn replace(&mut self, key: DeliveryKey, content: Content) -> bool {
        let Some(&Delivery { record, spec, .. }) = self.holdings.delivery(key) else {
            return false;
        };
        let (Some(present), Some(held)) =
            (self.holdings.content(key), self.holdings.record(record))
        else {
            return false;
        };
        let changed = changed(present, content);
        let (new, freed) = (changed.size(), self.holdings.replaced_size(key));
        let space = self.space();
        if space.is_oversize(spec.rule, new) || space.lacks(held.stream, new, freed).is_some() {
            return false;
        }
        self.holdings.replace(key, changed);
        true
    }

    /// Accepts a record of a script's making and puts it behind the one that it was made from. Where it does
    /// not fit, there is none.
    fn insert_after(&mut self, now: Time, before: DeliveryKey, content: Content) {
        let Some(&Delivery { record, spec, .. }) = self.holdings.delivery(before) else { return };
        let (Some(like), Some(held)) =
            (self.holdings.content(before), self.holdings.record(record))
        else {
            return;
        };
        let stream = held.stream;
        let Record { key, properties, payload, expires, source_unix_ns, .. } =
            changed(like, content);
        let offered = Offered {
            source: NOBODY,
            token: None,
            key,
            properties,
            payload,
            read_at: now,
            source_unix_ns,
            ttl: expires.map(|at| at.since(now)),
            foreign: None,
            packet: None,
        };
        let size = size_of(&offered);
        let (rule, space) = (self.holdings.stream(stream).rule(), self.space());
        // What came back to a queue of earlier rules may have a destination that there is no more.
        let is_wanted = space.is_destination(stream, spec.home);
        if space.is_oversize(rule, size) || self.is_stopping || !is_wanted {
            return;
        }
        let Ok(Keep::InMemory) = self.make_fit(stream, size, Size::ZERO) else { return };
        let home = Some(spec.home);
        if let Some(new) = self.accept(now, offered, stream, size, Keep::InMemory, home) {
            self.send_elsewhere(now, new, spec.output);
            self.holdings.move_after(new, before);
        }
    }
}

/// Transformations and failures.
impl Node {
    /// An endpoint has answered, or will not (`None`): then the original goes, unless its script must not fail.
    pub(super) fn transformed(&mut self, now: Time, work: WorkId, payload: Option<Bytes>) {
        let Some((key, is_out)) = self.preparation.transformed(&self.holdings, work) else {
            return;
        };
        if is_out {
            self.come_back(now, key);
        }
        let content = |payload| Content { payload: Some(payload), ..Content::default() };
        let is_done = payload.is_some_and(|payload| self.replace(key, content(payload)));
        self.holdings.make_ready(&self.options, key);
        if !is_done {
            self.fail_guarded(now, key);
        }
    }

    /// What was decided of a delivery cannot be done.
    fn fail_guarded(&mut self, now: Time, key: DeliveryKey) {
        let otherwise = self.preparation.otherwise(key);
        self.fail(now, key, otherwise);
    }

    /// A waiting delivery's script has failed.
    fn fail(&mut self, now: Time, key: DeliveryKey, otherwise: Otherwise) {
        let is_kept = match otherwise {
            Otherwise::Pass => true,
            Otherwise::Hold => self.preparation.withhold(&mut self.holdings, key),
            Otherwise::Drop => false,
        };
        if !is_kept {
            self.finish(now, key, Fate::Dropped(DropReason::Script));
        }
    }

    /// Scripts have changed: they look at what was withheld for them.
    pub(super) fn reconsider(&mut self, now: Time) {
        for key in self.preparation.release_withheld(&self.holdings) {
            self.come_back(now, key);
            self.holdings.hold(key);
        }
    }
}

/// New rules.
impl Node {
    /// Puts new rules in force, or leaves all as it is and says why. A record that waits gets the class,
    /// bound and destinations of the rule that covers it now; what is under way is finished. A record on
    /// disk gets them when it is read back.
    pub(super) fn reload(&mut self, now: Time, rules: &Rules) {
        let checked = self.options.rules.updated(rules).map_err(OptionsError::from);
        let checked = checked.and_then(|rules| self.options.check_rules(&rules).map(|()| rules));
        let rules = match checked {
            Ok(rules) => rules,
            Err(error) => return self.outbox.report(Event::RulesRefused(error)),
        };
        let streams: Vec<StreamKey> = self.holdings.streams().map(|(key, _)| key).collect();
        for stream in streams {
            // A stream that is still full is found to be so by its next record.
            self.admission.no_longer_full(&mut self.holdings, &mut self.outbox, stream);
        }
        self.options.rules = rules;
        self.admission.extend(self.options.rules.len());
        let held = self.holdings.by_acceptance();
        self.holdings.lay_out(&self.options);
        let mut moved = 0;
        for ((_, record), deliveries) in held {
            let seated = self.holdings.reseat(now, &self.options, record, &deliveries);
            let Some((from, orphans)) = seated else { continue };
            for orphan in orphans {
                self.finish(now, orphan, Fate::Dropped(DropReason::Unroutable));
            }
            self.holdings.note_idle(from);
            moved += 1;
        }
        self.holdings.close_unused();
        self.durability.reclass(&self.holdings, &self.options);
        self.admission.free_all(&self.holdings);
        self.outbox.report(Event::NewRules { moved });
    }
}
