//! What a script sees while it runs: the node as it is, and what it has decided so far.
//!
//! The node moves in here for the length of a call (`Seat`), because what scripts call lives as long as
//! their machine and cannot borrow it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mlua::{AnyUserData, Function, Lua};
use tidegate_node::adapt::{Otherwise, QueueFacts, Verdicts};
use tidegate_node::io::{Content, OutputId, QueueId};
use tidegate_node::node::Node;
use tidegate_node::rules::ScriptId;
use tidegate_types::record::{DeliveryId, Record};
use tidegate_types::units::Time;

use super::Side;
pub(super) use super::effects::{Effects, Timer, Watched};
use super::seat::{Moment, Seat};
use super::spec::ScriptSpec;
use super::verdict::Verdict;
use crate::link::Links;

/// Handles of records that a machine keeps, so that a record has the same one in every call.
const HANDLES_MAX: usize = 4096;
/// Lines and notices of one call.
const SAYINGS_MAX: usize = 16;
/// Longest line or notice.
const SAYING_MAX: usize = 1024;
/// Timers of one script.
const TIMERS_MAX: usize = 16;

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
    /// The record that came; none for a timer.
    current: Option<(QueueId, DeliveryId)>,
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
    handles: BTreeMap<DeliveryId, (QueueId, AnyUserData)>,
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
            current: None,
            side: None,
            verdicts: Verdicts::new(otherwise),
            otherwise,
            effects: Effects::default(),
            changed: BTreeMap::new(),
            facts: Vec::new(),
            queues: Vec::new(),
            queues_at: None,
            handles: BTreeMap::new(),
            is_loading: true,
            timers: Vec::new(),
            watches: Vec::new(),
        }
    }

    /// A call begins.
    pub(super) fn enter(
        &mut self,
        seat: &mut Seat,
        moment: Moment,
        current: Option<(QueueId, DeliveryId)>,
        side: Option<Side>,
    ) {
        self.node = seat.0.take();
        self.moment = moment;
        self.current = current;
        self.side = side;
        if self.handles.len() > HANDLES_MAX {
            self.handles.clear();
        }
    }

    /// A call has ended.
    pub(super) fn leave(&mut self, seat: &mut Seat) -> (Verdicts, Effects) {
        seat.0 = self.node.take();
        self.current = None;
        self.changed.clear();
        self.facts.clear();
        let verdicts = std::mem::replace(&mut self.verdicts, Verdicts::new(self.otherwise));
        (verdicts, std::mem::take(&mut self.effects))
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

    /// The record that came.
    pub(super) fn current(&self) -> Told<(QueueId, DeliveryId)> {
        match self.current {
            Some(current) => Ok(current),
            None => wrong("no message came: a timer goes through h:Queues()"),
        }
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
        &self,
        queue: QueueId,
        mut before: Option<DeliveryId>,
    ) -> Told<Option<DeliveryId>> {
        let node = self.node()?;
        loop {
            let Some(next) = node.waiting_after(queue, before) else { return Ok(None) };
            if !self.verdicts.is_gone(next) {
                return Ok(Some(next));
            }
            before = Some(next);
        }
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

    /// Records of a queue, as decided so far.
    pub(super) fn length(&self, queue: QueueId) -> Told<u64> {
        Ok(self.verdicts.length(self.node()?, queue))
    }

    /// A record that waited when the call began; `None` for another one. Fig. 9 looks at records that it has
    /// just dropped.
    pub(super) fn record(&self, queue: QueueId, id: DeliveryId) -> Told<Option<&Record>> {
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
        Ok(self.record(queue, id)?.and_then(|record| match &record.body {
            tidegate_types::record::Body::Resident(bytes) => Some(bytes.clone()),
            _ => None,
        }))
    }

    /// Counts a verdict, and gives what it is about.
    fn decide(&mut self, verdict: Verdict) -> Told<(&mut Verdicts, &Node)> {
        self.node()?;
        self.effects.verdicts[verdict as usize] += 1;
        let node = self.node.as_deref().expect("looked at above");
        Ok((&mut self.verdicts, node))
    }

    fn waits(&self, queue: QueueId, id: DeliveryId) -> Told<bool> {
        Ok(self.verdicts.is_waiting(self.node()?, queue, id))
    }

    pub(super) fn drop(&mut self, queue: QueueId, id: DeliveryId) -> Told<u64> {
        if !self.waits(queue, id)? {
            return self.length(queue);
        }
        let (verdicts, node) = self.decide(Verdict::Drop)?;
        Ok(verdicts.drop(node, queue, id))
    }

    pub(super) fn insert(
        &mut self,
        queue: QueueId,
        after: DeliveryId,
        content: Content,
    ) -> Told<u64> {
        if !self.waits(queue, after)? {
            return self.length(queue);
        }
        let (verdicts, node) = self.decide(Verdict::Insert)?;
        Ok(verdicts.insert(node, queue, after, content))
    }

    pub(super) fn redirect(&mut self, queue: QueueId, id: DeliveryId, to: &str) -> Told<()> {
        let outputs = &self.node()?.options().outputs;
        let Some(place) = outputs.iter().position(|output| &*output.name == to) else {
            let names: Vec<&str> = outputs.iter().map(|output| &*output.name).collect();
            return wrong(format!("no output {to:?}: there are {}", names.join(", ")));
        };
        if self.waits(queue, id)? {
            let (verdicts, node) = self.decide(Verdict::Redirect)?;
            verdicts.redirect(node, queue, id, OutputId(place as u16));
        }
        Ok(())
    }

    pub(super) fn transform(&mut self, queue: QueueId, id: DeliveryId, name: &str) -> Told<()> {
        let Some(endpoint) = self.spec.transform.iter().position(|(known, _)| known == name) else {
            let names: Vec<&str> = self.spec.transform.iter().map(|(name, _)| &**name).collect();
            let known = if names.is_empty() { "none".into() } else { names.join(", ") };
            return wrong(format!("no transform {name:?}: the configuration has {known}"));
        };
        if self.waits(queue, id)? {
            let endpoint = endpoint_number(self.id, endpoint);
            let ordered = self.spec.ordered;
            let (verdicts, node) = self.decide(Verdict::Transform)?;
            verdicts.transform(node, queue, id, endpoint, ordered);
        }
        Ok(())
    }

    pub(super) fn move_to(&mut self, queue: QueueId, id: DeliveryId, is_front: bool) -> Told<()> {
        if self.waits(queue, id)? {
            let (verdicts, node) = self.decide(Verdict::Move)?;
            match is_front {
                true => verdicts.move_to_front(node, queue, id),
                false => verdicts.move_to_back(node, queue, id),
            }
        }
        Ok(())
    }

    pub(super) fn replace(&mut self, queue: QueueId, id: DeliveryId, content: Content) -> Told<()> {
        if !self.waits(queue, id)? {
            return Ok(());
        }
        let known = self.changed.entry(id).or_default();
        known.key = content.key.clone().or(known.key.take());
        known.properties = content.properties.clone().or(known.properties.take());
        known.payload = content.payload.clone().or(known.payload.take());
        let (verdicts, node) = self.decide(Verdict::Replace)?;
        verdicts.replace(node, queue, id, content);
        Ok(())
    }

    /// Tells the endpoints that the configuration names.
    pub(super) fn notify(&mut self, text: String) -> Told<()> {
        if self.effects.notices.len() < SAYINGS_MAX {
            self.effects.verdicts[Verdict::Notify as usize] += 1;
            self.effects.notices.push(cut(text));
        }
        Ok(())
    }

    /// A line for the log.
    pub(super) fn log(&mut self, text: String) {
        if self.effects.lines.len() < SAYINGS_MAX {
            self.effects.lines.push(cut(text));
        }
    }

    pub(super) fn every(&mut self, period: Duration, function: Function) -> Told<()> {
        self.may_register(self.timers.len() + self.watches.len())?;
        self.timers.push(Timer { period, function, next: Time::ZERO });
        Ok(())
    }

    pub(super) fn watch(&mut self, what: Watched, function: Function) -> Told<()> {
        self.may_register(self.timers.len() + self.watches.len())?;
        self.watches.push((what, function));
        Ok(())
    }

    fn may_register(&self, count: usize) -> Told<()> {
        if !self.is_loading {
            return wrong("h:every and h:onChange belong in on_load: here they would pile up");
        }
        match count {
            TIMERS_MAX.. => wrong(format!("more than {TIMERS_MAX} timers")),
            _ => Ok(()),
        }
    }

    /// The handle of a record that the script has, or a new one.
    pub(super) fn handle(
        &mut self,
        queue: QueueId,
        id: DeliveryId,
        make: impl FnOnce() -> Told<AnyUserData>,
    ) -> Told<AnyUserData> {
        match self.handles.get(&id) {
            Some((of, handle)) if *of == queue => Ok(handle.clone()),
            _ => {
                let handle = make()?;
                self.handles.insert(id, (queue, handle.clone()));
                Ok(handle)
            }
        }
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

fn cut(mut text: String) -> String {
    let mut end = SAYING_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}
