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
use tidegate_types::units::{Rate, Size, Time};

use super::grants::{GrantPacer, Permit, RESTLESS};
use super::measures::backlog_on;
use super::{ALARM, Egress, Handing};
use crate::io::{Event, Output, OutputId};
use crate::node::base::Base;
use crate::options::{FleetSeat, UplinkOptions};

/// What the uplink carries within this stays here: it would be there sooner by itself, and an uplink must
/// never wait for a record that went elsewhere.
const SOON: Duration = Duration::from_millis(100);
/// The part of its bound that an alarm may wait here, or for a queue below us, before a neighbour is asked.
const EARLY: u32 = 4;
/// Alarms are few while so many times of them are no more than the own uplink carries: a second copy of each costs little.
const FEW: f64 = 10.0;
/// How often an alarm that waits is looked at, at most: a neighbour that keeps another one waiting takes longer all the time.
const LOOK: Duration = Duration::from_millis(2);

/// The most urgent record that waits in a class for an output and may go by a peer. A neighbour's stays: it makes one hop.
pub(super) fn head_for(
    base: &mut Base,
    (class, output): (ClassId, OutputId),
    peer: OutputId,
) -> Option<(DeliveryKey, Choice)> {
    let [live, late] = base.holdings.heads_by((class, output), peer, base.now);
    let timing = if live.is_some() { Timing::Live } else { Timing::Late };
    let key = live.or(late).filter(|key| !base.holdings.is_lent(*key))?;
    Some((key, Choice { class, timing }))
}

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
        let seat = base.options.fleet.filter(|_| !self.grants.all.is_empty())?;
        match self.dead_from(seat.output) {
            Some(at) if at <= base.now => return self.evacuate(base, seat),
            Some(at) => self.grants.wake_at(at),
            None => {}
        }
        let uplink = self.outputs[usize::from(seat.output.0)].uplink;
        let carries = self.believed(base.now, seat.output);
        let usable = self.grants.all.iter();
        let usable = usable.filter_map(|((of, peer), one)| Some((*of, one.next(base.now)?, *peer)));
        // Of a class the grant that was used least: who lends and is sent nothing does not help, as far as a leader can see.
        let mut usable: Vec<(Reverse<ClassId>, Time, OutputId)> = usable.collect();
        usable.sort_unstable();
        for (Reverse(of), at, peer) in usable {
            // What is more urgent goes first, where the uplink is short of it too. Nothing is reserved for the least urgent
            // class: what is more urgent would wait there behind all that is the neighbour's own.
            let first = if of.0 + 1 == seat.relayed.0 { of.0 } else { 0 };
            let found = (first..=of.0).map(ClassId).find_map(|class| {
                let goes =
                    self.is_short(base, uplink, class, carries) && self.takes(base, peer, class);
                goes.then(|| head_for(base, (class, seat.output), peer)).flatten()
            });
            let Some(what) = found else { continue };
            if at <= base.now {
                return self.send_by(base, what, (Reverse(of), peer));
            }
            self.grants.wake_at(at);
        }
        // What no pace lets go: of alarms a neighbour takes what it has room for.
        if !self.is_short(base, uplink, ALARM, carries) {
            return None;
        }
        let permits = self.alarm_permits(base, seat, |_, grant| grant.used_until());
        let (at, what, permit) = permits.into_iter().find_map(|(at, _, permit)| {
            Some((at, head_for(base, (ALARM, seat.output), permit.1)?, permit))
        })?;
        if at > base.now {
            self.grants.wake_at(at);
            return None;
        }
        self.send_by(base, what, permit)
    }

    /// The permits by which an alarm may go, from when on, and in which order those that are free.
    pub(super) fn alarm_permits<K: Ord>(
        &self,
        base: &Base,
        seat: FleetSeat,
        order: impl Fn(OutputId, &GrantPacer) -> K,
    ) -> Vec<(Time, K, Permit)> {
        let usable = self.grants.reserved(seat.relayed);
        let usable = usable.filter(|((_, peer), _)| self.takes(base, *peer, ALARM));
        let permits = usable.filter_map(|(permit, grant)| {
            let at = grant.next_alarm(base.now)?.max(base.now);
            Some((at, order(permit.1, grant), *permit))
        });
        let mut permits: Vec<_> = permits.collect();
        permits.sort_unstable();
        permits
    }

    /// Whether a new record of a class would wait here for too long, if the uplink carries so much.
    fn is_short(&self, base: &Base, uplink: usize, class: ClassId, carries: Rate) -> bool {
        let part = if class == ALARM { EARLY } else { 2 };
        let soon = SOON.min(base.options.classes.spec(class).latency / part);
        self.ahead_of(base, uplink, class, carries) > carries.in_span(soon)
    }

    /// Sends an alarm by a neighbour that answers sooner than our own uplink, where a queue below us, or silence, makes that
    /// one late by a quarter of the bound; the pace of a permit does not hold it up, as long as its provider answers. Once
    /// the oldest byte below is late by half of the bound, all alarms that are there go again. Alarms are few: of those that
    /// alone are more than the uplink carries, [`Egress::redirect`] sends what is too much.
    pub(crate) fn hurry(&mut self, base: &mut Base) -> Option<Output> {
        self.grants.wake = None;
        let seat = base.options.fleet?;
        if ALARM.0 + 1 == seat.relayed.0 || self.note_flood(base, seat) {
            return None;
        }
        let (now, own) = (base.now, seat.output);
        let is_late = self.late_since(base, own, Duration::ZERO).is_some_and(|at| at <= now);
        if !self.grants.all.is_empty() && (is_late || self.is_dead(now, own)) {
            self.grants.restless_until = now + RESTLESS;
        }
        if let Some(again) = self.send_twice(base, seat) {
            return Some(again);
        }
        let permits = self.alarm_permits(base, seat, |peer, _| self.answers_in(base, peer));
        // The first for which there is something that may go by it.
        let (permit, stuck, head) = permits.into_iter().find_map(|(at, after, permit)| {
            let since = self.late_since(base, own, after)?.max(at);
            let stuck = self.stuck_since(base, own, permit.1);
            let stuck = stuck.map(|(key, at)| (key, at.max(since)));
            let head = head_for(base, (ALARM, own), permit.1).map(|what| (what, since));
            (stuck.is_some() || head.is_some()).then_some((permit, stuck, head))
        })?;
        if let Some((key, _)) = stuck.filter(|(_, at)| *at <= now) {
            self.take_again(base, own, (ALARM, key));
            let choice = Choice { class: ALARM, timing: Timing::Late };
            return self.send_by(base, (key, choice), permit);
        }
        if let Some((what, _)) = head.filter(|(_, at)| *at <= now) {
            return self.send_by(base, what, permit);
        }
        // Nobody tells of a connection that stays silent. Of an uplink that is dead all leaves.
        let at = [stuck.map(|(_, at)| at), head.map(|(_, at)| at)].into_iter().flatten().min();
        let at = at.map(|at| at.max(now + LOOK));
        let dead = self.dead_from(own).unwrap_or(Time::FAR);
        at.filter(|at| *at < dead).into_iter().for_each(|at| self.grants.wake_at(at));
        None
    }

    /// Looks whether alarms alone are more than our uplink carries, while a neighbour that is there reserves for them; and
    /// whether they are few.
    fn note_flood(&mut self, base: &Base, seat: FleetSeat) -> bool {
        let permits = self.grants.reserved(seat.relayed);
        let permits = permits.filter(|((_, peer), _)| self.is_there(base, *peer, ALARM));
        let reserved: Rate = permits.map(|(_, grant)| grant.amount(base.now).rate()).sum();
        let is_doubted = self.is_on_probation(base.now, seat.output);
        let state = &mut self.uplinks[self.outputs[usize::from(seat.output.0)].uplink];
        let (comes, carries) = (state.meters[0].0.rate(base.now), state.uplink.capacity());
        // One that has shown nothing yet is not small.
        let is_too_much = !carries.is_zero() && comes > carries;
        self.grants.are_few = !carries.is_zero() && comes.times(FEW) <= carries;
        state.is_flooded = !reserved.is_zero() && !is_doubted && is_too_much;
        state.is_flooded
    }

    /// When an alarm is late on our own uplink: this part of its bound beyond a round trip.
    fn long(&self, base: &Base, output: OutputId, part: u32) -> Option<Duration> {
        let least = self.uplinks[self.outputs[usize::from(output.0)].uplink].uplink.min_rtt()?;
        Some(least + base.options.classes.spec(ALARM).latency / part)
    }

    /// Since when the oldest byte on our own uplink is there; `None` where nothing is under way.
    fn oldest_since(&self, base: &Base, output: OutputId) -> Option<Time> {
        let lanes = self.outputs[usize::from(output.0)].lanes.iter();
        Some(base.now - lanes.filter_map(|lane| lane.silence.waits(base.now)).max()?)
    }

    /// From when on our own uplink takes too long for an alarm, and longer than a neighbour that takes so long, if it
    /// stays silent; `None` where nothing is under way on it.
    fn late_since(&self, base: &Base, output: OutputId, neighbour: Duration) -> Option<Time> {
        let newest = self.uplinks[self.outputs[usize::from(output.0)].uplink].uplink.rtt()?;
        let long = self.long(base, output, EARLY)?.max(neighbour + Duration::from_nanos(1));
        let oldest = self.oldest_since(base, output)?;
        Some(if newest >= long { base.now } else { oldest + long })
    }

    /// The oldest alarm that waits on our own connection for its answer and may go by a neighbour, and from when on it is
    /// stuck there behind an older byte, if the uplink stays silent.
    fn stuck_since(
        &self,
        base: &Base,
        output: OutputId,
        peer: OutputId,
    ) -> Option<(DeliveryKey, Time)> {
        let key = self.silent_delivery(base, (ALARM, output), peer, |_| true)?;
        let at = self.oldest_since(base, output)? + self.long(base, output, 2)?;
        (!base.holdings.is_lent(key)).then_some((key, at))
    }

    /// How long a neighbour takes to answer for an alarm, as far as can be seen: as its newest answer for any class did, or
    /// as long as one has been waiting. Zero where nobody knows: the next alarm tries.
    pub(super) fn answers_in(&self, base: &Base, peer: OutputId) -> Duration {
        let waits = |class: ClassId| {
            let lane = usize::from(base.options.lane_of(peer, class));
            let lane = &self.outputs[usize::from(peer.0)].lanes[lane];
            let oldest = base.holdings.queues().oldest_on(&lane.unconfirmed, class, |_, _| true)?;
            let picked_at = base.holdings.delivery(oldest)?.progress.picked_at;
            Some(base.now.since(picked_at))
        };
        let known = self.grants.all.iter().filter(|((_, of), _)| *of == peer);
        let known = known.filter_map(|((Reverse(class), _), grant)| {
            Some(grant.takes(base.now)?.max(waits(*class).unwrap_or_default()))
        });
        let second = self.grants.second_since(peer).map(|at| base.now.since(at));
        known.min().unwrap_or_default().max(waits(ALARM).max(second).unwrap_or_default())
    }

    /// Whether a neighbour's connection is there and has room for a record of a class.
    pub(super) fn takes(&self, base: &Base, peer: OutputId, class: ClassId) -> bool {
        let state = &self.outputs[usize::from(peer.0)];
        let has_room = state.unconfirmed() < base.options.window_for(class, state.window);
        has_room && self.is_there(base, peer, class)
    }

    /// Whether a neighbour's connection for a class is there.
    fn is_there(&self, base: &Base, peer: OutputId, class: ClassId) -> bool {
        let state = &self.outputs[usize::from(peer.0)];
        !state.is_down && state.lanes[usize::from(base.options.lane_of(peer, class))].is_up
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
        self.count_redirected(peer, size);
        Some(transmit)
    }

    pub(super) fn count_redirected(&mut self, peer: OutputId, size: Size) {
        let (records, bytes) = &mut self.outputs[usize::from(peer.0)].redirected;
        *records += 1;
        *bytes += size;
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
        let is_full = self.ahead_of(base, uplink, least, capacity) > capacity.in_span(SOON);
        let is_doubted = is_full || self.is_on_probation(base.now, output);
        match cap.filter(|_| controller != RateControllerName::Known && !is_doubted) {
            Some(cap) => cap.max(capacity),
            None => capacity,
        }
    }

    /// Whether what waits for the uplink that is lent is more than a cut.
    pub(crate) fn is_busy(&self, base: &Base, seat: FleetSeat) -> bool {
        let uplink = self.outputs[usize::from(seat.output.0)].uplink;
        let waits: Size =
            (0..=seat.relayed.0).map(|class| backlog_on(base, uplink, ClassId(class))).sum();
        waits > self.uplinks[uplink].uplink.cut()
    }

    /// What a new record of a class would wait for: what waits here and goes before it or with it, and what stands below
    /// beyond what the path holds, whatever that is.
    fn ahead_of(&self, base: &Base, uplink: usize, class: ClassId, carries: Rate) -> Size {
        let here: Size = (0..=class.0).map(|class| backlog_on(base, uplink, ClassId(class))).sum();
        let below = &self.uplinks[uplink].uplink;
        let path = below.min_rtt().map(|least| carries.in_span(least));
        here + path.map_or(Size::ZERO, |path| below.in_flight().saturating_sub(path))
    }
}
