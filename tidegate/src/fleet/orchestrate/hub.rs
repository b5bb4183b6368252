//! The task that owns the orchestrator's state machine: heartbeats in, directives out, answers for people.
//!
//! With several orchestrators it also owns the candidate and checks the lease first: a process may have slept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate_fleet::{
    FleetDigest, FleetOptions, Heartbeat, NodeId, Orchestrator, OrchestratorInput,
    OrchestratorOutput,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::sleep_until;
use tonic::Status;
use tonic::metadata::MetadataValue;

use super::candidate::{Answer, Candidate, Turn};
use super::describe;
use crate::fleet::node_id;
use crate::fleet::wire::{Description, DirectiveMessage, LEADER_KEY, LenderMessage};
use crate::metrics::orchestrator::OrchestratorFigures;
use crate::port::Clock;

/// Beats and questions that may wait for the hub.
const WAITING_MAX: usize = 4096;
/// Directives that may wait for a node's wire: each one is the whole state.
pub(super) const DIRECTIVES_MAX: usize = 4;

/// A node that comes, as it says.
#[derive(Clone, Debug)]
pub(super) struct Attendant {
    /// As in its certificate.
    pub(super) name: Arc<str>,
    /// `host:port` where neighbours dial it.
    pub(super) listen: Option<Arc<str>>,
    /// Those of one site reach each other.
    pub(super) site: Arc<str>,
    /// Names of its classes, with commas between them.
    pub(super) classes: Arc<str>,
}

/// Where a node hears.
pub(super) type Directives = mpsc::Sender<Result<DirectiveMessage, Status>>;
/// Where they come out.
type Heard = mpsc::Receiver<Result<DirectiveMessage, Status>>;
/// An answer of the leader, or who leads instead.
type Led<T> = Result<T, NotLeading>;

/// This orchestrator does not lead.
#[derive(Clone, Debug)]
pub(super) struct NotLeading {
    /// Where the one is that does, if there is one.
    leader: Option<Arc<str>>,
}

impl From<NotLeading> for Status {
    fn from(NotLeading { leader }: NotLeading) -> Self {
        let Some(leader) = leader else {
            return Status::failed_precondition("it does not lead, and knows nobody who does");
        };
        let mut status = Status::failed_precondition(format!("it does not lead: ask {leader}"));
        if let Ok(value) = MetadataValue::try_from(&*leader) {
            status.metadata_mut().insert(LEADER_KEY, value);
        }
        status
    }
}

/// What the hub is told.
#[derive(Debug)]
enum ToHub {
    /// A node comes; an earlier stream of it is over. It is answered when there is something to hear.
    Joined(Attendant, oneshot::Sender<Heard>),
    Beat(Heartbeat),
    /// With the last grants of a node.
    Describe(NodeId, oneshot::Sender<Led<Description>>),
    Drain(NodeId, bool, oneshot::Sender<Led<bool>>),
    Lenders(NodeId, oneshot::Sender<Led<Vec<LenderMessage>>>),
    Digest(oneshot::Sender<Led<(u64, FleetDigest)>>),
    Inherit(FleetDigest),
    Figures(oneshot::Sender<OrchestratorFigures>),
    /// The process stops; answered when the lead is left to others.
    Stop(oneshot::Sender<()>),
}

/// The hub's door. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Hub(mpsc::Sender<ToHub>);

/// The hub is gone.
fn stopping<T>(_: T) -> Status {
    Status::unavailable("the orchestrator is stopping")
}

/// How it comes to lead.
#[derive(Debug)]
pub(super) enum Seat {
    /// It is the only one, and leads under this revision.
    Only(u64),
    /// One of several.
    OneOf(Box<Candidate>),
}

impl Hub {
    /// Starts the task.
    pub(super) fn start(options: FleetOptions, seat: Seat) -> (Hub, JoinHandle<()>) {
        let (sender, inbox) = mpsc::channel(WAITING_MAX);
        let clock = Clock::start();
        let mut orchestrator = Orchestrator::new(options);
        let candidate = match seat {
            Seat::Only(revision) => {
                orchestrator.handle(clock.now(), OrchestratorInput::Elected { revision });
                None
            }
            Seat::OneOf(candidate) => Some(candidate),
        };
        let (nodes, waiting) = (BTreeMap::new(), BTreeMap::new());
        let deciding = Duration::ZERO;
        let state = State { orchestrator, candidate, clock, nodes, waiting, deciding };
        (Hub(sender), tokio::spawn(state.run(inbox)))
    }

    async fn tell(&self, told: ToHub) -> Result<(), Status> {
        self.0.send(told).await.map_err(stopping)
    }

    async fn ask<T>(&self, told: impl FnOnce(oneshot::Sender<T>) -> ToHub) -> Result<T, Status> {
        let (reply, answer) = oneshot::channel();
        self.tell(told(reply)).await?;
        answer.await.map_err(stopping)
    }

