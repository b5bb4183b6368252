//! What comes back from below and from the far end: bytes handed over, confirmations, refusals, the
//! state of paths and byte-level figures.

use tidegate_schedule::queue::{Delivery, DeliveryKey, End, Place};
use tidegate_types::record::{DeliveryId, DropReason, Fate};
use tidegate_types::units::{Rate, Size, Time};

use super::Node;
use super::forward::{LaneState, OutputState};
use super::relay::end_of;
use crate::io::{Destination, Event, OutputId, PathId, PathSample, PathState, Refusal};

impl Node {
    /// One cut is on the wire. The delivery may have its fate already: the far end's word can overtake
    /// the driver's.
    pub(super) fn sent(&mut self, now: Time, key: DeliveryKey, bytes: Size) {
        let Some((output, lane_place)) = self.lane_that_sends(key) else { return };
        let lane = &mut self.outputs[output].lanes[lane_place];
        let Some(cut) = lane.picked.pop_front_if(|cut| cut.key == key) else {
            self.report(Event::Unsupported("bytes of a record that was not picked next"));
            return;
        };
        let path = self.outputs[output].first_path + lane_place;
        let uplink = &mut self.uplinks[usize::from(self.options.outputs[output].uplink.0)];
        uplink.uplink.handed(path, cut.piece, bytes);
        uplink.meters[cut.class.index()].1.count(now, cut.piece);
        if cut.is_last {
            self.handed(now, key, cut.number);
        }
    }

    /// The output and the lane of a delivery with cuts under way.
    fn lane_that_sends(&self, key: DeliveryKey) -> Option<(usize, usize)> {
        if let Some(Delivery { spec, .. }) = self.queues.get(key) {
            let lane = self.options.scheduler.lane_of(spec.class);
            return Some((usize::from(spec.output.0), usize::from(lane)));
        }
        let is_next = |lane: &LaneState| lane.picked.front().is_some_and(|cut| cut.key == key);
        let lane_of = |(place, output): (usize, &OutputState)| {
            output.lanes.iter().position(is_next).map(|lane| (place, lane))
        };
        self.outputs.iter().enumerate().find_map(lane_of)
    }

    /// The last byte of a transmission is on the wire: here its residence ends, unless the record came
    /// back meanwhile.
    fn handed(&mut self, now: Time, key: DeliveryKey, number: u64) {
        let Some(delivery) = self.queues.get_mut(key) else { return };
        let is_waiting = matches!(delivery.place(), Place::Waiting(_));
        let progress = &delivery.progress;
        if !is_waiting && progress.number == number && !progress.is_handed() {
            self.tally.handed(now, delivery);
        }
    }

    /// The far end has these records.
    pub(super) fn confirmed(&mut self, now: Time, destination: Destination, ids: &[DeliveryId]) {
        self.read_ahead_deliveries(ids);
        for &id in ids {
            if let Some(number) = self.take_unconfirmed(destination, id.into()) {
                self.takes_again(destination);
                self.peer_answered(now, id.into());
                self.handed(now, id.into(), number);
                self.finish(now, id.into(), Fate::Confirmed);
            }
        }
    }

    /// The far end will not have these records, now or ever.
    pub(super) fn refused(
        &mut self,
        now: Time,
        destination: Destination,
        ids: &[DeliveryId],
        reason: Refusal,
    ) {
        for &id in ids {
            let key = DeliveryKey::from(id);
            if self.take_unconfirmed(destination, key).is_none() {
                continue;
            }
            self.peer_answered(now, key);
            match reason {
                Refusal::Final(reason) => self.finish(now, key, Fate::Dropped(reason)),
                Refusal::Retry => {
                    if let Some(output) = self.output_mut(destination) {
                        output.refused_since.get_or_insert(now);
                    }
                    self.send_again(now, key, false);
                }
            }
        }
    }

    fn output_mut(&mut self, destination: Destination) -> Option<&mut OutputState> {
        let Destination::Output(output) = destination else { return None };
        self.outputs.get_mut(usize::from(output.0))
    }

