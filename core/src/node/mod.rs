//! A node: it takes inputs, holds records, and says what to do. Composition only; the arithmetic is in
//! the algorithms that it joins.
//!
//! A driver calls [`Node::handle`], then [`Node::poll`] until it answers `None`, and both again at
//! [`Node::next_timeout`] at the latest. The way of a record: `ingest` -> `forward` -> `feedback`.

mod adapted;
mod admit;
mod ahead;
mod backlog;
mod block;
mod control;
mod durable;
mod edits;
mod facts;
mod fate;
mod feedback;
mod fetch;
mod forward;
mod ingest;
mod leave;
mod owners;
mod prepare;
mod reallocate;
mod redirect;
mod relay;
mod reload;
mod report;
mod restore;
mod sessions;
mod sources;
mod stop;
mod store;
mod streams;
mod tally;
mod unappended;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use slotmap::SlotMap;

use self::adapted::Adapted;
use self::backlog::Backlog;
use self::durable::{Leg, Logged};
use self::forward::OutputState;
use self::owners::{OwnerKey, Owners};
use self::redirect::Redirect;
use self::sessions::Sessions;
use self::sources::{ReplyTo, Sources};
use self::store::Store;
use self::streams::{StreamKey, Streams};
use self::tally::Tally;
use crate::capacity;
use crate::class::ClassId;
use crate::estimate::{Meter, ProcessingDelay};
use crate::inbound::Inbound;
use crate::io::{Event, Input, Output, OutputId, UplinkId};
use crate::limits::REPORTS_MAX;
use crate::log::Recovery;
use crate::options::{NodeOptions, OptionsError};
use crate::queue::{DeliveryKey, Place, Queues, RecordKey};
use crate::record::{DeliveryId, DropReason, Origin, Record, WorkId};
use crate::schedule::Scheduler;
use crate::units::{Size, Time};
use crate::uplink::Uplink;

/// A record that the node holds.
#[derive(Debug)]
struct Held {
    record: Arc<Record>,
    stream: StreamKey,
    /// Key, properties and payload.
    size: Size,
    /// Deliveries without a fate.
    left: u32,
    /// Why a delivery of it was dropped, if one was.
    dropped: Option<DropReason>,
    /// What is still owed; nothing for most records, so it is not kept here.
    owed: Option<Box<Owed>>,
}

/// What the node owes for a record that it holds.
#[derive(Debug, Default)]
struct Owed {
    /// Who waits for its confirmation (accept mode `Confirmed`), or for its preparation.
    reply: Option<ReplyTo>,
    /// Its place in its stream.
    seq: u64,
    /// Of a durable record: its deliveries without a fate.
    legs: Vec<Leg>,
    /// Where the log has it, or will have it.
    logged: Option<Logged>,
    /// Whether it is not sent before the log has it: its sender may send it again, and it must not come twice.
    after_log: bool,
    /// The class that it was read back for, if it was.
    ahead: Option<ClassId>,
}

/// An uplink with what decides on it.
#[derive(Debug)]
struct UplinkState {
    uplink: Uplink,
    scheduler: Box<dyn Scheduler>,
    /// Arrivals and departures of each class.
    meters: Vec<(Meter, Meter)>,
    /// When the pacer or a cap lets it go on.
    wake: Option<Time>,
    /// Bytes of urgent records that went before one that the scheduler had chosen, since it waits.
    overtaken: Size,
}

