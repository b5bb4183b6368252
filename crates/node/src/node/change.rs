//! What is changed of what waits: by scripts and the console (the verdicts of BumbleBee's Table I), by
//! endpoints, and by new rules.
//!
//! An edit names a delivery. One that left meanwhile, that is under way or in another queue is not touched,
//! so a stale handle is harmless.

use std::sync::Arc;

use bytes::Bytes;
use tidegate_capacity::RateControllerName;
use tidegate_log::Lever;
use tidegate_schedule::queue::{Delivery, DeliveryKey, MoveTarget, QueueSpec};
use tidegate_types::record::{DropReason, Fate, Offered, Record, SourceId, WorkId};
use tidegate_types::units::{Rate, Size};

use super::Node;
use super::admission::size_of;
use super::holdings::{Keep, StreamKey};
use super::preparation::changed;
use crate::io::{Content, Destination, Edit, Event, Otherwise, OutputId, QueueId, UplinkId};
use crate::options::{NodeOptions, OptionsError, OutputOptions, UplinkOptions};
use crate::rules::Rules;

/// The connection of what scripts insert: none that is ever open, so nobody is answered.
const NOBODY: SourceId = SourceId(u32::MAX);

/// Edits.
impl Node {
    /// Applies edits in order.
    pub(super) fn edit(&mut self, queue: QueueId, operations: Vec<Edit>) {
        for operation in operations {
            let id = operation.delivery();
            let queues = self.base.holdings.queues();
            // New rules may have moved it since its script was to look at it.
            let is_there = match operation {
                Edit::Ready(_) | Edit::Show(_) => self.base.holdings.is_waiting(id.into()),
                _ => queues.is_waiting_in(queue.into(), id.into()),
            };
            if is_there {
                self.note_edit(id.into(), &operation);
                self.edit_one(id.into(), operation);
            }
        }
    }

    /// What a script does to a logged record is told with its fate.
    fn note_edit(&mut self, key: DeliveryKey, operation: &Edit) {
        let what = match operation {
            Edit::Drop(_) => "drop",
            Edit::MoveFront(_) => "moveToFront",
            Edit::MoveBack(_) => "moveToBack",
            Edit::Redirect(_, Destination::Output(_)) => "redirect to ",
            Edit::Replace(..) => "replace",
            Edit::Insert(..) => "insert",
            Edit::Transform { .. } => "transform",
            Edit::Fail(_, Otherwise::Pass) | Edit::Redirect(..) => return,
            Edit::Fail(..) => "failed",
            Edit::Guard(..) | Edit::Wait(_) | Edit::Ready(_) | Edit::Show(_) => return,
        };
        let Node { base, deeds, .. } = self;
        let base = &*base;
        // Most records are in no log: for those no text is made.
        deeds.note(base, key, Lever::Script, false, || {
            let to = match operation {
                Edit::Redirect(_, Destination::Output(to)) => usize::from(to.0),
                _ => usize::MAX,
            };
            let to = base.options.outputs.get(to).map_or("", |output| &*output.name);
            let rule = base.holdings.delivery(key).map(|delivery| delivery.spec.rule);
            let script = rule.and_then(|rule| base.options.rules.get(rule).script_name.as_deref());
            let by = script.map_or_else(String::new, |script| format!("{script}: "));
            format!("{by}{what}{to}").into()
        });
    }

    fn edit_one(&mut self, key: DeliveryKey, operation: Edit) {
        match operation {
            Edit::Drop(_) => self.finish(key, Fate::Dropped(DropReason::Script)),
            Edit::MoveFront(_) => self.base.holdings.move_to(key, MoveTarget::Next),
            Edit::MoveBack(_) => self.base.holdings.move_to(key, MoveTarget::Last),
            Edit::Redirect(_, Destination::Output(output)) => self.send_elsewhere(key, output),
            Edit::Redirect(_, Destination::Session(_)) => {
                self.base.unsupported("a redirection to a local subscriber");
            }
            Edit::Replace(_, content) => {
                if !self.replace(key, content) {
                    self.fail_guarded(key);
                }
            }
            Edit::Guard(_, otherwise) => self.preparation.guard(key, otherwise),
            Edit::Fail(_, otherwise) => self.fail(key, otherwise),
            Edit::Insert(_, content) => self.insert_after(key, content),
            Edit::Wait(_) => self.preparation.defer(&mut self.base.holdings, key),
            Edit::Ready(_) => self.preparation.ready(&mut self.base.holdings, key),
            Edit::Show(_) => {
                self.preparation.defer(&mut self.base.holdings, key);
                self.preparation.show(key);
            }
            Edit::Transform { endpoint, ordered, .. } => {
                let holdings = &mut self.base.holdings;
                match self.preparation.transform(holdings, key, endpoint, ordered) {
                    Some(transform) => self.base.outbox.push(transform),
                    None => self.fail_guarded(key),
                }
            }
        }
    }

