//! The world below the node: connections, the link that they share, and who else is on it.

use std::time::Duration;

use tidegate_node::io::{Input, PathState};
use tidegate_types::units::{Size, Time};

use super::super::agenda::Event;
use super::super::connection::Piece;
use super::super::link::{Packet, REPLY, Reply};
use super::super::loss_based::PACKET;
use super::super::scenario::{Change, FlowKind};
use super::{World, path};
use crate::link::{Discipline, Ecn, Outcome, Tag};

/// Number of the packets of a flow that has no connection.
const UNCONNECTED: u64 = u64::MAX;

/// A packet that is at the far end.
#[derive(Clone, Copy, Debug)]
pub struct Crossed {
    /// When it was there.
    pub at: Time,
    /// Whether it is the node's, and no competitor's.
    pub is_own: bool,
    /// Its size.
    pub bytes: u64,
    /// How long it waited for the wire.
    pub waited: Duration,
    /// Whether a queue marked it.
    pub is_marked: bool,
}

impl World<'_> {
    /// Sends what a connection may send.
    pub(super) fn pump(&mut self, flow: usize) {
        if let Some(place) = flow.checked_sub(self.lanes) {
            // A competitor always has more to send.
            while self.competing[place] && self.connections[flow].waiting() < PACKET {
                let bytes = 16 * PACKET;
                self.connections[flow].hand(self.now, Piece { delivery: None, bytes });
            }
        }
        while let Some(packet) = self.connections[flow].send(self.now) {
            self.cross(packet);
        }
        let connection = &mut self.connections[flow];
        let (epoch, paced) = (connection.epoch, connection.awaited(self.now));
        if let Some(at) = connection.timeout().filter(|_| !connection.has_timer) {
            connection.has_timer = true;
            self.plan(at, Event::Timeout(flow, epoch));
        }
        paced.into_iter().for_each(|at| self.plan(at, Event::Hear(flow, epoch)));
    }

    /// A packet comes to the uplink.
    pub(super) fn cross(&mut self, packet: Packet) {
        let headers = self.scenario.connection.headers;
        self.uplink.offer(self.now, packet.bytes + headers, packet);
        self.plan_looks();
    }

    pub(super) fn look_at_uplink(&mut self) {
        self.looks[0] = Time::FAR;
        while let Some(outcome) = self.uplink.poll(self.now) {
            // Nobody is told of what is lost.
            if let Outcome::Arrived { item, .. } = outcome {
                self.arrive(item);
            }
        }
        self.plan_looks();
    }

    pub(super) fn look_at_downlink(&mut self) {
        self.looks[1] = Time::FAR;
        while let Some(outcome) = self.downlink.poll(self.now) {
            if let Outcome::Arrived { item, .. } = outcome {
                self.replied(item);
            }
        }
        self.plan_looks();
    }

    fn plan_looks(&mut self) {
        let next = [self.uplink.next_timeout(), self.downlink.next_timeout()];
        for (way, event) in [Event::Uplink, Event::Downlink].into_iter().enumerate() {
            if let Some(at) = next[way].filter(|at| *at < self.looks[way]) {
                self.looks[way] = at.max(self.now);
                self.plan(at, event);
            }
        }
    }

    pub(super) fn is_alive(&self, flow: usize, epoch: u32) -> bool {
        let connection = &self.connections[flow];
        connection.is_up && connection.epoch == epoch
    }

    fn arrive(&mut self, packet: Packet) {
        let Packet { flow, epoch, number, bytes, tag, .. } = packet;
        if matches!(self.scenario.link.uplink.discipline, Discipline::CoDel | Discipline::DualPi2) {
            let (at, is_own, is_marked) = (self.now, flow < self.lanes, tag.ecn == Ecn::Ce);
            self.crossed.push(Crossed { at, is_own, bytes, waited: tag.waited, is_marked });
        }
        if number == UNCONNECTED || !self.is_alive(flow, epoch) {
            return;
        }
        for piece in self.connections[flow].arrive(packet) {
            let Some(id) = piece.delivery else { continue };
            if self.ledger.received(self.now, id, piece.bytes) {
                self.connections[flow].complete(id);
            }
        }
        self.downlink.offer(self.now, REPLY, self.connections[flow].reply());
        self.plan_looks();
    }

    fn replied(&mut self, reply: Reply) {
        let Reply { flow, epoch, .. } = reply;
        if !self.is_alive(flow, epoch) {
            return;
        }
        let (confirmed, heard) = self.connections[flow].replied(self.now, reply);
        // What comes until somebody looks is heard by one look.
        if self.connections[flow].heard_at != Some(heard) || heard <= self.now {
            self.connections[flow].heard_at = Some(heard);
            self.plan(heard, Event::Hear(flow, epoch));
        }
        for id in confirmed {
            self.plan(self.now, Event::Confirm(id, flow, epoch));
        }
    }

    pub(super) fn hear(&mut self, flow: usize) {
        let (sample, again) = self.connections[flow].hear(self.now);
        again.into_iter().for_each(|packet| self.cross(packet));
        self.pump(flow);
        if let Some(sample) = sample.filter(|_| flow < self.lanes) {
            self.node.handle(self.now, Input::PathSample { path: path(flow), sample });
        }
    }

    pub(super) fn compete(&mut self, place: usize, is_on: bool) {
        self.competing[place] = is_on;
        match self.scenario.flow[place].kind {
            FlowKind::Constant(_) if is_on => self.plan(self.now, Event::Constant(place)),
            FlowKind::Constant(_) => {}
            FlowKind::Reno | FlowKind::Cubic | FlowKind::Prague => self.pump(self.lanes + place),
        }
    }

    pub(super) fn send_constant(&mut self, place: usize) {
        let FlowKind::Constant(speed) = self.scenario.flow[place].kind else { return };
        if self.competing[place] {
            let flow = self.lanes + place;
            let (number, bytes, tag) = (UNCONNECTED, PACKET, Tag::default());
            self.cross(Packet { flow, epoch: 0, number, sent: 0, bytes, tag });
            self.plan(self.now + speed.0.time_for(Size(PACKET)), Event::Constant(place));
        }
    }

    pub(super) fn step(&mut self, change: &Change) {
        match change {
            Change::Link([up, down], change) => {
                if *up {
                    self.uplink.change(self.now, change.clone());
                }
                if *down {
                    self.downlink.change(self.now, change.clone());
                }
                self.plan_looks();
            }
            Change::Down => self.set_paths(PathState::Down),
            Change::Up => self.set_paths(PathState::Up),
        }
    }

    pub(super) fn set_paths(&mut self, state: PathState) {
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
