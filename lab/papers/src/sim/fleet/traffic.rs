//! What an orchestrator hears, says and works when its fleet's loads move: for `fleet-scale`.

use std::time::{Duration, Instant};

use tidegate_fleet::{
    Agent, AgentInput, AgentOutput, FleetOptions, NodeId, Orchestrator, OrchestratorInput,
    OrchestratorOutput, ReachablePeer,
};
use tidegate_types::demand::Measured;
use tidegate_types::units::{Rate, Time};

use super::random::{BULKY, Fleet, Kind, Shape};
use super::sizes;
use crate::report::{Findings, figure};
use crate::sim::random::Random;

/// Time between two measurements of a node, which is also one way to the orchestrator.
const STEP: Duration = Duration::from_millis(100);
/// Steps of a run, and of its beginning, which is not counted.
const STEPS: (u64, u64) = (250, 50);
/// A load switches between two levels once in so many steps, on average: 15 s.
const SWITCH: f64 = 1.0 / 150.0;
/// Load at the lower level, over that at the upper.
const LOW: f64 = 0.4;
/// Half of the range of what comes in a step, over its mean.
const NOISE: f64 = 0.5;
/// Bytes that carry a message beside its own: gRPC 5, HTTP/2 9, TLS 22, TCP and IP 52, an acknowledgement 52.
const FRAME: f64 = 140.0;

/// What was counted, a second.
struct Traffic {
    beats: f64,
    directives: f64,
    bytes: f64,
    decisions: f64,
    /// Milliseconds of a decision, all of it, and of a beat.
    decision: f64,
    beat: f64,
}

fn agents(fleet: &Fleet, options: &FleetOptions) -> Vec<Agent> {
    let agent = |node: usize| {
        let mut agent = Agent::new(NodeId(node as u64), 1, options.clone());
        let peers = fleet.candidates.peers(node).iter();
        let reach = peers
            .map(|peer| ReachablePeer { node: NodeId(peer.place.into()), distance: peer.distance });
        agent.handle(Time::ZERO, AgentInput::Peers(reach.collect()));
        agent.handle(Time::ZERO, AgentInput::Leader(true));
        agent
    };
    (0..fleet.tuples.len()).map(agent).collect()
}

fn play(nodes: usize, random: &mut Random) -> Traffic {
    let kind = Kind { nodes, shape: Shape::Geo, load: 0.8, mix: BULKY };
    let fleet = Fleet::new(kind, random);
    let options = FleetOptions::default();
    let mut orchestrator = Orchestrator::new(options.clone());
    orchestrator.handle(Time::ZERO, OrchestratorInput::Elected { revision: 1 });
    let mut agents = agents(&fleet, &options);
    let mut is_low: Vec<bool> = (0..nodes).map(|_| random.happens(0.5)).collect();
    let (mut counts, mut bytes) = ([0_u64; 3], 0);
    let mut took = [Duration::ZERO; 2];
    let mut directives = Vec::new();
    for step in 0..STEPS.0 {
        if step == STEPS.1 {
            (counts, bytes, took) = ([0; 3], 0, [Duration::ZERO; 2]);
        }
        let now = Time::from_nanos(STEP.as_nanos() as u64 * (step + 1));
        for directive in directives.drain(..) {
            let OrchestratorOutput::Directive(directive) = directive;
            let node = directive.node.0 as usize;
            agents[node].handle(now, AgentInput::Directive(directive));
        }
        let mut said = Vec::new();
        for (node, agent) in agents.iter_mut().enumerate() {
            is_low[node] ^= random.happens(SWITCH);
            let level = if is_low[node] { LOW } else { 1.0 };
            let factor = level * (1.0 + NOISE * (2.0 * random.share() - 1.0));
            let tuple = &fleet.tuples[node];
            let demand = tuple.demand.iter().map(|demand| demand.rate().times(factor));
            let (capacity, demand) = (tuple.capacity.rate(), demand.collect::<Vec<Rate>>());
            let output = demand.iter().copied().sum::<Rate>().min(capacity);
            agent.handle(now, AgentInput::Measured(Measured { capacity, demand, output }));
            said.extend(std::iter::from_fn(|| agent.poll()));
        }
        let rounds = orchestrator.round().number;
        let begun = Instant::now();
        for output in said {
            if let AgentOutput::Beat(beat) = output {
                counts[0] += 1;
                bytes += sizes::beat(&beat);
                // The decision is timed by itself: it is due only when time is up.
                if orchestrator.next_timeout().is_none_or(|due| due > now) {
                    orchestrator.handle(now, OrchestratorInput::Beat(beat));
                } else {
                    let begun = Instant::now();
                    orchestrator.handle(now, OrchestratorInput::Beat(beat));
                    took[1] += begun.elapsed();
                }
            }
        }
        took[0] += begun.elapsed();
        counts[2] += orchestrator.round().number - rounds;
        directives.extend(std::iter::from_fn(|| orchestrator.poll()));
        for OrchestratorOutput::Directive(directive) in &directives {
            counts[1] += 1;
            bytes += sizes::directive(directive);
        }
    }
    let seconds = STEP.as_secs_f64() * (STEPS.0 - STEPS.1) as f64;
    let [beats, told, decisions] = counts.map(|count| count as f64);
    let millis = |took: Duration, count: f64| took.as_secs_f64() * 1e3 / count.max(1.0);
    Traffic {
        beats: beats / seconds,
        directives: told / seconds,
        bytes: (bytes as f64 + FRAME * (beats + told)) / seconds,
        decisions: decisions / seconds,
        decision: millis(took[1], decisions),
        beat: millis(took[0].saturating_sub(took[1]), beats),
    }
}

/// The lines to print.
pub(super) fn run(sizes: impl Iterator<Item = usize>, seed: u64) -> Findings {
    let mut lines = vec![
        String::new(),
        "at the orchestrator: loads switch every 15 s on average, with noise; a second of it, and"
            .into(),
        format!("{FRAME} bytes of framing and acknowledgement with each message"),
        format!(
            "{:>6}{:>10}{:>12}{:>10}{:>11}{:>16}{:>12}",
            "nodes", "beats", "directives", "kB", "decisions", "ms a decision", "us a beat"
        ),
    ];
    let mut figures = Vec::new();
    for nodes in sizes {
        let traffic = play(nodes, &mut Random::new(seed, 1_000_000 + nodes as u64));
        lines.push(format!(
            "{nodes:>6}{:>10.0}{:>12.0}{:>10.1}{:>11.1}{:>16.3}{:>12.2}",
            traffic.beats,
            traffic.directives,
            traffic.bytes / 1e3,
            traffic.decisions,
            traffic.decision,
            traffic.beat * 1e3
        ));
        let messages = traffic.beats + traffic.directives;
        figures.push(figure(&format!("scale_{nodes}_messages"), messages, "a_second"));
        figures.push(figure(&format!("scale_{nodes}_bytes"), traffic.bytes, "bytes_a_second"));
    }
    (lines, figures).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_beats_about_once_a_second() {
        let traffic = play(60, &mut Random::new(1, 1));
        assert!((55.0..130.0).contains(&traffic.beats), "{}", traffic.beats);
        assert!(traffic.decisions <= 5.0 && traffic.directives < 3.0 * 60.0);
    }
}
