//! Redirection: what the uplink does not carry soon goes by a neighbour's, as far as that is granted.
//!
//! A record that goes leaves its queue and stands in the list of the neighbour's connection until the
//! answer; if there is none it comes back to its queue. Nothing waits on the way, so a grant that ends
//! leaves nothing behind.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use slotmap::SparseSecondaryMap;
use tidegate_capacity::RateControllerName;
use tidegate_schedule::Choice;
use tidegate_schedule::queue::{Delivery, DeliveryKey, Timing};
use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;
use tidegate_types::demand::{Measured, gross_demand};
use tidegate_types::units::{Rate, Size, Time};

use super::grant_pacer::GrantPacer;
use super::measures::backlog_on;
use super::{Egress, Handing, uplink_of};
use crate::io::{Event, Output, OutputId, PathId};
use crate::node::holdings::Holdings;
use crate::node::outbox::Outbox;
use crate::options::{FleetSeat, NodeOptions, UplinkOptions};

/// What the uplink carries within this stays here: it would be there sooner by itself, and an uplink must
/// never wait for a record that went elsewhere.
const SOON: Duration = Duration::from_millis(100);

/// Which grant: the class that it is for, and by which output.
pub(super) type Permit = (Reverse<ClassId>, OutputId);

/// What is granted, the least urgent class first: what is urgent leaves the node last, while its uplink carries.
#[derive(Debug, Default)]
pub(super) struct Redirection {
    grants: BTreeMap<Permit, GrantPacer>,
    /// Records that went by the grant of a less urgent class.
    lifted: SparseSecondaryMap<DeliveryKey, ClassId>,
    /// Who is reached by which output.
    names: BTreeMap<OutputId, Arc<str>>,
    /// When a pace lets the next record go.
    wake: Option<Time>,
}

impl Redirection {
    /// When a pace lets the next record go.
    pub(super) fn wake(&self) -> Option<Time> {
        self.wake
    }

    /// A neighbour's connection of some classes is gone, with what was under way there.
    pub(super) fn lost(&mut self, path: PathId, options: &NodeOptions) {
        for (&(Reverse(class), peer), grant) in &mut self.grants {
            if peer == path.output && options.scheduler.lane_of(class) == path.lane {
                grant.lost();
            }
        }
    }

    /// All grants.
    pub(super) fn permits(&self) -> impl Iterator<Item = (&Permit, &GrantPacer)> {
        self.grants.iter()
    }

    /// Something can go at this time.
    pub(super) fn wake_at(&mut self, at: Time) {
        self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
    }

    /// A neighbour answered for a delivery, one way or another.
    pub(super) fn answered(&mut self, now: Time, key: DeliveryKey, delivery: &Delivery) {
        let Delivery { spec, size, progress, .. } = delivery;
        let class = self.lifted.remove(key).unwrap_or(spec.class);
        if let Some(grant) = self.grants.get_mut(&(Reverse(class), spec.output)) {
            grant.answered(*size, now.since(progress.picked_at));
        }
    }
}

impl Egress {
    /// Somebody is reached by an output from now on.
    pub(crate) fn name_peer(&mut self, peer: OutputId, name: Arc<str>) {
        self.redirection.names.insert(peer, name);
    }

    /// Whose uplink carries what goes by an output; `None` where it is our own.
    pub(crate) fn carrier(&self, output: OutputId) -> Option<Arc<str>> {
        self.redirection.names.get(&output).cloned()
    }

    /// What a neighbour's uplink carries of a class from now on, until the lease ends.
    pub(crate) fn grant(
        &mut self,
        now: Time,
        options: &NodeOptions,
        outbox: &mut Outbox,
        (peer, class): (OutputId, ClassId),
        amount: Amount,
        lease: Duration,
    ) {
        let Some(seat) = options.fleet else {
            return outbox.report(Event::Unsupported("a grant of a node without a fleet"));
        };
        if !self.has_output(peer) || peer == seat.output || class >= seat.relayed {
            return outbox.report(Event::Unsupported("a grant for what does not exist"));
        }
        let grants = &mut self.redirection.grants;
        let grant = grants.entry((Reverse(class), peer)).or_insert_with(|| GrantPacer::new(now));
        grant.grant(amount, now + lease);
        grants.retain(|_, grant| !grant.is_over(now));
    }

