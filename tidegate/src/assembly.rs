//! From configuration to a node: every value converted, every input and output joined to the drive.
//!
//! With `parts`, the only file that knows both the configuration's words and the options of the node and the
//! drivers.

pub(crate) mod cgroup;
mod change;
pub mod drivers;
mod files;
mod inputs;
mod orchestrator;
mod outputs;
pub mod reload;
pub mod run;
pub(crate) mod secrets;
mod streams;
mod taker;
mod trial;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tidegate_broker::Message;
use tidegate_fleet::{Amount, FleetOptions};
use tidegate_node::io::OutputId;
use tidegate_node::options::{FleetSeat, NodeOptions};
use tidegate_node::status::NodeStatus;
use tidegate_types::class::{ClassId, ClassSpec, Classes};
use tidegate_types::units::{Ratio, Size};
use tokio::sync::oneshot;

use self::drivers::cameras::start_frames;
use self::drivers::{
    Wiring, log_options, open_journal, open_log, start_group, start_mirrors, start_output,
};
pub use self::files::{read_for, read_here, read_with_files};
use self::inputs::Inputs;
pub use self::orchestrator::{read_orchestrator, read_orchestrator_here};
pub(crate) use self::outputs::all_outputs;
use self::outputs::what_confirms;
pub use self::streams::{rules, scopes};
pub use self::taker::Taker;
pub use self::trial::Tried;
use crate::config::fleet::peer_label;
use crate::config::{ClassConfig, Config, OutputConfig, PeerConfig};
use crate::input::mqtt::{Clients, revive};
use crate::input::relays::RelayCounts;
use crate::input::streams::Names;
use crate::link::Links;
use crate::link::letters::Own;
use crate::node::broker::{Hub, HubOptions};
use crate::node::contract::{Clock, Intake, OutputPort};
use crate::node::event_loop::{self, Running};
use crate::node::journal;
use crate::observe::status::Boards;
use crate::observe::sys;
use crate::script::Scripts;
use crate::services::cameras::Shelf;
use crate::services::fleet::{self, MemberOptions, Peer, Place};
use crate::services::operators::Operators;
use crate::support::tasks::Tasks;
use crate::support::time::incarnation;

/// How long outputs may take to close their connections politely.
const GOODBYE: Duration = Duration::from_secs(2);

/// A node with its inputs and outputs.
#[derive(Debug)]
pub struct Assembled {
    /// Its name.
    pub name: Arc<str>,
    /// The node.
    pub running: Running,
    /// Where its inputs listen for MQTT.
    pub listens: Vec<SocketAddr>,
    /// Where they listen for links.
    pub links: Vec<SocketAddr>,
    /// Where it listens for other nodes' logs.
    pub mirrors: Vec<SocketAddr>,
    /// Where the members of its group dial.
    pub group: Vec<SocketAddr>,
    /// Where cameras publish and applications subscribe.
    pub frames: Vec<SocketAddr>,
    /// What it does beside carrying records, as it looks at present.
    pub boards: Boards,
    /// Its operators.
    pub operators: Operators,
    served: Inputs,
    /// Of each output, what tells that it has ended, where it can begin anew.
    ended: Vec<Option<oneshot::Receiver<()>>>,
    /// Places of outputs that were to end and have not yet.
    stuck: BTreeSet<usize>,
    journal: Option<journal::Running>,
    inputs: Tasks,
    outputs: Tasks,
}

/// Starts a node with all its inputs and outputs. `config` is completed and has no error.
///
/// # Errors
/// An address cannot be bound, or a file cannot be read.
pub async fn start(config: &Config) -> anyhow::Result<Assembled> {
    let shelf = Shelf::new(incarnation());
    let (on, links) = (shelf.clone(), Links::default());
    let of = links.clone();
    let mut ended = Vec::new();
    let start = |output: &OutputConfig, port, tasks: &mut Tasks| {
        if output.frames {
            ended.push(None);
            return drivers::cameras::start_output(on.clone(), port, tasks);
        }
        ended.push(Some(start_output(output, config, &of, port, tasks)?));
        Ok(())
    };
    let assembled = start_on(config, shelf, links, start).await?;
    Ok(Assembled { ended, ..assembled })
}

/// The same with other outputs than the configuration's; those that are links tell `links` what they look like.
///
/// # Errors
/// As [`start`], and what `output` fails with.
pub async fn start_with(
    config: &Config,
    links: Links,
    output: impl FnMut(&OutputConfig, OutputPort, &mut Tasks) -> anyhow::Result<()>,
) -> anyhow::Result<Assembled> {
    start_on(config, Shelf::new(incarnation()), links, output).await
}

