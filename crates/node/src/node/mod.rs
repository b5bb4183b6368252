//! A node: it takes inputs, holds records, and says what to do.
//!
//! A driver calls [`Node::handle`], then [`Node::poll`] until it answers `None`, and both again at
//! [`Node::next_timeout`] at the latest. `Node` only composes: each fact has one part that owns it, with
//! fields that no other file can write, and every sum stands in a part or in the algorithm that it joins.
//!
//! The files are listed, in the order of reading, on the room's opening page ([`crate`]). Seven of them have
//! functions of `Node`, for they join several parts: this one, `arrive.rs`, `durable.rs`, `change.rs`, `feedback.rs`,
//! `lending.rs` and `view.rs`.

mod admission;
mod ahead;
mod arrive;
mod base;
mod change;
mod deeds;
mod durability;
mod durable;
mod egress;
mod feedback;
mod holdings;
mod lending;
mod outbox;
mod owners;
mod preparation;
mod reserved;
mod restore;
mod sources;
mod view;

use std::sync::Arc;

use tidegate_log::{Recovery, WallTime};
use tidegate_types::record::{Origin, Owner, SourceId};
use tidegate_types::units::Time;

use self::admission::{Admission, Space};
use self::base::Base;
use self::deeds::Deeds;
use self::durability::Durability;
use self::egress::Egress;
use self::preparation::Preparation;
use self::reserved::Lending;
use crate::io::{Control, Input, Output};
use crate::options::{NodeOptions, OptionsError};

/// One Tidegate node.
#[derive(Debug)]
pub struct Node {
    base: Base,
    /// In the names of records that the log does not know.
    origin: Arc<Origin>,
    admission: Admission,
    durability: Durability,
    preparation: Preparation,
    deeds: Deeds,
    egress: Egress,
    lending: Lending,
    is_stopping: bool,
    is_drained: bool,
}

impl Node {
    /// A node made of these options, holding nothing; its log, if it has one, is new.
    ///
    /// # Errors
    /// Options that lead nowhere: see [`OptionsError`].
    pub fn new(options: NodeOptions) -> Result<Self, OptionsError> {
        Node::resume(options, Recovery::default())
    }

    /// A node that goes on where a log ends: what has no fate there is read back and sent. The options'
    /// name and incarnation are those of the log.
    ///
    /// # Errors
    /// Options that lead nowhere: see [`OptionsError`].
    pub fn resume(options: NodeOptions, recovery: Recovery) -> Result<Self, OptionsError> {
        options.check()?;
        let origin = |incarnation| Arc::new(Origin { node: options.name.clone(), incarnation });
        let log_origin = origin(options.incarnation);
        let boot = options.log.as_ref().map(|log| origin(log.boot));
        let options = Arc::new(options);
        let mut base = Base::new(options.clone());
        let mut durability = Durability::new(&options, log_origin.clone(), &recovery);
        restore::restore(&mut base, &mut durability, recovery);
        Ok(Node {
            base,
            origin: boot.unwrap_or(log_origin),
            admission: Admission::new(&options),
            durability,
            preparation: Preparation::default(),
            deeds: Deeds::default(),
            egress: Egress::new(&options),
            lending: Lending::default(),
            is_stopping: false,
            is_drained: false,
        })
    }

