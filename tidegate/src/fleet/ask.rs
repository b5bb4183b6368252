//! `tidegate fleet`: what people ask an orchestrator.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context, bail};
use tidegate_core::units::Rate;
use tonic::Request;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use super::attend::told;
use super::channel::FleetTls;
use super::wire::{
    DESCRIBE, DRAIN, DescribeRequest, Description, DrainReply, DrainRequest, LEADER_KEY,
};
use crate::cli::fleet::{FleetArguments, FleetCommand};

/// How often one may name another as the leader: a lead changes hands while it is asked for, not for ever.
const REDIRECTIONS_MAX: usize = 3;

/// Asks and prints.
///
/// # Errors
/// Nobody answers, or refuses.
pub async fn fleet(arguments: &FleetArguments) -> anyhow::Result<ExitCode> {
    let tls = FleetTls {
        ca: arguments.ca.clone(),
        certificate: arguments.certificate.clone(),
        key: arguments.key.clone(),
    };
    let text = match &arguments.command {
        FleetCommand::Status => status(&describe(&tls, &arguments.at).await?),
        FleetCommand::Grants => grants(&describe(&tls, &arguments.at).await?),
        FleetCommand::Explain { node } => explain(&describe(&tls, &arguments.at).await?, node)?,
        FleetCommand::Drain { node, undo } => {
            drain(&tls, &arguments.at, node, !undo).await?;
            format!(
                "{node} {}\n",
                if *undo { "takes part again" } else { "lends nothing any more" }
            )
        }
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

async fn describe(tls: &FleetTls, at: &str) -> anyhow::Result<Description> {
    let codec = ProstCodec::<DescribeRequest, Description>::default;
    leader(tls, at, DESCRIBE, DescribeRequest {}, codec).await
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
fn rate(bytes_per_second: u64) -> String {
    Rate::new(bytes_per_second as f64).to_string()
}

fn names(described: &Description) -> BTreeMap<u64, &str> {
    described.members.iter().map(|member| (member.node, member.name.as_str())).collect()
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
        let of = |is_its: &dyn Fn(&&super::wire::GrantMessage) -> bool| {
            rate(described.grants.iter().filter(is_its).map(|grant| grant.amount).sum())
        };
        let _ = writeln!(
            text,
            "{:<20}{:>16}{:>16}{:>16}{:>16}{:>7.1} s{}",
            member.name,
            rate(member.capacity),
            rate(member.demand.iter().sum()),
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
        "{:<20}{:<20}{:>6}{:>16}{:>16}  {}\n",
        "records of", "go by", "class", "granted", "carried", "token"
    );
    for grant in &described.grants {
        let _ = writeln!(
            text,
            "{:<20}{:<20}{:>6}{:>16}{:>16}  {}/{}",
            name(grant.receiver),
            name(grant.provider),
            grant.class,
            rate(grant.amount),
            rate(grant.carried),
            grant.revision,
            grant.id
        );
    }
    text
}

/// Why a node borrows and lends what it does.
fn explain(described: &Description, node: &str) -> anyhow::Result<String> {
    let Some(member) = described.members.iter().find(|member| member.name == node) else {
        bail!("the orchestrator hears no node called {node:?}: `tidegate fleet status` names all");
    };
    let names = names(described);
    let name = |node: u64| names.get(&node).copied().unwrap_or("?");
    let mut text = String::new();
    let wanted: u64 = member.demand.iter().sum();
    let short = wanted.saturating_sub(member.capacity);
    let _ = writeln!(
        text,
        "{node}: its uplink carries {}, its classes want {}.",
        rate(member.capacity),
        rate(wanted)
    );
    let mut left = member.capacity;
    for (class, &demand) in member.demand.iter().enumerate() {
        let own = demand.min(left);
        left -= own;
        if demand > own {
            let _ = writeln!(text, "Class {class} is short of {}.", rate(demand - own));
        }
    }
    for grant in described.grants.iter().filter(|grant| grant.receiver == member.node) {
        let _ = writeln!(
            text,
            "Records of class {} go through {}: {} are granted, {} are carried.",
            grant.class,
            name(grant.provider),
            rate(grant.amount),
            rate(grant.carried)
        );
    }
    for grant in described.grants.iter().filter(|grant| grant.provider == member.node) {
        let _ = writeln!(
            text,
            "It carries class {} of {}: {} are granted, {} are carried.",
            grant.class,
            name(grant.receiver),
            rate(grant.amount),
            rate(grant.carried)
        );
    }
    for pair in described.apart.chunks_exact(2).filter(|pair| pair.contains(&member.node)) {
        let _ = writeln!(
            text,
            "Records of {} do not go through {} for now: it did not help (they seem to share an uplink).",
            name(pair[0]),
            name(pair[1])
        );
    }
    let says = match (short, member.is_drained) {
        (_, true) => "It is drained: it lends nothing.",
        (0, _) if member.capacity > wanted => "It has bandwidth to lend.",
        (0, _) => "It needs no more than it has.",
        _ if !described.grants.iter().any(|grant| grant.receiver == member.node) => {
            "Nobody whom it reaches has bandwidth to lend, or it has just begun to ask."
        }
        _ => "",
    };
    text.push_str(says);
    text.push_str(if says.is_empty() { "" } else { "\n" });
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::wire::{GrantMessage, MemberMessage};

    fn member(node: u64, name: &str, capacity: u64, demand: [u64; 3]) -> MemberMessage {
        let (name, demand) = (name.into(), demand.to_vec());
        MemberMessage { node, name, capacity, demand, silent_ms: 250, is_drained: false }
    }

    fn described() -> Description {
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
        }
    }

    #[test]
    fn the_fleet_is_told_in_tables() {
        insta::assert_snapshot!(status(&described()));
        insta::assert_snapshot!(grants(&described()));
    }

    #[test]
    fn a_node_hears_why() {
        let all = ["busy", "idle", "apart"].map(|node| explain(&described(), node).unwrap());
        insta::assert_snapshot!(all.join("\n"));
        let error = explain(&described(), "nobody").unwrap_err().to_string();
        assert!(error.contains("no node called \"nobody\""), "{error}");
    }
}
