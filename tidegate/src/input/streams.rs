//! The streams of other nodes, by whatever way they come: a task for each, so that none waits for another.
//!
//! A record is offered to our node under the name that it has, and the sender hears of it when the node
//! has accepted it. What the node cannot take now is offered again; what it has accepted before is answered
//! for at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::class::ClassId;
use tidegate_core::link::accepted::{Accepted, STREAMS_MAX, StreamName};
use tidegate_core::link::envelope::{Envelope, GrantId};
use tidegate_core::link::packet::Custody;
use tidegate_core::record::{
    Body, DropReason, Fate, Foreign, Identity, Offered, Properties, RefuseReason, Token,
};
use tidegate_core::units::Size;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::fleet::RelayCounts;
use crate::output::backoff::Backoff;
use crate::output::headers;
use crate::port::{Intake, Notice, Source, Stopping};

/// A stream that is silent for so long has no task.
const IDLE: Duration = Duration::from_secs(60);
/// Waits before what was refused for now is offered again.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Records offered at once.
const BATCH_MAX: usize = 64;

/// Which records of other nodes were accepted here, by whatever way.
pub type Names = Arc<Mutex<Accepted>>;

/// The answer about a record, for the life that it came by.
#[derive(Debug)]
pub(crate) struct Settled {
    /// Its name there.
    pub(crate) record: u64,
    /// The answer; `None`: none is given, for the node is stopping.
    pub(crate) custody: Option<Custody>,
    /// What it cost.
    pub(crate) cost: u64,
}

/// Whom to tell about a record.
#[derive(Debug)]
pub(crate) struct Ticket {
    /// The node that it came from.
    pub(crate) from: Arc<str>,
    pub(crate) record: u64,
    pub(crate) cost: u64,
    pub(crate) settled: mpsc::UnboundedSender<Settled>,
}

impl Ticket {
    pub(crate) fn settle(self, custody: Option<Custody>) {
        let Ticket { record, cost, settled, .. } = self;
        // The life may be over: then another one asks.
        let _ = settled.send(Settled { record, custody, cost });
    }
}

/// A record that came.
#[derive(Debug)]
struct Item {
    envelope: Envelope,
    ticket: Ticket,
    /// Its QoS, where it is of a unit that we own.
    placed: Option<u8>,
}

/// The streams of an input. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    intake: Intake,
    tasks: Tasks,
    accepted: Names,
    relays: Option<RelayCounts>,
}

/// The stream, and its class where it is a neighbour's for our uplink.
type TaskName = (StreamName, Option<ClassId>);
type Tasks = Arc<Mutex<BTreeMap<TaskName, mpsc::UnboundedSender<Item>>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    pub(crate) fn new(intake: Intake, accepted: Names, relays: Option<RelayCounts>) -> Self {
        Streams { intake, tasks: Arc::default(), accepted, relays }
    }

    /// The class of a neighbour's record, as its grant names it; a record without one is ours by our own
    /// rules.
    fn class_of(&self, envelope: &Envelope) -> Option<ClassId> {
        self.relays.as_ref()?;
        let GrantId(class) = envelope.grant?;
        Some(ClassId(u8::try_from(class).unwrap_or(u8::MAX)))
    }

    /// Hands a record to its stream. Bounded by what the lives hold.
    pub(crate) fn take(&self, envelope: Envelope, ticket: Ticket) {
        self.take_as(envelope, None, ticket);
    }

    /// The same for a record of a unit that we own.
    pub(crate) fn take_placed(&self, envelope: Envelope, qos: u8, ticket: Ticket) {
        self.take_as(envelope, Some(qos), ticket);
    }

    fn take_as(&self, envelope: Envelope, placed: Option<u8>, ticket: Ticket) {
        let name = (envelope.identity.origin.clone(), envelope.identity.stream);
        let name = (name, self.class_of(&envelope));
        let mut tasks = lock(&self.tasks);
        let item = Item { envelope, ticket, placed };
        let item = match tasks.get(&name) {
            Some(task) => match task.send(item) {
                Ok(()) => return,
                // It ended with our node.
                Err(mpsc::error::SendError(item)) => item,
            },
            None => item,
        };
        if tasks.len() >= STREAMS_MAX {
            return item.ticket.settle(Some(Custody::Final(Fate::Dropped(DropReason::Refused))));
        }
        let (sender, inbox) = mpsc::unbounded_channel();
        let _ = sender.send(item);
        tasks.insert(name.clone(), sender);
        drop(tasks);
        let stream = Stream {
            name,
            streams: self.clone(),
            inbox,
            waiting: BTreeMap::new(),
            offered: BTreeMap::new(),
            last: 0,
            is_paused: false,
            again_at: None,
            waits: Backoff::within(WAITS.0, WAITS.1),
        };
        tokio::spawn(stream.run());
    }
}

