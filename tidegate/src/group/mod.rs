//! A group of nodes that are one broker for placed topics, which move between them.
//!
//! What is decided is in [`tidegate_cluster::moves`]. One task (`task`) holds this member's state; `talk` are frames on a
//! connection, `dial` takes to another member what is for it, and `listen` hears from others and takes commands. A
//! connection that publishes to a placed topic hands its records to the [`Handle`]; who owns the topic publishes them
//! as others do, and what it publishes goes to the other members by the same handle.

mod command;
mod content;
mod dial;
mod listen;
mod memory;
mod state;
mod talk;
mod task;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tidegate_broker::Message;
use tidegate_cluster::handover::{Member, UnitId, UnitOwner};
use tidegate_types::record::{Offered, Token};
use tidegate_types::topic::Filter;
use tidegate_types::units::Time;
use tokio::sync::mpsc;

pub use self::command::{Access, Order, drain, order, tell};
pub(crate) use self::dial::Peer;
use self::memory::MemoryCounts;
pub use self::memory::MemoryView;
pub use self::state::exercise as exercise_state;
use self::task::{Event, Reply};
pub(crate) use self::task::{GroupOptions, start};
use crate::port::{Source, Stopping};

/// Events that wait for the task; what has nobody to wait for it is dropped beyond them.
const EVENTS_MAX: usize = 65_536;
/// A client that is here again so soon after it was told to go does not follow: it stays.
const TOLD_FOR: Duration = Duration::from_secs(600);
/// Clients that are remembered so.
const TOLD_MAX: usize = 10_000;

/// A unit, as this member sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitView {
    /// Its name.
    pub name: String,
    /// Name of its owner.
    pub owner: String,
    /// How often it has moved.
    pub epoch: u64,
    /// Whether it is ours and takes records.
    pub is_open: bool,
}

/// A member at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupView {
    /// Every unit.
    pub units: Vec<UnitView>,
    /// Records that were handed to their owners.
    pub forwarded: u64,
    /// Results for subscribers elsewhere for which there was no room.
    pub dropped: u64,
    /// What operators remember.
    pub memory: MemoryView,
}

/// How much of a unit is worked on by operators.
#[derive(Debug)]
pub(crate) struct Gate {
    unit: UnitId,
    open: AtomicUsize,
    idle: mpsc::UnboundedSender<UnitId>,
}

impl Gate {
    pub(crate) fn new(unit: UnitId, idle: mpsc::UnboundedSender<UnitId>) -> Arc<Gate> {
        Arc::new(Gate { unit, open: AtomicUsize::new(0), idle })
    }

    /// Looks whether it is idle, soon.
    fn tell(&self) {
        let _ = self.idle.send(self.unit);
    }

    fn is_idle(&self) -> bool {
        self.open.load(Ordering::SeqCst) == 0
    }
}

/// A record of a unit that an operator has to work on.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Gate>);

impl Busy {
    pub(crate) fn new(gate: &Arc<Gate>) -> Busy {
        gate.open.fetch_add(1, Ordering::SeqCst);
        Busy(gate.clone())
    }

    /// Of which unit it is.
    pub(crate) fn unit(&self) -> UnitId {
        self.0.unit
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            // An error means that the task is gone, and with it whoever waits.
            let _ = self.0.idle.send(self.0.unit);
        }
    }
}

#[derive(Debug)]
struct Unit {
    name: String,
    topics: Vec<Filter>,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct Inner {
    members: Vec<String>,
    me: usize,
    units: Vec<Unit>,
    owners: Mutex<Vec<(UnitOwner, bool)>>,
    events: mpsc::Sender<Event>,
    forwarded: AtomicU64,
    dropped: AtomicU64,
    memory: MemoryCounts,
    /// What clients of each member are told to use.
    clients: Vec<Option<Arc<str>>>,
    /// Which clients were told to use another server, and when.
    told: Mutex<BTreeMap<Arc<str>, Instant>>,
}

/// How the rest of the node reaches its group. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle(Arc<Inner>);

impl Handle {
    /// The unit that a topic is of.
    pub(crate) fn unit_of(&self, topic: &[u8]) -> Option<UnitId> {
        let topic = std::str::from_utf8(topic).ok()?;
        let covers = |unit: &Unit| unit.topics.iter().any(|filter| filter.matches(topic));
        self.0.units.iter().position(covers).map(|place| UnitId(place as u32))
    }

    pub(crate) fn name_of(&self, unit: UnitId) -> Option<Arc<str>> {
        self.0.units.get(unit.0 as usize).map(|unit| unit.name.as_str().into())
    }