    /// A node comes. Returns where its directives come out: once this orchestrator leads.
    ///
    /// # Errors
    /// The hub is gone, or the same node came again.
    pub(super) async fn join(&self, attendant: Attendant) -> Result<Heard, Status> {
        self.ask(|reply| ToHub::Joined(attendant, reply)).await
    }

    /// A node's beat.
    ///
    /// # Errors
    /// The hub is gone.
    pub(super) async fn beat(&self, beat: Heartbeat) -> Result<(), Status> {
        self.tell(ToHub::Beat(beat)).await
    }

    /// What it knows, with the last grants of a node.
    ///
    /// # Errors
    /// The hub is gone, or does not lead.
    pub(super) async fn describe(&self, given_to: NodeId) -> Result<Description, Status> {
        Ok(self.ask(|reply| ToHub::Describe(given_to, reply)).await??)
    }

    /// A node is to lend nothing, or to take part again; whether it is known.
    ///
    /// # Errors
    /// The hub is gone, or does not lead.
    pub(super) async fn drain(&self, node: NodeId, is_drained: bool) -> Result<bool, Status> {
        Ok(self.ask(|reply| ToHub::Drain(node, is_drained, reply)).await??)
    }

    /// Nodes that could lend to this one.
    ///
    /// # Errors
    /// The hub is gone, or does not lead.
    pub(super) async fn lenders(&self, to: NodeId) -> Result<Vec<LenderMessage>, Status> {
        Ok(self.ask(|reply| ToHub::Lenders(to, reply)).await??)
    }

    /// Its revision, and what only the leader knows.
    ///
    /// # Errors
    /// The hub is gone, or does not lead.
    pub(super) async fn digest(&self) -> Result<(u64, FleetDigest), Status> {
        Ok(self.ask(ToHub::Digest).await??)
    }

    /// What it shows to whoever reads its metrics, leading or not.
    ///
    /// # Errors
    /// The hub is gone.
    pub(super) async fn figures(&self) -> Result<OrchestratorFigures, Status> {
        self.ask(ToHub::Figures).await
    }

    /// What the leader says that only it knows.
    ///
    /// # Errors
    /// The hub is gone.
    pub(super) async fn inherit(&self, digest: FleetDigest) -> Result<(), Status> {
        self.tell(ToHub::Inherit(digest)).await
    }

    /// Leaves the lead to others.
    pub(super) async fn stop(&self) {
        let _ = self.ask(ToHub::Stop).await;
    }
}

/// Why it woke.
enum Woken {
    Told(Option<ToHub>),
    Answered(Answer),
    Due,
}

struct State {
    orchestrator: Orchestrator,
    candidate: Option<Box<Candidate>>,
    clock: Clock,
    /// Each node that came since it leads, and where it hears.
    nodes: BTreeMap<NodeId, (Attendant, Directives)>,
    /// Nodes that came before it leads: they are there at once when it does.
    waiting: BTreeMap<NodeId, (Attendant, oneshot::Sender<Heard>)>,
    /// How long all decisions took together.
    deciding: Duration,
}

impl State {
    async fn run(mut self, mut inbox: mpsc::Receiver<ToHub>) {
        loop {
            let due = self.orchestrator.next_timeout().and_then(|at| self.clock.instant(at));
            let (candidate, clock) = (&mut self.candidate, &self.clock);
            let answered = async {
                match candidate {
                    Some(candidate) => candidate.answer(clock).await,
                    None => std::future::pending().await,
                }
            };
            let woken = tokio::select! {
                told = inbox.recv() => Woken::Told(told),
                answer = answered => Woken::Answered(answer),
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => Woken::Due,
            };
            match woken {
                Woken::Told(told) => {
                    self.stand(Answer::Due);
                    let mut next = told;
                    // A decision for all that waits, not one for each.
                    loop {
                        match next {
                            None => return,
                            Some(ToHub::Stop(reply)) => return self.stop(reply).await,
                            Some(told) => self.take(told),
                        }
                        let Ok(told) = inbox.try_recv() else { break };
                        next = Some(told);
                    }
                }
                Woken::Answered(answer) => self.stand(answer),
                Woken::Due => {
                    self.stand(Answer::Due);
                    self.handle(OrchestratorInput::Timeout);
                }
            }
            self.speak();
        }
    }

    /// Goes on with the election.
    fn stand(&mut self, answer: Answer) {
        let Some(candidate) = &mut self.candidate else { return };
        for turn in candidate.take(self.clock.now(), answer) {
            match turn {
                Turn::Lead(revision) => {
                    tracing::info!(revision, waiting = self.waiting.len(), "leading from now on");
                    self.handle(OrchestratorInput::Elected { revision });
                    for (_, (attendant, reply)) in std::mem::take(&mut self.waiting) {
                        self.admit(attendant, reply);
                    }
                }
                Turn::StepDown => {
                    tracing::warn!("no longer leading: the lease could not be kept");
                    self.handle(OrchestratorInput::Deposed);
                    // Their streams end, and they come again.
                    self.nodes.clear();
                }
            }
        }
    }

