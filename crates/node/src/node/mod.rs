//! A node: it takes inputs, holds records, and says what to do.
//!
//! A driver calls [`Node::handle`], then [`Node::poll`] until it answers `None`, and both again at
//! [`Node::next_timeout`] at the latest. `Node` only composes: each fact has one part that owns it, with
//! fields that no other file can write, and every sum stands in a part or in the algorithm that it joins.
//!
//! # The life of one record, in the order of reading
//!
//! | file | station |
//! |---|---|
//! | `mod.rs` | an input comes in, the next thing to do goes out |
//! | `arrive.rs` | its rule, its stream, whether it fits; it is accepted, waits for room, or is refused |
//! | `admission.rs` | who may bring records; fullness begins and ends |
//! | `holdings.rs` | it comes into its queues, and into the accounts |
//! | `durability.rs` | it goes to the log, and its fate follows it there |
//! | `durable.rs` | the log has it; it leaves memory for the log, and is read back |
//! | `preparation.rs` | its script looks at it, an endpoint works on it |
//! | `change.rs` | what scripts and new rules change of it while it waits |
//! | `egress.rs` | the uplink is free: the most urgent record is handed over |
//! | `feedback.rs` | it is confirmed, refused, expires or is given up: its end |
//! | `outbox.rs` | what the driver is to do |
//!
//! Beside it: `restore.rs` (a node starts from a log), `view.rs` (what the world may see), `ahead.rs` (a batch
//! is read side by side).

mod admission;
mod ahead;
mod arrive;
mod change;
mod durability;
mod durable;
mod egress;
mod feedback;
mod holdings;
mod outbox;
mod preparation;
mod restore;
mod view;

use std::sync::Arc;

use tidegate_log::{Recovery, WallTime};
use tidegate_types::record::Origin;
use tidegate_types::units::Time;

use self::admission::{Admission, Space};
use self::durability::{Around, Durability};
use self::egress::Egress;
use self::holdings::{Holdings, StreamKey};
use self::outbox::Outbox;
use self::preparation::Preparation;
use crate::io::{Control, Event, Input, Output};
use crate::options::{NodeOptions, OptionsError};

