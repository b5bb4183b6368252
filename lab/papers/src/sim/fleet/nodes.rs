//! Whole nodes as a fleet: each with its own uplink in a world of its own, agents and an orchestrator
//! between them, records handed over on a local network.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_fleet::{
    Agent, AgentInput, AgentOutput, FleetOptions, NodeId, Orchestrator, OrchestratorInput,
    OrchestratorOutput, ReachablePeer,
};
use tidegate_node::io::{Control, Destination, Input, OutputId, Refusal};
use tidegate_types::class::ClassId;
use tidegate_types::units::Time;

use crate::sim::scenario::Scenario;
use crate::sim::world::peers::{Answered, Handed};
use crate::sim::world::{Outcome, World};

/// Time between two looks of agents and orchestrator at the clock; every second one they measure.
const TICK: Duration = Duration::from_millis(50);
/// One way between two nodes.
pub(super) const LAN: Duration = Duration::from_millis(5);
/// One way between a node and the orchestrator.
const DELAY: Duration = Duration::from_millis(75);

#[derive(Debug)]
enum Mail {
    ToOrchestrator(OrchestratorInput),
    ToAgent(AgentInput),
    /// A record of node `.0`.
    Record(usize, Handed),
    /// An answer of node `.0`.
    Answer(usize, Answered),
}

struct Member<'s> {
    world: World<'s>,
    agent: Agent,
    /// What its node was told that it may send.
    told: BTreeSet<(OutputId, ClassId)>,
}

pub(super) struct Nodes<'s> {
    members: Vec<Member<'s>>,
    orchestrator: Orchestrator,
    mail: BTreeMap<(Time, u64), (usize, Mail)>,
    posted: u64,
    now: Time,
    tick: Time,
}

/// The output of node `at` by which it reaches `peer`: the first one is its own uplink.
fn output_to(at: usize, peer: usize) -> OutputId {
    OutputId(if peer < at { peer + 1 } else { peer } as u16)
}

fn peer_by(at: usize, output: OutputId) -> usize {
    let place = usize::from(output.0) - 1;
    if place < at { place } else { place + 1 }
}

impl<'s> Nodes<'s> {
    /// A node's options have an output for each other one; `reaches` says which of them it is connected to. Without options
    /// everybody is alone.
    pub(super) fn new(
        scenarios: &'s [Scenario],
        options: Option<&FleetOptions>,
        reaches: impl Fn(usize, usize) -> bool,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let is_fleet = options.is_some();
        let options = options.cloned().unwrap_or_default();
        let mut orchestrator = Orchestrator::new(options.clone());
        if is_fleet {
            orchestrator.handle(Time::ZERO, OrchestratorInput::Elected { revision: 1 });
        }
        let mut members = Vec::new();
        for (at, scenario) in scenarios.iter().enumerate() {
            let mut world = World::new(scenario, seed + at as u64 * 1000)?;
            let peers: Vec<usize> =
                (0..scenarios.len()).filter(|&peer| peer != at && reaches(at, peer)).collect();
            if is_fleet {
                peers.iter().for_each(|&peer| world.connect(output_to(at, peer)));
            }
            let mut agent = Agent::new(NodeId(at as u64), 1, options.clone());
            let reach = |peer: &usize| ReachablePeer { node: NodeId(*peer as u64), distance: 1 };
            agent.handle(Time::ZERO, AgentInput::Peers(peers.iter().map(reach).collect()));
            agent.handle(Time::ZERO, AgentInput::Leader(is_fleet));
            members.push(Member { world, agent, told: BTreeSet::new() });
        }
        let (now, tick) = (Time::ZERO, Time::ZERO + TICK);
        Ok(Nodes { members, orchestrator, mail: BTreeMap::new(), posted: 0, now, tick })
    }

    /// Runs for so long; answers with what happened at each node.
    pub(super) fn run(mut self, length: Duration) -> Vec<Outcome> {
        let end = Time::ZERO + length;
        loop {
            let worlds = self.members.iter().filter_map(|member| member.world.next_time());
            let mail = self.mail.first_key_value().map(|((at, _), _)| *at);
            let Some(next) = worlds.chain(mail).chain([self.tick]).min() else { break };
            if next > end {
                break;
            }
            self.now = next;
            for at in 0..self.members.len() {
                self.members[at].world.go(next);
                self.collect(at);
            }
            while let Some(entry) = self.mail.first_entry().filter(|entry| entry.key().0 <= next) {
                let (to, mail) = entry.remove();
                self.deliver(to, mail);
                self.collect(to);
            }
            if next == self.tick {
                self.look();
            }
        }
        self.members.into_iter().map(|member| member.world.end()).collect()
    }

