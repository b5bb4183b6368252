//! What a script sees while it runs: the node as it is, and what it has decided so far.
//!
//! The node moves in here for the length of a call (`Seat`), because what scripts call lives as long as
//! their machine and cannot borrow it.

mod decisions;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use mlua::{Function, Lua};
use tidegate_node::adapt::{QueueFacts, Verdicts};
use tidegate_node::io::{Content, Otherwise, QueueId};
use tidegate_node::node::Node;
use tidegate_node::rules::ScriptId;
use tidegate_types::record::{DeliveryId, Record};
use tidegate_types::units::Time;

use super::Side;
use super::cursors::Cursors;
pub(super) use super::effects::{Effects, Timer, Watched};
use super::fields::{Fields, Scalar};
use super::handles::Handles;
use super::seat::{Moment, Seat};
use super::spec::ScriptSpec;
use super::verdict::Verdict;
use crate::link::Links;

/// Why a function that a script called could not do it.
pub(super) type Told<T> = Result<T, mlua::Error>;

pub(super) fn wrong<T>(text: impl Into<String>) -> Told<T> {
    Err(mlua::Error::RuntimeError(text.into()))
}

/// What stands behind every function that scripts call.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) spec: Arc<ScriptSpec>,
    id: ScriptId,
    node: Option<Box<Node>>,
    /// What the node's links look like.
    pub(super) links: Links,
    moment: Moment,
    /// What the call is for: the records that came; none for a timer.
    arrivals: Vec<(QueueId, DeliveryId)>,
    /// Whether a call has asked for the one record that came.
    pub(super) has_asked: bool,
    /// Whose queues it goes through; those of both sides where it is a timer.
    side: Option<Side>,
    verdicts: Verdicts,
    /// What becomes of records on which it fails.
    otherwise: Otherwise,
    pub(super) effects: Effects,
    /// What this call changed of records.
    changed: BTreeMap<DeliveryId, Content>,
    facts: Vec<(QueueId, QueueFacts)>,
    queues: Vec<QueueId>,
    /// As of which change of the node's queues, if of any.
    queues_at: Option<u64>,
    /// The record that was looked at last in this turn: it waits.
    latest: Option<(QueueId, DeliveryId, Arc<Record>)>,
    cursors: Cursors,
    fields: Fields,
    pub(super) handles: Handles,
    pub(super) is_loading: bool,
    pub(super) timers: Vec<Timer>,
    pub(super) watches: Vec<(Watched, Function)>,
}

impl Stage {
    pub(super) fn new(spec: Arc<ScriptSpec>, id: ScriptId) -> Stage {
        let otherwise = spec.otherwise();
        Stage {
            spec,
            id,
            node: None,
            links: Links::default(),
            moment: Moment { now: Time::ZERO, unix_ns: 0 },
            arrivals: Vec::new(),
            has_asked: false,
            side: None,
            verdicts: Verdicts::new(otherwise),
            otherwise,
            effects: Effects::default(),
            changed: BTreeMap::new(),
            facts: Vec::new(),
            queues: Vec::new(),
            queues_at: None,
            latest: None,
            cursors: Cursors::default(),
            fields: Fields::default(),
            handles: Handles::default(),
            is_loading: true,
            timers: Vec::new(),
            watches: Vec::new(),
        }
    }

    /// A call begins, for these records.
    pub(super) fn begin(&mut self, arrivals: Vec<(QueueId, DeliveryId)>, side: Option<Side>) {
        (self.arrivals, self.side, self.has_asked) = (arrivals, side, false);
    }

    /// A turn of it begins.
    pub(super) fn enter(&mut self, seat: &mut Seat, moment: Moment) {
        self.node = seat.0.take();
        self.moment = moment;
    }

