//! An alarm by two ways: where our own uplink was late a moment ago, each goes by a second way as well, both marked.
//!
//! A delivery *stands* on one connection, in whose list it is, and may have one second way beside that, always by a neighbour:
//!
//! | what happens | with a second way | without |
//! |---|---|---|
//! | where it stands confirms it, or refuses it for good | it ends | it ends |
//! | where it stands gives it back, or the connection is lost | it stands on the second way from now on | it goes again |
//! | the second way confirms it | it ends | |
//! | the second way gives it back, or its connection is lost | it has none any more | |
//!
//! So it ends by the first that confirms, and goes again once both are lost: nobody is given what it has. A link cannot take
//! back what it carries, so who has the other copy of a delivery that ended sends it on, or gives it back. What that takes of
//! the neighbour's credit stays taken until then: a silent one is sent no more than that.

use std::time::Duration;

use tidegate_schedule::queue::{Delivery, DeliveryKey, DeliveryState};
use tidegate_types::units::{Size, Time};

use super::grants::Permit;
use super::{ALARM, Egress};
use crate::io::{Destination, Output, OutputId, PathId};
use crate::node::base::Base;
use crate::node::holdings::Cut;
use crate::options::FleetSeat;

impl Egress {
    /// Whether an alarm that goes by an output for the first time may go by a second way as well: a neighbour's, where our
    /// own uplink was late a moment ago and alarms are few.
    pub(super) fn may_go_twice(&self, base: &Base, key: DeliveryKey, output: OutputId) -> bool {
        let is_restless = self.grants.are_few && self.grants.restless_until > base.now;
        let Some(seat) = base.options.fleet.filter(|_| is_restless) else { return false };
        let queue = base.holdings.delivery(key).map(|delivery| delivery.queue);
        let home = queue.and_then(|queue| base.holdings.queues().spec(queue));
        let is_ours = home.is_some_and(|home| home.output == seat.output);
        let has_other = self.grants.all.keys().any(|(_, peer)| *peer != output);
        is_ours && has_other && !base.holdings.is_lent(key)
    }

    /// Sends an alarm that went by one way by a second one as well, marked: the neighbour that answers soonest.
    pub(super) fn send_twice(&mut self, base: &mut Base, seat: FleetSeat) -> Option<Output> {
        loop {
            let delivery = |key| base.holdings.delivery(key);
            let waits = |key| delivery(key).filter(|one| one.place() == DeliveryState::Unconfirmed);
            let is_ready = |key: &_| waits(*key).is_none_or(|one| one.progress.is_handed());
            let place = self.grants.once.iter().position(is_ready)?;
            let key = self.grants.once.remove(place)?;
            // One that came back meanwhile goes its own way.
            let is_new = |one: &&Delivery| !one.progress.again && !base.holdings.is_outdated(key);
            let Some(first) = waits(key).filter(is_new) else { continue };
            let (from, rule) = (first.spec.output, base.options.rules.get(first.spec.rule));
            let (size, class) = (first.size, first.spec.class);
            let permits = self.alarm_permits(base, seat, |peer, _| self.answers_in(base, peer));
            let free = |(at, _, (_, peer)): &(Time, Duration, Permit)| {
                *at <= base.now && *peer != from && rule.may_go_by(*peer)
            };
            let Some((.., permit)) = permits.into_iter().find(free) else { continue };
            self.grants.send_second(base.now, key, permit, first);
            let path = PathId { output: permit.1, lane: base.options.lane_of(permit.1, class) };
            self.count_redirected(permit.1, size);
            let (start, end) = (Size::ZERO, size);
            let cut = Cut { start, end, number: 0, again: true, is_last: true };
            return Some(self.transmit(base, key, path, cut));
        }
    }

    /// A destination's answer ends a delivery, by whichever of its ways: takes it off its connection's list and answers
    /// with its number there; `None` for a stale handle, another destination, or a record not yet wholly picked.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        base: &mut Base,
        destination: Destination,
        key: DeliveryKey,
    ) -> Option<u64> {
        let Destination::Output(output) = destination else { return None };
        let Some(picked_at) = self.grants.answered_second(base.now, key, output) else {
            return self.first_answered(base, output, key);
        };
        let number = base.holdings.delivery(key)?.progress.number;
        if !self.recall(base, key) {
            return None;
        }
        self.grants.leave_first(key, base.holdings.delivery(key)?);
        base.holdings.go_on(key, output, picked_at);
        Some(number)
    }

    /// A destination gave a delivery back: answers whether it goes again, which it does once its last way is lost; `None`
    /// as above.
    pub(crate) fn given_back(
        &mut self,
        base: &mut Base,
        destination: Destination,
        key: DeliveryKey,
    ) -> Option<bool> {
        let Destination::Output(output) = destination else { return None };
        if self.grants.answered_second(base.now, key, output).is_some() {
            return Some(false);
        }
        self.first_answered(base, output, key)?;
        Some(!self.goes_on(base, key))
    }

    /// The output on which a delivery stands answered for it.
    #[inline]
    fn first_answered(
        &mut self,
        base: &mut Base,
        output: OutputId,
        key: DeliveryKey,
    ) -> Option<u64> {
        let Delivery { spec, progress, .. } = base.holdings.delivery(key)?;
        let (first, number) = (spec.output, progress.number);
        if first != output || !self.recall(base, key) {
            return None;
        }
        self.grants.answered(base.now, key, base.holdings.delivery(key)?);
        Some(number)
    }

    /// A delivery that was taken off its connection's list goes on by its second way; false where it has none.
    pub(super) fn goes_on(&mut self, base: &mut Base, key: DeliveryKey) -> bool {
        let Some((peer, picked_at)) = self.grants.take_second(key) else { return false };
        base.holdings.go_on(key, peer, picked_at);
        let lane = usize::from(base.options.lane_of(peer, ALARM));
        let lane = &mut self.outputs[usize::from(peer.0)].lanes[lane];
        base.holdings.await_fate(&mut lane.unconfirmed, key);
        true
    }
}
