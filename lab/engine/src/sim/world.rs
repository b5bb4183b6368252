//! The world: the whole core node, its connections, the link and everybody on it, in virtual time.
//!
//! The same scenario and seed give the same run to the byte.

mod network;
pub mod peers;

use tidegate_capacity::pace::cut_size;
use tidegate_node::io::{
    Control, Destination, Event as Report, Input, Output, OutputId, PathId, PathState,
};
use tidegate_node::node::Node;
use tidegate_node::status::NodeStatus;
use tidegate_types::record::{DeliveryId, SourceId};
use tidegate_types::units::{Size, Time};

pub use self::network::Crossed;
use self::peers::Peers;
use super::agenda::{Agenda, Event};
use super::build;
use super::connection::{Connection, Piece};
use super::feedback::Shape;
use super::ledger::Ledger;
use super::link::{Packet, Reply};
use super::load::Load;
use super::loss_based::LossBased;
use super::random::Random;
use super::scenario::{ConnectionSpec, Feedback, FlowKind, Order, Scenario, Window};
use crate::link::{Direction, Ecn};
use crate::query::{Judged, Sums};

/// What happened, for the report and for checkers.
#[derive(Debug)]
pub struct Outcome {
    pub ledger: Ledger,
    pub status: NodeStatus,
    pub ended: Time,
    /// (accepted, refused, unanswered) offers of each load.
    pub answers: Vec<(u64, u64, u64)>,
    /// What the accepted records of each load carry, by windows.
    sums: Vec<Sums>,
    /// Bytes that the uplink had carried when the loads ended, headers included.
    pub carried: u64,
    /// What crossed the uplink, where its queue signals early.
    pub crossed: Vec<Crossed>,
}

impl Outcome {
    /// What the query at the far end showed of a load.
    pub fn judged(&self, place: usize) -> Judged {
        self.ledger.accounts[place].judged(&self.sums[place])
    }
}

#[derive(Debug)]
pub struct World<'s> {
    scenario: &'s Scenario,
    now: Time,
    agenda: Agenda,
    node: Node,
    wake: Time,
    /// Until when the node's processor is busy with what it sends.
    busy_until: Time,
    loads: Vec<Load>,
    /// (accepted, refused) offers of each load.
    answers: Vec<(u64, u64)>,
    uplink: Direction<Packet>,
    /// What crossed a queue that signals early.
    crossed: Vec<Crossed>,
    downlink: Direction<Reply>,
    /// When each way is looked at next.
    looks: [Time; 2],
    /// The node's lanes first, then one for each competitor.
    connections: Vec<Connection>,
    lanes: usize,
    /// Whether each competitor is sending.
    competing: Vec<bool>,
    ledger: Ledger,
    /// Whether each transmission is checked against the uplink's window.
    is_strict: bool,
    /// The load that is waited for at the end; all without.
    last: Option<usize>,
    /// What could be in flight before the node was last asked.
    allowed: Size,
    /// What goes to and comes from other nodes of a fleet.
    peers: Peers,
}

impl<'s> World<'s> {
    /// A world at its beginning.
    pub fn new(scenario: &'s Scenario, seed: u64) -> anyhow::Result<Self> {
        let random = |part| Random::new(seed, part);
        let options = build::options(scenario)?;
        let lanes = usize::from(options.lanes(OutputId(0)));
        let spec = &scenario.connection;
        let lane = |flow| {
            let window = match spec.window {
                Window::Open => None,
                Window::Reno => Some(LossBased::reno()),
                Window::Cubic => Some(LossBased::cubic()),
            };
            let shape = Shape::new(spec.feedback, random(100 + flow as u64));
            Connection::new(flow, *spec, window, shape)
        };
        // Every competitor has a connection, so that flows and connections have the same numbers.
        let competitor = |flow: usize| {
            let shape = Shape::new(Feedback::Each, random(100 + flow as u64));
            let (window, ecn) = match scenario.flow[flow - lanes].kind {
                FlowKind::Cubic => (LossBased::cubic(), Ecn::NotEct),
                FlowKind::Prague => (LossBased::prague(), Ecn::Ect1),
                FlowKind::Reno | FlowKind::Constant(_) => (LossBased::reno(), Ecn::NotEct),
            };
            let spec = ConnectionSpec { order: Order::Kept, ecn, ..*spec };
            Connection::new(flow, spec, Some(window), shape)
        };
        let flows = lanes + scenario.flow.len();
        let length = scenario.length.0;
        let load = |(place, spec)| Load::new(spec, place, length, random(1000 + place as u64));
        let mut world = World {
            scenario,
            now: Time::ZERO,
            agenda: Agenda::default(),
            node: Node::new(options)?,
            wake: Time::FAR,
            busy_until: Time::ZERO,
            loads: scenario.load.iter().enumerate().map(load).collect(),
            answers: vec![(0, 0); scenario.load.len()],
            uplink: Direction::new(scenario.link.uplink.clone(), seed)
                .tagged(|packet| &mut packet.tag),
            crossed: Vec::new(),
            downlink: Direction::new(scenario.link.downlink.clone(), seed ^ BACK),
            looks: [Time::FAR; 2],
            connections: (0..lanes).map(lane).chain((lanes..flows).map(competitor)).collect(),
            lanes,
            competing: vec![false; scenario.flow.len()],
            ledger: Ledger::new(scenario.load.len()),
            is_strict: false,
            last: None,
            allowed: Size::ZERO,
            peers: Peers::default(),
        };
        world.begin();
        Ok(world)
    }