    /// A turn has ended, and the call with it or not. What was decided is given now, or with a later turn.
    pub(super) fn leave(&mut self, seat: &mut Seat, is_suspended: bool, keeps: bool) -> Left {
        if is_suspended {
            let (node, verdicts) = (self.node.as_deref(), &self.verdicts);
            self.cursors.end_turn(|queue, id| {
                node.and_then(|node| next_of(node, verdicts, queue, Some(id)))
            });
        } else {
            self.cursors.clear();
        }
        seat.0 = self.node.take();
        self.facts.clear();
        if !is_suspended {
            // What a loop stands at can be looked at on, though it was given up in the turn before (Fig. 9).
            self.latest = None;
        }
        if keeps {
            return Left::default();
        }
        self.changed.clear();
        let verdicts = std::mem::replace(&mut self.verdicts, Verdicts::new(self.otherwise));
        Left { verdicts, effects: std::mem::take(&mut self.effects) }
    }

    /// Its script has another place from now on, and rules may have changed.
    pub(super) fn sit_at(&mut self, id: ScriptId) {
        self.id = id;
        self.queues_at = None;
    }

    pub(super) fn moment(&self) -> Moment {
        self.moment
    }

    pub(super) fn node(&self) -> Told<&Node> {
        match &self.node {
            Some(node) => Ok(node),
            None => wrong("nothing waits while a script is loaded: do this in on_message"),
        }
    }

    /// The record that came: the first one, where a call is for more.
    pub(super) fn current(&mut self) -> Told<(QueueId, DeliveryId)> {
        self.has_asked = true;
        match self.arrivals.first() {
            Some(current) => Ok(*current),
            None => wrong("no message came: a timer goes through h:Queues()"),
        }
    }

    /// The first record at a place or behind it among those that came, with its place; without what is given up.
    pub(super) fn arrival_from(&self, place: usize) -> Told<Option<(usize, QueueId, DeliveryId)>> {
        let node = self.node()?;
        let waits = |(queue, id): &(QueueId, DeliveryId)| {
            self.verdicts.is_waiting(node.waiting_queues(), *queue, *id)
        };
        let rest = self.arrivals.iter().enumerate().skip(place);
        Ok(rest
            .filter(|(_, arrival)| waits(arrival))
            .map(|(at, (queue, id))| (at, *queue, *id))
            .next())
    }

    /// The queue behind `before`, or the first one.
    pub(super) fn queue_after(&mut self, before: Option<QueueId>) -> Told<Option<QueueId>> {
        let changes = self.node()?.queue_changes();
        if self.queues_at != Some(changes) {
            self.queues = queues_of(self.node()?, self.id);
            self.queues_at = Some(changes);
        }
        let place = match before {
            Some(before) => self.queues.partition_point(|queue| *queue <= before),
            None => 0,
        };
        let node = self.node()?;
        let is_its = |queue: &&QueueId| {
            let side = || node.script_of(**queue).map(|id| Side::split(id).0);
            self.side.is_none_or(|wanted| side() == Some(wanted))
        };
        Ok(self.queues[place..].iter().find(is_its).copied())
    }

    /// The record that waits behind `before`, or the first one, without those that are given up.
    pub(super) fn message_after(
        &mut self,
        queue: QueueId,
        before: Option<DeliveryId>,
    ) -> Told<Option<DeliveryId>> {
        let stood = before.and_then(|before| self.cursors.resume(queue, before));
        let node = self.node()?;
        let is_there = |id: DeliveryId| node.is_waiting(queue, id) && !self.verdicts.is_gone(id);
        let next = match stood {
            // What stood behind it has left as well: so has all before it, unless it was moved.
            Some(Some(next)) if !is_there(next) => next_of(node, &self.verdicts, queue, None),
            Some(Some(next)) => Some(next),
            Some(None) | None => next_of(node, &self.verdicts, queue, before),
        };
        if let Some(next) = next {
            self.latest = node.record(next).map(|record| (queue, next, record.clone()));
            self.cursors.step(queue, before, next);
        }
        Ok(next)
    }

