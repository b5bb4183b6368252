//! Nodes without uplinks: agents of the product, each with a stream of its own over mutual TLS, whose loads
//! change as those of real ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::services::fleet::{FleetTls, Greeting, Heard, Way, attend, node_id};
use tidegate::support::time::Clock;
use tidegate_fleet::{Agent, AgentInput, AgentOutput, FleetOptions, ReachablePeer};
use tidegate_types::demand::Measured;
use tidegate_types::units::{Rate, Size};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::sim::random::Random;

/// How often a node looks at itself, as the product does.
const LOOK: Duration = Duration::from_millis(100);
/// How long a load stays; then it is another one (as in `lab sim fleet-damping`).
const SWITCH: Duration = Duration::from_secs(15);
/// How much a figure differs from look to look.
const NOISE: f64 = 0.3;
/// Bytes/s of an uplink, and what its classes want of it: at least and at most. Two of five are short.
const UPLINK: f64 = 250_000.0;
const WANTS: [(f64, f64); 3] = [(0.05, 0.1), (0.1, 0.4), (0.1, 1.1)];
/// Peers that a node reaches: those with the next numbers.
const PEERS: usize = 16;
/// Streams begin so far apart, for a handshake costs more than a beat.
const APART: Duration = Duration::from_millis(3);

/// What all of them together have done.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Nodes that have a leader.
    pub(super) attending: AtomicU64,
    pub(super) beats: AtomicU64,
    pub(super) directives: AtomicU64,
    pub(super) granted: AtomicU64,
}

impl Counts {
    fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The name of a node.
pub(super) fn name(number: usize) -> String {
    format!("gate-{number}")
}

/// Starts all of them; they end with the set.
pub(super) fn start(
    all: Vec<FleetTls>,
    orchestrator: &str,
    seed: u64,
    counts: &Arc<Counts>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let count = all.len();
    for (number, tls) in all.into_iter().enumerate() {
        let node = Node {
            number,
            count,
            agent: Agent::new(node_id(&name(number)), 1, FleetOptions::default()),
            clock: Clock::start(),
            random: Random::new(seed, number as u64),
            wants: [0.0; 3],
            counts: Arc::clone(counts),
            way: None,
        };
        let (sender, heard) = mpsc::channel(16);
        let greeting = Greeting { listen: None, site: String::new(), classes: String::new() };
        let orchestrators = vec![orchestrator.to_owned()];
        tasks.spawn(async move {
            sleep(APART * number as u32).await;
            tokio::join!(attend(tls, orchestrators, greeting, sender), node.run(heard));
        });
    }
    tasks
}

struct Node {
    number: usize,
    count: usize,
    agent: Agent,
    clock: Clock,
    random: Random,
    /// What each class wants now, bytes/s.
    wants: [f64; 3],
    counts: Arc<Counts>,
    way: Option<Way>,
}

impl Node {
    async fn run(mut self, mut heard: mpsc::Receiver<Heard>) {
        let peers = (1..=PEERS).map(|step| {
            let node = node_id(&name((self.number + step) % self.count));
            ReachablePeer { node, distance: step as u32 }
        });
        let own = node_id(&name(self.number));
        let peers: Vec<ReachablePeer> = peers.filter(|peer| peer.node != own).collect();
        self.handle(AgentInput::Peers(peers));
        // Switches are not at once at all of them.
        let mut switch = interval(SWITCH.mul_f64(0.5 + self.random.share()));
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                next = heard.recv() => match next {
                    Some(next) => self.hear(next),
                    None => return,
                },
                _ = switch.tick() => self.switch(),
                _ = look.tick() => self.look(),
            }
        }
    }

    fn switch(&mut self) {
        for (want, (least, most)) in self.wants.iter_mut().zip(WANTS) {
            *want = UPLINK * (least + (most - least) * self.random.share());
        }
    }

    fn look(&mut self) {
        let lent: Vec<_> = self.agent.lent().map(|one| (one.grant.token, one.usable)).collect();
        for (token, usable) in lent {
            let size = Size((usable.0 as f64 * LOOK.as_secs_f64()) as u64);
            self.handle(AgentInput::Carried(token, size));
        }
        let noise = 1.0 - NOISE / 2.0 + NOISE * self.random.share();
        let demand: Vec<Rate> = self.wants.iter().map(|want| Rate::new(want * noise)).collect();
        let wanted = self.wants.iter().sum::<f64>() * noise;
        self.handle(AgentInput::Measured(Measured {
            capacity: Rate::new(UPLINK),
            demand,
            output: Rate::new(wanted.min(UPLINK)),
        }));
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Leader(_, way) => {
                Counts::count(&self.counts.attending);
                self.way = Some(way);
                self.handle(AgentInput::Leader(true));
            }
            Heard::Lost(_) => {
                self.counts.attending.fetch_sub(1, Ordering::Relaxed);
                self.way = None;
                self.handle(AgentInput::Leader(false));
            }
            Heard::Directive(directive) => {
                Counts::count(&self.counts.directives);
                self.handle(AgentInput::Directive(directive));
            }
            Heard::Lenders(_) => {}
        }
    }

    fn handle(&mut self, input: AgentInput) {
        self.agent.handle(self.clock.now(), input);
        while let Some(output) = self.agent.poll() {
            match output {
                AgentOutput::Beat(beat) => {
                    Counts::count(&self.counts.beats);
                    if let Some(way) = &self.way {
                        way.send(&beat);
                    }
                }
                AgentOutput::Granted(grant) if grant.receiver == node_id(&name(self.number)) => {
                    Counts::count(&self.counts.granted);
                }
                AgentOutput::Granted(_) | AgentOutput::Ended(_) => {}
            }
        }
    }
}
