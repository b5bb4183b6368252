//! The world: the whole core node, its connections, the link and everybody on it, in virtual time.
//!
//! The same scenario and seed give the same run to the byte.

use tidegate_core::io::{
    Control, Destination, Event as Report, Input, Output, OutputId, PathId, PathState,
};
use tidegate_core::node::Node;
use tidegate_core::pace::cut_size;
use tidegate_core::record::{DeliveryId, SourceId};
use tidegate_core::status::NodeStatus;
use tidegate_core::units::{Size, Time};

use super::agenda::{Agenda, Event};
use super::build;
use super::connection::{Connection, Piece};
use super::feedback::Shape;
use super::ledger::Ledger;
use super::link::{Link, Packet};
use super::load::Load;
use super::random::Random;
use super::reno::{PACKET, Reno};
use super::scenario::{Change, Feedback, FlowKind, Order, Scenario, Window};

/// What happened, for the report and for checkers.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) ledger: Ledger,
    pub(super) status: NodeStatus,
    pub(super) ended: Time,
    /// (accepted, refused, unanswered) offers of each load.
    pub(super) answers: Vec<(u64, u64, u64)>,
}

/// The world.
#[derive(Debug)]
pub(super) struct World<'s> {
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
    link: Link,
    /// The node's lanes first, then one for each competitor.
    connections: Vec<Connection>,
    lanes: usize,
    /// Whether each competitor is sending.
    competing: Vec<bool>,
    ledger: Ledger,
    /// Whether each transmission is checked against the uplink's window.
    is_strict: bool,
    /// What could be in flight before the node was last asked.
    allowed: Size,
}

impl<'s> World<'s> {
    /// A world at its beginning.
    ///
    /// # Errors
    /// A scenario that names what does not exist.
    pub(super) fn new(scenario: &'s Scenario, seed: u64) -> anyhow::Result<Self> {
        let random = |part| Random::new(seed, part);
        let options = build::options(scenario)?;
        let lanes = usize::from(options.scheduler.lanes(&options.classes));
        let spec = &scenario.connection;
        let lane = |flow| {
            let reno = (spec.window == Window::Reno).then(Reno::new);
            let shape = Shape::new(spec.feedback, random(100 + flow as u64));
            Connection::new(flow, spec.order, reno, shape)
        };
        // Every competitor has a connection, so that flows and connections have the same numbers.
        let competitor = |flow| {
            let shape = Shape::new(Feedback::Each, random(100 + flow as u64));
            Connection::new(flow, Order::Kept, Some(Reno::new()), shape)
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
            link: Link::new(&scenario.link, random(1))?,
            connections: (0..lanes).map(lane).chain((lanes..flows).map(competitor)).collect(),
            lanes,
            competing: vec![false; scenario.flow.len()],
            ledger: Ledger::new(scenario.load.len()),
            is_strict: false,
            allowed: Size::ZERO,
        };
        world.begin();
        Ok(world)
    }

