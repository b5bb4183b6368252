//! The task that holds a member's state.

mod begin;
mod loads;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::ClientConfig;
use tidegate_cluster::handover::wire::MemberFrame;
use tidegate_cluster::handover::{
    Group, GroupInput, GroupMessage, GroupOutput, HandoverError, HandoverOptions, Member,
    PublishReply, UnitId, UnitOwner,
};
use tidegate_link::packet::Custody;
use tidegate_types::record::{
    DropReason, Fate, Identity, Offered, Origin, RefuseReason, StreamId, Token,
};
use tidegate_types::topic::Filter;
use tidegate_types::units::Size;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

pub(crate) use self::begin::start;
use super::dial::{Outgoing, Peer};
use super::listen::Security;
use super::memory::{Answer, Memory};
use super::{Handle, content};
use crate::input::streams::{Settled, Streams, Ticket};
use crate::node::broker::{Placement, Publisher};
use crate::node::contract::{Intake, Notice, NoticePost};
use crate::services::operators::Current;

/// Events taken in one turn.
const BATCH_MAX: usize = 256;
/// How long an owner may take to end what it has, where that is late already.
const PATIENT: Duration = Duration::from_secs(20);
/// What a record costs beside its bytes.
const RECORD_COST: u64 = 256;

/// Who wants an answer to a record.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) token: Token,
    pub(super) notices: NoticePost,
}

/// How a unit is to move.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// Its owner is gone for good.
    pub(super) seize: bool,
    /// Its owner may take long.
    pub(super) patient: bool,
}

/// What reaches the task.
#[derive(Debug)]
pub(super) enum Event {
    /// A record of a unit was published here.
    Publish { unit: UnitId, qos: u8, record: Offered, reply: Option<Reply> },
    /// We own the unit, and published this.
    Made { unit: UnitId, content: Bytes },
    /// A life of a member.
    Met(Member, u64),
    /// What that life says.
    Heard(Member, u64, MemberFrame),
    /// A command.
    Order { unit: Arc<str>, to: Arc<str>, how: How, reply: oneshot::Sender<MemberFrame> },
    /// A question for what is known of loads, after this node begins or ends to drain where that is said.
    Tell { drain: Option<bool>, reply: oneshot::Sender<MemberFrame> },
}

/// What a group is made of.
pub(crate) struct GroupOptions {
    /// Our name.
    pub(crate) me: Arc<str>,
    /// New in every process.
    pub(crate) incarnation: u64,
    /// The other members.
    pub(crate) peers: Vec<Peer>,
    /// Name, topics and first owner of each unit.
    pub(crate) units: Vec<(String, Vec<Filter>, String)>,
    /// Where owners are remembered.
    pub(crate) state: Option<PathBuf>,
    /// What remembers something of units, and moves it with them.
    pub(crate) operators: Current,
    /// Threads of operators.
    pub(crate) threads: usize,
    /// What we show who listens, and who dials us.
    pub(crate) tls: (Option<Arc<ClientConfig>>, Security),
    /// Where others dial.
    pub(crate) listeners: Vec<TcpListener>,
    /// Where records that are ours enter the node.
    pub(crate) streams: Streams,
}

struct Task {
    me: Member,
    members: Vec<String>,
    units: Vec<String>,
    origin: Arc<Origin>,
    group: Group<Bytes>,
    memory: Memory,
    handle: Handle,
    /// By member; `None` for ourselves.
    outgoing: Vec<Option<Arc<Outgoing>>>,
    streams: Streams,
    settle: mpsc::UnboundedSender<Settled>,
    publisher: Publisher,
    intake: Intake,
    state: Option<PathBuf>,
    tickets: HashMap<u64, Option<Reply>>,
    takes: HashMap<u64, (UnitId, u64)>,
    given: u64,
    drains: BTreeMap<UnitId, u64>,
    orders: BTreeMap<UnitId, oneshot::Sender<MemberFrame>>,
    threads: usize,
    /// Whether this node is to own nothing: it is given nothing by who asks, and takes nothing by force.
    is_draining: bool,
}

