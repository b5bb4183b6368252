//! What comes back from below and from the far end: bytes handed over, confirmations, refusals, the
//! state of paths and byte-level figures.

use super::Node;
use super::forward::LaneState;
use crate::io::{Destination, Event, OutputId, PathId, PathSample, PathState, Refusal};
use crate::queue::DeliveryKey;
use crate::record::{DeliveryId, Fate};
use crate::units::{Size, Time};

impl Node {
    /// One cut is on the wire.
    pub(super) fn sent(&mut self, now: Time, key: DeliveryKey, bytes: Size) {
        let Some(spec) = self.queues.spec_of(key) else { return };
        let output = usize::from(spec.output.0);
        let lane_place = usize::from(self.options.scheduler.lane_of(spec.class));
        let lane = &mut self.outputs[output].lanes[lane_place];
        let Some(&(front, piece)) = lane.picked.front() else { return };
        if front != key {
            self.report(Event::Unsupported("bytes of a record that was not picked next"));
            return;
        }
        lane.picked.pop_front();
        let is_whole =
            lane.current != Some(key) && lane.picked.front().is_none_or(|next| next.0 != key);
        let path = self.outputs[output].first_path + lane_place;
        let uplink = &mut self.uplinks[usize::from(self.options.outputs[output].uplink.0)];
        uplink.uplink.handed(path, piece, bytes);
        uplink.meters[spec.class.index()].1.count(now, piece);
        if is_whole {
            self.handed(now, key);
        }
    }

    /// The last byte of a record is on the wire: here its residence ends.
    fn handed(&mut self, now: Time, key: DeliveryKey) {
        self.queues.progress_mut(key).expect("it is under way").handed_at = Some(now);
        let delivery = self.queues.get(key).expect("it is under way");
        let held = &self.held[delivery.record];
        let rule = self.streams.get(held.stream).rule;
        self.tally.handed(now, rule, held.record.arrived, delivery);
    }

    /// The far end has these records.
    pub(super) fn confirmed(&mut self, now: Time, ids: &[DeliveryId]) {
        for &id in ids {
            if self.take_unconfirmed(id.into()) {
                self.finish(now, id.into(), Fate::Confirmed);
            }
        }
    }

    /// The far end will not have these records, now or ever.
    pub(super) fn refused(&mut self, now: Time, ids: &[DeliveryId], reason: Refusal) {
        for &id in ids {
            let key = DeliveryKey::from(id);
            if !self.take_unconfirmed(key) {
                continue;
            }
            match reason {
                Refusal::Final(reason) => self.finish(now, key, Fate::Dropped(reason)),
                Refusal::Retry => self.send_again(now, key, true),
            }
        }
    }

    /// Takes a delivery off its connection's list; false for a stale handle or one not yet wholly sent.
    fn take_unconfirmed(&mut self, key: DeliveryKey) -> bool {
        let (Some(spec), Some(delivery)) = (self.queues.spec_of(key), self.queues.get(key)) else {
            return false;
        };
        let number = delivery.progress.number;
        let lane_place = usize::from(self.options.scheduler.lane_of(spec.class));
        let lane = &mut self.outputs[usize::from(spec.output.0)].lanes[lane_place];
        let is_there = lane.unconfirmed.get(&number) == Some(&key);
        if is_there {
            lane.unconfirmed.remove(&number);
        }
        is_there
    }

    /// Back to the head of its queue, to be sent from its first byte.
    fn send_again(&mut self, now: Time, key: DeliveryKey, may_have_arrived: bool) {
        let Some(progress) = self.queues.progress_mut(key) else { return };
        progress.again |= may_have_arrived;
        progress.picked = Size::ZERO;
        progress.handed_at = None;
        let again = progress.again;
        let record = self.queues.get(key).expect("it is known").record;
        let rule = self.streams.get(self.held[record].stream).rule;
        if again {
            self.tally.again(rule);
        }
        let expires = self.held[record].record.expires;
        self.queues.put_back(key, now);
        if let Some(at) = expires.filter(|&at| at <= now) {
            // Its time passed while it was under way; the index of expiry has let it go.
            self.expiry.insert((at, key));
        }
    }

    /// A connection came up or went down.
    pub(super) fn path_state(&mut self, now: Time, path: PathId, state: PathState) {
        let Some(output) = self.outputs.get_mut(usize::from(path.output.0)) else { return };
        let first_path = output.first_path;
        let was_up = output.lanes.iter().any(|lane| lane.is_up);
        let Some(lane) = output.lanes.get_mut(usize::from(path.lane)) else { return };
        let is_up = state == PathState::Up;
        let LaneState { current, unconfirmed, last_number, .. } = std::mem::take(lane);
        *lane = LaneState { is_up, last_number, ..LaneState::default() };
        let is_any_up = output.lanes.iter().any(|lane| lane.is_up);
        let uplink = self.options.outputs[usize::from(path.output.0)].uplink;
        let place = first_path + usize::from(path.lane);
        self.uplinks[usize::from(uplink.0)].uplink.path_down(place);
        // Newest first, each to the head of its queue: so they stand in their old order again.
        for key in current.into_iter().chain(unconfirmed.into_values().rev()) {
            self.send_again(now, key, true);
        }
        if was_up != is_any_up {
            let destination = Destination::Output(path.output);
            self.report(Event::Destination { destination, up: is_any_up });
        }
    }

    /// A whole destination came up or went down.
    pub(super) fn destination_state(&mut self, now: Time, destination: Destination, up: bool) {
        let Destination::Output(output) = destination else {
            self.report(Event::Unsupported("a destination that is no output"));
            return;
        };
        let Some(state) = self.outputs.get_mut(usize::from(output.0)) else { return };
        state.is_down = !up;
        if !up {
            for lane in 0..self.outputs[usize::from(output.0)].lanes.len() {
                let path = PathId { output: OutputId(output.0), lane: lane as u8 };
                self.path_state(now, path, PathState::Down);
            }
        }
    }

    /// Byte-level figures of a path.
    pub(super) fn path_sample(&mut self, now: Time, path: PathId, sample: &PathSample) {
        let Some(output) = self.outputs.get(usize::from(path.output.0)) else { return };
        if output.lanes.get(usize::from(path.lane)).is_none_or(|lane| !lane.is_up) {
            return;
        }
        let place = output.first_path + usize::from(path.lane);
        let uplink = self.options.outputs[usize::from(path.output.0)].uplink;
        self.uplinks[usize::from(uplink.0)].uplink.sample(now, place, sample);
    }
}
