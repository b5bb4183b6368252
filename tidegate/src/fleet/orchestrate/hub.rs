//! The task that owns core's orchestrator: beats in, directives out, answers for people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use tidegate_core::fleet::{
    Beat, FleetOptions, NodeId, Orchestrator, OrchestratorInput, OrchestratorOutput, PairState,
};
use tidegate_core::units::Time;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::sleep_until;
use tonic::Status;

use crate::fleet::node_id;
use crate::fleet::wire::{Description, DirectiveMessage, GrantMessage, MemberMessage};
use crate::port::Clock;

/// Beats and questions that may wait for the hub.
const WAITING_MAX: usize = 4096;
/// Directives that may wait for a node's wire: each one is the whole state.
pub(super) const DIRECTIVES_MAX: usize = 4;

/// Where a node hears.
pub(super) type Directives = mpsc::Sender<Result<DirectiveMessage, Status>>;

/// What the hub is told.
#[derive(Debug)]
enum ToHub {
    /// A node's stream begins; an earlier one of it is over.
    Joined(Arc<str>, Directives),
    Beat(Beat),
    Describe(oneshot::Sender<Description>),
    Drain(NodeId, bool, oneshot::Sender<bool>),
}

/// The hub's door. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Hub(mpsc::Sender<ToHub>);

/// The hub is gone.
fn stopping<T>(_: T) -> Status {
    Status::unavailable("the orchestrator is stopping")
}

impl Hub {
    /// Starts the task; it leads under this revision.
    pub(super) fn start(options: FleetOptions, revision: u64) -> (Hub, JoinHandle<()>) {
        let (sender, inbox) = mpsc::channel(WAITING_MAX);
        let clock = Clock::start();
        let mut orchestrator = Orchestrator::new(options);
        orchestrator.handle(clock.now(), OrchestratorInput::Elected { revision });
        let state = State { orchestrator, clock, nodes: BTreeMap::new() };
        (Hub(sender), tokio::spawn(state.run(inbox)))
    }

    /// A node's stream begins. Returns where its directives come out.
    ///
    /// # Errors
    /// The hub is gone.
    pub(super) async fn join(
        &self,
        name: Arc<str>,
    ) -> Result<mpsc::Receiver<Result<DirectiveMessage, Status>>, Status> {
        let (sender, directives) = mpsc::channel(DIRECTIVES_MAX);
        self.0.send(ToHub::Joined(name, sender)).await.map_err(stopping)?;
        Ok(directives)
    }

    /// A node's beat.
    ///
    /// # Errors
    /// The hub is gone.
    pub(super) async fn beat(&self, beat: Beat) -> Result<(), Status> {
        self.0.send(ToHub::Beat(beat)).await.map_err(stopping)
    }

    /// What it knows.
    ///
    /// # Errors
    /// The hub is gone.
    pub(super) async fn describe(&self) -> Result<Description, Status> {
        let (reply, answer) = oneshot::channel();
        self.0.send(ToHub::Describe(reply)).await.map_err(stopping)?;
        answer.await.map_err(stopping)
    }

    /// A node is to lend nothing, or to take part again; whether it is known.
    ///
    /// # Errors
    /// The hub is gone.
    pub(super) async fn drain(&self, node: NodeId, is_drained: bool) -> Result<bool, Status> {
        let (reply, answer) = oneshot::channel();
        self.0.send(ToHub::Drain(node, is_drained, reply)).await.map_err(stopping)?;
        answer.await.map_err(stopping)
    }
}

struct State {
    orchestrator: Orchestrator,
    clock: Clock,
    /// Name of each node that ever came, and where it hears.
    nodes: BTreeMap<NodeId, (Arc<str>, Directives)>,
}

impl State {
    async fn run(mut self, mut inbox: mpsc::Receiver<ToHub>) {
        loop {
            let due = self.orchestrator.next_timeout().and_then(|at| self.clock.instant(at));
            tokio::select! {
                told = inbox.recv() => {
                    let Some(told) = told else { return };
                    self.take(told);
                    // A decision for all that waits, not one for each.
                    while let Ok(told) = inbox.try_recv() {
                        self.take(told);
                    }
                }
                () = sleep_until(due.unwrap_or_else(Instant::now).into()), if due.is_some() => {
                    self.handle(OrchestratorInput::Timeout);
                }
            }
            self.speak();
        }
    }

    fn handle(&mut self, input: OrchestratorInput) {
        let (now, began) = (self.clock.now(), Instant::now());
        let before = self.orchestrator.round().number;
        self.orchestrator.handle(now, input);
        let round = self.orchestrator.round();
        if round.number != before {
            let took = began.elapsed();
            self.orchestrator.handle(now, OrchestratorInput::Took(took));
            if round.changed.0 > 0 {
                let (grants, granted) = (round.grants, round.granted.to_string());
                tracing::debug!(grants, granted, ?took, "decided");
            }
        }
    }

    fn take(&mut self, told: ToHub) {
        match told {
            ToHub::Joined(name, directives) => {
                tracing::info!(node = %name, "a node attends");
                self.nodes.insert(node_id(&name), (name, directives));
            }
            ToHub::Beat(beat) => self.handle(OrchestratorInput::Beat(beat)),
            ToHub::Describe(reply) => {
                let _ = reply.send(self.describe());
            }
            ToHub::Drain(node, is_drained, reply) => {
                let is_known = self.orchestrator.members().any(|member| member.node == node);
                if is_known {
                    self.handle(OrchestratorInput::Drain(node, is_drained));
                }
                let _ = reply.send(is_known);
            }
        }
    }

    fn speak(&mut self) {
        while let Some(OrchestratorOutput::Directive(directive)) = self.orchestrator.poll() {
            if let Some((_, directives)) = self.nodes.get(&directive.node) {
                // One that finds no room is repaired by the next.
                let _ = directives.try_send(Ok((&directive).into()));
            }
        }
    }

    fn describe(&self) -> Description {
        let now: Time = self.clock.now();
        let round = self.orchestrator.round();
        let members: Vec<_> = self.orchestrator.members().collect();
        let pairs = members.iter().flat_map(|receiver| {
            members.iter().map(move |provider| (receiver.node, provider.node))
        });
        let is_apart = |&(receiver, provider): &(NodeId, NodeId)| {
            matches!(self.orchestrator.pair(receiver, provider), Some(PairState::Apart { .. }))
        };
        let member = |member: &tidegate_core::fleet::MemberStatus| MemberMessage {
            node: member.node.0,
            name: self.nodes.get(&member.node).map_or("", |(name, _)| name).into(),
            capacity: member.tuple.capacity.0,
            demand: member.tuple.demand.iter().map(|amount| amount.0).collect(),
            silent_ms: u64::try_from(now.since(member.heard).as_millis()).unwrap_or(u64::MAX),
            is_drained: member.is_drained,
        };
        Description {
            revision: self.orchestrator.revision().unwrap_or_default(),
            decisions: round.number,
            wanted: round.wanted.0,
            granted: round.granted.0,
            apart: pairs
                .filter(is_apart)
                .flat_map(|(receiver, provider)| [receiver.0, provider.0])
                .collect(),
            grants: self
                .orchestrator
                .grants()
                .map(|status| GrantMessage::new(&status.grant, status.carried))
                .collect(),
            members: members.iter().map(member).collect(),
        }
    }
}
