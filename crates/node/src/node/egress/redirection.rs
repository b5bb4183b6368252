//! Redirection: what the uplink does not carry soon goes by a neighbour's, as far as that is granted.
//!
//! A record that goes leaves its queue and stands in the list of the neighbour's connection until the
//! answer; if there is none it comes back to its queue. Nothing waits on the way, so a grant that ends
//! leaves nothing behind.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use tidegate_capacity::RateControllerName;
use tidegate_schedule::Choice;
use tidegate_schedule::queue::{DeliveryKey, Timing};
use tidegate_types::amount::Amount;
use tidegate_types::class::ClassId;
use tidegate_types::demand::{Measured, gross_demand};
use tidegate_types::units::{Rate, Size};

use super::grants::{GrantPacer, Permit};
use super::measures::backlog_on;
use super::{Egress, Handing};
use crate::io::{Event, Output, OutputId};
use crate::node::base::Base;
use crate::options::{FleetSeat, UplinkOptions};

/// What the uplink carries within this stays here: it would be there sooner by itself, and an uplink must
/// never wait for a record that went elsewhere.
const SOON: Duration = Duration::from_millis(100);

impl Egress {
    /// Somebody is reached by an output from now on.
    pub(crate) fn name_peer(&mut self, peer: OutputId, name: Arc<str>) {
        self.grants.names.insert(peer, name);
    }

    /// Whose uplink carries what goes by an output; `None` where it is our own.
    pub(crate) fn carrier(&self, output: OutputId) -> Option<Arc<str>> {
        self.grants.names.get(&output).cloned()
    }

    /// What a neighbour's uplink carries of a class from now on, until the lease ends.
    pub(crate) fn grant(
        &mut self,
        base: &mut Base,
        (peer, class): (OutputId, ClassId),
        amount: Amount,
        lease: Duration,
    ) {
        let Some(seat) = base.options.fleet else {
            return base.outbox.report(Event::Unsupported("a grant of a node without a fleet"));
        };
        if !base.options.has_output(peer) || peer == seat.output || class >= seat.relayed {
            return base.outbox.report(Event::Unsupported("a grant for what does not exist"));
        }
        let grants = &mut self.grants.all;
        let grant =
            grants.entry((Reverse(class), peer)).or_insert_with(|| GrantPacer::new(base.now));
        grant.grant(amount, base.now + lease);
        grants.retain(|_, grant| !grant.is_over(base.now));
    }

    /// Sends one record by a neighbour, if one may and should go.
    pub(crate) fn redirect(&mut self, base: &mut Base) -> Option<Output> {
        self.grants.wake = None;
        let seat = base.options.fleet.filter(|_| !self.grants.all.is_empty())?;
        match self.dead_from(seat.output) {
            Some(at) if at <= base.now => return self.evacuate(base, seat),
            Some(at) => self.grants.wake_at(at),
            None => {}
        }
        let uplink = self.outputs[usize::from(seat.output.0)].uplink;
        let carries = self.believed(base.now, seat.output);
        let places: Vec<(ClassId, OutputId)> =
            self.grants.all.keys().map(|&(Reverse(class), peer)| (class, peer)).collect();
        for (of, peer) in places {
            let grant = &self.grants.all[&(Reverse(of), peer)];
            let Some(at) = grant.next(base.now) else { continue };
            // What is more urgent goes first, where the uplink is short of it too. Nothing is reserved for the least urgent
            // class: what is more urgent would wait there behind all that is the neighbour's own.
            let first = if of.0 + 1 == seat.relayed.0 { of.0 } else { 0 };
            let is_much = |class: &ClassId| {
                let soon = SOON.min(base.options.classes.spec(*class).latency / 2);
                ahead_of(base, uplink, *class) > carries.in_span(soon)
            };
            let Some(class) = (first..=of.0).map(ClassId).find(is_much) else { continue };
            if !self.takes(base, peer, class) {
                continue;
            }
            let [live, late] = base.holdings.heads(class, seat.output, base.now);
            let timing = if live.is_some() { Timing::Live } else { Timing::Late };
            // A neighbour's stays here: it makes one hop.
            let Some(key) = live.or(late).filter(|key| !base.holdings.is_lent(*key)) else {
                continue;
            };
            if at <= base.now {
                let what = (key, Choice { class, timing });
                return self.send_by(base, what, (Reverse(of), peer));
            }
            self.grants.wake_at(at);
        }
        None
    }