    pub(crate) fn gate(&self, unit: UnitId) -> Option<&Arc<Gate>> {
        self.0.units.get(unit.0 as usize).map(|unit| &unit.gate)
    }

    /// Takes the records of placed topics out of `records`, and brings them to their owners; `source` hears their answers.
    /// Returns who owns all of them, where one other member does.
    ///
    /// # Errors
    /// The node is stopping.
    pub(crate) async fn divert(
        &self,
        source: &Source,
        records: &mut Vec<Offered>,
        qos_of: impl Fn(&Offered) -> u8,
    ) -> Result<Option<Member>, Stopping> {
        let mut last: (bytes::Bytes, Option<UnitId>) = (bytes::Bytes::new(), None);
        let mut placed = Vec::new();
        let mut seen = |record: &Offered| {
            if last.0 != record.key {
                last = (record.key.clone(), self.unit_of(&record.key));
            }
            last.1
        };
        let count = records.iter().filter_map(&mut seen).count();
        if count == 0 {
            return Ok(None);
        }
        // Who gives up waiting finds its records where they were.
        let permits = self.0.events.reserve_many(count).await.map_err(|_| Stopping)?;
        records.retain(|record| {
            let Some(unit) = seen(record) else { return true };
            placed.push((unit, qos_of(record), record.clone()));
            false
        });
        let mut owner = None;
        let mut is_one = records.is_empty();
        for (permit, (unit, qos, record)) in permits.zip(placed) {
            let now = self.owners().get(unit.0 as usize).map(|(owner, _)| owner.member);
            is_one &= owner.is_none_or(|owner| Some(owner) == now);
            owner = now;
            let reply = record.token.map(|token: Token| Reply { token, notices: source.notices() });
            self.forwards();
            let event = Event::Publish { unit, qos, record, reply };
            permit.send(event);
        }
        Ok(owner.filter(|owner| is_one && usize::from(owner.0) != self.0.me))
    }

    /// What a client of MQTT 5 whose topics are all at `owner` is to be told; each is told once.
    pub(crate) fn reference(&self, owner: Member, client: &Arc<str>) -> Option<Arc<str>> {
        let reference = self.0.clients.get(usize::from(owner.0))?.clone()?;
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.retain(|_, at| at.elapsed() < TOLD_FOR);
        }
        let is_deaf = told.get(client).is_some_and(|at| at.elapsed() < TOLD_FOR);
        if is_deaf || told.len() >= TOLD_MAX {
            return None;
        }
        told.insert(client.clone(), Instant::now());
        Some(reference)
    }

    fn forwards(&self) {
        self.0.forwarded.fetch_add(1, Ordering::Relaxed);
    }

    /// Brings a result to the owner of its topic where that is another member; else gives it back.
    pub(crate) fn send_on(&self, record: Offered, qos: u8) -> Option<Offered> {
        let Some(unit) = self.unit_of(&record.key).filter(|unit| !self.is_ours(*unit)) else {
            return Some(record);
        };
        self.forwards();
        let event = Event::Publish { unit, qos, record, reply: None };
        if self.0.events.try_send(event).is_err() {
            self.drops();
        }
        None
    }

    fn is_ours(&self, unit: UnitId) -> bool {
        let me = self.0.me;
        let owners = self.owners();
        owners.get(unit.0 as usize).is_some_and(|(owner, _)| usize::from(owner.member.0) == me)
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, Vec<(UnitOwner, bool)>> {
        self.0.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was published here of a unit that is ours goes to the other members. Never waits.
    pub(crate) fn made(&self, now: Time, unit: UnitId, message: &Message) {
        let event = Event::Made { unit, content: content::of_message(now, message) };
        if self.0.members.len() > 1 && self.0.events.try_send(event).is_err() {
            self.drops();
        }
    }

    /// Counts what operators remember of units that move.
    pub(crate) fn memory(&self) -> &MemoryCounts {
        &self.0.memory
    }

    fn drops(&self) {
        self.0.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The group, as this member sees it.
    pub fn view(&self) -> GroupView {
        let owners = self.owners().clone();
        let unit = |(unit, (owner, is_open)): (&Unit, (UnitOwner, bool))| UnitView {
            name: unit.name.clone(),
            owner: self.0.members.get(usize::from(owner.member.0)).cloned().unwrap_or_default(),
            epoch: owner.epoch,
            is_open,
        };
        GroupView {
            units: self.0.units.iter().zip(owners).map(unit).collect(),
            forwarded: self.0.forwarded.load(Ordering::Relaxed),
            dropped: self.0.dropped.load(Ordering::Relaxed),
            memory: self.0.memory.view(),
        }
    }
}
