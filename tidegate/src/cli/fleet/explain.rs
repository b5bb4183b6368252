//! `tidegate fleet explain`: why a node borrows and lends what it does, and why a record went where it went.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use tidegate_fleet::{Amount, Tuple};
use tidegate_types::record::Identity;

use super::{describe, names, rate, total};
use crate::cli::fleet::ExplainFleetArguments;
use crate::cli::log::{self, Carried};
use crate::services::fleet::FleetTls;
use crate::services::fleet::node_id;
use crate::services::fleet::wire::{Description, GivenMessage, GrantMessage};
use crate::support::time::Moment;

/// How far the log's times and the leader's may be from each other, nanoseconds: fates wait for company before
/// they are noted, and clocks differ.
const DOUBT_NS: u64 = 2_000_000_000;

/// Asks the leader, and the log where it is given.
///
/// # Errors
/// Nobody answers, the log cannot be read, or there is no such node.
pub(super) async fn run(
    asked: &ExplainFleetArguments,
    tls: &FleetTls,
    at: &str,
) -> anyhow::Result<String> {
    let Ok(identity) = asked.what.parse::<Identity>() else {
        let described = describe(tls, at, Some(node_id(&asked.what))).await?;
        return node(&described, &asked.what);
    };
    let name = &*identity.origin.node;
    let has_log = asked.directory.is_some() || asked.place.config.is_some();
    let told = if has_log {
        let directory = asked.directory.as_deref();
        Some(log::life(directory, &asked.place, &identity)?)
    } else {
        None
    };
    let described = describe(tls, at, Some(node_id(name))).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let Some(told) = told else {
        let why = node(&described, name)?;
        return Ok(format!(
            "{identity}: which way it went is in the log of {name}: ask there, with -c or -d.\n{why}"
        ));
    };
    let mut text = told.text;
    for carried in &told.carried {
        text += &why(&described, name, carried, now_ns);
    }
    Ok(text)
}

/// Why a neighbour carried a record of a node.
fn why(described: &Description, node: &str, carried: &Carried, now_ns: u64) -> String {
    let Carried { by, class, accepted_ns, ended_ns } = carried;
    let mut text = format!("It went by the uplink of {by}.");
    let began = accepted_ns.saturating_sub(DOUBT_NS);
    let ended = ended_ns.unwrap_or(now_ns).saturating_add(DOUBT_NS);
    let at = |ago_ms: u64| now_ns.saturating_sub(ago_ms.saturating_mul(1_000_000));
    let is_its = |given: &&GivenMessage| {
        let Some(grant) = &given.grant else { return false };
        let is_then =
            at(given.since_ms) <= ended && given.until_ms.is_none_or(|ago| at(ago) >= began);
        grant.provider == node_id(by).0 && class_of(described, grant) == *class && is_then
    };
    let Some(given) = described.given.iter().rev().find(is_its) else {
        text += " The leader remembers no grant of that time: it keeps the last ones of each node, and \
                 none of a leader before it.\n";
        return text;
    };
    let GivenMessage { grant: Some(grant), capacity, demand, spare, .. } = given else {
        return text;
    };
    let wanted = total(demand.iter().copied());
    let short = short_of(given, grant);
    let _ = writeln!(
        text,
        " At {} the uplink of {node} carried {} and its classes wanted {}: {class} was short of {}, and {by} \
         had {} to lend. So {by} was to carry {} of it (grant {}/{}{}).",
        Moment(at(given.since_ms)),
        rate(*capacity),
        rate(wanted),
        rate(short),
        rate(*spare),
        rate(grant.amount),
        grant.revision,
        grant.id,
        given.until_ms.map_or_else(
            || ", in force".to_owned(),
            |ago| format!(", over at {}", Moment(at(ago)))
        )
    );
    text
}

/// What each class is short of.
fn shortages(capacity: u64, demand: &[u64]) -> Vec<u64> {
    let demand = demand.iter().copied().map(Amount).collect();
    let tuple = Tuple { capacity: Amount(capacity), demand };
    tuple.shortage().map(|short| short.0).collect()
}

/// What a class of a grant was short of when it was given.
fn short_of(given: &GivenMessage, grant: &GrantMessage) -> u64 {
    let all = shortages(given.capacity, &given.demand);
    all.get(grant.class as usize).copied().unwrap_or_default()
}

/// The name of a grant's class, as its receiver says it; its number where it says none.
pub(super) fn class_of(described: &Description, grant: &GrantMessage) -> String {
    let receiver = described.members.iter().find(|member| member.node == grant.receiver);
    let classes = receiver.map_or(&described.classes, |member| &member.classes);
    class_name(classes, grant.class as usize)
}

