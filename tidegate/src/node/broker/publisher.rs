//! What a connection publishes by: the ways of its topics, and the run of messages that go the same way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate_broker::Message;
use tidegate_link::envelope::Envelope;
use tidegate_node::io::SessionId;
use tidegate_types::account::{Account, Kind, Reservation};
use tidegate_types::class::ClassId;
use tidegate_types::headers::RETAIN;
use tidegate_types::record::Offered;
use tidegate_types::units::Time;

use super::hub::Hub;
use super::keeping::Sender;
use super::meter::Placed;
use super::operate::Operate;
use super::seat::Seat;
use super::way::Way;

/// Topics whose ways are remembered.
const WAYS_MAX: usize = 1024;
/// Bytes of ways that a connection pays for; more is reserved in steps.
const WAYS_FREE: usize = 4096;
const WAYS_STEP: usize = 16 * 1024;
/// The class of a topic that no rule covers.
const NO_CLASS: (ClassId, Duration) = (ClassId(0), Duration::from_secs(1));

/// What is decided of a topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicFacts {
    /// Its records are for subscribers here only.
    pub(crate) is_local: bool,
    /// It is placed on the nodes of a cluster.
    pub(crate) is_placed: bool,
}

/// One source of messages.
#[derive(Debug)]
pub struct Publisher {
    pub(super) hub: Hub,
    /// The session that it speaks for, if that has subscribed.
    pub(super) session: Option<SessionId>,
    generation: u64,
    ways: HashMap<Bytes, Arc<Way>>,
    last: Option<(Bytes, Arc<Way>)>,
    /// Whose turn it is in groups.
    pub(super) turn: usize,
    /// For ways.
    pub(super) held: Reservation,
    /// What ways take.
    bytes: usize,
    /// Messages of one topic that are not handed out yet.
    pub(super) run: Vec<Arc<Message>>,
    /// A subscriber that has much to take.
    pub(super) crowded: Option<Arc<Seat>>,
    /// What it publishes of a unit goes to the unit's other nodes: this one owns it.
    pub(super) is_owner: bool,
    /// What the journal is to know of who publishes next.
    pub(super) sender: Sender,
    /// The mark of what the journal got last that somebody waits for.
    pub(super) mark: u64,
}

impl Publisher {
    pub(super) fn new(hub: Hub) -> Self {
        let held = hub.account().empty(Kind::Sessions);
        Publisher {
            hub,
            session: None,
            generation: 0,
            ways: HashMap::new(),
            last: None,
            turn: 0,
            held,
            bytes: 0,
            run: Vec::new(),
            crowded: None,
            is_owner: false,
            sender: Sender::default(),
            mark: 0,
        }
    }

    /// The broker that it publishes at.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// It speaks for this session, which may want nothing of its own.
    pub fn speak_for(&mut self, session: SessionId) {
        self.session = Some(session);
        self.generation = 0;
    }

    /// The same for what comes from the owner of units only.
    pub(crate) fn of_owner(mut self) -> Self {
        self.is_owner = true;
        self
    }

    /// Hands a record of a unit that is ours to subscribers here and elsewhere, and to operators.
    pub(crate) fn publish_owned(&mut self, record: &Offered, qos: u8) {
        let way = self.way(&record.key);
        let message = message(record, qos, wants_retain(record), &way);
        let before = std::mem::replace(&mut self.is_owner, true);
        self.publish(Arc::new(message));
        self.is_owner = before;
    }

    /// Hands what the owner of a unit published to subscribers here, and to nobody else.
    pub(crate) fn show(&mut self, now: Time, qos: u8, envelope: Envelope) {
        let way = self.way(&envelope.key);
        let Envelope { left, ttl, source_unix_ns, key, properties, payload, .. } = envelope;
        let retain = properties.find(RETAIN).is_some_and(|value| value == "1");
        let message = Arc::new(Message {
            topic: key,
            payload,
            properties,
            qos,
            retain,
            arrived: now,
            expires: ttl.map(|ttl| now + ttl),
            class: way.class,
            deadline: now + left,
            source_unix_ns,
            meter: None,
        });
        self.run.push(message);
        let way = Way { operators: Vec::new(), unit: None, ..Way::clone(&way) };
        self.hand_out(&way);
    }

