//! The streams of other nodes, by whatever way they come: a task for each, so that none waits for another.
//!
//! A record is offered to our node under the name that it has, and the sender hears of it when the node
//! has accepted it. What the node cannot take now is offered again; what it has accepted before is answered
//! for at once.

mod offer;
mod ticket;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_link::claims::{ClaimOutcome, ClaimRight, Claims};
use tidegate_link::envelope::{Envelope, GrantId};
use tidegate_link::packet::Custody;
use tidegate_types::accepted::{Accepted, OriginStream, STREAMS_MAX};
use tidegate_types::class::ClassId;
use tidegate_types::record::{DropReason, Fate, Offered, RefuseReason, Token};
use tidegate_types::units::Size;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use self::offer::{Verdict, offered, verdict};
pub(crate) use self::ticket::{Settled, Ticket};
use crate::input::relays::RelayCounts;
use crate::node::contract::counts::InputCounts;
use crate::node::contract::{Intake, Notice, Source, Stopping};
use crate::node::door::{Door, From, Plain};
use crate::support::backoff::Backoff;
use crate::support::complaints::Complaints;

/// A stream that is silent for so long has no task.
const IDLE: Duration = Duration::from_secs(60);
/// Waits before what was refused for now is offered again.
const WAITS: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// Records offered at once.
const BATCH_MAX: usize = 64;

/// What the names of streams begin with whose records are of a topic that this node owns.
pub const PLACED: &str = "placed ";

/// Which records of other nodes were accepted here, by whatever way. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub struct Names(Arc<Mutex<Claims>>);

impl Names {
    /// Those of the node `me`, which has accepted these before it started.
    pub(crate) fn new(me: Arc<str>, accepted: Accepted) -> Self {
        Names(Arc::new(Mutex::new(Claims::new(me, accepted))))
    }
}

/// A record that came.
#[derive(Debug)]
struct Item {
    envelope: Envelope,
    ticket: Ticket,
    /// By what right it has its name.
    right: ClaimRight,
    /// Its QoS, where it is of a unit that we own.
    placed: Option<u8>,
}

/// The streams of an input. Cheap to clone; all clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    intake: Intake,
    tasks: Tasks,
    names: Names,
    relays: Option<RelayCounts>,
    complaints: Arc<Complaints>,
}

/// The stream, its class where it is a neighbour's for our uplink, and by what right it is named.
type TaskName = (OriginStream, Option<ClassId>, ClaimRight);
type Tasks = Arc<Mutex<BTreeMap<TaskName, mpsc::UnboundedSender<Item>>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    pub(crate) fn new(intake: Intake, names: Names, relays: Option<RelayCounts>) -> Self {
        let complaints = Arc::new(Complaints::new(std::time::Instant::now()));
        Streams { intake, tasks: Arc::default(), names, relays, complaints }
    }

    /// The class of a neighbour's record, as its grant names it; a record without one is ours by our own
    /// rules.
    fn class_of(&self, envelope: &Envelope) -> Option<ClassId> {
        self.relays.as_ref()?;
        let GrantId(class) = envelope.grant?;
        Some(ClassId(u8::try_from(class).unwrap_or(u8::MAX)))
    }

    /// Hands a record to its stream. Bounded by what the lives hold.
    pub(crate) fn take(&self, envelope: Envelope, right: ClaimRight, ticket: Ticket) {
        self.take_as(envelope, right, None, ticket);
    }

    /// The same for a record of a unit that we own.
    pub(crate) fn take_placed(&self, envelope: Envelope, qos: u8, ticket: Ticket) {
        self.take_as(envelope, ClaimRight::Proven, Some(qos), ticket);
    }

    /// What is counted here.
    pub(crate) fn counts(&self) -> &InputCounts {
        self.intake.counts()
    }

    /// Refuses a record whose name is not its sender's.
    pub(crate) fn refuse(&self, origin: &str, ticket: Ticket) {
        self.intake.counts().refused("claim");
        self.complain(origin, &ticket.from, "refused");
        ticket.settle(Some(Custody::Final(Fate::Dropped(DropReason::Refused))));
    }

    /// Warnings are bounded.
    fn complain(&self, origin: &str, from: &str, outcome: &str) {
        if let Some(withheld) = self.complaints.allow(std::time::Instant::now()) {
            tracing::warn!(
                withheld,
                "{from} names its records as those of {origin} and has not shown that it may ({outcome}): if it \
                 relays for {origin}, name both in `vouches` of the link input"
            );
        }
    }

    fn take_as(&self, envelope: Envelope, right: ClaimRight, placed: Option<u8>, ticket: Ticket) {
        let name = (envelope.identity.origin.clone(), envelope.identity.stream);
        let name = (name, self.class_of(&envelope), right);
        let mut tasks = lock(&self.tasks);
        let is_placed = placed.is_some();
        let item = Item { envelope, ticket, right, placed };
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
            is_placed,
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
    right: ClaimRight,
    /// As in its item.
    placed: Option<u8>,
    /// Whether it goes on under its name.
    keeps_name: bool,
    /// Whether it was let in, and is only offered again.
    is_admitted: bool,
    /// Several, where it came again before it was answered.
    tickets: Vec<Ticket>,
}