    /// Sends a waiting record by another output, in the class and with the deadline that it has.
    fn send_elsewhere(&mut self, key: DeliveryKey, to: OutputId) {
        let Some(&Delivery { record, spec, .. }) = self.base.holdings.delivery(key) else { return };
        if !self.base.options.has_output(to) {
            return self.base.unsupported("a redirection to an output that does not exist");
        }
        if to == spec.output {
            return;
        }
        let Some(held) = self.base.holdings.record(record) else { return };
        if to != spec.home && self.space().is_destination(held.stream, to) {
            // It goes there anyway, and must not go twice.
            return self.finish(key, Fate::Dropped(DropReason::Script));
        }
        let Some(queue) = self.base.holdings.queue_towards(record, spec, to) else {
            return;
        };
        self.base.holdings.move_towards(self.base.now, key, queue);
        if let Some(&Delivery { size, .. }) = self.base.holdings.delivery(key) {
            let spec = QueueSpec { output: to, ..spec };
            self.egress.count_arrival(&self.base.options, self.base.now, spec, size);
        }
    }

    /// Lets a waiting delivery carry something else under its record's identity; false where that is too
    /// large, or there is no memory for it.
    fn replace(&mut self, key: DeliveryKey, content: Content) -> bool {
        let Some(&Delivery { record, spec, .. }) = self.base.holdings.delivery(key) else {
            return false;
        };
        let (Some(present), Some(held)) =
            (self.base.holdings.content(key), self.base.holdings.record(record))
        else {
            return false;
        };
        let changed = changed(present, content);
        let (new, freed) = (changed.size(), self.base.holdings.replaced_size(key));
        let space = self.space();
        if space.is_oversize(spec.rule, new) || space.lacks(held.stream, new, freed).is_some() {
            return false;
        }
        self.base.holdings.replace(key, changed);
        true
    }

    /// Accepts a record of a script's making and puts it behind the one that it was made from. Where it does
    /// not fit, there is none.
    fn insert_after(&mut self, before: DeliveryKey, content: Content) {
        let Some(&Delivery { record, spec, .. }) = self.base.holdings.delivery(before) else {
            return;
        };
        let (Some(like), Some(held)) =
            (self.base.holdings.content(before), self.base.holdings.record(record))
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
            read_at: self.base.now,
            source_unix_ns,
            ttl: expires.map(|at| at.since(self.base.now)),
            foreign: None,
            packet: None,
        };
        let size = size_of(&offered);
        let (rule, space) = (self.base.holdings.stream(stream).rule, self.space());
        // What came back to a queue of earlier rules may have a destination that there is no more.
        let is_wanted = space.is_destination(stream, spec.home);
        if space.is_oversize(rule, size) || self.is_stopping || !is_wanted {
            return;
        }
        let Ok(Keep::InMemory) = self.make_fit(stream, size, Size::ZERO) else { return };
        let home = Some(spec.home);
        if let Some(new) = self.accept(offered, stream, size, Keep::InMemory, home) {
            self.send_elsewhere(new, spec.output);
            self.base.holdings.move_after(new, before);
        }
    }
}

/// Transformations and failures.
impl Node {
    /// An endpoint has answered, or will not (`None`): then the original goes, unless its script must not fail.
    pub(super) fn transformed(&mut self, work: WorkId, payload: Option<Bytes>) {
        let Some((key, is_out)) = self.preparation.transformed(&self.base.holdings, work) else {
            return;
        };
        if is_out {
            self.come_back(key);
        }
        let content = |payload| Content { payload: Some(payload), ..Content::default() };
        let is_done = payload.is_some_and(|payload| self.replace(key, content(payload)));
        self.base.holdings.make_ready(key);
        if !is_done {
            self.fail_guarded(key);
        }
    }

    /// What was decided of a delivery cannot be done.
    fn fail_guarded(&mut self, key: DeliveryKey) {
        let otherwise = self.preparation.otherwise(key);
        self.fail(key, otherwise);
    }

    /// A waiting delivery's script has failed.
    fn fail(&mut self, key: DeliveryKey, otherwise: Otherwise) {
        let is_kept = match otherwise {
            Otherwise::Pass => true,
            Otherwise::Hold => self.preparation.withhold(&mut self.base.holdings, key),
            Otherwise::Drop => false,
        };
        if !is_kept {
            self.finish(key, Fate::Dropped(DropReason::Script));
        }
    }

    /// Scripts have changed: they look at what was withheld for them.
    pub(super) fn reconsider(&mut self) {
        for key in self.preparation.release_withheld(&self.base.holdings) {
            self.come_back(key);
            self.base.holdings.hold(key);
        }
    }
}

/// New rules.
impl Node {
    /// Holds the node to other bounds. Who waits for room is looked at again: there may be more.
    pub(super) fn limit(&mut self, memory: Size, record_max: Size) {
        let options = NodeOptions { memory, record_max, ..NodeOptions::clone(&self.base.options) };
        self.base.options = Arc::new(options);
        self.base.holdings.lay_out(self.base.options.clone());
        let streams: Vec<StreamKey> =
            self.base.holdings.streams().all().map(|(key, _)| key).collect();
        for stream in streams {
            self.admission.no_longer_full(&mut self.base, stream);
        }
    }

