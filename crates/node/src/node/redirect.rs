//! Redirection: what the uplink does not carry soon goes by a neighbour's, as far as that is granted.
//!
//! A record that goes leaves its queue and stands in the list of the neighbour's connection until the
//! answer; if there is none it comes back to its queue. Nothing waits on the way, so a grant that ends
//! leaves nothing behind.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_capacity::LawName;
use tidegate_schedule::queue::{Delivery, DeliveryKey};
use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;
use tidegate_types::demand::{Measured, gross_demand};
use tidegate_types::units::{Rate, Size, Time};

use super::Node;
use super::forward::Picked;
use super::grant_pacer::GrantPacer;
use crate::io::{Destination, Event, Output, OutputId, PathId, Targets};
use crate::options::{FleetSeat, UplinkOptions};

/// What the uplink carries within this stays here: it would be there sooner by itself, and an uplink must
/// never wait for a record that went elsewhere.
const SOON: Duration = Duration::from_millis(100);

/// What is granted, the least urgent class first: what is urgent leaves the node last.
#[derive(Debug, Default)]
pub(super) struct Redirect {
    ways: BTreeMap<(Reverse<ClassId>, OutputId), GrantPacer>,
    /// Who is reached by which output.
    names: BTreeMap<OutputId, Arc<str>>,
    /// When a pace lets the next record go.
    pub(super) wake: Option<Time>,
}

impl Redirect {
    /// Somebody is reached by an output from now on.
    pub(super) fn name(&mut self, peer: OutputId, name: Arc<str>) {
        self.names.insert(peer, name);
    }

    /// Whose uplink carries what goes by an output; `None` where it is our own.
    pub(super) fn carrier(&self, output: OutputId) -> Option<Arc<str>> {
        self.names.get(&output).cloned()
    }
}

impl Node {
    /// What a neighbour's uplink carries of a class from now on.
    pub(super) fn granted(
        &mut self,
        now: Time,
        peer: OutputId,
        class: ClassId,
        amount: Amount,
        lease: Duration,
    ) {
        let Some(seat) = self.options.fleet else {
            return self.report(Event::Unsupported("a grant of a node without a fleet"));
        };
        let is_known = usize::from(peer.0) < self.outputs.len() && peer != seat.output;
        if !is_known || class >= seat.relayed {
            return self.report(Event::Unsupported("a grant for what does not exist"));
        }
        let ways = &mut self.redirect.ways;
        let way = ways.entry((Reverse(class), peer)).or_insert_with(|| GrantPacer::new(now));
        way.grant(amount, now + lease);
        ways.retain(|_, way| !way.is_over(now));
    }

    /// Sends one record by a neighbour, if one may and should go.
    pub(super) fn redirect(&mut self, now: Time) -> Option<Output> {
        self.redirect.wake = None;
        let seat = self.options.fleet.filter(|_| !self.redirect.ways.is_empty())?;
        let uplink = usize::from(self.options.outputs[usize::from(seat.output.0)].uplink.0);
        let soon = self.uplinks[uplink].uplink.capacity().in_span(SOON);
        let places: Vec<(ClassId, OutputId)> =
            self.redirect.ways.keys().map(|&(Reverse(class), peer)| (class, peer)).collect();
        for (class, peer) in places {
            let Some(at) = self.redirect.ways[&(Reverse(class), peer)].next(now) else { continue };
            if !self.takes(peer, class) || self.ahead_of(uplink, class) <= soon {
                continue;
            }
            let [live, late] = self.queues.heads(class, seat.output, now);
            let Some(key) = live.or(late) else { continue };
            if at <= now {
                return Some(self.send_by(now, key, class, peer));
            }
            self.redirect.wake = Some(self.redirect.wake.map_or(at, |wake| wake.min(at)));
        }
        None
    }

    /// Whether a neighbour's connection is there and has room for a record of a class.
    fn takes(&self, peer: OutputId, class: ClassId) -> bool {
        let state = &self.outputs[usize::from(peer.0)];
        let lane = usize::from(self.options.scheduler.lane_of(class));
        let has_room = state.unconfirmed() < self.options.window_for(class, peer);
        !state.is_down && state.lanes[lane].is_up && has_room
    }