fn class_name(classes: &[String], class: usize) -> String {
    let name = classes.get(class).filter(|name| !name.is_empty());
    name.cloned().unwrap_or_else(|| class.to_string())
}

/// Why a node borrows and lends what it does.
pub(super) fn node(described: &Description, node: &str) -> anyhow::Result<String> {
    let Some(member) = described.members.iter().find(|member| member.name == node) else {
        bail!("the orchestrator hears no node called {node:?}: `tidegate fleet status` names all");
    };
    let names = names(described);
    let name = |node: u64| names.get(&node).copied().unwrap_or("?");
    let mut text = String::new();
    let wanted = total(member.demand.iter().copied());
    let short = wanted.saturating_sub(member.capacity);
    let _ = writeln!(
        text,
        "{node}: its uplink carries {}, its classes want {}.",
        rate(member.capacity),
        rate(wanted)
    );
    for (class, short) in shortages(member.capacity, &member.demand).into_iter().enumerate() {
        if short > 0 {
            let _ = writeln!(
                text,
                "Class {} is short of {}.",
                class_name(&member.classes, class),
                rate(short)
            );
        }
    }
    for grant in described.grants.iter().filter(|grant| grant.receiver == member.node) {
        let _ = writeln!(
            text,
            "Records of class {} go through {}: {} are granted, {} are carried.",
            class_of(described, grant),
            name(grant.provider),
            rate(grant.amount),
            rate(grant.carried)
        );
    }
    for grant in described.grants.iter().filter(|grant| grant.provider == member.node) {
        let _ = writeln!(
            text,
            "It carries class {} of {}: {} are granted, {} are carried.",
            class_of(described, grant),
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
    text += &lately(described, &name);
    Ok(text)
}

/// The grants of a node that are over.
fn lately<'a>(described: &Description, name: &dyn Fn(u64) -> &'a str) -> String {
    let mut text = String::new();
    for given in &described.given {
        let GivenMessage { grant: Some(grant), since_ms, until_ms: Some(until_ms), .. } = given
        else {
            continue;
        };
        let _ = writeln!(
            text,
            "From {:.1} s to {:.1} s ago class {} went through {}: {} were granted, for it was short of {}.",
            *since_ms as f64 / 1e3,
            *until_ms as f64 / 1e3,
            class_of(described, grant),
            name(grant.provider),
            rate(grant.amount),
            rate(short_of(given, grant))
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::fleet::tests::described;

    /// Now, nanoseconds since 1970.
    const NOW: u64 = 1_700_000_100_000_000_000;

    /// `idle` has the number of its name, as it has outside of tests.
    fn remembered(since_ms: u64, until_ms: Option<u64>) -> Description {
        let mut described = described();
        let idle = node_id("idle").0;
        described.members[1].node = idle;
        described.grants[0].provider = idle;
        described.given = vec![GivenMessage {
            grant: Some(described.grants[0]),
            capacity: 100_000,
            demand: vec![10_000, 30_000, 110_000],
            spare: 80_000,
            since_ms,
            until_ms,
        }];
        described
    }

    #[test]
    fn a_node_hears_why() {
        let all = ["busy", "idle", "apart"].map(|name| node(&described(), name).unwrap());
        insta::assert_snapshot!(all.join("\n"));
        let error = node(&described(), "nobody").unwrap_err().to_string();
        assert!(error.contains("no node called \"nobody\""), "{error}");
        let past = node(&remembered(40_000, Some(12_000)), "busy").unwrap();
        assert!(past.contains("From 40.0 s to 12.0 s ago class lt went through idle"), "{past}");
    }

    #[test]
    fn a_record_hears_why_a_neighbour_carried_it() {
        let (by, class) = ("idle".to_owned(), "lt".to_owned());
        let ended_ns = Some(NOW - 10_000_000_000);
        let carried = Carried { by, class, accepted_ns: NOW - 10_500_000_000, ended_ns };
        let told = why(&remembered(40_000, None), "busy", &carried, NOW);
        for words in [
            "It went by the uplink of idle. At ",
            "lt was short of 400.0 kbit/s, and idle had 640.0 kbit/s to lend.",
            "(grant 5/1, in force).",
        ] {
            assert!(told.contains(words), "{words} in {told}");
        }
        assert!(why(&remembered(40_000, Some(9_000)), "busy", &carried, NOW).contains("over at"));
        let unknown = "remembers no grant of that time";
        // Given after it ended, over before it came, of another class.
        let other = Carried { class: "nm".into(), ..carried.clone() };
        let cases =
            [(5_000, None, &carried), (60_000, Some(20_000), &carried), (40_000, None, &other)];
        for (since, until, carried) in cases {
            let told = why(&remembered(since, until), "busy", carried, NOW);
            assert!(told.contains(unknown), "{told}");
        }
    }
}
