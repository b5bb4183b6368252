//! An uplink that carries nothing: how it is known, what is believed of it afterwards, and how what it holds leaves by
//! neighbours.
//!
//! It carries nothing while no connection is up, or while every connection with bytes on the wire has been silent for
//! three round trips ([`silence_max`]). Bytes that have not left this host are not on the wire: a far end that reads
//! nothing, such as a broker that blocks its publishers, is no dead uplink. Then the most urgent record goes first, by
//! any permit of its class or of a less urgent one, so that no record overtakes a more urgent one for want of a permit.
//! What a silent connection was handed goes again, marked as one that may arrive twice.

use std::cmp::Reverse;
use std::time::Duration;

use tidegate_schedule::Choice;
use tidegate_schedule::queue::{DeliveryKey, ListEnd, Timing};
use tidegate_types::class::ClassId;
use tidegate_types::limits::silence_max;
use tidegate_types::units::{Rate, Time};

use super::redirection::Permit;
use super::{Egress, uplink_of};
use crate::io::{Output, OutputId};
use crate::node::holdings::Holdings;
use crate::options::{FleetSeat, NodeOptions};

/// How long an uplink that carries again is believed to carry only what it has shown since.
const PROBATION: Duration = Duration::from_secs(2);
/// The same where it fails again and again: it doubles with each failure, up to this.
const PROBATION_MAX: Duration = Duration::from_secs(16);

/// What an uplink's failures have taught.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trust {
    is_dead: bool,
    /// Until when it is believed only what it shows.
    proves_until: Time,
    /// The last such time, for the next one to be longer.
    probation: Duration,
}

impl Trust {
    /// Looks at it; answers whether it is believed to carry more than it shows.
    fn note(&mut self, now: Time, is_dead: bool) -> bool {
        if is_dead && !self.is_dead {
            let is_again = now < self.proves_until + self.probation;
            let next = if is_again { self.probation * 2 } else { PROBATION };
            self.probation = next.clamp(PROBATION, PROBATION_MAX);
        }
        if is_dead {
            self.proves_until = now + self.probation;
        }
        self.is_dead = is_dead;
        self.proves_until <= now
    }
}

impl Egress {
    /// Since when an output carries nothing, or from when on if it stays silent; `None` while nothing speaks for it.
    pub(super) fn dead_from(&self, options: &NodeOptions, output: OutputId) -> Option<Time> {
        let state = &self.outputs[usize::from(output.0)];
        let mut up = state.lanes.iter().filter(|lane| lane.is_up).peekable();
        if state.is_down || up.peek().is_none() {
            return Some(Time::ZERO);
        }
        // Connections that nothing was handed to say nothing about the way.
        let silent_since = up.filter_map(|lane| lane.silence.since()).max()?;
        let rtt = self.uplinks[uplink_of(options, output)].uplink.rtt();
        Some(silent_since + silence_max(rtt))
    }

    /// What the uplink of an output carries, as far as is believed: nothing while it is dead, then what it shows, and
    /// what its rate controller says once it has carried for a while.
    pub(super) fn believed(&mut self, now: Time, options: &NodeOptions, output: OutputId) -> Rate {
        let is_dead = self.dead_from(options, output).is_some_and(|at| at <= now);
        let state = &mut self.uplinks[uplink_of(options, output)];
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
    pub(super) fn is_on_probation(
        &self,
        now: Time,
        options: &NodeOptions,
        output: OutputId,
    ) -> bool {
        self.uplinks[uplink_of(options, output)].trust.proves_until > now
    }

    /// The least urgent class whose records leave an output by neighbours, with all that are more urgent: the silent
    /// connection is given no more of them. `None` where its uplink carries or nobody may take them.
    pub(super) fn leaving(
        &self,
        now: Time,
        options: &NodeOptions,
        output: OutputId,
    ) -> Option<ClassId> {
        options.fleet.filter(|seat| seat.output == output)?;
        let granted = self.redirection.permits().filter(|(_, grant)| !grant.amount(now).is_zero());
        let least = granted.map(|((Reverse(class), _), _)| *class).max()?;
        self.dead_from(options, output).is_some_and(|at| at <= now).then_some(least)
    }

    /// Sends the most urgent record by a neighbour, for our own uplink carries nothing.
    pub(super) fn evacuate(
        &mut self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        seat: FleetSeat,
    ) -> Option<Output> {
        for class in (0..seat.relayed.0).map(ClassId) {
            let Some((permit, at)) = self.permit_for(now, options, class) else { continue };
            let [live, late] = holdings.heads(class, seat.output, now);
            let handed = self.silent_delivery(now, holdings, options, class, seat.output);
            let timing = if handed.or(live).is_some() { Timing::Live } else { Timing::Late };
            let Some(key) = handed.or(live).or(late) else { continue };
            if at > now {
                // What is less urgent has no permit that this one could not use: it waits too.
                self.redirection.wake_at(at);
                return None;
            }
            if handed.is_some() {
                let lane = usize::from(options.scheduler.lane_of(class));
                let own = &mut self.outputs[usize::from(seat.output.0)].lanes[lane];
                holdings.take_unconfirmed(&mut own.unconfirmed, key);
                holdings.begin_again(key, true);
                holdings.put_back(now, options, key);
            }
            return self.send_by(now, holdings, options, (key, Choice { class, timing }), permit);
        }
        None
    }

    /// The permit by which a record of a class goes soonest, and when: its own class's, or that of a less urgent one,
    /// whose records would only go after it.
    fn permit_for(
        &self,
        now: Time,
        options: &NodeOptions,
        class: ClassId,
    ) -> Option<(Permit, Time)> {
        let usable = self
            .redirection
            .permits()
            .filter(|((Reverse(of), peer), _)| *of >= class && self.takes(options, *peer, class));
        let times = usable.filter_map(|(permit, grant)| Some((*permit, grant.next(now)?)));
        times.min_by_key(|((Reverse(of), _), at)| ((*at).max(now), *of))
    }

    /// The oldest record of a class that was handed to a silent connection and has no answer.
    fn silent_delivery(
        &self,
        now: Time,
        holdings: &Holdings,
        options: &NodeOptions,
        class: ClassId,
        output: OutputId,
    ) -> Option<DeliveryKey> {
        let lane = options.scheduler.lane_of(class);
        let state = &self.outputs[usize::from(output.0)].lanes[usize::from(lane)];
        let rtt = self.uplinks[uplink_of(options, output)].uplink.rtt();
        state.silence.since().filter(|since| now.since(*since) >= silence_max(rtt))?;
        let key = state.unconfirmed.at(ListEnd::Front)?;
        let delivery = holdings.delivery(key)?;
        // Cuts that the connection has not taken yet are still the driver's, and go first.
        let is_whole = delivery.spec.class == class && delivery.progress.is_handed();
        (is_whole && !holdings.is_outdated(key)).then_some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uplink_that_fails_again_is_believed_later_each_time() {
        let mut trust = Trust::default();
        let second = |at: u64| Time::from_millis(at * 1000);
        assert!(trust.note(second(10), false));
        let mut believed_after = Vec::new();
        let mut now = 10;
        for _ in 0..5 {
            trust.note(second(now), true);
            let back = now;
            while !trust.note(second(now), false) {
                now += 1;
            }
            believed_after.push(now - back);
        }
        assert_eq!(believed_after, [2, 4, 8, 16, 16]);
        trust.note(second(now + 100), true);
        trust.note(second(now + 101), false);
        assert!(trust.note(second(now + 102), false), "an old failure is forgotten");
    }
}