async fn start_on(
    config: &Config,
    shelf: Shelf,
    links: Links,
    mut output: impl FnMut(&OutputConfig, OutputPort, &mut Tasks) -> anyhow::Result<()>,
) -> anyhow::Result<Assembled> {
    let config = &config.with_peers();
    let mut log = open_log(config).await?;
    // What other nodes may not have heard that it was accepted.
    let accepted = log.as_mut().map(|log| std::mem::take(&mut log.opened.recovery.accepted));
    let incarnation = log.as_ref().map_or_else(incarnation, |log| log.opened.incarnation);
    let boot = log.as_ref().map_or(0, |log| log.opened.boot);
    let previous = log.as_ref().map_or(0, |log| log.opened.recovery.previous_boot());
    let journal = log.as_ref().map(|log| open_journal(config, log)).transpose()?;
    let options = node_options(config, incarnation, boot)?;
    let name = options.name.clone();
    let names = Names::new(name.clone(), accepted.unwrap_or_default());
    let seat = options.fleet.map(|seat| usize::from(seat.output.0));
    let overhead = seat.map_or(Size::ZERO, |seat| options.outputs[seat].overhead);
    let scripts = config.script_specs().map_err(anyhow::Error::msg)?;
    let mut scripts = Scripts::load(&scripts)?;
    scripts.see_links(links.clone());
    let hub = hub(config, journal.as_ref())?;
    let (mut running, ports) =
        event_loop::start_at(hub.clone(), options, Clock::start(), log, scripts)?;
    let own = Own { node: name.clone(), incarnation, boot, previous };
    links.letters().are_of(own);
    running.status.say_what_confirms(what_confirms(config));
    let (mut inputs, mut outputs) = (Tasks::new(), Tasks::new());
    for (spec, port) in config.output.iter().zip(ports) {
        output(spec, port, &mut outputs)
            .with_context(|| format!("[[output]] {:?}", spec.label()))?;
    }
    running.log_is_ready().await;
    let clients = Arc::new(Clients::new());
    revive(&running.intake, &clients, std::mem::take(&mut running.sessions)).await;
    let journal = journal.map(|opened| start_journal(opened, &running.intake)).transpose()?;
    let relays = RelayCounts::new(overhead);
    let (intake, relayed) = (running.intake.clone(), relays.clone());
    let wiring =
        Wiring { intake, clients: clients.clone(), names, relays: relayed, links: links.clone() };
    let operators = Operators::start(config, hub, running.intake.clone()).await?;
    let joined = start_group(config, name.clone(), &wiring, &operators, &mut inputs).await?;
    let (group, member) = joined.unzip();
    let (group, boards) =
        (group.unwrap_or_default(), Boards { group: member, links, clients, ..Boards::default() });
    let mut served = Inputs::new(wiring.clone());
    served.start(config, &mut inputs).await?;
    let me = (name.clone(), incarnation);
    let mirrors =
        start_mirrors(config, &running, &boards, me.clone(), &wiring, &mut inputs).await?;
    let frames = start_frames(config, &running, &boards, shelf, &mut inputs).await?;
    start_member(config, &running, &boards, me, relays, &mut inputs);
    sys::start(&running.intake, &boards.clients, config.node.sys_interval.0, &mut inputs);
    Ok(Assembled {
        name,
        running,
        listens: served.addresses(false),
        links: served.addresses(true),
        served,
        ended: Vec::new(),
        stuck: BTreeSet::new(),
        mirrors,
        group,
        frames,
        boards,
        operators,
        journal,
        inputs,
        outputs,
    })
}

/// What the node's broker shares.
fn hub(config: &Config, journal: Option<&journal::Opened>) -> anyhow::Result<Hub> {
    let hub = Hub::new(HubOptions {
        queue: usize::try_from(config.limits.subscriber.0.0).unwrap_or(usize::MAX),
        retained: usize::try_from(config.limits.retained.0.0).unwrap_or(usize::MAX),
        clients: config.limits.clients(),
    });
    hub.set_scopes(scopes(config)?);
    if let Some(opened) = journal {
        hub.set_journal(opened.journal.clone());
    }
    Ok(hub)
}

/// Starts to write the journal of sessions, and to read what waits in it.
fn start_journal(opened: journal::Opened, intake: &Intake) -> anyhow::Result<journal::Running> {
    let (classes, hub, clock) = (intake.hub().clone(), intake.hub().clone(), intake.clock());
    let retained = move |found: Vec<journal::RetainedNote>| {
        let (now, wall) = (clock.now(), journal::wall());
        let restored = |(message, expires): journal::RetainedNote| {
            let left = |at: u64| Duration::from_nanos(at.saturating_sub(wall));
            let expires = expires.map(|at| now + left(at));
            Arc::new(Message { arrived: now, expires, ..Message::clone(&message) })
        };
        let found = found.into_iter().filter(|(_, expires)| expires.is_none_or(|at| at > wall));
        hub.restore_retained(found.map(restored).collect());
    };
    let seats = intake.hub().clone();
    let running =
        opened.start(move |topic| classes.class_of(topic), retained, move || seats.ring_all());
    running.context("[log] the journal of sessions")
}