/// One Tidegate node.
#[derive(Debug)]
pub struct Node {
    options: NodeOptions,
    /// In the names of records that the log does not know.
    origin: Arc<Origin>,
    holdings: Holdings,
    admission: Admission,
    durability: Durability,
    preparation: Preparation,
    egress: Egress,
    outbox: Outbox,
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
        let mut holdings = Holdings::new(&options);
        let mut durability = Durability::new(&options, log_origin.clone(), &recovery);
        restore::restore(&options, &mut holdings, &mut durability, recovery);
        Ok(Node {
            origin: boot.unwrap_or(log_origin),
            holdings,
            admission: Admission::new(&options),
            durability,
            preparation: Preparation::default(),
            egress: Egress::new(&options),
            outbox: Outbox::default(),
            is_stopping: false,
            is_drained: false,
            options,
        })
    }

    /// Takes one input. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Arrived(records) => self.ingest(now, records),
            Input::Appended { upto } => self.appended(upto),
            Input::AppendFailed { appends, reason } => self.append_failed(now, &appends, reason),
            Input::Fetched(fetched) => self.fetched(now, fetched),
            Input::Transformed { work, payload } => self.transformed(now, work, payload),
            Input::Sent { id, bytes } => {
                let Node { options, holdings, egress, outbox, .. } = self;
                egress.sent(now, holdings, options, outbox, (id.into(), bytes));
            }
            Input::Confirmed { destination, ids } => self.confirmed(now, destination, &ids),
            Input::Refused { destination, ids, reason } => {
                self.refused(now, destination, &ids, reason);
            }
            Input::PathSample { path, sample } => {
                self.egress.path_sample(now, &self.options, path, &sample);
            }
            Input::Capacity { output, rate } => {
                self.egress.capacity_told(&self.options, output, rate);
            }
            Input::PathState { path, state } => self.path_state(now, path, state),
            Input::DestinationState { destination, up } => {
                self.destination_state(now, destination, up);
            }
            Input::Edits { queue, operations } => self.edit(now, queue, operations),
            Input::Control(control) => self.control(now, control),
            Input::Wall { unix_ns, uncertainty } => {
                self.set_wall(now, WallTime { unix_ns: unix_ns.max(1), uncertainty });
            }
        }
    }

    /// What people, other nodes, connections and the orchestrator order.
    fn control(&mut self, now: Time, control: Control) {
        match control {
            Control::Open { source, name, relays } => {
                // A driver that forgot to close it means the same.
                self.close_source(now, source);
                self.admission.open(&mut self.outbox, source, name, relays);
            }
            Control::Bind { source, rule } => self.admission.bind(source, rule),
            Control::Close(source) => self.close_source(now, source),
            Control::Withdraw(id) => self.give_up(now, id.into()),
            Control::Session { source, lasts, is_new } => {
                let (durability, mut around) = self.around();
                durability.begin_session(&mut around, source, lasts, is_new);
            }
            Control::SessionOver(client) => {
                let (durability, mut around) = self.around();
                durability.session_over(&mut around, &client);
            }
            Control::Release { source, packets } => {
                let (durability, mut around) = self.around();
                durability.release_packets(&mut around, source, packets);
            }
            Control::Position(position) => {
                if !self.durability.note_position(now, position) {
                    let problem = "a position without a log, or one more than it keeps";
                    self.outbox.report(Event::Unsupported(problem));
                }
            }
            Control::Stop => self.stop(),
            Control::Discard => self.discard(now),
            Control::Grant { peer, class, amount, lease } => {
                let Node { options, egress, outbox, .. } = self;
                egress.grant(now, options, outbox, (peer, class), amount, lease);
            }
            Control::Neighbour { peer, name } => self.egress.name_peer(peer, name),
            Control::Pace { queue, rate } => self.holdings.set_rate(now, queue.into(), rate),
            Control::Reconsider => self.reconsider(now),
            Control::Rules(rules) => self.reload(now, &rules),
        }
    }

    fn close_source(&mut self, now: Time, source: tidegate_types::record::SourceId) {
        self.durability.leave_session(now, self.admission.sources(), source);
        self.admission.close(&mut self.holdings, &mut self.outbox, source);
    }

    /// The next thing to do; `None` until the next input or timeout.
    pub fn poll(&mut self, now: Time) -> Option<Output> {
        if let Some(output) = self.outbox.pop() {
            return Some(output);
        }
        self.settle(now);
        self.holdings.release_due(now);
        let is_stopping = self.is_stopping;
        let Node { options, holdings, admission, durability, preparation, egress, outbox, .. } =
            self;
        durability.write_due(now, holdings, options);
        if let Some(output) = durability.next_output(outbox).or_else(|| outbox.pop()) {
            return Some(output);
        }
        let transmit = egress.forward(now, holdings, options, admission.processing());
        let transmit = transmit.or_else(|| egress.redirect(now, holdings, options));
        let work = transmit.or_else(|| preparation.next_script(holdings, options));
        let fetch = || match is_stopping {
            true => None,
            false => durability.next_fetch(holdings, options).map(Output::Fetch),
        };
        let output = work.or_else(fetch).or_else(|| outbox.next_report().map(Output::Report));
        if output.is_none() {
            holdings.pass_deadlines(now);
        }
        output
    }

    /// When `poll` must be called at the latest, if no input comes before.
    pub fn next_timeout(&self) -> Option<Time> {
        let expiry = self.holdings.next_expiry();
        let queues = self.holdings.queues();
        let (paced, late) = (queues.next_release(), queues.next_due());
        let patience = self.admission.sources().first_patience().map(|(at, _)| at);
        let log = self.durability.next_timeout();
        let egress = self.egress.next_timeout();
        [expiry, paced, late, patience, log, egress].into_iter().flatten().min()
    }

    /// What room is measured by.
    fn space(&self) -> Space<'_> {
        let Node { options, holdings, durability, .. } = self;
        Space { options, holdings, durability }
    }

    /// Durability, and what it looks at.
    fn around(&mut self) -> (&mut Durability, Around<'_>) {
        let Node { options, holdings, admission, durability, outbox, .. } = self;
        (durability, Around { options, holdings, sources: admission.sources(), outbox })
    }

    /// A stream holds less: it, or another one, may have room again.
    fn made_room(&mut self, stream: StreamKey, is_relief: bool) {
        let Node { options, holdings, admission, outbox, .. } = self;
        admission.made_room(holdings, options, outbox, stream, is_relief);
    }
}