    /// Also checks every transmission against the uplink's window.
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// Ends when the far end has all records of this load, however much of the others waits.
    pub fn until(mut self, load: usize) -> Self {
        self.last = Some(load);
        self
    }

    fn is_done(&self) -> bool {
        let has_all = |load: usize| {
            let taken = self.loads[load].offered - self.answers[load].1;
            self.ledger.accounts[load].received.len() as u64 == taken
        };
        self.node.held() == 0 || self.last.is_some_and(has_all)
    }

    fn begin(&mut self) {
        for place in 0..self.loads.len() {
            let source = SourceId(place as u32);
            let name = self.scenario.load[place].name.as_str().into();
            self.node
                .handle(self.now, Input::Control(Control::Open { source, name, relays: None }));
            let first = self.loads[place].first();
            self.plan(first, Event::Offer(place));
        }
        self.set_paths(PathState::Up);
        for (place, spec) in self.scenario.flow.iter().enumerate() {
            self.plan(Time::ZERO + spec.from.0, Event::Compete(place, true));
            if let Some(until) = spec.until {
                self.plan(Time::ZERO + until.0, Event::Compete(place, false));
            }
        }
        for (place, step) in self.scenario.step.iter().enumerate() {
            self.plan(Time::ZERO + step.at.0, Event::Step(place));
        }
    }

    fn plan(&mut self, at: Time, event: Event) {
        self.agenda.plan(at.max(self.now), event);
    }

    /// Runs until the loads and then the node are done, or the scenario's time is over.
    pub fn run(mut self) -> Outcome {
        let length = Time::ZERO + self.scenario.length.0;
        let end = length + self.scenario.drain.0;
        let mut carried = None;
        while let Some((at, event)) = self.agenda.next() {
            if at >= length && carried.is_none() {
                carried = Some(self.uplink.counts().arrived_bytes);
            }
            if at > end || (at >= length && self.is_done()) {
                break;
            }
            self.happen_at(at, event);
        }
        self.outcome(carried)
    }

    /// What happened so far.
    fn outcome(mut self, carried: Option<u64>) -> Outcome {
        let unanswered = |(load, (accepted, refused)): (&Load, (u64, u64))| {
            (accepted, refused, load.offered - accepted - refused)
        };
        Outcome {
            answers: self.loads.iter().zip(self.answers).map(unanswered).collect(),
            sums: self.loads.into_iter().map(Load::into_sums).collect(),
            status: self.node.status(self.now),
            ledger: self.ledger,
            crossed: self.crossed,
            ended: self.now,
            carried: carried.unwrap_or_else(|| self.uplink.counts().arrived_bytes),
        }
    }

    fn happen_at(&mut self, at: Time, event: Event) {
        self.now = at;
        let concerns_node = self.concerns_node(&event);
        self.happen(event);
        if concerns_node {
            self.drive();
        }
    }

    /// Whether the node hears of it.
    fn concerns_node(&self, event: &Event) -> bool {
        match event {
            Event::Uplink
            | Event::Downlink
            | Event::Constant(_)
            | Event::Compete(..)
            | Event::Timeout(..) => false,
            Event::Hear(flow, _) => *flow < self.lanes,
            Event::Offer(_) | Event::Confirm(..) | Event::Step(_) => true,
            // One that was planned before an earlier one took its place says nothing.
            Event::Wake => self.wake == self.now,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Offer(place) => self.offer(place),
            Event::Uplink if self.looks[0] == self.now => self.look_at_uplink(),
            Event::Downlink if self.looks[1] == self.now => self.look_at_downlink(),
            Event::Hear(flow, epoch) if self.is_alive(flow, epoch) => self.hear(flow),
            Event::Confirm(id, flow, epoch) if self.is_alive(flow, epoch) => {
                let destination = Destination::Output(OutputId(0));
                self.node.handle(self.now, Input::Confirmed { destination, ids: vec![id] });
            }
            Event::Timeout(flow, epoch) if self.is_alive(flow, epoch) => {
                self.connections[flow].has_timer = false;
                self.connections[flow].timed_out(self.now);
                self.pump(flow);
            }
            Event::Hear(..) | Event::Confirm(..) | Event::Timeout(..) => {}
            Event::Uplink | Event::Downlink => {}
            Event::Constant(place) => self.send_constant(place),
            Event::Compete(place, is_on) => self.compete(place, is_on),
            Event::Step(place) => self.step(&self.scenario.step[place].change),
            Event::Wake if self.wake == self.now => self.wake = Time::FAR,
            Event::Wake => {}
        }
    }