/// A record that is offered.
#[derive(Debug)]
struct Pending {
    envelope: Envelope,
    /// As in its item.
    placed: Option<u8>,
    /// Whether who has subscribed here has got it.
    is_published: bool,
    /// Several, where it came again before it was answered.
    tickets: Vec<Ticket>,
}

struct Stream {
    name: TaskName,
    streams: Streams,
    inbox: mpsc::UnboundedReceiver<Item>,
    /// What is to be offered, by its place in the order of arrival.
    waiting: BTreeMap<u64, Pending>,
    /// What is offered, by the same place, which is its token as well.
    offered: BTreeMap<u64, Pending>,
    last: u64,
    is_paused: bool,
    /// When what was refused for now is offered again.
    again_at: Option<Instant>,
    waits: Backoff,
}

impl Stream {
    async fn run(mut self) {
        let ((origin, stream), relays) = &self.name;
        let name: Arc<str> = format!("{}/{}", origin.node, stream.0).into();
        let Ok(source) = self.streams.intake.open_for(name, *relays).await else { return };
        // It ends when it is idle, or with our node.
        let _: Result<(), Stopping> = self.serve(source).await;
    }

    async fn serve(&mut self, mut source: Source) -> Result<(), Stopping> {
        loop {
            self.offer(&source).await?;
            let idle_at = Instant::now() + IDLE;
            let wake = self.again_at.unwrap_or(idle_at);
            tokio::select! {
                Some(item) = self.inbox.recv() => {
                    self.came(item);
                    while let Ok(item) = self.inbox.try_recv() {
                        self.came(item);
                    }
                }
                notice = source.notice() => {
                    let mut next = Some(notice.ok_or(Stopping)?);
                    while let Some(notice) = next {
                        self.heard(notice);
                        next = source.try_notice();
                    }
                }
                () = sleep_until(wake) => {
                    if self.again_at.take().is_none() && self.is_over() {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether nothing is left; then nothing more can come.
    fn is_over(&mut self) -> bool {
        let mut tasks = lock(&self.streams.tasks);
        let is_over = self.waiting.is_empty() && self.offered.is_empty() && self.inbox.is_empty();
        if is_over {
            tasks.remove(&self.name);
        }
        is_over
    }

    fn came(&mut self, item: Item) {
        let Item { envelope, ticket, placed } = item;
        if lock(&self.streams.accepted).contains(&envelope.identity) {
            return ticket.settle(Some(Custody::Final(Fate::Confirmed)));
        }
        let is_same = |pending: &&mut Pending| pending.envelope.identity == envelope.identity;
        let mut known = self.offered.values_mut().chain(self.waiting.values_mut());
        if let Some(pending) = known.find(is_same) {
            pending.tickets.push(ticket);
            return;
        }
        self.last += 1;
        let tickets = vec![ticket];
        self.waiting.insert(self.last, Pending { envelope, placed, is_published: false, tickets });
    }

    /// Offers what waits, in order.
    async fn offer(&mut self, source: &Source) -> Result<(), Stopping> {
        let mut publisher = source.hub().publisher();
        while !self.is_paused && self.again_at.is_none() && !self.waiting.is_empty() {
            let mut batch = Vec::new();
            while batch.len() < BATCH_MAX
                && let Some((place, mut pending)) = self.waiting.pop_first()
            {
                let record = offered(source, place, &pending);
                // A neighbour's records are for its far end, by our uplink.
                if self.name.1.is_none() && !std::mem::replace(&mut pending.is_published, true) {
                    match pending.placed {
                        Some(qos) => publisher.publish_owned(&record, qos),
                        None => publisher.publish_all(std::iter::once((&record, 1))),
                    }
                }
                // For subscribers here only: no output is asked.
                if self.name.1.is_none() && publisher.is_local(&record.key) {
                    self.answer(place, pending, Ok(()));
                    continue;
                }
                batch.push(record);
                self.offered.insert(place, pending);
            }
            if !batch.is_empty() {
                source.offer(batch).await?;
            }
        }
        Ok(())
    }

    fn heard(&mut self, notice: Notice) {
        match notice {
            Notice::Pause => self.is_paused = true,
            Notice::Resume => self.is_paused = false,
            Notice::Accept(Token(place), result) => {
                let Some(pending) = self.offered.remove(&place) else { return };
                self.answer(place, pending, result);
            }
            // MQTT's.
            Notice::Ready | Notice::Released(_) => {}
        }
    }

    fn answer(&mut self, place: u64, pending: Pending, result: Result<(), RefuseReason>) {
        let custody = match result {
            Ok(()) => {
                self.waits.reset();
                lock(&self.streams.accepted).insert(&pending.envelope.identity);
                self.count(&pending);
                Some(Custody::Final(Fate::Confirmed))
            }
            // Its node answers for it, and has an uplink of its own.
            Err(reason) if self.name.1.is_some() && reason != RefuseReason::Stopping => {
                Some(Custody::Final(Fate::Dropped(DropReason::Full)))
            }
            Err(reason) => match verdict(reason) {
                Verdict::Never(reason) => Some(Custody::Final(Fate::Dropped(reason))),
                Verdict::Stopping => None,
                Verdict::Later => {
                    self.waiting.insert(place, pending);
                    let wait = self.waits.next();
                    self.again_at.get_or_insert_with(|| Instant::now() + wait);
                    return;
                }
            },
        };
        pending.tickets.into_iter().for_each(|ticket| ticket.settle(custody));
    }
}

impl Stream {
    /// The far end has a neighbour's record.
    fn count(&self, pending: &Pending) {
        let Some((relays, class)) = self.streams.relays.as_ref().zip(self.name.1) else { return };
        if let Some(ticket) = pending.tickets.first() {
            let Envelope { key, properties, payload, .. } = &pending.envelope;
            let size = Size((key.len() + payload.len()) as u64) + properties.size();
            relays.count(&ticket.from, class, size);
        }
    }
}

/// What a refusal means for the sender.
enum Verdict {
    Never(DropReason),
    Later,
    Stopping,
}

fn verdict(reason: RefuseReason) -> Verdict {
    match reason {
        RefuseReason::NoRule => Verdict::Never(DropReason::Unroutable),
        RefuseReason::Forbidden => Verdict::Never(DropReason::Refused),
        RefuseReason::Oversize => Verdict::Never(DropReason::Oversize),
        RefuseReason::Dropped(reason) => Verdict::Never(reason),
        RefuseReason::Full | RefuseReason::TooManyStreams | RefuseReason::Storage => Verdict::Later,
        RefuseReason::Stopping => Verdict::Stopping,
    }
}

fn offered(source: &Source, place: u64, pending: &Pending) -> Offered {
    let Pending { envelope, placed, .. } = pending;
    let Envelope { identity, again, hop, ttl, source_unix_ns, key, properties, payload, .. } =
        envelope;
    Offered {
        source: source.id(),
        token: Some(Token(place)),
        key: key.clone(),
        properties: match placed {
            Some(_) => properties.clone(),
            None => with_hop(properties, hop + 1),
        },
        body: Body::Resident(payload.clone()),
        read_at: source.now(),
        source_unix_ns: *source_unix_ns,
        ttl: *ttl,
        foreign: Some(Foreign { identity: Identity::clone(identity), again: *again }),
        packet: None,
    }
}

/// The properties, and how many links the record has crossed: the next link reads it.
fn with_hop(properties: &Properties, hop: u8) -> Properties {
    let is_other = |(name, _): &&(Bytes, Bytes)| name != headers::HOP.as_bytes();
    let mut all: Vec<_> = properties.iter().filter(is_other).cloned().collect();
    all.push((Bytes::from_static(headers::HOP.as_bytes()), hop.to_string().into()));
    Properties::new(all)
}