    /// Sends an alarm by a neighbour that answers sooner than our own uplink, where a queue below us, or silence, makes that
    /// one late by half of the bound. Alarms are few: where more comes than neighbours reserve, what the uplink has too much of
    /// leaves by [`Egress::redirect`], and the rest would only push less urgent records from their grants.
    pub(crate) fn hurry(&mut self, base: &mut Base) -> Option<Output> {
        let seat = base.options.fleet.filter(|_| !self.grants.all.is_empty())?;
        let class = ClassId(0);
        if class.0 + 1 == seat.relayed.0 {
            return None;
        }
        let own = &self.outputs[usize::from(seat.output.0)];
        let uplink_index = own.uplink;
        let uplink = &self.uplinks[uplink_index].uplink;
        let (least, newest) = uplink.min_rtt().zip(uplink.rtt())?;
        let silent = own.lanes.iter().filter_map(|lane| lane.silence.since).min()?;
        let takes = newest.max(base.now.since(silent));
        let bound = base.options.classes.spec(class).latency;
        if takes < least + bound / 2 {
            return None;
        }
        let [live, _] = base.holdings.heads(class, seat.output, base.now);
        let key = live.filter(|key| !base.holdings.is_lent(*key))?;
        let comes = self.uplinks[uplink_index].meters[0].0.rate(base.now);
        let is_reserved = |((Reverse(of), _), _): &(&Permit, _)| of.0 + 1 < seat.relayed.0;
        let permits = self.grants.all.iter().filter(is_reserved);
        if comes > permits.map(|(_, grant)| grant.amount(base.now).rate()).sum() {
            return None;
        }
        let reserved = |((Reverse(of), peer), grant): &(&Permit, &GrantPacer)| {
            of.0 + 1 < seat.relayed.0
                && self.takes(base, *peer, class)
                && grant.next_urgent(base.now).is_some_and(|at| at <= base.now)
                && grant.takes(base.now) < takes
        };
        let usable = self.grants.all.iter().filter(reserved);
        let (permit, _) = usable.min_by_key(|(_, grant)| grant.takes(base.now))?;
        let what = (key, Choice { class, timing: Timing::Live });
        self.send_by(base, what, *permit)
    }

    /// Whether a neighbour's connection is there and has room for a record of a class.
    pub(super) fn takes(&self, base: &Base, peer: OutputId, class: ClassId) -> bool {
        let state = &self.outputs[usize::from(peer.0)];
        let lane = usize::from(base.options.lane_of(peer, class));
        let has_room = state.unconfirmed() < base.options.window_for(class, state.window);
        !state.is_down && state.lanes[lane].is_up && has_room
    }

    /// Hands a whole record to a neighbour's connection: that cuts it by itself.
    pub(super) fn send_by(
        &mut self,
        base: &mut Base,
        (key, choice): (DeliveryKey, Choice),
        permit: Permit,
    ) -> Option<Output> {
        let (Reverse(of), peer) = permit;
        let size = base.holdings.delivery(key)?.size;
        base.holdings.divert(base.now, key, peer);
        let handing = Handing { key, output: peer, choice, piece: size };
        let transmit = self.hand_over(base, handing);
        if let Some(grant) = self.grants.all.get_mut(&permit) {
            grant.send(base.now, size);
        }
        self.grants.lifted.remove(key);
        if of != choice.class {
            self.grants.lifted.insert(key, of);
        }
        let state = &mut self.outputs[usize::from(peer.0)];
        state.redirected.0 += 1;
        state.redirected.1 += size;
        Some(transmit)
    }

    /// What an agent of the fleet wants to know: of the uplink, and of our own classes on it. `None` where
    /// the node is no part of a fleet.
    pub(crate) fn measured(&mut self, base: &Base) -> Option<Measured> {
        let FleetSeat { output, relayed } = base.options.fleet?;
        let uplink = self.outputs[usize::from(output.0)].uplink;
        let mut demand = Vec::new();
        let mut used = Rate::ZERO;
        for class in 0..relayed.0 {
            let backlog = backlog_on(base, uplink, ClassId(class))
                .saturating_sub(base.holdings.lent_backlog(ClassId(class)));
            let (input, output) = &mut self.uplinks[uplink].meters[usize::from(class)];
            let bound = base.options.classes.spec(ClassId(class)).latency;
            demand.push(gross_demand(input.rate(base.now), backlog, bound));
            used = used + output.rate(base.now);
        }
        // A scheduler that grants rates has asked and offered already (JANUS, Alg. 2).
        if let Some(shares) = self.uplinks[uplink].scheduler.shares() {
            demand = shares.wanted().take(demand.len()).collect();
        }
        Some(Measured { capacity: self.lendable(base, output, relayed), demand, output: used })
    }

    /// What an uplink carries. One that is not full shows less than that: then a configured rate is
    /// believed, or a node that was idle would never lend anything; but not of one that failed lately.
    fn lendable(&mut self, base: &Base, output: OutputId, least: ClassId) -> Rate {
        let uplink = self.outputs[usize::from(output.0)].uplink;
        let capacity = self.believed(base.now, output);
        let UplinkOptions { controller, cap, .. } = base.options.uplinks[uplink];
        let is_full = ahead_of(base, uplink, least) > capacity.in_span(SOON);
        let is_doubted = is_full || self.is_on_probation(base.now, output);
        match cap.filter(|_| controller != RateControllerName::Known && !is_doubted) {
            Some(cap) => cap.max(capacity),
            None => capacity,
        }
    }
}

/// What waits for the uplink and goes before a new record of a class, or with it.
fn ahead_of(base: &Base, uplink: usize, class: ClassId) -> Size {
    (0..=class.0).map(|class| backlog_on(base, uplink, ClassId(class))).sum()
}