    async fn stop(self, reply: oneshot::Sender<()>) {
        if let Some(candidate) = self.candidate {
            candidate.resign(self.clock.now()).await;
        }
        let _ = reply.send(());
    }

    fn handle(&mut self, input: OrchestratorInput) {
        let (now, began) = (self.clock.now(), Instant::now());
        let before = self.orchestrator.round().number;
        self.orchestrator.handle(now, input);
        let round = self.orchestrator.round();
        if round.number != before {
            let took = began.elapsed();
            self.deciding += took;
            self.orchestrator.handle(now, OrchestratorInput::Took(took));
            if round.changed.0 > 0 {
                let (grants, granted) = (round.grants, round.granted.to_string());
                tracing::debug!(grants, granted, ?took, "decided");
            }
        }
    }

    fn take(&mut self, told: ToHub) {
        match told {
            ToHub::Joined(attendant, reply) if self.orchestrator.revision().is_some() => {
                self.admit(attendant, reply);
            }
            ToHub::Joined(attendant, reply) => {
                self.waiting.insert(node_id(&attendant.name), (attendant, reply));
            }
            ToHub::Beat(beat) => self.handle(OrchestratorInput::Beat(beat)),
            ToHub::Describe(given_to, reply) => {
                let now = self.clock.now();
                let who = &|node: NodeId| self.nodes.get(&node).map(|(one, _)| one.clone());
                let said = self.led(|state| describe::all(now, &state.orchestrator, given_to, who));
                let _ = reply.send(said);
            }
            ToHub::Drain(node, is_drained, reply) => {
                let is_known =
                    self.led(|state| state.orchestrator.members().any(|one| one.node == node));
                if matches!(is_known, Ok(true)) {
                    self.handle(OrchestratorInput::Drain(node, is_drained));
                }
                let _ = reply.send(is_known);
            }
            ToHub::Lenders(to, reply) => {
                let _ = reply.send(self.led(|state| state.lenders(to)));
            }
            ToHub::Digest(reply) => {
                let now = self.clock.now();
                let revision = self.orchestrator.revision().unwrap_or_default();
                let said = self.led(|state| (revision, state.orchestrator.digest(now)));
                let _ = reply.send(said);
            }
            ToHub::Figures(reply) => {
                let now = self.clock.now();
                let _ = reply.send(OrchestratorFigures {
                    leads: self.orchestrator.revision().is_some(),
                    nodes: self.orchestrator.members().count(),
                    round: self.orchestrator.round(),
                    totals: self.orchestrator.totals(),
                    deciding: self.deciding,
                    apart: self.orchestrator.digest(now).apart.len(),
                });
            }
            ToHub::Inherit(digest) => self.handle(OrchestratorInput::Inherit(digest)),
            ToHub::Stop(_) => {}
        }
    }

    /// An answer, if it is this one's to give.
    fn led<T>(&self, answer: impl FnOnce(&State) -> T) -> Led<T> {
        if self.orchestrator.revision().is_some() {
            return Ok(answer(self));
        }
        let leader = self.candidate.as_ref().and_then(|one| one.leader().borrow().clone());
        Err(NotLeading { leader })
    }

    /// A node hears from now on what the leader has to say.
    fn admit(&mut self, attendant: Attendant, reply: oneshot::Sender<Heard>) {
        let (sender, directives) = mpsc::channel(DIRECTIVES_MAX);
        if reply.send(directives).is_ok() {
            tracing::info!(node = %attendant.name, "a node attends");
            self.nodes.insert(node_id(&attendant.name), (attendant, sender));
        }
    }

    /// Who could lend to a node, and where each is dialed: those of its site that say where.
    fn lenders(&self, to: NodeId) -> Vec<LenderMessage> {
        let Some((asking, _)) = self.nodes.get(&to) else { return Vec::new() };
        let near = |node: NodeId| {
            let (attendant, _) = self.nodes.get(&node)?;
            let is_near = attendant.site == asking.site;
            let address = attendant.listen.as_deref().filter(|_| is_near)?.to_owned();
            Some(LenderMessage { name: attendant.name.to_string(), address })
        };
        let is_near = |node| near(node).is_some();
        let all = self.orchestrator.lenders(self.clock.now(), to, is_near);
        all.into_iter().filter_map(near).collect()
    }

    fn speak(&mut self) {
        let now = self.clock.now();
        let leads = self.candidate.as_ref().is_none_or(|candidate| candidate.leads(now));
        while let Some(OrchestratorOutput::Directive(directive)) = self.orchestrator.poll() {
            if let Some((_, directives)) = self.nodes.get(&directive.node).filter(|_| leads) {
                // One that finds no room is repaired by the next.
                let _ = directives.try_send(Ok((&directive).into()));
            }
        }
    }
}