    /// Takes one input. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        self.base.now = now;
        match input {
            Input::Arrived(records) => self.ingest(records),
            Input::Appended { upto } => self.appended(upto),
            Input::AppendFailed { appends, reason } => self.append_failed(&appends, reason),
            Input::Fetched(fetched) => self.fetched(fetched),
            Input::Transformed { work, payload } => self.transformed(work, payload),
            Input::Sent { id, bytes } => {
                self.egress.sent(&mut self.base, id.into(), bytes);
            }
            Input::Confirmed { destination, ids } => self.confirmed(destination, &ids),
            Input::Carried { destination, ids, by } => {
                self.carried(&ids, &by);
                self.confirmed(destination, &ids);
            }
            Input::Refused { destination, ids, reason } => {
                self.refused(destination, &ids, reason);
            }
            Input::PathSample { path, sample } => {
                self.egress.path_sample(&self.base, path, &sample);
            }
            Input::Capacity { output, rate } => {
                self.egress.capacity_told(output, rate);
            }
            Input::Window { output, records } => {
                self.egress.window_told(&self.base, output, records);
            }
            Input::PathState { path, state } => self.path_state(path, state),
            Input::DestinationState { destination, up } => {
                self.destination_state(destination, up);
            }
            Input::Edits { queue, operations } => self.edit(queue, operations),
            Input::Control(control) => self.control(control),
            Input::Wall { unix_ns, uncertainty } => {
                self.set_wall(WallTime { unix_ns: unix_ns.max(1), uncertainty });
            }
        }
    }

    /// What people, other nodes, connections and the orchestrator order.
    fn control(&mut self, control: Control) {
        match control {
            Control::Open { source, name, relays } => {
                // A driver that forgot to close it means the same.
                self.close_source(source);
                if !self.base.sources.open(source, name, relays) {
                    self.base.unsupported("a connection with a number beyond the bound");
                }
            }
            Control::Bind { source, rule } => self.base.sources.bind(source, rule),
            Control::Charge { source, owner, quota } => {
                let Node { base, durability, .. } = self;
                let (streams, parts) =
                    (base.holdings.streams(), durability.log().segments().parts());
                let is_used = |owner| streams.of_owner(owner) > 0 || parts.of(owner) > 0;
                base.sources.owners.tidy(is_used);
                base.sources.charge(source, owner, quota);
            }
            Control::Close(source) => self.close_source(source),
            Control::Withdraw(id) => self.give_up(id.into()),
            Control::Session { source, lasts, is_new } => {
                self.durability.begin_session(&mut self.base, source, lasts, is_new);
            }
            Control::SessionOver(client) => {
                self.durability.session_over(&mut self.base, &client);
            }
            Control::Release { source, packets } => {
                self.durability.release_packets(&mut self.base, source, packets);
            }
            Control::Position(position) => {
                if !self.durability.note_position(self.base.now, position) {
                    self.base.unsupported("a position without a log, or one more than it keeps");
                }
            }
            Control::Stop => self.stop(),
            Control::Discard => self.discard(),
            Control::Grant { peer, class, amount, lease } => {
                self.egress.grant(&mut self.base, (peer, class), amount, lease);
            }
            Control::Reserve { class, amount, lease } => self.reserve(class, amount, lease),
            Control::Neighbour { peer, name } => self.egress.name_peer(peer, name),
            Control::Pace { queue, rate } => {
                self.base.holdings.set_rate(self.base.now, queue.into(), rate)
            }
            Control::Reconsider => self.reconsider(),
            Control::Rules(rules) => self.reload(&rules),
            Control::Limits { memory, record_max } => self.limit(memory, record_max),
            Control::Outputs(changed) => self.set_outputs(*changed),
            Control::Govern { uplink, controller, cap } => self.govern(uplink, controller, cap),
        }
    }

    /// A connection is gone. Whether records of it wait for room that nobody sends again: then it is best closed once they
    /// have it.
    pub fn part(&mut self, source: SourceId) -> bool {
        self.base.part(source)
    }

    /// On whose account a connection is.
    pub fn owner_of(&self, source: SourceId) -> Option<&Owner> {
        self.base.sources.owner_of(source)
    }

    fn close_source(&mut self, source: SourceId) {
        self.durability.leave_session(&self.base, source);
        self.base.close(source);
    }

    /// The next thing to do; `None` until the next input or timeout.
    pub fn poll(&mut self, now: Time) -> Option<Output> {
        self.base.now = now;
        if let Some(output) = self.base.outbox.pop() {
            return Some(output);
        }
        self.watch_lent();
        self.settle();
        self.base.holdings.release_due(now);
        let Node { base, admission, durability, preparation, egress, is_stopping, .. } = self;
        durability.write_due(base);
        if let Some(output) = durability.next_output(base).or_else(|| base.outbox.pop()) {
            return Some(output);
        }
        let hurried = egress.hurry(base);
        let transmit = hurried.or_else(|| egress.forward(base, admission.processing));
        let work = transmit.or_else(|| egress.redirect(base));
        let work = work.or_else(|| preparation.next_script(base));
        let work = match is_stopping {
            // What the log has is sent after the next start.
            true => work,
            false => work.or_else(|| durability.next_fetch(base)),
        };
        let output = work.or_else(|| base.outbox.next_report().map(Output::Report));
        if output.is_none() {
            base.holdings.pass_deadlines(now);
        }
        output
    }

    /// When `poll` must be called at the latest, if no input comes before.
    pub fn next_timeout(&self) -> Option<Time> {
        let expiry = self.base.holdings.next_expiry();
        let queues = self.base.holdings.queues();
        let (paced, late) = (queues.next_release(), queues.next_due());
        let coflow = self.base.holdings.next_coflow();
        let patience = self.base.sources.first_patience().map(|(at, _)| at);
        let log = self.durability.log().next_timeout();
        let egress = self.egress.next_timeout();
        [expiry, paced, late, coflow, patience, log, egress, self.next_look_at_lent()]
            .into_iter()
            .flatten()
            .min()
    }

    /// What room is measured by.
    fn space(&self) -> Space<'_> {
        Space { base: &self.base, durability: &self.durability }
    }
}
