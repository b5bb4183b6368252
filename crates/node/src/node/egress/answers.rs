//! What comes back from below: bytes handed over, confirmations, paths up and down, byte-level figures.

use tidegate_schedule::queue::{Delivery, DeliveryKey, ListEnd};
use tidegate_types::units::{Rate, Size, Time};

use super::{Egress, LaneState, OutputState, uplink_of};
use crate::io::{Destination, Event, OutputId, PathId, PathSample, PathState};
use crate::node::holdings::Holdings;
use crate::node::outbox::Outbox;
use crate::options::NodeOptions;

impl Egress {
    /// One cut is on the wire. The delivery may have its fate already: the far end's word can overtake
    /// the driver's.
    pub(crate) fn sent(
        &mut self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        outbox: &mut Outbox,
        (key, bytes): (DeliveryKey, Size),
    ) {
        let Some((output, lane_index)) = self.lane_that_sends(holdings, options, key) else {
            return;
        };
        let state = &mut self.outputs[output];
        let lane = &mut state.lanes[lane_index];
        let Some(cut) = lane.picked.pop_front_if(|cut| cut.key == key) else {
            let problem = "bytes of a record that was not picked next";
            return outbox.report(Event::Unsupported(problem));
        };
        let path = state.first_path + lane_index;
        let uplink = &mut self.uplinks[uplink_of(options, OutputId(output as u16))];
        uplink.uplink.handed(path, cut.piece, bytes);
        uplink.meters[cut.class.index()].1.count(now, cut.piece);
        if cut.is_last {
            holdings.handed(now, key, cut.number);
        }
    }

    /// The output and the lane of a delivery with cuts under way.
    fn lane_that_sends(
        &self,
        holdings: &Holdings,
        options: &NodeOptions,
        key: DeliveryKey,
    ) -> Option<(usize, usize)> {
        if let Some(Delivery { spec, .. }) = holdings.delivery(key) {
            let lane = options.scheduler.lane_of(spec.class);
            return Some((usize::from(spec.output.0), usize::from(lane)));
        }
        let is_next = |lane: &LaneState| lane.picked.front().is_some_and(|cut| cut.key == key);
        let lane_of = |(index, output): (usize, &OutputState)| {
            output.lanes.iter().position(is_next).map(|lane| (index, lane))
        };
        self.outputs.iter().enumerate().find_map(lane_of)
    }

    /// A destination answered for a delivery: takes it off its connection's list and answers with its number
    /// there; `None` for a stale handle, another destination, or a record not yet wholly picked.
    pub(crate) fn answered(
        &mut self,
        now: Time,
        holdings: &mut Holdings,
        options: &NodeOptions,
        destination: Destination,
        key: DeliveryKey,
    ) -> Option<u64> {
        let Delivery { spec, progress, .. } = holdings.delivery(key)?;
        let (output, number) = (spec.output, progress.number);
        if destination != Destination::Output(output) {
            return None;
        }
        let lane = usize::from(options.scheduler.lane_of(spec.class));
        if !self.take_unconfirmed(holdings, output, lane, key) {
            return None;
        }
        if let Some(delivery) = holdings.delivery(key) {
            self.redirection.answered(now, key, delivery);
        }
        Some(number)
    }

    /// Gives up waiting for the answer to a delivery; false if it is not wholly sent.
    pub(crate) fn recall(
        &mut self,
        holdings: &mut Holdings,
        options: &NodeOptions,
        key: DeliveryKey,
    ) -> bool {
        let Some(Delivery { spec, .. }) = holdings.delivery(key) else { return false };
        let lane = usize::from(options.scheduler.lane_of(spec.class));
        self.take_unconfirmed(holdings, spec.output, lane, key)
    }

    fn take_unconfirmed(
        &mut self,
        holdings: &mut Holdings,
        output: OutputId,
        lane: usize,
        key: DeliveryKey,
    ) -> bool {
        let lane = &mut self.outputs[usize::from(output.0)].lanes[lane];
        holdings.take_unconfirmed(&mut lane.unconfirmed, key)
    }