/// One Tidegate node.
#[derive(Debug)]
pub struct Node {
    options: NodeOptions,
    /// In the names of records that the log does not know.
    origin: Arc<Origin>,
    /// In the names of those that it does.
    log_origin: Arc<Origin>,
    /// The log, where there is one, and what only it holds.
    store: Option<Box<Store>>,
    backlog: Backlog,
    sources: Sources,
    owners: Owners,
    sessions: Sessions,
    /// Streams that lost a record since somebody waits.
    freed: Vec<StreamKey>,
    /// Streams that are full for want of memory, the most urgent class first.
    full_for_memory: BTreeSet<(ClassId, StreamKey)>,
    /// Streams that are full for want of room in the log.
    full_for_log: BTreeSet<StreamKey>,
    /// Streams that are full because their owner has too much of the log.
    full_for_share: BTreeSet<(OwnerKey, StreamKey)>,
    /// How many streams of each rule are full.
    full_streams: Vec<u64>,
    streams: Streams,
    held: SlotMap<RecordKey, Held>,
    held_bytes: Size,
    queues: Queues,
    outputs: Vec<OutputState>,
    uplinks: Vec<UplinkState>,
    expiry: BTreeSet<(Time, DeliveryKey)>,
    preparing: BTreeMap<WorkId, DeliveryKey>,
    /// What scripts make of waiting records.
    adapted: Adapted,
    prepare_next: VecDeque<DeliveryKey>,
    last_work: u64,
    /// Accepted records, ever: the order of acceptance.
    last_order: u64,
    /// The delivery that was accepted last.
    newest: Option<DeliveryKey>,
    inbound: Inbound,
    processing: ProcessingDelay,
    /// What neighbours carry.
    redirect: Redirect,
    tally: Tally,
    outbox: VecDeque<Output>,
    reports: VecDeque<Event>,
    lost_reports: u64,
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
        let classes = options.classes.len();
        let lanes = usize::from(options.scheduler.lanes(&options.classes));
        let mut outputs = Vec::new();
        let mut paths = vec![0; options.uplinks.len()];
        for output in &options.outputs {
            let uplink = usize::from(output.uplink.0);
            outputs.push(OutputState::new(lanes, paths[uplink]));
            paths[uplink] += lanes;
        }
        let uplink = |(place, spec): (usize, &crate::options::UplinkOptions)| UplinkState {
            uplink: Uplink::new(spec, capacity::build(spec), paths[place]),
            scheduler: options.scheduler.build(&options.classes),
            meters: vec![Default::default(); classes],
            wake: None,
            overtaken: Size::ZERO,
        };
        let origin = |incarnation| Arc::new(Origin { node: options.name.clone(), incarnation });
        let log_origin = origin(options.incarnation);
        let store = options.log.clone().map(|log| Box::new(Store::new(log, &recovery)));
        let boot = options.log.as_ref().map(|log| origin(log.boot));
        let mut node = Node {
            uplinks: options.uplinks.iter().enumerate().map(uplink).collect(),
            queues: Queues::new(options.scheduler.ranking(), classes, outputs.len()),
            tally: Tally::new(options.rules.len()),
            origin: boot.unwrap_or_else(|| log_origin.clone()),
            log_origin,
            store,
            backlog: Backlog::default(),
            outputs,
            sources: Sources::default(),
            owners: Owners::default(),
            sessions: Sessions::default(),
            freed: Vec::new(),
            full_for_memory: BTreeSet::new(),
            full_for_log: BTreeSet::new(),
            full_for_share: BTreeSet::new(),
            full_streams: vec![0; options.rules.len()],
            streams: Streams::default(),
            held: SlotMap::with_key(),
            held_bytes: Size::ZERO,
            expiry: BTreeSet::new(),
            preparing: BTreeMap::new(),
            adapted: Adapted::default(),
            prepare_next: VecDeque::new(),
            last_work: 0,
            last_order: 0,
            newest: None,
            inbound: Inbound::new(options.inbound),
            processing: ProcessingDelay::default(),
            redirect: Redirect::default(),
            outbox: VecDeque::new(),
            reports: VecDeque::new(),
            lost_reports: 0,
            is_stopping: false,
            is_drained: false,
            options,
        };
        node.restore(recovery);
        Ok(node)
    }

    /// Takes one input. `now` never goes back.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::Arrived(records) => self.ingest(now, records),
            Input::Appended { upto } => self.appended(upto),
            Input::AppendFailed { appends, reason } => {
                self.append_failed(now, &appends, reason);
            }
            Input::Fetched(fetched) => self.fetched(now, fetched),
            Input::Prepared { work, result } => self.prepared(now, work, result),
            Input::Sent { id, bytes } => self.sent(now, id.into(), bytes),
            Input::Confirmed { destination, ids } => self.confirmed(now, destination, &ids),
            Input::Refused { destination, ids, reason } => {
                self.refused(now, destination, &ids, reason);
            }
            Input::PathSample { path, sample } => self.path_sample(now, path, &sample),
            Input::Capacity { output, rate } => self.capacity_told(output, rate),
            Input::PathState { path, state } => self.path_state(now, path, state),
            Input::DestinationState { destination, up } => {
                self.destination_state(now, destination, up);
            }
            Input::Edits { queue, generation: _, operations } => {
                self.edit(now, queue, operations);
            }
            Input::Control(control) => self.control(now, control),
            // Core needs no word that a path is free: it never fills one.
            Input::Writable { .. } => {}
            Input::Wall { unix_ns, uncertainty } => self.set_wall(now, unix_ns, uncertainty),
            Input::LinkPacket { .. } => self.report(Event::Unsupported("a packet of a link")),
        }
    }

    /// The next thing to do; `None` until the next input or timeout.
    pub fn poll(&mut self, now: Time) -> Option<Output> {
        if let Some(output) = self.outbox.pop_front() {
            return Some(output);
        }
        self.settle(now);
        self.queues.release_due(now);
        self.prepare();
        self.write_due(now);
        if let Some(output) = self.next_for_log().or_else(|| self.outbox.pop_front()) {
            return Some(output);
        }
        let transmit =
            (0..self.uplinks.len()).find_map(|place| self.forward(now, UplinkId(place as u16)));
        let transmit = transmit.or_else(|| self.redirect(now)).or_else(|| self.next_script());
        transmit.or_else(|| self.next_fetch()).or_else(|| self.next_report().map(Output::Report))
    }

    /// What the log is to do. An append goes first, so that its commit begins at once.
    fn next_for_log(&mut self) -> Option<Output> {
        let store = self.store.as_mut()?;
        let (releases, appends) = (store.take_releases(), store.take_appends());
        if !releases.is_empty() {
            self.outbox.push_back(Output::Release(releases));
        }
        (!appends.is_empty()).then_some(Output::Append(appends))
    }

    /// When `poll` must be called at the latest, if no input comes before.
    pub fn next_timeout(&self) -> Option<Time> {
        let expiry = self.expiry.first().map(|&(at, _)| at);
        let patience = self.sources.first_patience().map(|(at, _)| at);
        let uplinks = self.uplinks.iter().flat_map(|state| {
            [state.wake, state.uplink.next_timeout(), state.scheduler.next_reallocation()]
        });
        let log = self.store.as_ref().and_then(|store| store.next_timeout());
        let paced = self.queues.next_release();
        uplinks.chain([expiry, patience, log, paced, self.redirect.wake]).flatten().min()
    }

    /// The record of a delivery; `None` for a stale handle.
    pub fn record(&self, id: DeliveryId) -> Option<&Arc<Record>> {
        let delivery = self.queues.get(id.into())?;
        let held = || self.held.get(delivery.record).map(|held| &held.record);
        self.adapted.replaced(id.into()).or_else(held)
    }

    /// The (last) delivery of the record that was accepted last: a driver that offers one record learns from
    /// it what to call it.
    pub fn newest(&self) -> Option<DeliveryId> {
        self.newest.map(DeliveryId::from)
    }

    /// The output for which a delivery waits; `None` where it does not wait.
    pub fn waits_for(&self, id: DeliveryId) -> Option<OutputId> {
        let delivery = self.queues.get(id.into())?;
        matches!(delivery.place(), Place::Waiting(_)).then_some(delivery.spec.output)
    }

    /// The class of a delivery's record, as the far end is told it: of a neighbour's, that which it has
    /// there. `None` for a stale handle.
    pub fn class_of(&self, id: DeliveryId) -> Option<ClassId> {
        let spec = self.queues.get(id.into())?.spec;
        Some(self.options.rules.get(spec.rule).relays.unwrap_or(spec.class))
    }

    /// The size of a delivery: the scale of `Output::Transmit`'s range; `None` for a stale handle.
    pub fn size_of(&self, id: DeliveryId) -> Option<Size> {
        self.queues.get(id.into()).map(|delivery| delivery.size)
    }

    /// The options it was made of.
    pub fn options(&self) -> &NodeOptions {
        &self.options
    }

    fn next_report(&mut self) -> Option<Event> {
        match std::mem::take(&mut self.lost_reports) {
            0 => self.reports.pop_front(),
            lost => Some(Event::Overflow(lost)),
        }
    }

    fn report(&mut self, event: Event) {
        // Reports are state changes; a driver that does not poll must not grow memory all the same.
        if self.reports.len() >= REPORTS_MAX {
            self.reports.pop_front();
            self.lost_reports += 1;
        }
        self.reports.push_back(event);
    }
}