impl Task {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Event>,
        mut settled: mpsc::UnboundedReceiver<Settled>,
        mut idles: mpsc::UnboundedReceiver<UnitId>,
        mut saved: mpsc::UnboundedReceiver<Answer>,
    ) {
        let mut events = Vec::with_capacity(BATCH_MAX);
        let mut answers = Vec::with_capacity(BATCH_MAX);
        let node = self.intake.clone();
        self.obey();
        loop {
            let wake = self.group.next_timeout().and_then(|at| node.clock().instant(at));
            let timer = sleep_until(wake.unwrap_or_else(std::time::Instant::now).into());
            // Results of operators come by `inbox` before it is known that they are idle.
            tokio::select! {
                biased;
                () = node.closed() => return,
                _ = settled.recv_many(&mut answers, BATCH_MAX) => {}
                _ = inbox.recv_many(&mut events, BATCH_MAX) => {}
                Some((unit, attempt, state)) = saved.recv() => {
                    self.input(GroupInput::Drained { unit, attempt, state });
                }
                Some(unit) = idles.recv() => self.look(unit, &mut inbox),
                () = timer, if wake.is_some() => self.input(GroupInput::Tick),
            }
            for answer in answers.drain(..) {
                self.settled(&answer);
            }
            for event in events.drain(..) {
                self.event(event);
            }
        }
    }

    fn input(&mut self, input: GroupInput<Bytes>) {
        self.group.handle(self.intake.now(), input);
        self.obey();
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Publish { unit, qos, record, reply } => self.publish(unit, qos, &record, reply),
            Event::Made { unit, content } => self.input(GroupInput::Made { unit, content }),
            Event::Met(member, life) => {
                let outgoing = self.outgoing.get(usize::from(member.0)).cloned().flatten();
                if let Some(outgoing) = outgoing.filter(|outgoing| !outgoing.knows(life)) {
                    outgoing.begin(life);
                    self.input(GroupInput::Restarted(member));
                }
            }
            Event::Heard(from, life, frame) => {
                let outgoing = self.outgoing.get(usize::from(from.0)).and_then(Option::as_ref);
                if !outgoing.is_some_and(|outgoing| outgoing.knows(life)) {
                    return;
                }
                match frame {
                    MemberFrame::Said(unit, message) => {
                        let brings = self.memory.brings(&message);
                        self.input(GroupInput::Heard { from, unit, message });
                        if let Some(brought) = brings {
                            self.memory.heard(&self.handle, unit, brought);
                        }
                    }
                    _ => self.input(GroupInput::Greeted(from)),
                }
            }
            Event::Order { unit, to, how, reply } => self.order(&unit, &to, how, reply),
            Event::Tell { drain, reply } => drop(reply.send(self.tell(drain))),
        }
    }

    fn publish(&mut self, unit: UnitId, qos: u8, record: &Offered, reply: Option<Reply>) {
        self.given += 1;
        let ticket = self.given;
        let stream = StreamId(unit.0.into());
        let identity = Identity { origin: self.origin.clone(), stream, seq: ticket };
        let content = content::of_record(self.intake.now(), qos, record, identity);
        self.tickets.insert(ticket, reply);
        let size = Size(content.len() as u64 + RECORD_COST);
        self.input(GroupInput::Publish { unit, ticket, size, content });
    }

    fn settled(&mut self, settled: &Settled) {
        let Some((unit, take)) = self.takes.remove(&settled.record) else { return };
        let verdict = match settled.custody {
            Some(Custody::Held | Custody::Final(Fate::Confirmed)) => Ok(()),
            Some(Custody::Final(Fate::Dropped(reason))) => Err(match reason {
                DropReason::Unroutable => RefuseReason::NoRule,
                DropReason::Oversize => RefuseReason::Oversize,
                DropReason::Refused => RefuseReason::Forbidden,
                reason => RefuseReason::Dropped(reason),
            }),
            None => Err(RefuseReason::Stopping),
        };
        self.input(GroupInput::Settled { unit, take, verdict });
    }

    /// Does what the state says.
    fn obey(&mut self) {
        while let Some(output) = self.group.poll() {
            match output {
                GroupOutput::Send { to, unit, message } => self.say(to, unit, message),
                GroupOutput::Greet(to) => self.push(to, &MemberFrame::Greeted, false),
                GroupOutput::Answer { ticket, verdict } => self.answer(ticket, verdict),
                GroupOutput::Work { unit, take, content } => self.work(unit, take, &content),
                GroupOutput::Show { content, .. } => {
                    if let Some((qos, envelope)) = content::unpacked(&content) {
                        self.publisher.show(self.intake.now(), qos, envelope);
                    }
                }
                GroupOutput::Drain { unit, attempt } => {
                    self.drains.insert(unit, attempt);
                    self.intake.hub().hurry(unit);
                    // Not at once: what it has published is in the inbox.
                    self.handle.0.units[unit.0 as usize].gate.tell();
                }
                GroupOutput::Begin { unit, state } => {
                    self.memory.begins(&self.handle, unit, state.as_ref());
                }
                GroupOutput::Owned { unit, owner } => self.owned(unit, owner),
                GroupOutput::Moved { unit, result } => self.moved(unit, result),
            }
        }
        let opens: Vec<bool> =
            (0..self.units.len()).map(|unit| self.group.is_open(UnitId(unit as u32))).collect();
        for (known, is_open) in self.handle.owners().iter_mut().zip(opens) {
            known.1 = is_open;
        }
    }

    fn say(&mut self, to: Member, unit: UnitId, message: GroupMessage<Bytes>) {
        let is_result = matches!(message, GroupMessage::Result(..));
        self.push(to, &MemberFrame::Said(unit, message), is_result);
    }

    fn push(&mut self, to: Member, frame: &MemberFrame, is_result: bool) {
        let outgoing = self.outgoing.get(usize::from(to.0)).and_then(Option::as_ref);
        if outgoing.is_some_and(|outgoing| !outgoing.push(frame, is_result)) {
            self.handle.drops();
        }
    }

    fn answer(&mut self, ticket: u64, verdict: PublishReply) {
        let Some(Some(Reply { token, notices })) = self.tickets.remove(&ticket) else { return };
        // Where the connection is gone, its client sends the record again.
        notices.send(Notice::Accept(token, verdict));
    }

    fn work(&mut self, unit: UnitId, take: u64, content: &Bytes) {
        self.given += 1;
        let record = self.given;
        self.takes.insert(record, (unit, take));
        let cost = content.len() as u64;
        let from = self.origin.node.clone();
        let ticket = Ticket { from, record, cost, settled: self.settle.clone() };
        match content::unpacked(content) {
            Some((qos, envelope)) => self.streams.take_placed(envelope, qos, ticket),
            None => ticket.settle(Some(Custody::Final(Fate::Dropped(DropReason::Refused)))),
        }
    }

    /// Nothing of a unit is worked on any more, as it seems; what its operators published is heard first.
    fn look(&mut self, unit: UnitId, inbox: &mut mpsc::Receiver<Event>) {
        if !self.handle.gate(unit).is_some_and(|gate| gate.is_idle()) {
            return;
        }
        while let Ok(event) = inbox.try_recv() {
            self.event(event);
        }
        if let Some(attempt) = self.drains.remove(&unit) {
            self.memory.save(&self.handle, unit, attempt);
        }
    }

    fn owned(&mut self, unit: UnitId, owner: UnitOwner) {
        let before = std::mem::replace(&mut self.handle.owners()[unit.0 as usize].0, owner);
        if before.member == self.me && owner.member != self.me {
            self.memory.is_gone(unit);
        }
        let name = &self.units[unit.0 as usize];
        let member = &self.members[usize::from(owner.member.0)];
        tracing::info!(unit = %name, owner = %member, epoch = owner.epoch, "a placed topic's owner");
        self.remember();
    }

    fn order(&mut self, unit: &str, to: &str, how: How, reply: oneshot::Sender<MemberFrame>) {
        let place = self.units.iter().position(|name| name == unit);
        let member = self.members.iter().position(|name| name == to);
        let (Some(place), Some(member)) = (place, member) else {
            let why = format!("there is no placed topic {unit:?}, or no member {to:?}");
            return drop(reply.send(MemberFrame::Done(Err(why.into()))));
        };
        let (unit, to) = (UnitId(place as u32), Member(member as u16));
        if how.seize {
            let answer = if to == self.me && self.is_draining {
                MemberFrame::Done(Err(
                    "it drains: let it own again by `tidegate drain --undo`".into()
                ))
            } else if to == self.me {
                self.input(GroupInput::Seize(unit));
                MemberFrame::Done(Ok(true))
            } else {
                MemberFrame::Ask(self.members[member].as_str().into())
            };
            return drop(reply.send(answer));
        }
        let owner = self.group.owner(unit).map_or(self.me, |owner| owner.member);
        if owner == to {
            return drop(reply.send(MemberFrame::Done(Ok(false))));
        }
        if owner != self.me {
            let owner = self.members[usize::from(owner.0)].as_str().into();
            return drop(reply.send(MemberFrame::Ask(owner)));
        }
        let is_here = self.outgoing[member].as_ref().is_some_and(|outgoing| outgoing.is_here());
        if !is_here || self.orders.contains_key(&unit) {
            let why = if is_here { "it is being moved already" } else { "the other node is away" };
            return drop(reply.send(MemberFrame::Done(Err(why.into()))));
        }
        self.orders.insert(unit, reply);
        let ending = if how.patient { PATIENT } else { HandoverOptions::default().ending };
        self.group.set_ending(ending);
        self.input(GroupInput::Move { unit, to });
    }

    fn moved(&mut self, unit: UnitId, result: Result<(), HandoverError>) {
        if let Some(reply) = self.orders.remove(&unit) {
            let why = |error: HandoverError| error.to_string().into();
            // Whoever asked may not wait for the answer.
            let _ = reply.send(MemberFrame::Done(result.map(|()| true).map_err(why)));
        }
    }
}
