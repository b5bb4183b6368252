//! Short ways to beats, directives and what came of them.

use std::time::Duration;

use tidegate_fleet::{
    Agent, AgentInput, AgentOutput, Amount, CarriedGrant, Directive, Fence, FencingToken,
    FleetOptions, Grant, Heartbeat, NodeId, Orchestrator, OrchestratorInput, OrchestratorOutput,
    ReachablePeer, Tuple,
};
use tidegate_types::class::ClassId;
use tidegate_types::demand::Measured;
use tidegate_types::units::{Rate, Time};

pub(crate) const LS: ClassId = ClassId(0);
pub(crate) const NM: ClassId = ClassId(1);
pub(crate) const LT: ClassId = ClassId(2);

pub(crate) fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn grant(id: u64, provider: u64, receiver: u64, class: ClassId, amount: u64) -> Grant {
    Grant {
        token: FencingToken { revision: 1, id },
        provider: NodeId(provider),
        receiver: NodeId(receiver),
        class,
        amount: Amount(amount),
    }
}

pub(crate) fn directive(node: u64, round: u64, beat: u64, grants: &[Grant]) -> Directive {
    Directive {
        node: NodeId(node),
        incarnation: 1,
        fence: Fence { revision: 1, round },
        beat,
        lease: FleetOptions::default().lease,
        grants: grants.to_vec(),
        standing: None,
    }
}

pub(crate) fn measured(capacity: u64, demand: [u64; 3]) -> AgentInput {
    let rate = |amount: u64| Rate::new(amount as f64);
    let output = rate(demand.iter().sum::<u64>().min(capacity));
    let demand = demand.map(rate).to_vec();
    AgentInput::Measured(Measured { capacity: rate(capacity), demand, output })
}

/// An agent with a leader that has told it nothing yet, and its first beat.
pub(crate) fn agent(node: u64, now: Time) -> (Agent, Heartbeat) {
    let mut agent = Agent::new(NodeId(node), 1, FleetOptions::default());
    agent.handle(now, AgentInput::Leader(true));
    let beat = beats(&mut agent).pop().expect("it says that it is there");
    (agent, beat)
}

pub(crate) fn outputs(agent: &mut Agent) -> Vec<AgentOutput> {
    std::iter::from_fn(|| agent.poll()).collect()
}

pub(crate) fn beats(agent: &mut Agent) -> Vec<Heartbeat> {
    let beat = |output| match output {
        AgentOutput::Beat(beat) => Some(beat),
        _ => None,
    };
    outputs(agent).into_iter().filter_map(beat).collect()
}

/// A beat of a node that reaches everybody up to the fifth.
pub(crate) fn beat(node: u64, number: u64, capacity: u64, demand: [u64; 3]) -> Heartbeat {
    let reach = |peer: u64| ReachablePeer { node: NodeId(peer), distance: 1 };
    Heartbeat {
        node: NodeId(node),
        incarnation: 1,
        number,
        heard: Fence::default(),
        tuple: Tuple { capacity: Amount(capacity), demand: demand.map(Amount).to_vec() },
        output: Amount(demand.iter().sum::<u64>().min(capacity)),
        peers: (number == 1).then(|| (1..6).map(reach).collect()),
        held: Vec::new(),
    }
}

/// The same from a node that obeyed a directive, and carries its grants.
pub(crate) fn holding(mut beat: Heartbeat, directive: &Directive) -> Heartbeat {
    beat.heard = directive.fence;
    let held = |grant: &Grant| CarriedGrant { grant: *grant, carried: grant.amount };
    beat.held = directive.grants.iter().map(held).collect();
    beat
}

/// A leader, and the directives that it has given since it was last asked.
pub(crate) struct Leader {
    pub(crate) orchestrator: Orchestrator,
}

impl Leader {
    pub(crate) fn new(revision: u64, options: FleetOptions) -> Self {
        let mut orchestrator = Orchestrator::new(options);
        orchestrator.handle(Time::ZERO, OrchestratorInput::Elected { revision });
        Leader { orchestrator }
    }

    pub(crate) fn hear(&mut self, now: Time, beat: Heartbeat) -> Vec<Directive> {
        self.orchestrator.handle(now, OrchestratorInput::Beat(beat));
        self.directives()
    }

    pub(crate) fn wait(&mut self, now: Time) -> Vec<Directive> {
        self.orchestrator.handle(now, OrchestratorInput::Timeout);
        self.directives()
    }

    fn directives(&mut self) -> Vec<Directive> {
        let all = std::iter::from_fn(|| self.orchestrator.poll());
        all.map(|OrchestratorOutput::Directive(directive)| directive).collect()
    }

    /// (provider, receiver, class, amount) of all grants.
    pub(crate) fn grants(&self) -> Vec<(u64, u64, u8, u64)> {
        let plain =
            |grant: Grant| (grant.provider.0, grant.receiver.0, grant.class.0, grant.amount.0);
        self.orchestrator.grants().map(|status| plain(status.grant)).collect()
    }
}

/// The directive for a node.
pub(crate) fn to(directives: &[Directive], node: u64) -> &Directive {
    let found = directives.iter().find(|directive| directive.node == NodeId(node));
    found.unwrap_or_else(|| panic!("nothing for {node} in {directives:?}"))
}
