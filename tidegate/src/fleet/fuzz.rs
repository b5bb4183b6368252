//! What strangers may say to a fleet: for tests and fuzzing.

use std::time::Duration;

use prost::Message;
use tidegate_fleet::{
    Agent, AgentInput, AgentOutput, Directive, FleetDigest, FleetOptions, Heartbeat, Orchestrator,
    OrchestratorInput, OrchestratorOutput,
};
use tidegate_types::units::Time;

use super::wire::{
    BeatMessage, Description, DigestMessage, DirectiveMessage, DrainRequest, LendersReply,
};
use super::{ask, etcd, node_id};

/// Outputs of one step: more are an endless loop.
const OUTPUTS_MAX: usize = 10_000;

/// Messages, each behind its kind and its length (one byte, and two, little-endian): a leader, a node and a reader of
/// the status hear them in turn. Nothing may panic, and what is taken says the same again.
///
/// # Panics
/// A promise is broken.
pub fn exercise(mut data: &[u8]) {
    let mut leader = Orchestrator::new(FleetOptions::default());
    let mut agent = Agent::new(node_id("gate-7"), 1, FleetOptions::default());
    let mut now = Time::from_millis(1000);
    leader.handle(now, OrchestratorInput::Elected { revision: 1 });
    agent.handle(now, AgentInput::Leader(true));
    while let Some((&[kind, low, high], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (message, rest) = rest.split_at(length);
        data = rest;
        match kind % 6 {
            0 => {
                let Some(beat) = again::<BeatMessage, Heartbeat>(message) else { continue };
                leader.handle(now, OrchestratorInput::Beat(beat));
            }
            1 => {
                let Some(directive) = again::<DirectiveMessage, Directive>(message) else {
                    continue;
                };
                agent.handle(now, AgentInput::Directive(directive));
            }
            2 => {
                let Ok(digest) = DigestMessage::decode(message) else { continue };
                leader.handle(now, OrchestratorInput::Deposed);
                leader.handle(now, OrchestratorInput::Inherit(FleetDigest::from(digest)));
                leader.handle(now, OrchestratorInput::Elected { revision: 2 });
            }
            3 => {
                let Ok(described) = Description::decode(message) else { continue };
                ask::exercise(&described);
            }
            4 => {
                let Ok(request) = DrainRequest::decode(message) else { continue };
                let node = node_id(&request.name);
                leader.handle(now, OrchestratorInput::Drain(node, request.is_drained));
                let _ = LendersReply::decode(message);
            }
            _ => {
                let millis = message.iter().fold(1, |sum, byte| sum + u64::from(*byte));
                now += Duration::from_millis(millis);
                leader.handle(now, OrchestratorInput::Timeout);
                agent.handle(now, AgentInput::Timeout);
            }
        }
        obey(now, &mut leader, &mut agent);
    }
}

/// What etcd may answer to an election.
pub fn exercise_etcd(data: &[u8]) {
    etcd::exercise(data);
}

/// A message as it is taken; what is taken travels again.
fn again<M, T>(bytes: &[u8]) -> Option<T>
where
    M: Message + Default + for<'t> From<&'t T>,
    T: TryFrom<M> + PartialEq + std::fmt::Debug,
{
    let taken = T::try_from(M::decode(bytes).ok()?).ok()?;
    let travelled = M::decode(&*M::from(&taken).encode_to_vec()).ok().map(T::try_from);
    let same = travelled.and_then(Result::ok);
    assert_eq!(same.as_ref(), Some(&taken));
    Some(taken)
}

/// Directives of the leader reach the node, beats of the node the leader.
fn obey(now: Time, leader: &mut Orchestrator, agent: &mut Agent) {
    for _ in 0..OUTPUTS_MAX {
        let told = leader.poll();
        let said = agent.poll();
        if told.is_none() && said.is_none() {
            return;
        }
        if let Some(OrchestratorOutput::Directive(directive)) = told
            && directive.node == node_id("gate-7")
        {
            agent.handle(now, AgentInput::Directive(directive));
        }
        if let Some(AgentOutput::Beat(beat)) = said {
            leader.handle(now, OrchestratorInput::Beat(beat));
        }
    }
    panic!("leader and node never end");
}