/// Starts the node's part in its fleet, if it has one.
fn start_member(
    config: &Config,
    running: &Running,
    boards: &Boards,
    (name, incarnation): (Arc<str>, u64),
    relays: RelayCounts,
    tasks: &mut Tasks,
) {
    let Some(tls) = config.fleet.tls().filter(|_| config.fleet.is_set()) else { return };
    let peer_of = |label: &str| {
        let is_its =
            |peer: &&PeerConfig| peer.name.as_deref().is_some_and(|name| peer_label(name) == label);
        config.fleet.peer.iter().find(is_its)
    };
    let (mut peers, mut places) = (Vec::new(), Vec::new());
    for (place, output) in config.output.iter().enumerate() {
        let Some(link) = output.link.as_ref().filter(|link| link.is_peer) else { continue };
        let Ok(output_id) = u16::try_from(place).map(OutputId) else { continue };
        let label = output.label().to_owned();
        if link.is_place {
            places.push(Place { output: output_id, label });
        } else if let Some(peer) = peer_of(&label) {
            let name = peer.name.clone().unwrap_or_default();
            let standing = peer.standing.as_ref().map(|rate| Amount::of(rate.0));
            peers.push(Peer { name, output: output_id, label, standing });
        }
    }
    let options = MemberOptions {
        name: name.to_string(),
        // A log keeps its incarnation; what an agent holds does not outlive its process.
        incarnation: incarnation ^ crate::support::time::incarnation(),
        orchestrators: config.fleet.orchestrators.clone(),
        tls,
        peers,
        places,
        listen: config.fleet.advertise.clone(),
        site: config.fleet.site.clone().unwrap_or_default(),
        classes: config.class.iter().map(|class| class.name.clone().unwrap_or_default()).collect(),
        fleet: FleetOptions { classes: config.class.len(), ..FleetOptions::default() },
    };
    let board = boards.fleet.clone();
    fleet::start(options, running.fleet_door(), boards.links.clone(), relays, board, tasks);
}

impl Assembled {
    /// Waits until an input or output fails; one that just ends (a file that was played) does not.
    pub async fn failure(&mut self) -> anyhow::Error {
        loop {
            let ended = tokio::select! {
                Some(ended) = self.inputs.join_next() => ended,
                Some(ended) = self.outputs.join_next() => ended,
                else => std::future::pending().await,
            };
            match ended {
                Ok(Ok(())) => {}
                // A new configuration has it no more.
                Err(error) if error.is_cancelled() => {}
                Ok(Err(error)) => return error,
                Err(error) => return error.into(),
            }
        }
    }

    /// Accepts nothing more, delivers what is held for at most `patience`, and ends inputs and outputs.
    /// Returns the last status.
    pub async fn stop(self, patience: Duration) -> NodeStatus {
        let Assembled { running, operators, journal, mut inputs, mut outputs, .. } = self;
        if let Some(journal) = &journal {
            journal.journal().freeze();
        }
        operators.stop(patience / 2).await;
        let status = running.stop(patience).await;
        let of_inputs = async { while inputs.join_next().await.is_some() {} };
        let of_outputs = async { while outputs.join_next().await.is_some() {} };
        // Who cannot say goodbye in time is cut off.
        let goodbyes = async { tokio::join!(of_inputs, of_outputs) };
        let _ = tokio::time::timeout(GOODBYE, goodbyes).await;
        if let Some(journal) = journal {
            journal.finish().await;
        }
        status
    }
}

/// The options of the node. `config` is completed and has no error; `incarnation` is new whenever the
/// node holds nothing of an earlier life, and `boot` whenever it has a log.
///
/// # Errors
/// A configuration that was not checked.
pub fn node_options(config: &Config, incarnation: u64, boot: u64) -> anyhow::Result<NodeOptions> {
    let (outputs, uplinks) = all_outputs(&config.output);
    let options = NodeOptions {
        name: config.node.name().into(),
        incarnation,
        classes: all_classes(config)?,
        rules: rules(config)?,
        uplinks,
        outputs,
        scheduler: config.node.scheduler,
        memory: config.limits.memory.0,
        inbound: config.node.inbound.map(|rate| rate.0),
        record_max: config.limits.record_max.0,
        log: log_options(&config.log, boot),
        fleet: seat(config)?,
    };
    options.check().context("[[output]]")?;
    Ok(options)
}

/// How much later than the last of the node's own classes that of neighbours' records is.
const RELAYED_LATER: Duration = Duration::from_secs(1);

