//! What a leader knows, for people.

use tidegate_fleet::{MemberStatus, NodeId, Orchestrator};
use tidegate_types::units::Time;

use super::hub::Attendant;
use crate::services::fleet::wire::{Description, GivenMessage, GrantMessage, MemberMessage};

/// Everything, with the last grants of one node; `who` knows the nodes that attend.
pub(super) fn all(
    now: Time,
    orchestrator: &Orchestrator,
    given_to: NodeId,
    who: &dyn Fn(NodeId) -> Option<Attendant>,
) -> Description {
    let round = orchestrator.round();
    let apart = orchestrator.digest(now).apart.into_iter();
    let names = |who: &Option<Attendant>| -> Vec<String> {
        who.iter().flat_map(|one| one.classes.split(',')).map(Into::into).collect()
    };
    let member = |member: MemberStatus| {
        let who = who(member.node);
        MemberMessage {
            node: member.node.0,
            name: who.as_ref().map(|one| one.name.to_string()).unwrap_or_default(),
            capacity: member.tuple.capacity.0,
            demand: member.tuple.demand.iter().map(|amount| amount.0).collect(),
            silent_ms: u64::try_from(now.since(member.heard).as_millis()).unwrap_or(u64::MAX),
            is_drained: member.is_drained,
            classes: names(&who),
        }
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
        given: orchestrator.given(given_to).map(|one| GivenMessage::new(now, one)).collect(),
        classes: names(&who(given_to)),
    }
}