    /// What was refused for now may be taken again.
    fn takes_again(&mut self, destination: Destination) {
        let Some(output) = self.output_mut(destination) else { return };
        output.refused_since = None;
        if std::mem::take(&mut output.is_shut) && output.is_open() {
            self.report(Event::Destination { destination, up: true });
        }
    }

    /// Takes a delivery off its connection's list and answers with its number there; `None` for a stale
    /// handle, another destination, or a record not yet wholly picked.
    fn take_unconfirmed(&mut self, destination: Destination, key: DeliveryKey) -> Option<u64> {
        let Delivery { spec, progress, .. } = self.queues.get(key)?;
        let number = progress.number;
        if destination != Destination::Output(spec.output) {
            return None;
        }
        let lane = usize::from(self.options.scheduler.lane_of(spec.class));
        let lane = &mut self.outputs[usize::from(spec.output.0)].lanes[lane];
        self.queues.take_unconfirmed(&mut lane.unconfirmed, key).then_some(number)
    }

    /// Back to the head of its queue, to be sent from its first byte. It may have arrived, where a
    /// connection was lost as where a far end refuses it: a part of that may have taken it.
    fn send_again(&mut self, now: Time, key: DeliveryKey, was_lost: bool) {
        let Some(delivery) = self.queues.get_mut(key) else { return };
        delivery.progress.again = true;
        delivery.progress.picked = Size::ZERO;
        delivery.progress.handed_at = Time::FAR;
        if was_lost {
            let stream = self.held[delivery.record].stream;
            self.tally.again(self.streams.get(stream).rule);
        }
        self.come_back(now, key);
    }

    /// A delivery that was out of its queue is the next of it again; or ends, if a newer record has taken its
    /// place.
    pub(super) fn come_back(&mut self, now: Time, key: DeliveryKey) {
        let Some(&Delivery { record, .. }) = self.queues.get(key) else { return };
        let held = &self.held[record];
        let newest = self.streams.get(held.stream).newest_of(&held.record.key);
        if newest.is_some_and(|(newest, _)| *newest != record) {
            self.finish(now, key, Fate::Dropped(DropReason::Superseded));
            return;
        }
        let ends = end_of(&held.record, self.options.rules.get(self.streams.get(held.stream).rule));
        if let Some(at) = ends.filter(|&at| at <= now) {
            // Its time passed while it was under way; the index of expiry has let it go.
            self.expiry.insert((at, key));
        }
        self.queues.put_back(key, now);
    }

    /// A connection came up or went down.
    pub(super) fn path_state(&mut self, now: Time, path: PathId, state: PathState) {
        let Some(output) = self.outputs.get_mut(usize::from(path.output.0)) else { return };
        let first_path = output.first_path;
        let was_up = output.is_open();
        let Some(lane) = output.lanes.get_mut(usize::from(path.lane)) else { return };
        let is_up = state == PathState::Up;
        let LaneState { current, mut unconfirmed, last_number, .. } = std::mem::take(lane);
        *lane = LaneState { is_up, last_number, ..LaneState::default() };
        output.is_shut |= !is_up && output.refused_since.is_some();
        let is_any_up = output.is_open();
        let uplink = self.options.outputs[usize::from(path.output.0)].uplink;
        let place = first_path + usize::from(path.lane);
        self.uplinks[usize::from(uplink.0)].uplink.path_down(place);
        self.peer_lost(path);
        // Newest first, each to the head of its queue: so they stand in their old order again.
        if let Some((key, _)) = current {
            self.send_again(now, key, true);
        }
        while let Some(key) = unconfirmed.at(End::Back) {
            self.queues.take_unconfirmed(&mut unconfirmed, key);
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

    /// What is below an output has found its own capacity.
    pub(super) fn capacity_told(&mut self, output: OutputId, rate: Rate) {
        if let Some(options) = self.options.outputs.get(usize::from(output.0)) {
            self.uplinks[usize::from(options.uplink.0)].uplink.told(rate);
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
        self.note_silence(now, path, sample);
    }
}