/// The classes of the node, that of neighbours' records with them: the last one.
fn all_classes(config: &Config) -> anyhow::Result<Classes> {
    let mut specs: Vec<ClassSpec> = config.class.iter().map(ClassConfig::spec).collect();
    if config.fleet.is_set() {
        let last = specs.last().map(|spec| spec.latency).unwrap_or_default();
        let relayed = ClassSpec::new("neighbours", last + RELAYED_LATER);
        specs.push(ClassSpec { min_share: Ratio::ZERO, ..relayed });
    }
    Classes::new(specs).context("[[class]]")
}

/// Latency bound of each class, the most urgent first.
pub(crate) fn bounds(config: &Config) -> Vec<Duration> {
    let all = all_classes(config);
    all.map(|all| all.iter().map(|(_, spec)| spec.latency).collect()).unwrap_or_default()
}

/// The node's place in its fleet.
fn seat(config: &Config) -> anyhow::Result<Option<FleetSeat>> {
    if !config.fleet.is_set() {
        return Ok(None);
    }
    let output = config.fleet.seat(&config.output).context("[fleet]: no such output")?;
    let relayed = ClassId(u8::try_from(config.class.len())?);
    Ok(Some(FleetSeat { output: OutputId(u16::try_from(output)?), relayed }))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidegate_capacity::RateControllerName;
    use tidegate_node::io::UplinkId;
    use tidegate_node::rules::{FullPolicy, RuleId};
    use tidegate_types::units::Rate;

    use super::*;
    use crate::config::read;

    fn options(text: &str) -> NodeOptions {
        let reading = read(text);
        assert_eq!(reading.render("node.toml", text), "");
        node_options(&reading.config, 1, 1).unwrap()
    }

    #[test]
    fn an_empty_file_is_a_whole_node() {
        let options = options("");
        assert_eq!(options.classes.len(), 3);
        assert_eq!(options.rules.find("any/topic"), Some(RuleId(0)));
        assert_eq!(options.rules.get(RuleId(0)).class, ClassId(2));
        assert_eq!(&*options.outputs[0].name, "sink");
        assert_eq!(options.uplinks[0].controller, RateControllerName::Unlimited);
    }

    #[test]
    fn a_stream_without_outputs_is_for_subscribers_here() {
        let text = "[[stream]]\ntopics = [\"here/#\"]\nlatency = \"50ms\"\nto = []\n";
        let reading = read(text);
        assert_eq!(reading.counts(), (0, 0));
        let scopes = scopes(&reading.config).unwrap();
        let here = scopes.find("here/a").unwrap();
        assert!(here.is_local && here.class == ClassId(0) && scopes.has_local());
        assert!(!scopes.find("elsewhere").unwrap().is_local);
        let options = options(text);
        assert_eq!(options.rules.len(), 1, "the node knows the other one");
        node_options(&read("[[stream]]\nto = []\n").config, 1, 1).unwrap();
    }

    #[test]
    fn streams_find_their_class_and_outputs() {
        let options = options(
            r#"
            [[stream]]
            topics = ["factory/+/plc/#"]
            latency = "20ms"
            to = ["local", "cloud"]
            [[stream]]
            topics = ["building/#"]
            class = "nm"
            full = "drop-oldest"
            ttl = "10m"
            [[output]]
            name = "cloud"
            amqp = { url = "amqp://10.0.0.1" }
            rate = "18mbit"
            [[output]]
            name = "local"
            sink = { discard = true }
            "#,
        );
        let rule = |key| options.rules.get(options.rules.find(key).unwrap());
        let plc = rule("factory/7/plc/1");
        assert_eq!((plc.class, plc.latency), (ClassId(0), Duration::from_millis(20)));
        assert_eq!(plc.to, [OutputId(1), OutputId(0)]);
        let building = rule("building/1");
        assert_eq!((building.class, building.latency), (ClassId(1), Duration::from_millis(500)));
        assert_eq!(building.full, FullPolicy::DropOldest);
        assert_eq!((&*rule("other").name, rule("other").class), ("default", ClassId(2)));
        assert_eq!(options.uplinks[0].cap, Some(Rate::from_bits(18e6)));
        assert_eq!(options.outputs[1].uplink, UplinkId(1));
    }

    #[test]
    fn outputs_share_the_uplink_that_they_name() {
        let options = options(
            r#"
            [[output]]
            amqp = { url = "amqp://10.0.0.1" }
            [[output]]
            mqtt = { url = "mqtt://10.0.0.2" }
            [[output]]
            name = "lte"
            mqtt = { url = "mqtt://10.0.0.3" }
            uplink = "lte"
            law = "copa"
            "#,
        );
        let uplinks: Vec<u16> = options.outputs.iter().map(|output| output.uplink.0).collect();
        assert_eq!(uplinks, [0, 0, 1]);
        assert_eq!(options.uplinks[1].controller, RateControllerName::Copa);
    }
}