    /// Lets the node do what it wants to do now.
    fn drive(&mut self) {
        while self.busy_until <= self.now {
            if self.is_strict {
                self.allowed = self.allowance();
            }
            let Some(output) = self.node.poll(self.now) else { break };
            self.obey(output);
        }
        let is_busy = self.busy_until > self.now;
        let next = if is_busy { Some(self.busy_until) } else { self.node.next_timeout() };
        if let Some(at) = next.filter(|at| *at < self.wake) {
            self.wake = at.max(self.now);
            self.plan(at, Event::Wake);
        }
    }

    fn obey(&mut self, output: Output) {
        match output {
            Output::Transmit { path, id, range, again, .. } => {
                self.transmit(path, id, range.start, range.end, again);
            }
            Output::Accept { source, token, result } if source.0 as usize >= self.loads.len() => {
                self.peers.answered(token, result);
            }
            Output::Accept { source, token, result } => {
                self.loads[source.0 as usize].answered(token, result.is_ok());
                let (accepted, refused) = &mut self.answers[source.0 as usize];
                *if result.is_ok() { accepted } else { refused } += 1;
            }
            Output::PauseInput(source) => self.loads[source.0 as usize].is_paused = true,
            Output::ResumeInput(source) => {
                let place = source.0 as usize;
                self.loads[place].is_paused = false;
                if self.loads[place].is_backlogged() {
                    self.plan(self.now, Event::Offer(place));
                }
            }
            Output::Report(what @ (Report::Unsupported(_) | Report::Overflow(_))) => {
                self.ledger.complain(self.now, format!("{what:?}"));
            }
            Output::Report(_) | Output::Cancel(_) => {}
            other => self.ledger.complain(self.now, format!("unexpected: {other:?}")),
        }
    }

    fn offer(&mut self, place: usize) {
        let (offers, next) = self.loads[place].offer(self.now);
        if let Some(at) = next {
            self.plan(at, Event::Offer(place));
        }
        if offers.is_empty() {
            return;
        }
        self.node.handle(self.now, Input::Arrived(offers));
        if self.loads[place].is_backlogged() {
            // The node answers before the next offer: it pauses the source when it has enough.
            self.drive();
            if !self.loads[place].is_paused {
                self.plan(self.now, Event::Offer(place));
            }
        }
    }

    fn transmit(&mut self, path: PathId, id: DeliveryId, start: u64, end: u64, again: bool) {
        if path.output != OutputId(0) {
            return self.hand_over(path, id, Size(end - start), again);
        }
        let flow = usize::from(path.lane);
        let bytes = end - start;
        if start == 0 {
            self.busy_until = self.now + self.scenario.node.cost.0;
            let size = self.node.size_of(id).unwrap_or_default().0;
            match self.node.record(id).cloned() {
                Some(record) => {
                    let name = record.key.as_ref();
                    let load =
                        self.scenario.load.iter().position(|load| load.key.as_bytes() == name);
                    let load = load.expect("keys are those of loads");
                    let origin = &record.identity.origin.node;
                    let is_own = *origin == self.node.options().name;
                    let load = if is_own { load } else { self.ledger.place_of(origin, load) };
                    self.ledger.picked(self.now, id, (load, &record), size, (path, again));
                }
                None => self.ledger.complain(self.now, format!("{id:?} has no record")),
            }
        }
        if !self.connections[flow].is_up {
            self.ledger.complain(self.now, format!("{id:?} on a broken connection"));
        }
        // What is urgent has a window of its own.
        if self.is_strict && (flow > 0 || self.lanes == 1) {
            self.check_window(bytes);
        }
        self.connections[flow].hand(self.now, Piece { delivery: Some(id), bytes });
        self.pump(flow);
        self.node.handle(self.now, Input::Sent { id, bytes: Size(bytes) });
    }

    /// The uplink's window, and a cut.
    fn allowance(&self) -> Size {
        self.node.uplinks().iter().map(|uplink| uplink.window + cut_size(uplink.capacity)).sum()
    }

    /// Whatever goes fits what was allowed when the node was asked, or it goes alone.
    fn check_window(&mut self, piece: u64) {
        let in_flight: Size = self.node.uplinks().iter().map(|uplink| uplink.in_flight).sum();
        let allowed = self.allowed.max(self.allowance());
        if in_flight > allowed && in_flight > Size(piece) {
            let what = format!("{} bytes in flight, {} are allowed", in_flight.0, allowed.0);
            self.ledger.complain(self.now, what);
        }
    }
}

/// Makes the downlink's seed of the uplink's.
const BACK: u64 = 1 << 40;

fn path(lane: usize) -> PathId {
    PathId { output: OutputId(0), lane: lane as u8 }
}
