//! What a leader knows, for people.

use std::sync::Arc;

use tidegate_core::fleet::{MemberStatus, NodeId, Orchestrator};
use tidegate_core::units::Time;

use crate::fleet::wire::{Description, GrantMessage, MemberMessage};

/// Everything; `name` knows the nodes that attend.
pub(super) fn all(
    now: Time,
    orchestrator: &Orchestrator,
    name: &dyn Fn(NodeId) -> Option<Arc<str>>,
) -> Description {
    let round = orchestrator.round();
    let apart = orchestrator.digest(now).apart.into_iter();
    let member = |member: MemberStatus| MemberMessage {
        node: member.node.0,
        name: name(member.node).as_deref().unwrap_or_default().into(),
        capacity: member.tuple.capacity.0,
        demand: member.tuple.demand.iter().map(|amount| amount.0).collect(),
        silent_ms: u64::try_from(now.since(member.heard).as_millis()).unwrap_or(u64::MAX),
        is_drained: member.is_drained,
    };
    Description {
        revision: orchestrator.revision().unwrap_or_default(),
        decisions: round.number,
        wanted: round.wanted.0,
        granted: round.granted.0,
        apart: apart.flat_map(|(receiver, provider, _)| [receiver.0, provider.0]).collect(),
        grants: orchestrator
            .grants()
            .map(|status| GrantMessage::new(&status.grant, status.carried))
            .collect(),
        members: orchestrator.members().map(member).collect(),
    }
}