    /// Also checks every transmission against the uplink's window.
    pub(super) fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    fn begin(&mut self) {
        for place in 0..self.loads.len() {
            let source = SourceId(place as u32);
            let name = self.scenario.load[place].name.as_str().into();
            self.node.handle(self.now, Input::Control(Control::Open { source, name }));
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
    pub(super) fn run(mut self) -> Outcome {
        let length = Time::ZERO + self.scenario.length.0;
        let end = length + self.scenario.drain.0;
        while let Some((at, event)) = self.agenda.next() {
            let is_done = at >= length && self.node.held() == 0;
            if at > end || is_done {
                break;
            }
            self.now = at;
            let concerns_node = self.concerns_node(&event);
            self.happen(event);
            if concerns_node {
                self.drive();
            }
        }
        let unanswered = |(load, (accepted, refused)): (&Load, (u64, u64))| {
            (accepted, refused, load.offered - accepted - refused)
        };
        Outcome {
            answers: self.loads.iter().zip(self.answers).map(unanswered).collect(),
            status: self.node.status(self.now),
            ledger: self.ledger,
            ended: self.now,
        }
    }

    /// Whether the node hears of it.
    fn concerns_node(&self, event: &Event) -> bool {
        match event {
            Event::Depart | Event::Arrive(_) | Event::Constant(_) | Event::Compete(..) => false,
            Event::Timeout(..) => false,
            Event::Hear(flow, _) => *flow < self.lanes,
            Event::Offer(_) | Event::Confirm(..) | Event::Step(_) => true,
            // One that was planned before an earlier one took its place says nothing.
            Event::Wake => self.wake == self.now,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Offer(place) => self.offer(place),
            Event::Depart => {
                for (packet, arrival) in self.link.depart(self.now) {
                    if let Some(at) = arrival {
                        self.plan(at, Event::Arrive(packet));
                    }
                }
                self.begin_link();
            }
            Event::Arrive(packet) => self.arrive(packet),
            Event::Hear(flow, epoch) if self.is_alive(flow, epoch) => self.hear(flow),
            Event::Confirm(id, flow, epoch) if self.is_alive(flow, epoch) => {
                let destination = Destination::Output(OutputId(0));
                self.node.handle(self.now, Input::Confirmed { destination, ids: vec![id] });
            }
            Event::Timeout(flow, epoch) if self.is_alive(flow, epoch) => {
                self.connections[flow].has_timer = false;
                if let Some(packet) = self.connections[flow].timed_out(self.now) {
                    self.link.offer(packet);
                }
                self.pump(flow);
            }
            Event::Hear(..) | Event::Confirm(..) | Event::Timeout(..) => {}
            Event::Constant(place) => self.send_constant(place),
            Event::Compete(place, is_on) => self.compete(place, is_on),
            Event::Step(place) => self.step(self.scenario.step[place].change),
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
            Output::Accept { source, result, .. } => {
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
        let flow = usize::from(path.lane);
        let bytes = end - start;
        if start == 0 {
            self.busy_until = self.now + self.scenario.node.cost.0;
            let size = self.node.size_of(id).unwrap_or_default().0;
            match self.node.record(id).cloned() {
                Some(record) => {
                    let name = record.key.as_ref();
                    let load =
                        self.scenario.load.iter().position(|load| load.name.as_bytes() == name);
                    let load = load.expect("keys are the loads' names");
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

    /// Sends what a connection may send.
    fn pump(&mut self, flow: usize) {
        if let Some(place) = flow.checked_sub(self.lanes) {
            // A competitor always has more to send.
            while self.competing[place] && self.connections[flow].waiting() < PACKET {
                let bytes = 16 * PACKET;
                self.connections[flow].hand(self.now, Piece { delivery: None, bytes });
            }
        }
        while let Some(packet) = self.connections[flow].send(self.now) {
            self.link.offer(packet);
        }
        self.begin_link();
        let connection = &mut self.connections[flow];
        if let Some(at) = connection.timeout().filter(|_| !connection.has_timer) {
            connection.has_timer = true;
            let epoch = connection.epoch;
            self.plan(at, Event::Timeout(flow, epoch));
        }
    }

    fn begin_link(&mut self) {
        if let Some(at) = self.link.begin(self.now) {
            self.plan(at, Event::Depart);
        }
    }

    fn is_alive(&self, flow: usize, epoch: u32) -> bool {
        let connection = &self.connections[flow];
        connection.is_up && connection.epoch == epoch
    }

    fn arrive(&mut self, packet: Packet) {
        let Packet { flow, epoch, number, .. } = packet;
        if number == UNCONNECTED || !self.is_alive(flow, epoch) {
            return;
        }
        let back = self.now + self.link.delay();
        let (pieces, heard) = self.connections[flow].arrive(packet, back);
        self.plan(heard, Event::Hear(flow, epoch));
        for piece in pieces {
            let Some(id) = piece.delivery else { continue };
            if self.ledger.received(self.now, id, piece.bytes) {
                self.plan(back, Event::Confirm(id, flow, epoch));
            }
        }
    }

    fn hear(&mut self, flow: usize) {
        let (sample, again) = self.connections[flow].hear(self.now);
        again.into_iter().for_each(|packet| self.link.offer(packet));
        self.pump(flow);
        if let Some(sample) = sample.filter(|_| flow < self.lanes) {
            self.node.handle(self.now, Input::PathSample { path: path(flow), sample });
        }
    }

    fn compete(&mut self, place: usize, is_on: bool) {
        self.competing[place] = is_on;
        match self.scenario.flow[place].kind {
            FlowKind::Constant(_) if is_on => self.plan(self.now, Event::Constant(place)),
            FlowKind::Constant(_) => {}
            FlowKind::Reno => self.pump(self.lanes + place),
        }
    }

    fn send_constant(&mut self, place: usize) {
        let FlowKind::Constant(speed) = self.scenario.flow[place].kind else { return };
        if self.competing[place] {
            let flow = self.lanes + place;
            self.link.offer(Packet { flow, epoch: 0, number: UNCONNECTED, sent: 0, bytes: PACKET });
            self.begin_link();
            self.plan(self.now + speed.0.time_for(Size(PACKET)), Event::Constant(place));
        }
    }

    fn step(&mut self, change: Change) {
        match change {
            Change::Rate(speed) => {
                self.link.set_rate(speed.0);
                self.begin_link();
            }
            Change::Delay(delay) => self.link.set_delay(delay.0),
            Change::Loss(loss) => self.link.set_loss(loss),
            Change::Down => self.set_paths(PathState::Down),
            Change::Up => self.set_paths(PathState::Up),
        }
    }

    fn set_paths(&mut self, state: PathState) {
        for lane in 0..self.lanes {
            if state == PathState::Down {
                self.connections[lane].restart();
                self.ledger.broke(path(lane));
            }
            self.connections[lane].is_up = state == PathState::Up;
            self.node.handle(self.now, Input::PathState { path: path(lane), state });
        }
    }
}

/// Number of the packets of a flow that has no connection.
const UNCONNECTED: u64 = u64::MAX;

fn path(lane: usize) -> PathId {
    PathId { output: OutputId(0), lane: lane as u8 }
}
