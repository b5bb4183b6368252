//! The file of a world in virtual time: its node, its sources and the link below, or why not.
//!
//! Virtual time plays one node with one output over one link. It has no processor, no disk, no kernel and
//! no broker: what arrives is confirmed at once.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, anyhow, bail, ensure};
use tidegate::assembly;
use tidegate::config::{self, Config};
use tidegate::output::amqp::AmqpConfig;
use tidegate::output::mqtt::MqttOutputConfig;
use tidegate_node::options::NodeOptions;

use super::quantity::Span;
use super::report;
use super::scenario::{
    Arrivals, Change, ConnectionSpec, Feedback, LinkSpec, LoadSpec, NodeSpec, Order, Scenario,
    Step, Window,
};
use super::world::{Outcome, World};
use crate::net::wire;
use crate::world::{
    self, Came, Delivered, Fault, Process, Program, Records, Source, Target, Violated, fill,
};

/// Payload and headers of a packet of TCP over IPv4 with time stamps.
const PACKET: (u64, u64) = (1448, 52);

/// How often the outputs look at `TCP_INFO`.
pub const SAMPLE: Span = Span::millis(5);
/// What is beyond virtual time.
const ONLY: &str = "only `lab bench` can play that: virtual time has one node, one output, one link and one broker";

/// What a world showed in virtual time.
#[derive(Debug, Default)]
pub struct Played {
    /// What became of the records.
    pub records: Records,
    /// How many missed their bound at the node, by `[[stream]]`.
    pub violated: Violated,
    /// The node's link, and the Mbit/s that left on it while the sources sent, headers included.
    pub carried: (String, f64),
    /// Promises that the node broke: then the run is no evidence.
    pub broken: Vec<String>,
    /// How long it lasted.
    pub simulated: std::time::Duration,
}

/// Plays a world; traces are named from `folder` on. Without a seed, the world's own.
///
/// # Errors
/// What only real processes can play, and a configuration or a trace that is none.
pub fn play(world: &world::World, folder: &Path, seed: Option<u64>) -> anyhow::Result<Played> {
    let seed = seed.unwrap_or(world.seed);
    let (scenario, link) = scenario(world, folder)?;
    let outcome = World::new(&scenario, seed)?.run();
    let (lost, mut broken) = report::audit(&scenario, &outcome);
    if lost != 0 {
        broken.push(format!("{lost} accepted records have no fate"));
    }
    let simulated = outcome.ended.since(tidegate_types::units::Time::ZERO);
    let carried = outcome.carried as f64 * 8e-6 / scenario.length.as_secs_f64();
    let carried = (link, carried);
    let (records, violated) = (records(world, &outcome), violated(&outcome));
    Ok(Played { records, violated, carried, broken, simulated })
}

/// The scenario of a world, and the name of its link.
fn scenario(world: &world::World, folder: &Path) -> anyhow::Result<(Scenario, String)> {
    let nodes: Vec<&Process> = world
        .process
        .iter()
        .filter(|process| matches!(process.program(), Program::Tidegate(_)))
        .collect();
    let [node] = nodes[..] else { bail!("{} nodes: {ONLY}", nodes.len()) };
    let is_known =
        |one: &&Process| matches!(one.program(), Program::Tidegate(_) | Program::Broker(_));
    if let Some(other) = world.process.iter().find(|one| !is_known(one)) {
        bail!("process {} is any program: {ONLY}", other.name);
    }
    if let Some(load) = world.load.first() {
        bail!("load {} is datagrams: {ONLY}", load.name);
    }
    let addresses = addresses(world);
    let config = configuration(node, &addresses)?;
    let broker = broker_of(&config, world, &addresses)?;
    let (link, is_reversed) = link_between(world, &node.host, &broker.host)?;
    let mut ways = [link.uplink.options(folder)?, link.back().options(folder)?];
    if is_reversed {
        ways.reverse();
    }
    let [uplink, downlink] = ways;
    let node_options = node_spec(&config)?;
    let mut step = Vec::new();
    for fault in &world.fault {
        step.extend(steps(fault, (&link.name, is_reversed), &broker.name, folder)?);
    }
    let load = world.source.iter().map(|source| load(source, node, broker));
    let scenario = Scenario {
        name: world.name.clone(),
        length: length(world)?,
        drain: world.drain,
        node: node_options,
        connection: ConnectionSpec {
            order: Order::Kept,
            window: Window::Reno,
            feedback: Feedback::Polled(SAMPLE),
            segment: PACKET.0,
            headers: PACKET.1,
            ..ConnectionSpec::default()
        },
        link: LinkSpec { uplink, downlink },
        load: load.collect::<anyhow::Result<_>>()?,
        flow: Vec::new(),
        step,
        phase: Vec::new(),
    };
    Ok((scenario, link.name.clone()))
}

/// Until when something is due.
fn length(world: &world::World) -> anyhow::Result<Span> {
    let ends = world.source.iter().map(|source| source.end(world));
    let ends = ends.collect::<anyhow::Result<Vec<Span>>>()?;
    let last = ends.into_iter().fold(Span::default(), |a, b| if a < b { b } else { a });
    ensure!(!last.0.is_zero(), "a world without a source has nothing for a node to do");
    Ok(world.length.unwrap_or(last))
}

/// As `net` gives them to the hosts.
fn addresses(world: &world::World) -> BTreeMap<String, Ipv4Addr> {
    let mut addresses = BTreeMap::new();
    for (index, link) in world.link.iter().enumerate().take(wire::LINKS_MAX) {
        for (host, address) in link.ends.iter().zip(wire::addresses(index)) {
            addresses.entry(host.clone()).or_insert(address);
            addresses.insert(format!("{host}.{}", link.name), address);
        }
    }
    addresses
}

