//! From the streams of a configuration to the rules of a node, and to what its broker knows of them.

use anyhow::Context;
use tidegate_broker::{Scope, Scopes};
use tidegate_node::io::OutputId;
use tidegate_node::options::FleetSeat;
use tidegate_node::rules::{Discipline, FullPolicy, Rule, Rules, ScriptId};
use tidegate_types::class::{ClassId, Classes};
use tidegate_types::record::AcceptMode;
use tidegate_types::topic::Filter;

use super::{all_classes, seat};
use crate::assembly::drivers;
use crate::config::{Accept, Config, Full, Order, StreamConfig};

/// The rules of the node. `config` is completed and has no error.
///
/// # Errors
/// A configuration that was not checked.
pub fn rules(config: &Config) -> anyhow::Result<Rules> {
    let classes = config.classes()?;
    let mut rules = Vec::new();
    rules.extend(drivers::cameras::rules(config, &classes)?);
    for stream in config.stream.iter().filter(|stream| !stream.is_local()) {
        let rule = rule(stream, config, &classes);
        rules.push(rule.with_context(|| format!("[[stream]] {:?}", stream.label()))?);
    }
    if let Some(FleetSeat { output, relayed }) = seat(config)? {
        let all = all_classes(config)?;
        let of = |class| {
            let class = ClassId(class);
            [Rule::reserved(&all, class, output), Rule::relay(&all, class, relayed, output)]
        };
        rules.extend((0..relayed.0).flat_map(of));
    }
    Rules::new(rules).context("[[stream]]")
}

/// The rules of the node, as its broker sees them. `config` is completed and has no error.
///
/// # Errors
/// A configuration that was not checked.
pub fn scopes(config: &Config) -> anyhow::Result<Scopes> {
    let classes = config.classes()?;
    let scope = |stream: &StreamConfig| {
        let Rule { filters, class, latency, .. } = rule(stream, config, &classes)?;
        Ok(Scope { filters, class, latency, is_local: stream.is_local() })
    };
    let scopes: anyhow::Result<Vec<Scope>> = config.stream.iter().map(scope).collect();
    Ok(Scopes::new(scopes?))
}

fn rule(stream: &StreamConfig, config: &Config, classes: &Classes) -> anyhow::Result<Rule> {
    let class = match (&stream.class, stream.latency) {
        (Some(name), _) => classes.by_name(name).with_context(|| format!("no class {name:?}"))?,
        (None, Some(latency)) => classes.for_latency(latency.0),
        (None, None) => Rule::catch_all(classes, Vec::new()).class,
    };
    let output = |name: &String| {
        let place = config.output.iter().position(|output| output.label() == name);
        let place = place.with_context(|| format!("no output {name:?}"))?;
        anyhow::Ok(OutputId(u16::try_from(place)?))
    };
    let script = |name: &String| {
        let place = config.script.iter().position(|script| script.label() == name);
        let place = place.with_context(|| format!("no script {name:?}"))?;
        anyhow::Ok(ScriptId(u16::try_from(place)?))
    };
    let to = match &stream.to {
        Some(names) => names.iter().map(output).collect::<Result<_, _>>()?,
        None => vec![OutputId(0)],
    };
    let topics = stream.topics.as_deref().unwrap_or_default();
    let accept = match stream.accept {
        Some(Accept::Durable) => AcceptMode::Durable,
        None if config.log.directory.is_some() => AcceptMode::Durable,
        Some(Accept::Memory) | None => AcceptMode::Memory,
        Some(Accept::Confirmed) => AcceptMode::Confirmed,
    };
    let memory = stream.memory.0;
    let stored = stream.stored.as_ref().unwrap_or(&config.log.bound).0;
    Ok(Rule {
        name: stream.label().into(),
        filters: topics.iter().map(|topic| Filter::new(topic)).collect::<Result<_, _>>()?,
        latency: stream.latency.map_or(classes.spec(class).latency, |latency| latency.0),
        class,
        to,
        discipline: match stream.order {
            Order::Fifo => Discipline::Fifo,
            Order::Lifo => Discipline::Lifo,
            Order::NewestOnly => Discipline::NewestOnly,
        },
        strict_order: stream.strict_order,
        full: match stream.full {
            Full::DropOldest => FullPolicy::DropOldest,
            Full::DropNewest => FullPolicy::DropNewest,
            Full::Reject => FullPolicy::Reject,
            Full::Block => FullPolicy::Block(stream.block_max.0),
        },
        bound: if accept == AcceptMode::Durable { stored } else { memory },
        memory,
        ttl: stream.ttl.map(|ttl| ttl.0),
        accept,
        script: stream.script.as_ref().map(script).transpose()?,
        script_name: stream.script.as_deref().map(Into::into),
        relays: None,
        lent_to: None,
        is_bound: false,
    })
}