    /// What waits for the uplink and goes before a new record of a class, or with it.
    fn ahead_of(&self, uplink: usize, class: ClassId) -> Size {
        (0..=class.0).map(|class| self.backlog_on(uplink, ClassId(class))).sum()
    }

    /// Hands a whole record to a neighbour's connection: that cuts it by itself.
    fn send_by(&mut self, now: Time, key: DeliveryKey, class: ClassId, peer: OutputId) -> Output {
        self.queues.take(key);
        self.queues.charge(now, key);
        self.queues.divert(key, peer);
        let lane_place = self.options.scheduler.lane_of(class);
        let state = &mut self.outputs[usize::from(peer.0)];
        let path = state.first_path + usize::from(lane_place);
        let lane = &mut state.lanes[usize::from(lane_place)];
        let delivery = self.queues.get_mut(key).expect("a head is known");
        lane.last_number += 1;
        let size = delivery.size;
        delivery.progress.picked = size;
        delivery.progress.picked_at = now;
        delivery.progress.number = lane.last_number;
        let again = delivery.progress.again;
        let number = lane.last_number;
        lane.picked.push_back(Picked { key, class, piece: size, number, is_last: true });
        self.queues.await_fate(&mut lane.unconfirmed, key);
        let uplink = self.options.outputs[usize::from(peer.0)].uplink;
        self.uplinks[usize::from(uplink.0)].uplink.picked_for(now, path, size);
        if let Some(way) = self.redirect.ways.get_mut(&(Reverse(class), peer)) {
            way.send(now, size);
        }
        let state = &mut self.outputs[usize::from(peer.0)];
        state.redirected.0 += 1;
        state.redirected.1 += size;
        Output::Transmit {
            destinations: Targets::One(Destination::Output(peer)),
            path: PathId { output: peer, lane: lane_place },
            id: key.into(),
            range: 0..size.0,
            again,
        }
    }

    /// A neighbour answered for a delivery, one way or another.
    pub(super) fn peer_answered(&mut self, now: Time, key: DeliveryKey) {
        let Some(Delivery { spec, size, progress, .. }) = self.queues.get(key) else { return };
        let place = (Reverse(spec.class), spec.output);
        if let Some(way) = self.redirect.ways.get_mut(&place) {
            way.answered(*size, now.since(progress.picked_at));
        }
    }

    /// A neighbour's connection of some classes is gone, with what was under way there.
    pub(super) fn peer_lost(&mut self, path: PathId) {
        let scheduler = self.options.scheduler;
        for (&(Reverse(class), peer), way) in &mut self.redirect.ways {
            if peer == path.output && scheduler.lane_of(class) == path.lane {
                way.lost();
            }
        }
    }

    /// What an agent of the fleet wants to know: of the uplink, and of our own classes on it. `None` where
    /// the node is no part of a fleet.
    pub fn measured(&mut self, now: Time) -> Option<Measured> {
        let FleetSeat { output, relayed } = self.options.fleet?;
        let uplink = usize::from(self.options.outputs[usize::from(output.0)].uplink.0);
        let mut demand = Vec::new();
        let mut used = Rate::ZERO;
        for class in 0..relayed.0 {
            let backlog = self.backlog_on(uplink, ClassId(class));
            let (input, output) = &mut self.uplinks[uplink].meters[usize::from(class)];
            let bound = self.options.classes.spec(ClassId(class)).latency;
            demand.push(gross_demand(input.rate(now), backlog, bound));
            used = used + output.rate(now);
        }
        Some(Measured { capacity: self.lendable(uplink, relayed), demand, output: used })
    }

    /// What an uplink carries. One that is not full shows less than that: then a configured rate is
    /// believed, or a node that was idle would never lend anything.
    fn lendable(&self, uplink: usize, least: ClassId) -> Rate {
        let capacity = self.uplinks[uplink].uplink.capacity();
        let UplinkOptions { law, cap, .. } = self.options.uplinks[uplink];
        let is_full = self.ahead_of(uplink, least) > capacity.in_span(SOON);
        match cap.filter(|_| law != LawName::Known && !is_full) {
            Some(cap) => cap.max(capacity),
            None => capacity,
        }
    }
}