    fn output_mut(&mut self, destination: Destination) -> Option<&mut OutputState> {
        let Destination::Output(output) = destination else { return None };
        self.outputs.get_mut(usize::from(output.0))
    }

    /// A destination refused a record for now.
    pub(crate) fn refused_for_now(&mut self, now: Time, destination: Destination) {
        if let Some(output) = self.output_mut(destination) {
            output.refused_since.get_or_insert(now);
        }
    }

    /// A destination confirmed a record: what was refused for now may be taken again.
    pub(crate) fn takes_again(&mut self, outbox: &mut Outbox, destination: Destination) {
        let Some(output) = self.output_mut(destination) else { return };
        output.refused_since = None;
        if std::mem::take(&mut output.is_shut) && output.is_open() {
            outbox.report(Event::Destination { destination, up: true });
        }
    }

    /// A connection came up or went down. Answers with what was under way on it, in the order in which it
    /// is to go back to its queues, and what people are to hear.
    pub(crate) fn path_state(
        &mut self,
        holdings: &mut Holdings,
        options: &NodeOptions,
        path: PathId,
        state: PathState,
    ) -> (Vec<DeliveryKey>, Option<Event>) {
        let Some(output) = self.outputs.get_mut(usize::from(path.output.0)) else {
            return Default::default();
        };
        let was_up = output.is_open();
        let first_path = output.first_path;
        let Some(lane) = output.lanes.get_mut(usize::from(path.lane)) else {
            return Default::default();
        };
        let is_up = state == PathState::Up;
        let LaneState { current, mut unconfirmed, last_number, .. } = std::mem::take(lane);
        *lane = LaneState { is_up, last_number, ..LaneState::default() };
        output.is_shut |= !is_up && output.refused_since.is_some();
        let is_any_up = output.is_open();
        let index = first_path + usize::from(path.lane);
        self.uplinks[uplink_of(options, path.output)].uplink.path_down(index);
        self.redirection.lost(path, options);
        // Newest first, each to the head of its queue: so they stand in their old order again.
        let mut lost: Vec<DeliveryKey> = current.into_iter().map(|(key, _)| key).collect();
        while let Some(key) = unconfirmed.at(ListEnd::Back) {
            holdings.take_unconfirmed(&mut unconfirmed, key);
            lost.push(key);
        }
        let destination = Destination::Output(path.output);
        let event = Event::Destination { destination, up: is_any_up };
        (lost, (was_up != is_any_up).then_some(event))
    }

    /// A whole destination came up or went down. Answers with the paths that are down with it.
    pub(crate) fn destination_state(&mut self, output: OutputId, up: bool) -> Vec<PathId> {
        let Some(state) = self.outputs.get_mut(usize::from(output.0)) else { return Vec::new() };
        state.is_down = !up;
        let lanes = if up { 0 } else { state.lanes.len() as u8 };
        (0..lanes).map(|lane| PathId { output, lane }).collect()
    }

    /// What is below an output has found its own capacity.
    pub(crate) fn capacity_told(&mut self, options: &NodeOptions, output: OutputId, rate: Rate) {
        if self.has_output(output) {
            self.uplinks[uplink_of(options, output)].uplink.report_rate(rate);
        }
    }

    /// Byte-level figures of a path.
    pub(crate) fn path_sample(
        &mut self,
        now: Time,
        options: &NodeOptions,
        path: PathId,
        sample: &PathSample,
    ) {
        let Some(output) = self.outputs.get_mut(usize::from(path.output.0)) else { return };
        let index = output.first_path + usize::from(path.lane);
        let lane = output.lanes.get_mut(usize::from(path.lane));
        let Some(lane) = lane.filter(|lane| lane.is_up) else { return };
        lane.silence.note(now, sample);
        self.uplinks[uplink_of(options, path.output)].uplink.sample(now, index, sample);
    }
}
