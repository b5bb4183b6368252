//! A node's part: the task that holds its agent.
//!
//! Ten times a second it asks the node what it carries and wants, looks which peers it reaches and what it
//! has carried for them, and tells the node what it may send by whom. Without a leader the grants run out,
//! and the node goes on alone.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::Duration;

use tidegate_fleet::{
    Agent, AgentInput, AgentOutput, Amount, FleetOptions, Grant, HeldGrant, NodeId, ReachablePeer,
};
use tidegate_node::io::{Control, OutputId};
use tidegate_types::class::ClassId;
use tidegate_types::units::Time;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::attend::{self, Greeting, Heard, Way};
use super::board::{FleetBoard, FleetFigures};
use super::find::Found;
use super::node_id;
use crate::input::relays::RelayCounts;
use crate::link::Links;
use crate::node::event_loop::FleetDoor;
use crate::support::time::Clock;
use crate::support::tls::grpc::FleetTls;

/// Time between two looks at the node.
const LOOK: Duration = Duration::from_millis(100);
/// What is heard and not yet taken.
const HEARD_MAX: usize = 64;
/// A grant changes several times a second: the log tells one of a neighbour in each direction in so long, the others
/// at `debug`.
const TELL: Duration = Duration::from_secs(10);

/// A node that carries records for us, and for which we do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name, as in its certificate.
    pub name: String,
    /// The output by which it is reached, and its name.
    pub output: OutputId,
    /// The output's name.
    pub label: String,
    /// What the two may always send by each other, whoever leads.
    pub standing: Option<Amount>,
}

/// An output for neighbours that are found, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The output.
    pub output: OutputId,
    /// Its name.
    pub label: String,
}

/// What a node's part is made of.
#[derive(Clone, Debug)]
pub struct MemberOptions {
    /// The node's name, as in its certificate.
    pub name: String,
    /// New whenever the process is new.
    pub incarnation: u64,
    /// `host:port` of every orchestrator.
    pub orchestrators: Vec<String>,
    /// What it shows them.
    pub tls: FleetTls,
    /// Its peers.
    pub peers: Vec<Peer>,
    /// Its places for neighbours that are found.
    pub places: Vec<Place>,
    /// `host:port` where neighbours dial it.
    pub listen: Option<String>,
    /// Those of one site reach each other.
    pub site: String,
    /// Names of its classes, the most urgent first.
    pub classes: Vec<String>,
    /// How it behaves; the number of classes is its own.
    pub fleet: FleetOptions,
}

/// Starts the task; it ends with the node.
pub fn start(
    options: MemberOptions,
    door: FleetDoor,
    links: Links,
    relays: RelayCounts,
    board: FleetBoard,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) {
    let (sender, heard) = mpsc::channel(HEARD_MAX);
    let (tls, orchestrators) = (options.tls.clone(), options.orchestrators.clone());
    let greeting = Greeting {
        listen: options.listen.clone(),
        site: options.site.clone(),
        classes: options.classes.join(","),
    };
    let attending = attend::run(tls, orchestrators, greeting, sender.clone());
    let mut agent = Agent::new(node_id(&options.name), options.incarnation, options.fleet.clone());
    let own = node_id(&options.name);
    for (peer, amount) in options.peers.iter().filter_map(|peer| Some((peer, peer.standing?))) {
        let peer = node_id(&peer.name);
        [(own, peer), (peer, own)].into_iter().for_each(|pair| agent.agree(pair, amount));
    }
    let member = Member {
        clock: door.clock(),
        agent,
        door,
        found: Found::new(options.places.clone(), links.clone()),
        heard: sender,
        links,
        relays,
        board,
        leaders: BTreeMap::new(),
        up: BTreeSet::new(),
        told: BTreeSet::new(),
        reserved: Vec::new(),
        named: BTreeMap::new(),
        logged: BTreeMap::new(),
        figures: FleetFigures::default(),
        options,
    };
    tasks.spawn(async move {
        // The stream ends when nobody listens any more.
        tokio::join!(attending, member.run(heard));
        Ok(())
    });
}