/// What is the same for records that are let in together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Way {
    /// The node that brought them.
    sender: Arc<str>,
    placed: Option<u8>,
    is_admitted: bool,
}

impl Pending {
    fn way(&self) -> Way {
        let sender = self.tickets.first().map(|ticket| ticket.from.clone()).unwrap_or_default();
        Way { sender, placed: self.placed, is_admitted: self.is_admitted }
    }
}

struct Stream {
    name: TaskName,
    /// Whether its records are of a unit that we own.
    is_placed: bool,
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
        let ((origin, stream), relays, right) = &self.name;
        let name: Arc<str> = match right {
            ClaimRight::Proven if self.is_placed => {
                format!("{PLACED}{}/{}", origin.node, stream.0).into()
            }
            ClaimRight::Proven => format!("{}/{}", origin.node, stream.0).into(),
            // A stream of its own: what it holds is in nobody's way.
            ClaimRight::Claimed => format!("unproven {}/{}", origin.node, stream.0).into(),
        };
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
        let Item { envelope, ticket, right, placed } = item;
        let origin = &envelope.identity.origin.node;
        let claims = lock(&self.streams.names.0);
        let came = claims.came(&envelope.identity, right);
        let keeps_name = claims.keeps_name(&envelope.identity, right);
        drop(claims);
        match came {
            ClaimOutcome::New => {}
            ClaimOutcome::Again => return ticket.settle(Some(Custody::Final(Fate::Confirmed))),
            ClaimOutcome::Stolen => return self.streams.refuse(origin, ticket),
        }
        if right == ClaimRight::Claimed {
            let outcome = if keeps_name { "taken" } else { "renamed" };
            self.streams.complain(origin, &ticket.from, outcome);
        }
        let is_same = |pending: &&mut Pending| pending.envelope.identity == envelope.identity;
        let mut known = self.offered.values_mut().chain(self.waiting.values_mut());
        if let Some(pending) = known.find(is_same) {
            pending.tickets.push(ticket);
            return;
        }
        self.last += 1;
        let tickets = vec![ticket];
        let is_admitted = false;
        let pending = Pending { envelope, right, placed, keeps_name, is_admitted, tickets };
        self.waiting.insert(self.last, pending);
    }

    /// Offers what waits, in order.
    async fn offer(&mut self, source: &Source) -> Result<(), Stopping> {
        let mut door = Door::new(source.hub());
        while !self.is_paused && self.again_at.is_none() && !self.waiting.is_empty() {
            let (way, mut records) = self.next_batch(source);
            let mut plain = Plain::new(way.placed.unwrap_or(1));
            let from = match way.placed {
                Some(_) => From::Cluster,
                None => From::Node(&way.sender),
            };
            match (self.name.1, way.is_admitted) {
                // A neighbour's records are for its far end, by our uplink.
                (Some(_), _) => {}
                (None, false) => drop(door.admit(source, from, &mut records, &mut plain).await?),
                // Who has subscribed here has got them.
                (None, true) => drop(door.hand_over(source, from, &mut records, &plain).await?),
            }
            for token in plain.accepted {
                self.heard(Notice::Accept(token, Ok(())));
            }
            if !records.is_empty() {
                source.offer(records).await?;
            }
        }
        Ok(())
    }

    /// The next records that come in the same way.
    fn next_batch(&mut self, source: &Source) -> (Way, Vec<Offered>) {
        let mut records = Vec::new();
        let mut way: Option<Way> = None;
        while records.len() < BATCH_MAX
            && let Some(first) = self.waiting.first_entry()
        {
            let its = first.get().way();
            if *way.get_or_insert_with(|| its.clone()) != its {
                break;
            }
            let (place, mut pending) = first.remove_entry();
            pending.is_admitted = true;
            records.push(offered(source, place, &pending, self.name.1.is_some()));
            self.offered.insert(place, pending);
        }
        (way.unwrap_or_default(), records)
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
                lock(&self.streams.names.0).accept(&pending.envelope.identity, pending.right);
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
    /// A record is accepted; of a neighbour's the far end has it then.
    fn count(&self, pending: &Pending) {
        if pending.right == ClaimRight::Claimed {
            let outcome = if pending.keeps_name { "taken" } else { "renamed" };
            self.streams.intake.counts().unproven(outcome);
        }
        let Some((relays, class)) = self.streams.relays.as_ref().zip(self.name.1) else { return };
        if let Some(ticket) = pending.tickets.first() {
            let Envelope { key, properties, payload, .. } = &pending.envelope;
            let size = Size((key.len() + payload.len()) as u64) + properties.size();
            relays.count(&ticket.from, class, size);
        }
    }
}
