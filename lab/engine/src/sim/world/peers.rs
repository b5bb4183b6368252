//! What a world's node hands to others, and what they hand to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_node::io::{Control, Input, OutputId, PathId, PathState};
use tidegate_node::node::Node;
use tidegate_types::class::ClassId;
use tidegate_types::record::{
    DeliveryId, Foreign, Offered, Properties, Record, RefuseReason, SourceId, Token,
};
use tidegate_types::units::{Size, Time};

use super::{Outcome, World};

/// A record that goes to another node.
#[derive(Clone, Debug)]
pub struct Handed {
    pub output: OutputId,
    pub id: DeliveryId,
    pub class: ClassId,
    /// Whether it may have arrived before.
    pub again: bool,
    pub record: Arc<Record>,
}

/// A record of another node that has its answer here.
#[derive(Clone, Copy, Debug)]
pub struct Answered {
    pub from: usize,
    pub class: ClassId,
    pub id: DeliveryId,
    pub size: Size,
    pub result: Result<(), RefuseReason>,
}

/// What is on its way between this node and others.
#[derive(Debug, Default)]
pub(super) struct Peers {
    handed: Vec<Handed>,
    answered: Vec<Answered>,
    waiting: BTreeMap<Token, Answered>,
    sources: BTreeMap<(usize, ClassId), SourceId>,
    last_token: u64,
}

impl Peers {
    pub(super) fn answered(&mut self, token: Token, result: Result<(), RefuseReason>) {
        let waited = self.waiting.remove(&token);
        self.answered.extend(waited.map(|waited| Answered { result, ..waited }));
    }
}

impl World<'_> {
    /// When something happens here next by itself.
    pub fn next_time(&self) -> Option<Time> {
        self.agenda.next_time()
    }

    /// All that happens up to a time.
    pub fn go(&mut self, until: Time) {
        while self.agenda.next_time().is_some_and(|at| at <= until)
            && let Some((at, event)) = self.agenda.next()
        {
            self.happen_at(at, event);
        }
        self.now = until;
    }

    /// Something from outside, now.
    pub fn tell(&mut self, input: Input) {
        self.node.handle(self.now, input);
        self.drive();
    }

    /// The connections to other nodes are there.
    pub fn connect(&mut self, output: OutputId) {
        for lane in 0..self.lanes {
            let path = PathId { output, lane: lane as u8 };
            self.node.handle(self.now, Input::PathState { path, state: PathState::Up });
        }
    }

    pub fn node(&mut self) -> &mut Node {
        &mut self.node
    }

    /// A record of another node is here.
    pub fn relay(&mut self, from: usize, handed: &Handed) {
        let Handed { class, ref record, id, again, .. } = *handed;
        let new = SourceId((self.loads.len() + self.peers.sources.len()) as u32);
        let source = *self.peers.sources.entry((from, class)).or_insert(new);
        if source == new {
            let name = format!("node-{from}/{}", class.0).into();
            let open = Control::Open { source, name, relays: Some(class) };
            self.node.handle(self.now, Input::Control(open));
        }
        self.peers.last_token += 1;
        let token = Token(self.peers.last_token);
        let size = Size(record.payload.len() as u64);
        self.peers.waiting.insert(token, Answered { from, class, id, size, result: Ok(()) });
        let offered = Offered {
            source,
            token: Some(token),
            key: record.key.clone(),
            properties: Properties::default(),
            payload: record.payload.clone(),
            read_at: self.now,
            source_unix_ns: Some(record.arrived.as_nanos()),
            ttl: None,
            packet: None,
            foreign: Some(Foreign {
                identity: record.identity.clone(),
                again,
                left: Some(record.deadline.since(self.now)),
            }),
        };
        self.tell(Input::Arrived(vec![offered]));
    }

    /// What goes to other nodes now.
    pub fn take_handed(&mut self) -> Vec<Handed> {
        std::mem::take(&mut self.peers.handed)
    }

    /// Answers for other nodes' records.
    pub fn take_answered(&mut self) -> Vec<Answered> {
        std::mem::take(&mut self.peers.answered)
    }

    pub fn end(self) -> Outcome {
        self.outcome(None)
    }

    pub(super) fn hand_over(&mut self, path: PathId, id: DeliveryId, bytes: Size, again: bool) {
        let record = self.node.record(id).cloned();
        let class = self.node.class_of(id);
        match record.zip(class) {
            Some((record, class)) => {
                self.peers.handed.push(Handed { output: path.output, id, class, again, record });
            }
            None => self.ledger.complain(self.now, format!("{id:?} has no record")),
        }
        self.node.handle(self.now, Input::Sent { id, bytes });
    }
}