    /// Holds an uplink to another rate or law; one that does not exist is left.
    pub(super) fn govern(
        &mut self,
        uplink: UplinkId,
        controller: RateControllerName,
        cap: Option<Rate>,
    ) {
        let mut options = NodeOptions::clone(&self.base.options);
        let Some(of) = options.uplinks.get_mut(usize::from(uplink.0)) else { return };
        (of.controller, of.cap) = (controller, cap);
        if options.check().is_err() {
            return self.base.unsupported("a law without the rate that it needs");
        }
        self.egress.govern(uplink, &options.uplinks[usize::from(uplink.0)]);
        self.base.options = Arc::new(options);
        self.base.holdings.lay_out(self.base.options.clone());
    }

    /// Other outputs: see `Control::Outputs`.
    pub(super) fn set_outputs(
        &mut self,
        (outputs, uplinks): (Vec<OutputOptions>, Vec<UplinkOptions>),
    ) {
        let before = self.base.options.clone();
        let options = NodeOptions { outputs, uplinks, ..NodeOptions::clone(&before) };
        let is_known = |(one, other): (&OutputOptions, &OutputOptions)| {
            (one.uplink, one.one_lane) == (other.uplink, other.one_lane)
        };
        let are_known = before.outputs.iter().zip(&options.outputs).all(is_known)
            && before.outputs.len() <= options.outputs.len()
            && before.uplinks.len() <= options.uplinks.len();
        if !are_known || options.check().is_err() {
            return self.base.unsupported("outputs that lead nowhere, or leave their places");
        }
        self.base.options = Arc::new(options);
        self.base.holdings.extend_outputs(self.base.options.clone());
        self.egress.extend(&self.base.options);
        self.durability.renew_segment(&self.base);
        for place in 0..before.outputs.len() {
            let output = OutputId(place as u16);
            if before.has_output(output) != self.base.options.has_output(output) {
                let is_back = self.base.options.has_output(output);
                self.destination_state(Destination::Output(output), is_back);
            }
        }
        let keys: Vec<DeliveryKey> = self.base.holdings.queues().keys().collect();
        keys.into_iter().for_each(|key| self.leave_gone(key));
    }

    /// What waits for an output that is gone goes where a script took it from, or is dropped.
    pub(super) fn leave_gone(&mut self, key: DeliveryKey) {
        let Some(&Delivery { spec, .. }) = self.base.holdings.delivery(key) else { return };
        let options = &self.base.options;
        if options.has_output(spec.output) || !self.base.holdings.is_waiting(key) {
            return;
        }
        match options.has_output(spec.home) {
            true => self.send_elsewhere(key, spec.home),
            false => self.finish(key, Fate::Dropped(DropReason::Unroutable)),
        }
        // Rules may have changed since: where it came from takes it no more.
        let is_left = |delivery: &Delivery| delivery.spec.output == spec.output;
        if self.base.holdings.delivery(key).is_some_and(is_left) {
            self.finish(key, Fate::Dropped(DropReason::Unroutable));
        }
    }

    /// Puts new rules in force, or leaves all as it is and says why. A record that waits gets the class,
    /// bound and destinations of the rule that covers it now; what is under way is finished. A record on
    /// disk gets them when it is read back.
    pub(super) fn reload(&mut self, rules: &Rules) {
        let checked = self.base.options.rules.updated(rules).map_err(OptionsError::from);
        let checked =
            checked.and_then(|rules| self.base.options.check_rules(&rules).map(|()| rules));
        let rules = match checked {
            Ok(rules) => rules,
            Err(error) => return self.base.outbox.report(Event::RulesRefused(error)),
        };
        let streams: Vec<StreamKey> =
            self.base.holdings.streams().all().map(|(key, _)| key).collect();
        for stream in streams {
            // A stream that is still full is found to be so by its next record.
            self.admission.no_longer_full(&mut self.base, stream);
        }
        self.base.options =
            Arc::new(NodeOptions { rules, ..NodeOptions::clone(&self.base.options) });
        self.admission.extend(self.base.options.rules.len());
        let held = self.base.holdings.by_acceptance();
        self.base.holdings.lay_out(self.base.options.clone());
        let mut moved = 0;
        for ((_, record), deliveries) in held {
            let seated = self.base.holdings.reseat(self.base.now, record, &deliveries);
            let Some((from, orphans)) = seated else { continue };
            for orphan in orphans {
                self.finish(orphan, Fate::Dropped(DropReason::Unroutable));
            }
            self.base.holdings.note_idle(from);
            moved += 1;
        }
        self.base.holdings.close_unused();
        self.durability.reclass(&self.base);
        self.admission.free_all(&self.base.holdings);
        self.base.outbox.report(Event::NewRules { moved });
    }
}