    /// Turns to a record of this topic, to be gathered on its way: what was gathered of another one is handed out.
    pub(crate) fn turn_to(&mut self, topic: &Bytes) -> (TopicFacts, Arc<Way>) {
        if self.run.first().is_some_and(|first| first.topic != *topic) {
            self.finish_run();
        }
        let way = match &self.last {
            // As it was for those that are gathered.
            Some((last, way)) if last == topic && !self.run.is_empty() => way.clone(),
            _ => self.way(topic),
        };
        (TopicFacts { is_local: way.is_local, is_placed: way.unit.is_some() }, way)
    }

    /// Gathers a record of the topic that it has turned to, to be handed out together with others. One that is for
    /// subscribers here only gives all that it has.
    pub(crate) fn gather(&mut self, record: &mut Offered, qos: u8, way: &Way) {
        let retain = wants_retain(record);
        if !retain && way.is_idle() {
            return;
        }
        let message = match way.is_local {
            true => {
                let payload = std::mem::take(&mut record.payload);
                Message { payload, ..message(record, qos, retain, way) }
            }
            false => message(record, qos, retain, way),
        };
        self.run.push(Arc::new(message));
    }

    /// Hands messages to their subscribers, each record with its QoS; those with QoS 2 are left out.
    #[cfg(test)]
    pub(crate) fn publish_all<'r>(&mut self, records: impl Iterator<Item = (&'r Offered, u8)>) {
        for (record, qos) in records.filter(|(_, qos)| *qos < 2) {
            let (_, way) = self.turn_to(&record.key);
            self.gather(&mut record.clone(), qos, &way);
        }
        self.finish_run();
    }

    /// The message of a record that is not to go yet.
    pub fn message(&mut self, record: &Offered, qos: u8) -> Arc<Message> {
        let way = self.way(&record.key);
        Arc::new(message(record, qos, wants_retain(record), &way))
    }

    /// Hands one message to its subscribers.
    pub fn publish(&mut self, message: Arc<Message>) {
        self.run.push(message);
        self.finish_run();
    }

    /// Hands what an operator made to its subscribers, and to operators that take it; `meter` counts its deliveries.
    pub fn publish_result(&mut self, record: &Offered, qos: u8, meter: u32) {
        let way = self.way(&record.key);
        if !way.is_idle() {
            let message = message(record, qos, false, &way);
            self.publish(Arc::new(Message { meter: Some(meter), ..message }));
        }
    }

    /// Whether the records of a topic are for subscribers here only.
    pub fn is_local(&mut self, topic: &Bytes) -> bool {
        self.way(topic).is_local
    }

    /// A subscriber that takes what it is sent and has more to take than is good, if the last messages were
    /// for one.
    pub fn take_crowded(&mut self) -> Option<Arc<Seat>> {
        self.crowded.take()
    }

    pub(super) fn way(&mut self, topic: &Bytes) -> Arc<Way> {
        if self.hub.generation() != self.generation {
            self.catch_up();
        }
        if let Some((last, way)) = &self.last
            && last == topic
        {
            return way.clone();
        }
        let known = self.ways.get(topic).cloned();
        let way = known.unwrap_or_else(|| {
            let way = Arc::new(self.find(topic));
            self.remember(topic, &way);
            way
        });
        self.last = Some((topic.clone(), way.clone()));
        way
    }

    /// Forgets the ways of topics for which something changed.
    fn catch_up(&mut self) {
        let (generation, changes) = self.hub.changes(self.generation);
        self.generation = generation;
        let Some(changes) = changes else { return self.forget() };
        let is_changed = |topic: &Bytes| {
            // What is no text is nobody's.
            let topic = std::str::from_utf8(topic).unwrap_or_default();
            changes.iter().any(|filter| filter.matches(topic))
        };
        self.last.take_if(|(topic, _)| is_changed(topic));
        let mut bytes = self.bytes;
        self.ways.retain(|topic, way| {
            let is_kept = !is_changed(topic);
            bytes -= if is_kept { 0 } else { way.footprint() + topic.len() };
            is_kept
        });
        self.bytes = bytes;
    }

    /// Remembers a way, as far as there is memory for it.
    fn remember(&mut self, topic: &Bytes, way: &Arc<Way>) {
        let bytes = way.footprint() + topic.len();
        if self.ways.len() >= WAYS_MAX {
            self.forget();
        }
        let more = (self.bytes + bytes).saturating_sub(WAYS_FREE).saturating_sub(self.held.bytes());
        if more > 0 && self.held.grow(more.max(WAYS_STEP)).is_err() {
            self.forget();
            if bytes > WAYS_FREE {
                return;
            }
        }
        self.bytes += bytes;
        self.ways.insert(topic.clone(), way.clone());
    }

    /// Forgets the ways.
    fn forget(&mut self) {
        (self.ways, self.last, self.bytes) = (HashMap::new(), None, 0);
        self.held.shrink(self.held.bytes());
    }

    /// What it makes the node hold is on this account from now on.
    pub fn charge_to(&mut self, account: &Account) {
        self.forget();
        self.held = account.empty(Kind::Sessions);
    }

    fn find(&self, topic: &Bytes) -> Way {
        let table = self.hub.table();
        let key = topic;
        let topic = std::str::from_utf8(topic).unwrap_or_default();
        let covers = |operator: &&Arc<dyn Operate>| operator.covers(topic);
        let matching = table.subscriptions.matching(topic);
        let scope = table.scopes.find(topic);
        let (class, latency) = scope.map_or(NO_CLASS, |scope| (scope.class, scope.latency));
        let is_local = scope.is_some_and(|scope| scope.is_local);
        let operators: Vec<_> = table.operators.iter().filter(covers).cloned().collect();
        drop(table);
        let route = matching.route(self.session);
        let unit = self.hub.group().and_then(|group| {
            let unit = group.unit_of(key)?;
            Some((unit, group.gate(unit)?.clone()))
        });
        let meter = |operator: &Arc<dyn Operate>| {
            let placed = unit.as_ref().and_then(|(unit, _)| {
                let name = self.hub.group()?.name_of(*unit)?;
                Some(Placed { unit: *unit, name, is_serial: operator.is_serial() })
            });
            (operator.clone(), self.hub.meters().of_placed(operator.name(), key, placed))
        };
        Way {
            all: self.hub.seats_of(route.all),
            groups: route.groups.into_iter().map(|group| self.hub.seats_of(group)).collect(),
            operators: operators.iter().map(meter).collect(),
            class,
            latency,
            is_local,
            unit,
        }
    }

    /// Hands out what was gathered: each subscriber is locked and woken once.
    pub(crate) fn finish_run(&mut self) {
        let Some(first) = self.run.first() else { return };
        let way = self.way(&first.topic.clone());
        self.hand_out(&way);
    }
}

fn wants_retain(record: &Offered) -> bool {
    record.properties.find(RETAIN).is_some_and(|value| value == "1")
}

fn message(record: &Offered, qos: u8, retain: bool, way: &Way) -> Message {
    let payload = record.payload.clone();
    Message {
        topic: record.key.clone(),
        payload,
        properties: record.properties.clone(),
        qos,
        retain,
        arrived: record.read_at,
        expires: record.ttl.map(|ttl| record.read_at + ttl),
        class: way.class,
        deadline: record.read_at + way.latency,
        source_unix_ns: record.source_unix_ns,
        meter: None,
    }
}