    fn post(&mut self, after: Duration, to: usize, mail: Mail) {
        self.posted += 1;
        self.mail.insert((self.now + after, self.posted), (to, mail));
    }

    /// What a node hands to others, and what it answers them.
    fn collect(&mut self, at: usize) {
        for handed in self.members[at].world.take_handed() {
            let peer = peer_by(at, handed.output);
            self.post(LAN, peer, Mail::Record(at, handed));
        }
        for answered in self.members[at].world.take_answered() {
            let Answered { from, class, size, result, .. } = answered;
            let agent = &mut self.members[at].agent;
            if let (Ok(()), Some(token)) = (result, agent.lent_to(NodeId(from as u64), class)) {
                agent.handle(self.now, AgentInput::Carried(token, size));
            }
            self.post(LAN, from, Mail::Answer(at, answered));
        }
    }

    fn deliver(&mut self, to: usize, mail: Mail) {
        match mail {
            Mail::ToOrchestrator(input) => self.orchestrator.handle(self.now, input),
            Mail::ToAgent(input) => self.members[to].agent.handle(self.now, input),
            Mail::Record(from, handed) => self.members[to].world.relay(from, &handed),
            Mail::Answer(from, Answered { id, result, .. }) => {
                let destination = Destination::Output(output_to(to, from));
                let ids = vec![id];
                self.members[to].world.tell(match result {
                    Ok(()) => Input::Confirmed { destination, ids },
                    Err(_) => Input::Refused { destination, ids, reason: Refusal::Retry },
                });
            }
        }
        if !matches!(self.mail.first_key_value(), Some(((at, _), _)) if *at <= self.now) {
            self.speak();
        }
    }

    fn look(&mut self) {
        let is_measure = (self.tick.as_nanos() / TICK.as_nanos() as u64).is_multiple_of(2);
        self.tick += TICK;
        for member in &mut self.members {
            let measured = member.world.node().measured(self.now).filter(|_| is_measure);
            let input = measured.map_or(AgentInput::Timeout, AgentInput::Measured);
            member.agent.handle(self.now, input);
        }
        self.orchestrator.handle(self.now, OrchestratorInput::Timeout);
        self.speak();
        (0..self.members.len()).for_each(|at| self.grant(at));
    }

    /// What agents and the orchestrator have to say.
    fn speak(&mut self) {
        for at in 0..self.members.len() {
            while let Some(output) = self.members[at].agent.poll() {
                match output {
                    AgentOutput::Beat(beat) => {
                        let mail = Mail::ToOrchestrator(OrchestratorInput::Beat(beat));
                        self.post(DELAY, at, mail);
                    }
                    AgentOutput::Granted(_) | AgentOutput::Ended(_) => {}
                }
            }
        }
        while let Some(OrchestratorOutput::Directive(directive)) = self.orchestrator.poll() {
            let to = directive.node.0 as usize;
            self.post(DELAY, to, Mail::ToAgent(AgentInput::Directive(directive)));
        }
    }

    /// Tells a node what it may send by others.
    fn grant(&mut self, at: usize) {
        let Member { world, agent, told } = &mut self.members[at];
        let mut over = std::mem::take(told);
        for ((provider, class), (amount, until)) in agent.borrowing() {
            let peer = output_to(at, provider.0 as usize);
            over.remove(&(peer, class));
            told.insert((peer, class));
            let lease = until.since(self.now);
            world.tell(Input::Control(Control::Grant { peer, class, amount, lease }));
        }
        for (peer, class) in over {
            let amount = tidegate_fleet::Amount::ZERO;
            world.tell(Input::Control(Control::Grant { peer, class, amount, lease: TICK }));
        }
        // Nodes that redirect nothing hold none; what ends without a word ends with its lease.
        let reserved = (0..).map(ClassId).zip(agent.reserved());
        for (class, (amount, until)) in reserved.filter(|(_, (_, until))| *until > self.now) {
            let lease = until.since(self.now);
            world.tell(Input::Control(Control::Reserve { class, amount, lease }));
        }
        self.collect(at);
    }
}