fn configuration(node: &Process, addresses: &BTreeMap<String, Ipv4Addr>) -> anyhow::Result<Config> {
    let Program::Tidegate(text) = node.program() else { bail!("no node") };
    let text = fill(text, addresses)?;
    let reading = config::read(&text);
    let findings = reading.render(&node.name, &text);
    ensure!(reading.counts().0 == 0, "the configuration of {}:\n{findings}", node.name);
    Ok(reading.config)
}

fn node_spec(config: &Config) -> anyhow::Result<NodeSpec> {
    let mut options: NodeOptions = assembly::node_options(config, 1, 1)?;
    ensure!(options.log.is_none(), "the node has a log, and virtual time no disk: {ONLY}");
    // Decides nothing: a name in identities.
    options.name = "edge".into();
    Ok(NodeSpec {
        scheduler: options.scheduler,
        law: options.uplinks[0].controller,
        options: Some(Box::new(options)),
        ..NodeSpec::default()
    })
}

/// The broker to which the only output leads.
fn broker_of<'w>(
    config: &Config,
    world: &'w world::World,
    addresses: &BTreeMap<String, Ipv4Addr>,
) -> anyhow::Result<&'w Process> {
    let [output] = &config.output[..] else { bail!("{} outputs: {ONLY}", config.output.len()) };
    let amqp = output.amqp.as_ref().map(AmqpConfig::far_end);
    let far_end = amqp.or(output.mqtt.as_ref().map(MqttOutputConfig::far_end));
    let Some(far_end) = far_end else {
        bail!("output {} leads to no broker: {ONLY}", output.label())
    };
    let url = far_end.url().map_err(|error| anyhow!(error))?;
    let names = |address: &str| url.hosts.iter().any(|host| host.name == address);
    let is_at = |process: &&Process| {
        let own = addresses
            .iter()
            .filter(|(name, _)| name.split('.').next() == Some(process.host.as_str()));
        let is_broker = matches!(process.program(), Program::Broker(_));
        is_broker && own.into_iter().any(|(_, address)| names(&address.to_string()))
    };
    let found = world.process.iter().find(is_at);
    found.with_context(|| format!("output {} leads to no broker: {ONLY}", output.label()))
}

/// The only link between two hosts, and whether its uplink goes from the second to the first.
fn link_between<'w>(
    world: &'w world::World,
    from: &str,
    to: &str,
) -> anyhow::Result<(&'w world::LinkSpec, bool)> {
    let joins = |link: &&world::LinkSpec| {
        link.ends.iter().any(|end| end == from) && link.ends.iter().any(|end| end == to)
    };
    let links: Vec<&world::LinkSpec> = world.link.iter().filter(joins).collect();
    let [link] = links[..] else { bail!("{} links between {from} and {to}: {ONLY}", links.len()) };
    Ok((link, link.ends[0] != from))
}

fn load(source: &Source, node: &Process, broker: &Process) -> anyhow::Result<LoadSpec> {
    let is_direct = source.to == node.name && source.at == broker.name;
    let is_beside = source.from == node.host;
    ensure!(
        is_direct && is_beside,
        "source {} does not go from the node's own host through it to its broker: {ONLY}",
        source.name
    );
    Ok(LoadSpec {
        name: source.name.clone(),
        key: source.topic.clone(),
        latency: Span::default(),
        size: source.size.range(),
        arrivals: match source.arrivals {
            world::Arrivals::Constant => Arrivals::Constant(source.per_second),
            world::Arrivals::Poisson => Arrivals::Poisson(source.per_second),
        },
        from: source.start,
        until: source.until,
    })
}

fn steps(
    fault: &Fault,
    (link, is_reversed): (&str, bool),
    broker: &str,
    folder: &Path,
) -> anyhow::Result<Vec<Step>> {
    let step = |change| Step { at: fault.at, change };
    Ok(match fault.target(folder)? {
        Target::Link(name, mut met, change) if name == link => {
            if is_reversed {
                met.reverse();
            }
            vec![step(Change::Link(met, change))]
        }
        Target::Kill(name) if name == broker => vec![step(Change::Down)],
        // There is no time between: how long a broker takes is no affair of virtual time.
        Target::Restart(name) if name == broker => vec![step(Change::Down), step(Change::Up)],
        _ => bail!("{fault}: {ONLY}"),
    })
}

fn violated(outcome: &Outcome) -> Violated {
    // Those that wait past their bound are counted already.
    let rules = outcome.status.rules.iter();
    rules.map(|rule| (rule.name.to_string(), rule.counts.violated)).collect()
}

fn records(world: &world::World, outcome: &Outcome) -> Records {
    let mut records = Records::new();
    for (place, source) in world.source.iter().enumerate() {
        let (accepted, refused, unanswered) = outcome.answers[place];
        let received = &outcome.ledger.accounts[place].received;
        let came = received.iter().map(|one| Came {
            due: one.arrived.since(tidegate_types::units::Time::ZERO),
            took: one.took,
            bytes: one.payload,
        });
        let mut newest = 0;
        let late = received.iter().filter(|one| {
            newest = newest.max(one.seq);
            one.seq < newest
        });
        let out_of_order = late.count() as u64;
        let delivered = Delivered {
            offered: accepted + refused + unanswered,
            accepted,
            refused,
            came: came.collect(),
            duplicates: outcome.ledger.further(place),
            out_of_order,
            windows: outcome.judged(place),
            ..Delivered::default()
        };
        records.insert(source.name.clone(), delivered);
    }
    records
}
