//! An uplink that carries nothing: how it is known, what is believed of it afterwards, and how what it holds leaves by
//! neighbours.
//!
//! It carries nothing while no connection is up, or while bytes are on the wire and nothing has been
//! acknowledged on any connection for three round trips ([`silence_max`]). Bytes that have not left this host are not on the wire: a far end that reads
//! nothing, such as a broker that blocks its publishers, is no dead uplink. Then the most urgent record goes first, by
//! any permit of its class or of a less urgent one, so that no record overtakes a more urgent one for want of a permit.
//! What a silent connection was handed goes again, marked as one that may arrive twice.

use std::cmp::Reverse;
use std::time::Duration;

use tidegate_schedule::Choice;
use tidegate_schedule::queue::{DeliveryKey, Timing};
use tidegate_types::class::ClassId;
use tidegate_types::limits::silence_max;
use tidegate_types::units::{Rate, Time};

use super::grants::Permit;
use super::redirection::head_for;
use super::state::Silence;
use super::{ALARM, Egress};
use crate::io::{Output, OutputId};
use crate::node::base::Base;
use crate::options::FleetSeat;

impl Egress {
    /// Since when an output carries nothing, or from when on if it stays silent; `None` while nothing speaks for it.
    pub(crate) fn dead_from(&self, output: OutputId) -> Option<Time> {
        let state = &self.outputs[usize::from(output.0)];
        let mut up = state.lanes.iter().filter(|lane| lane.is_up).peekable();
        if state.is_down || up.peek().is_none() {
            return Some(Time::ZERO);
        }
        // Connections that nothing was handed to say nothing about the way, and one that was handed something a moment
        // ago does not speak for one that has been silent for long: only what was acknowledged does.
        let heard = state.lanes.iter().map(|lane| lane.silence.heard).max().unwrap_or(Time::ZERO);
        let silent_since = up.filter_map(|lane| lane.silence.since).min()?;
        Some(silent_since.max(heard) + self.patience(output))
    }

    /// Whether an output carries nothing.
    pub(crate) fn is_dead(&self, now: Time, output: OutputId) -> bool {
        self.dead_from(output).is_some_and(|at| at <= now)
    }

    /// How long a connection of an output may be silent about what is on the wire.
    pub(super) fn patience(&self, output: OutputId) -> Duration {
        let state = &self.outputs[usize::from(output.0)];
        silence_max(self.uplinks[state.uplink].uplink.rtt())
    }

    /// What the uplink of an output carries, as far as is believed: nothing while it is dead, then what it shows, and
    /// what its rate controller says once it has carried for a while.
    pub(super) fn believed(&mut self, now: Time, output: OutputId) -> Rate {
        let is_dead = self.dead_from(output).is_some_and(|at| at <= now);
        let state = &mut self.uplinks[self.outputs[usize::from(output.0)].uplink];
        if state.trust.note(now, is_dead) {
            return state.uplink.capacity();
        }
        if is_dead {
            return Rate::ZERO;
        }
        let shown: Rate = state.meters.iter_mut().map(|(_, left)| left.rate(now)).sum();
        shown.min(state.uplink.capacity())
    }

    /// Whether an uplink has not proved itself since it last carried nothing.
    pub(super) fn is_on_probation(&self, now: Time, output: OutputId) -> bool {
        self.uplinks[self.outputs[usize::from(output.0)].uplink].trust.proves_until > now
    }

    /// The least urgent class whose records leave an output by neighbours, with all that are more urgent: the silent
    /// connection is given no more of them. `None` where its uplink carries or nobody may take them.
    pub(super) fn leaving(&self, base: &Base, output: OutputId) -> Option<ClassId> {
        base.options.fleet.filter(|seat| seat.output == output)?;
        let granted = self.grants.all.iter().filter(|(_, grant)| !grant.amount(base.now).is_zero());
        let least = granted.map(|((Reverse(class), _), _)| *class).max()?;
        self.dead_from(output).is_some_and(|at| at <= base.now).then_some(least)
    }

    /// Sends the most urgent record by a neighbour, for our own uplink carries nothing.
    pub(super) fn evacuate(&mut self, base: &mut Base, seat: FleetSeat) -> Option<Output> {
        let (now, patience) = (base.now, self.patience(seat.output));
        let is_silent = |silence: &Silence| silence.lasts(now, patience);
        for class in (0..seat.relayed.0).map(ClassId) {
            // The first by which something may go.
            let found = self.permits_for(base, class).into_iter().find_map(|(at, permit)| {
                let of = (class, seat.output);
                let handed = self.silent_delivery(base, of, permit.1, is_silent);
                let handed_choice = handed.map(|key| (key, Choice { class, timing: Timing::Live }));
                let what = handed_choice.or_else(|| head_for(base, of, permit.1))?;
                Some((what, handed.is_some(), at, permit))
            });
            let Some((what, is_handed, at, permit)) = found else { continue };
            if at > now {
                // What is less urgent goes by nobody sooner by whom this one may go.
                self.grants.wake_at(at);
                continue;
            }
            if is_handed {
                self.take_again(base, seat.output, (class, what.0));
            }
            return self.send_by(base, what, permit);
        }
        None
    }

    /// The permits by which a record of a class goes, the soonest first, and when: its own class's, or those of a less
    /// urgent one, whose records would only go after it.
    fn permits_for(&self, base: &Base, class: ClassId) -> Vec<(Time, Permit)> {
        let usable = |((Reverse(of), peer), _): &(&Permit, _)| {
            *of >= class && self.takes(base, *peer, class)
        };
        let usable = self.grants.all.iter().filter(usable);
        let times = usable.filter_map(|(permit, grant)| {
            let at = if class == ALARM { grant.next_alarm(base.now) } else { grant.next(base.now) };
            Some((at?.max(base.now), permit.0.0, grant.used_until(), *permit))
        });
        // Of several that are free, the most urgent class's, and of these the one that is used least.
        let mut times: Vec<_> = times.collect();
        times.sort_unstable();
        times.into_iter().map(|(at, _, _, permit)| (at, permit)).collect()
    }

    /// The oldest record of a class that was handed to a connection that is silent, has no answer, and may go by a neighbour.
    pub(super) fn silent_delivery(
        &self,
        base: &Base,
        (class, output): (ClassId, OutputId),
        peer: OutputId,
        is_silent: impl Fn(&Silence) -> bool,
    ) -> Option<DeliveryKey> {
        let lane = usize::from(base.options.lane_of(output, class));
        let lane = &self.outputs[usize::from(output.0)].lanes[lane];
        // What has a second way goes again once both are lost.
        let may_go = |key, rule| {
            base.options.rules.get(rule).may_go_by(peer) && !self.grants.has_second(key)
        };
        let key = base.holdings.queues().oldest_on(&lane.unconfirmed, class, may_go)?;
        // Cuts that the connection has not taken yet are still the driver's, and go first.
        let is_whole = base.holdings.delivery(key)?.progress.is_handed();
        (is_silent(&lane.silence) && is_whole && !base.holdings.is_outdated(key)).then_some(key)
    }

    /// Takes a record off a connection that may have carried it: it goes again, marked.
    pub(super) fn take_again(
        &mut self,
        base: &mut Base,
        output: OutputId,
        (class, key): (ClassId, DeliveryKey),
    ) {
        let lane = usize::from(base.options.lane_of(output, class));
        let own = &mut self.outputs[usize::from(output.0)].lanes[lane];
        base.holdings.take_unconfirmed(&mut own.unconfirmed, key);
        base.holdings.begin_again(key, true);
        base.holdings.put_back(base.now, key);
    }
}