    /// Sends one record by a neighbour, if one may and should go.
    pub(crate) fn redirect(
        &mut self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
    ) -> Option<Output> {
        self.redirection.wake = None;
        let seat = options.fleet.filter(|_| !self.redirection.grants.is_empty())?;
        match self.dead_from(options, seat.output) {
            Some(at) if at <= now => return self.evacuate(now, holdings, options, seat),
            Some(at) => self.redirection.wake_at(at),
            None => {}
        }
        let uplink = uplink_of(options, seat.output);
        let soon = self.believed(now, options, seat.output).in_span(SOON);
        let places: Vec<(ClassId, OutputId)> =
            self.redirection.grants.keys().map(|&(Reverse(class), peer)| (class, peer)).collect();
        for (class, peer) in places {
            let grant = &self.redirection.grants[&(Reverse(class), peer)];
            let Some(at) = grant.next(now) else { continue };
            let is_little = || ahead_of(holdings, options, uplink, class) <= soon;
            if !self.takes(options, peer, class) || is_little() {
                continue;
            }
            let [live, late] = holdings.heads(class, seat.output, now);
            let timing = if live.is_some() { Timing::Live } else { Timing::Late };
            let Some(key) = live.or(late) else { continue };
            if at <= now {
                let what = (key, Choice { class, timing });
                return self.send_by(now, holdings, options, what, (Reverse(class), peer));
            }
            self.redirection.wake_at(at);
        }
        None
    }

    /// Whether a neighbour's connection is there and has room for a record of a class.
    pub(super) fn takes(&self, options: &NodeOptions, peer: OutputId, class: ClassId) -> bool {
        let state = &self.outputs[usize::from(peer.0)];
        let lane = usize::from(options.scheduler.lane_of(class));
        let has_room = state.unconfirmed() < options.window_for(class, peer);
        !state.is_down && state.lanes[lane].is_up && has_room
    }

    /// Hands a whole record to a neighbour's connection: that cuts it by itself.
    pub(super) fn send_by(
        &mut self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        (key, choice): (DeliveryKey, Choice),
        permit: Permit,
    ) -> Option<Output> {
        let (Reverse(of), peer) = permit;
        let size = holdings.delivery(key)?.size;
        holdings.divert(now, key, peer);
        let handing = Handing { key, output: peer, choice, piece: size };
        let transmit = self.hand_over(now, holdings, options, handing);
        if let Some(grant) = self.redirection.grants.get_mut(&permit) {
            grant.send(now, size);
        }
        self.redirection.lifted.remove(key);
        if of != choice.class {
            self.redirection.lifted.insert(key, of);
        }
        let state = &mut self.outputs[usize::from(peer.0)];
        state.redirected.0 += 1;
        state.redirected.1 += size;
        Some(transmit)
    }

    /// What an agent of the fleet wants to know: of the uplink, and of our own classes on it. `None` where
    /// the node is no part of a fleet.
    pub(crate) fn measured(
        &mut self,
        now: Time,
        holdings: &Holdings,
        options: &NodeOptions,
    ) -> Option<Measured> {
        let FleetSeat { output, relayed } = options.fleet?;
        let uplink = uplink_of(options, output);
        let mut demand = Vec::new();
        let mut used = Rate::ZERO;
        for class in 0..relayed.0 {
            let backlog = backlog_on(holdings, options, uplink, ClassId(class));
            let (input, output) = &mut self.uplinks[uplink].meters[usize::from(class)];
            let bound = options.classes.spec(ClassId(class)).latency;
            demand.push(gross_demand(input.rate(now), backlog, bound));
            used = used + output.rate(now);
        }
        Some(Measured {
            capacity: self.lendable(now, holdings, options, (output, relayed)),
            demand,
            output: used,
        })
    }

    /// What an uplink carries. One that is not full shows less than that: then a configured rate is
    /// believed, or a node that was idle would never lend anything; but not of one that failed lately.
    fn lendable(
        &mut self,
        now: Time,
        holdings: &Holdings,
        options: &NodeOptions,
        (output, least): (OutputId, ClassId),
    ) -> Rate {
        let uplink = uplink_of(options, output);
        let capacity = self.believed(now, options, output);
        let UplinkOptions { controller, cap, .. } = options.uplinks[uplink];
        let is_full = ahead_of(holdings, options, uplink, least) > capacity.in_span(SOON);
        let is_doubted = is_full || self.is_on_probation(now, options, output);
        match cap.filter(|_| controller != RateControllerName::Known && !is_doubted) {
            Some(cap) => cap.max(capacity),
            None => capacity,
        }
    }
}

/// What waits for the uplink and goes before a new record of a class, or with it.
fn ahead_of(holdings: &Holdings, options: &NodeOptions, uplink: usize, class: ClassId) -> Size {
    (0..=class.0).map(|class| backlog_on(holdings, options, uplink, ClassId(class))).sum()
}