struct Member {
    options: MemberOptions,
    clock: Clock,
    agent: Agent,
    door: FleetDoor,
    links: Links,
    /// Links to neighbours that were found.
    found: Found,
    /// For answers that are waited for elsewhere.
    heard: mpsc::Sender<Heard>,
    relays: RelayCounts,
    board: FleetBoard,
    /// The way to whoever says that it leads: one, or two for a moment. Their directives tell who is right.
    leaders: BTreeMap<usize, Way>,
    /// Peers that are reached.
    up: BTreeSet<NodeId>,
    /// What the node was told that it may send.
    told: BTreeSet<(OutputId, ClassId)>,
    /// What the node was told that is reserved for neighbours, by class.
    reserved: Vec<(Amount, Time)>,
    /// Whom the node knows behind each output.
    named: BTreeMap<OutputId, NodeId>,
    /// When the log last told of a grant: to or from whom, and whether it is lent.
    logged: BTreeMap<(NodeId, bool), Time>,
    figures: FleetFigures,
}

impl Member {
    async fn run(mut self, mut heard: mpsc::Receiver<Heard>) {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                next = heard.recv() => match next {
                    Some(next) => self.hear(next),
                    None => return,
                },
                _ = look.tick() => {
                    self.look_at_peers();
                    let Ok(measured) = self.door.measure().await else { return };
                    let input = measured.map_or(AgentInput::Timeout, AgentInput::Measured);
                    self.handle(input);
                    self.find();
                }
            }
            if self.grant().await.is_err() {
                return;
            }
            self.tell();
        }
    }

    fn handle(&mut self, input: AgentInput) {
        self.agent.handle(self.clock.now(), input);
        while let Some(output) = self.agent.poll() {
            match output {
                AgentOutput::Beat(beat) => {
                    self.figures.beats += 1;
                    self.leaders.values().for_each(|way| way.send(&beat));
                }
                AgentOutput::Granted(grant) => self.note(&grant, "granted"),
                AgentOutput::Ended(grant) => self.note(&grant, "over"),
            }
        }
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Leader(place, way) => {
                self.leaders.insert(place, way);
                self.figures.takeovers += 1;
                self.handle(AgentInput::Leader(true));
            }
            Heard::Lost(place) => {
                self.leaders.remove(&place);
                if self.leaders.is_empty() {
                    self.handle(AgentInput::Leader(false));
                }
            }
            Heard::Lenders(lenders) => {
                let peers = &self.options.peers;
                let knows = |node| peers.iter().any(|peer| node_id(&peer.name) == node);
                self.found.named(self.clock.now(), lenders, knows);
            }
            Heard::Directive(directive) => {
                let before = self.agent.heard();
                self.handle(AgentInput::Directive(directive));
                let is_obeyed = self.agent.heard() != before;
                let count =
                    if is_obeyed { &mut self.figures.obeyed } else { &mut self.figures.refused };
                *count += 1;
            }
        }
    }

    fn note(&mut self, grant: &Grant, what: &'static str) {
        let now = self.clock.now();
        self.logged.retain(|_, told| now.since(*told) < TELL);
        let is_lent = grant.receiver != node_id(&self.options.name);
        let other = if is_lent { grant.receiver } else { grant.provider };
        let peer = self.name_of(other);
        let (class, amount) = (grant.class.0, grant.amount.to_string());
        let lent = if is_lent { "our uplink is lent to it" } else { "its uplink is borrowed" };
        if let Entry::Vacant(first) = self.logged.entry((other, is_lent)) {
            first.insert(now);
            tracing::info!(neighbour = %peer, class, amount, "{lent}: {what}");
        } else {
            tracing::debug!(neighbour = %peer, class, amount, "{lent}: {what}");
        }
    }

    fn name_of(&self, node: NodeId) -> String {
        let known = self.options.peers.iter().find(|peer| node_id(&peer.name) == node);
        let known = known.map(|peer| peer.name.clone()).or_else(|| self.found.name_of(node));
        // Whom we lend to has found us, not we it.
        let dials = || {
            let links = self.links.read();
            let link = links.iter().find(|link| !link.is_output && node_id(&link.name) == node);
            link.map(|link| link.name.clone())
        };
        let known = known.or_else(dials);
        known.unwrap_or_else(|| format!("{:016x}", node.0))
    }

    /// The output by which a node is reached.
    fn output_of(&self, node: NodeId) -> Option<OutputId> {
        let peer = self.options.peers.iter().find(|peer| node_id(&peer.name) == node);
        peer.map(|peer| peer.output).or_else(|| self.found.output_of(node))
    }

    /// Opens and closes links to neighbours that are found.
    fn find(&mut self) {
        let now = self.clock.now();
        let held: Vec<(NodeId, NodeId)> = self
            .agent
            .lent()
            .chain(self.agent.borrowed())
            .map(|one| (one.grant.provider, one.grant.receiver))
            .collect();
        self.found.pass(now, |node| held.iter().any(|&(a, b)| a == node || b == node));
        let is_short = self.agent.tuple().shortage().any(|short| !short.is_zero());
        let Some((_, way)) = self.leaders.last_key_value() else { return };
        if self.found.ask(now, is_short) {
            let (way, heard) = (way.clone(), self.heard.clone());
            tokio::spawn(async move {
                match way.lenders().await {
                    // One that is not heard is asked for again.
                    Ok(lenders) => drop(heard.try_send(Heard::Lenders(lenders))),
                    Err(status) => tracing::debug!("lenders: {}", attend::told(&status)),
                }
            });
        }
    }

    /// Which peers are reached, and what was carried for them.
    fn look_at_peers(&mut self) {
        let links = self.links.read();
        let is_up = |label: &str| {
            let link = links.iter().find(|link| link.is_output && link.name == label);
            link.is_some_and(|link| link.paths.iter().any(|path| path.state_name() == "up"))
        };
        let peers = self.options.peers.iter();
        let named = peers.filter(|peer| is_up(&peer.label)).map(|peer| node_id(&peer.name));
        let up: BTreeSet<NodeId> = named.chain(self.found.up(is_up)).collect();
        if up != self.up {
            for lost in self.up.difference(&up).copied().collect::<Vec<_>>() {
                self.handle(AgentInput::PeerLost(lost));
            }
            let reach = |node: &NodeId| ReachablePeer { node: *node, distance: 1 };
            self.handle(AgentInput::Peers(up.iter().map(reach).collect()));
            self.up = up;
        }
        for ((name, class), size) in self.relays.take() {
            self.figures.relayed += size.0;
            if let Some(token) = self.agent.lent_to(node_id(&name), class) {
                self.handle(AgentInput::Carried(token, size));
            }
        }
    }

    /// Tells the node what it may send by others.
    async fn grant(&mut self) -> Result<(), crate::node::contract::Stopping> {
        let now = self.clock.now();
        let mut over = std::mem::take(&mut self.told);
        let mut orders = Vec::new();
        for ((provider, class), (amount, until)) in self.agent.borrowing() {
            let Some(peer) = self.output_of(provider) else { continue };
            over.remove(&(peer, class));
            if self.named.insert(peer, provider) != Some(provider) {
                let name = self.name_of(provider).into();
                orders.push(Control::Neighbour { peer, name });
            }
            self.told.insert((peer, class));
            orders.push(Control::Grant { peer, class, amount, lease: until.since(now) });
        }
        for (peer, class) in over {
            orders.push(Control::Grant { peer, class, amount: Amount::ZERO, lease: LOOK });
        }
        let reserved = self.agent.reserved();
        for (class, &(amount, until)) in (0..).map(ClassId).zip(&reserved) {
            if self.reserved.get(class.index()) != Some(&(amount, until)) {
                orders.push(Control::Reserve { class, amount, lease: until.since(now) });
            }
        }
        self.reserved = reserved;
        for order in orders {
            self.door.control(order).await?;
        }
        Ok(())
    }

    fn tell(&mut self) {
        let sum = |amounts: &mut dyn Iterator<Item = Amount>| amounts.sum::<Amount>().0;
        let mut figures = FleetFigures {
            has_leader: !self.leaders.is_empty(),
            peers_up: self.up.len(),
            peers: self.options.peers.len() + self.found.count(),
            lent: sum(&mut self.agent.lent().map(|one| one.usable)),
            borrowed: sum(&mut self.agent.borrowed().map(|one| one.usable)),
            grants: Vec::new(),
            ..self.figures.clone()
        };
        let mut by_peer: BTreeMap<(Arc<str>, ClassId, bool), u64> = BTreeMap::new();
        for one in self.agent.lent() {
            let name = self.name_of(one.grant.receiver).into();
            *by_peer.entry((name, one.grant.class, true)).or_default() += one.usable.0;
        }
        for one in self.agent.borrowed() {
            let name = self.name_of(one.grant.provider).into();
            *by_peer.entry((name, one.grant.class, false)).or_default() += one.usable.0;
        }
        // Standing permits are what a neighbour may use as well.
        let own = node_id(&self.options.name);
        for HeldGrant { grant, usable, .. } in self.agent.standing() {
            let is_lent = grant.provider == own;
            let name = self.name_of(if is_lent { grant.receiver } else { grant.provider }).into();
            *by_peer.entry((name, grant.class, is_lent)).or_default() += usable.0;
        }
        figures.grants = by_peer.into_iter().collect();
        self.board.tell(figures);
    }
}
