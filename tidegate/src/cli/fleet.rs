//! `tidegate fleet`: what people ask an orchestrator.

mod arguments;
mod contact;
mod explain;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context, bail};
use tidegate_fleet::NodeId;
use tidegate_types::units::Rate;
use tonic::Request;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

pub use self::arguments::{
    ExplainFleetArguments, FleetArguments, FleetCommand, OrchestrateArguments,
};
pub(super) use self::arguments::{FLEET_HELP, ORCHESTRATE_HELP};
use crate::cli::screen::plain;
use crate::services::fleet::FleetTls;
use crate::services::fleet::attend::told;
use crate::services::fleet::wire::{
    DESCRIBE, DRAIN, DescribeRequest, Description, DrainReply, DrainRequest, GrantMessage,
    LEADER_KEY,
};

/// How often one may name another as the leader: a lead changes hands while it is asked for, not for ever.
const REDIRECTIONS_MAX: usize = 3;

/// Asks and prints.
///
/// # Errors
/// Nobody answers, or refuses.
pub async fn fleet(arguments: &FleetArguments) -> anyhow::Result<ExitCode> {
    let (at, tls) = contact::whom(arguments)?;
    let text = match &arguments.command {
        FleetCommand::Status { .. } => status(&describe(&tls, &at, None).await?),
        FleetCommand::Grants { .. } => grants(&describe(&tls, &at, None).await?),
        FleetCommand::Explain(asked) => explain::run(asked, &tls, &at).await?,
        FleetCommand::Drain { node, undo } => {
            drain(&tls, &at, node, !undo).await?;
            format!(
                "{node} {}\n",
                if *undo { "takes part again" } else { "lends nothing any more" }
            )
        }
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What the leader knows, with the last grants of a node.
pub(super) async fn describe(
    tls: &FleetTls,
    at: &str,
    given_to: Option<NodeId>,
) -> anyhow::Result<Description> {
    let codec = ProstCodec::<DescribeRequest, Description>::default;
    let request = DescribeRequest { given_to: given_to.map_or(0, |node| node.0) };
    let mut described: Description = leader(tls, at, DESCRIBE, request, codec).await?;
    described.members.iter_mut().for_each(|member| member.name = plain(&member.name));
    Ok(described)
}

async fn drain(tls: &FleetTls, at: &str, node: &str, is_drained: bool) -> anyhow::Result<()> {
    let codec = ProstCodec::<DrainRequest, DrainReply>::default;
    let request = DrainRequest { name: node.into(), is_drained };
    if leader(tls, at, DRAIN, request, codec).await?.is_known {
        return Ok(());
    }
    bail!("the orchestrator hears no node called {node:?}: `tidegate fleet status` names all")
}

/// Asks the leader: the orchestrator at `at`, or the one that it names.
async fn leader<Q, A>(
    tls: &FleetTls,
    at: &str,
    path: &'static str,
    request: Q,
    codec: impl Fn() -> ProstCodec<Q, A>,
) -> anyhow::Result<A>
where
    Q: prost::Message + Clone + 'static,
    A: prost::Message + Default + 'static,
{
    let mut at = at.to_owned();
    for _ in 0..REDIRECTIONS_MAX {
        let mut grpc = tonic::client::Grpc::new(tls.connect(&at).await?);
        grpc.ready().await.context("the orchestrator")?;
        let request = Request::new(request.clone());
        match grpc.unary(request, PathAndQuery::from_static(path), codec()).await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) => match status.metadata().get(LEADER_KEY).map(|value| value.to_str()) {
                Some(Ok(leader)) => at = leader.to_owned(),
                _ => bail!("the orchestrator at {at}: {}", told(&status)),
            },
        }
    }
    bail!("the orchestrators do not agree on who leads: ask again in a few seconds")
}

/// Network notation.
pub(super) fn rate(bytes_per_second: u64) -> String {
    Rate::new(bytes_per_second as f64).to_string()
}

pub(super) fn names(described: &Description) -> BTreeMap<u64, &str> {
    described.members.iter().map(|member| (member.node, member.name.as_str())).collect()
}

/// All that is told of a description, whoever sent it.
pub fn exercise(described: &Description) {
    status(described);
    grants(described);
    for member in &described.members {
        let told = explain::node(described, &member.name);
        assert!(told.is_ok(), "it is a member: {told:?}");
    }
}

/// A sum of what strangers say.
pub(super) fn total(amounts: impl IntoIterator<Item = u64>) -> u64 {
    amounts.into_iter().fold(0, u64::saturating_add)
}

/// The fleet as a table.
fn status(described: &Description) -> String {
    let mut text = format!(
        "{} nodes, {} grants: {} of {} wanted\n",
        described.members.len(),
        described.grants.len(),
        rate(described.granted),
        rate(described.wanted)
    );
    let _ = writeln!(
        text,
        "{:<20}{:>16}{:>16}{:>16}{:>16}{:>9}",
        "node", "uplink", "wants", "lends", "borrows", "heard"
    );
    for member in &described.members {
        let of = |is_its: &dyn Fn(&&GrantMessage) -> bool| {
            rate(total(described.grants.iter().filter(is_its).map(|grant| grant.amount)))
        };
        let _ = writeln!(
            text,
            "{:<20}{:>16}{:>16}{:>16}{:>16}{:>7.1} s{}",
            member.name,
            rate(member.capacity),
            rate(total(member.demand.iter().copied())),
            of(&|grant| grant.provider == member.node),
            of(&|grant| grant.receiver == member.node),
            member.silent_ms as f64 / 1e3,
            if member.is_drained { "  drained" } else { "" }
        );
    }
    text
}

/// Every grant.
fn grants(described: &Description) -> String {
    let names = names(described);
    let name = |node: u64| names.get(&node).copied().unwrap_or("?");
    let mut text = format!(
        "{:<20}{:<20}{:>10}{:>16}{:>16}  {}\n",
        "records of", "go by", "class", "granted", "carried", "token"
    );
    for grant in &described.grants {
        let _ = writeln!(
            text,
            "{:<20}{:<20}{:>10}{:>16}{:>16}  {}/{}",
            name(grant.receiver),
            name(grant.provider),
            explain::class_of(described, grant),
            rate(grant.amount),
            rate(grant.carried),
            grant.revision,
            grant.id
        );
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::services::fleet::wire::{GrantMessage, MemberMessage};

    fn member(node: u64, name: &str, capacity: u64, demand: [u64; 3]) -> MemberMessage {
        let (name, demand) = (name.into(), demand.to_vec());
        let classes = ["ls", "nm", "lt"].map(Into::into).to_vec();
        MemberMessage { node, name, capacity, demand, silent_ms: 250, is_drained: false, classes }
    }

    /// `busy` borrows of `idle` for its `lt`; with `apart` it did not help.
    pub(in crate::cli) fn described() -> Description {
        let grant = GrantMessage {
            revision: 5,
            id: 1,
            provider: 2,
            receiver: 1,
            class: 2,
            amount: 50_000,
            carried: 40_000,
        };
        Description {
            revision: 5,
            decisions: 9,
            wanted: 60_000,
            granted: 50_000,
            members: vec![
                member(1, "busy", 100_000, [10_000, 30_000, 120_000]),
                member(2, "idle", 100_000, [1000, 0, 0]),
                member(3, "apart", 100_000, [0, 0, 0]),
            ],
            grants: vec![grant],
            apart: vec![1, 3],
            given: vec![],
            classes: vec![],
        }
    }

    #[test]
    fn the_fleet_is_told_in_tables() {
        insta::assert_snapshot!(status(&described()));
        insta::assert_snapshot!(grants(&described()));
    }
}