    /// What is known of a queue, as when it was first asked in this call; `None` for one that is gone.
    pub(super) fn facts(&mut self, queue: QueueId) -> Told<Option<QueueFacts>> {
        if let Some((_, facts)) = self.facts.iter().find(|(of, _)| *of == queue) {
            return Ok(Some(*facts));
        }
        let now = self.moment.now;
        self.node()?;
        let facts = self.node.as_mut().and_then(|node| node.queue_facts(now, queue));
        if let Some(facts) = facts {
            // The newest few: scripts go from queue to queue.
            self.facts.truncate(15);
            self.facts.insert(0, (queue, facts));
        }
        Ok(facts)
    }

    /// Records in all queues of the script.
    pub(super) fn waiting(&self) -> u64 {
        let Some(node) = &self.node else { return 0 };
        let records = |queue: QueueId| node.waiting_queues().backlog_of(queue.into()).records();
        queues_of(node, self.id).into_iter().map(records).sum()
    }

    /// Records of a queue, as decided so far.
    pub(super) fn length(&self, queue: QueueId) -> Told<u64> {
        Ok(self.verdicts.length(self.node()?.waiting_queues(), queue))
    }

    /// A record that waited when the call began; `None` for another one. Fig. 9 looks at records that it has
    /// just dropped.
    pub(super) fn record(&self, queue: QueueId, id: DeliveryId) -> Told<Option<&Record>> {
        if let Some((of, latest, record)) = &self.latest
            && (*of, *latest) == (queue, id)
        {
            return Ok(Some(record));
        }
        let node = self.node()?;
        let is_there = node.is_waiting(queue, id);
        Ok(if is_there { node.record(id).map(|record| &**record) } else { None })
    }

    /// What this call changed of a record.
    pub(super) fn changed(&self, id: DeliveryId) -> Option<&Content> {
        if self.changed.is_empty() { None } else { self.changed.get(&id) }
    }

    /// The payload as it is now.
    pub(super) fn payload(&self, queue: QueueId, id: DeliveryId) -> Told<Option<Bytes>> {
        if let Some(payload) = self.changed(id).and_then(|content| content.payload.clone()) {
            return Ok(Some(payload));
        }
        Ok(self.record(queue, id)?.map(|record| record.payload.clone()))
    }

    /// A value of a payload that is JSON: the text of it, or a number, as `take` likes it.
    pub(super) fn field<T>(
        &mut self,
        queue: QueueId,
        id: DeliveryId,
        path: &str,
        take: impl FnOnce(&Scalar, &Bytes) -> T,
    ) -> Told<Option<T>> {
        let Some(payload) = self.payload(queue, id)? else { return Ok(None) };
        Ok(self.fields.get(id, &payload, path, |scalar| take(scalar, &payload)))
    }
}

/// What a turn leaves behind.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) verdicts: Verdicts,
    pub(super) effects: Effects,
}

/// The record that waits behind another one, or the first one, without those that are given up.
fn next_of(
    node: &Node,
    verdicts: &Verdicts,
    queue: QueueId,
    mut before: Option<DeliveryId>,
) -> Option<DeliveryId> {
    loop {
        let next = node.waiting_after(queue, before)?;
        if !verdicts.is_gone(next) {
            return Some(next);
        }
        before = Some(next);
    }
}

/// The queues of both sides of a script, in the order of their handles.
pub(super) fn queues_of(node: &Node, script: ScriptId) -> Vec<QueueId> {
    let (_, place) = Side::split(script);
    let sides = [Side::Request, Side::Response].map(|side| side.of(place));
    let mut queues: Vec<QueueId> =
        sides.into_iter().flat_map(|side| node.queues_of(side)).collect();
    queues.sort_unstable();
    queues
}

/// Does something with the stage of a machine.
pub(super) fn on_stage<T>(lua: &Lua, act: impl FnOnce(&mut Stage) -> Told<T>) -> Told<T> {
    match lua.app_data_mut::<Stage>() {
        Some(mut stage) => act(&mut stage),
        None => wrong("this machine has no stage"),
    }
}

/// How the node calls an endpoint: by script, and its place among the script's.
pub(super) fn endpoint_number(script: ScriptId, place: usize) -> u16 {
    script.0 << 8 | place as u16
}
