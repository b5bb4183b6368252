//! What comes back from below: bytes handed over, confirmations, paths up and down, byte-level figures.

use tidegate_schedule::queue::{Delivery, DeliveryKey, ListEnd};
use tidegate_types::units::{Rate, Size, Time};

use super::Egress;
use super::state::{LaneState, OutputState};
use crate::io::{Destination, Event, OutputId, PathId, PathSample, PathState};
use crate::node::base::Base;

impl Egress {
    /// One cut is on the wire. The delivery may have its fate already: the far end's word can overtake
    /// the driver's.
    pub(crate) fn sent(&mut self, base: &mut Base, key: DeliveryKey, bytes: Size) {
        let Some((output, lane_index)) = self.lane_that_sends(base, key) else {
            return;
        };
        let state = &mut self.outputs[output];
        let lane = &mut state.lanes[lane_index];
        let Some(cut) = lane.picked.pop_front_if(|cut| cut.key == key) else {
            let problem = "bytes of a record that was not picked next";
            return base.outbox.report(Event::Unsupported(problem));
        };
        let path = state.first_path + lane_index;
        let uplink = &mut self.uplinks[state.uplink];
        uplink.uplink.handed(path, cut.piece, bytes);
        if base.options.fleet.is_some() {
            lane.silence.hand(base.now, bytes);
        }
        uplink.meters[cut.class.index()].1.count(base.now, cut.piece);
        if cut.is_last {
            base.holdings.handed(base.now, key, cut.number);
        }
    }

    /// The output and the lane of a delivery with cuts under way: the one that it stands on, or that of its second way.
    fn lane_that_sends(&self, base: &Base, key: DeliveryKey) -> Option<(usize, usize)> {
        let is_next = |lane: &LaneState| lane.picked.front().is_some_and(|cut| cut.key == key);
        let first = base.holdings.delivery(key).map(|Delivery { spec, .. }| {
            let lane = base.options.lane_of(spec.output, spec.class);
            (usize::from(spec.output.0), usize::from(lane))
        });
        if first.is_some_and(|(output, lane)| is_next(&self.outputs[output].lanes[lane])) {
            return first;
        }
        let lane_of = |(index, output): (usize, &OutputState)| {
            output.lanes.iter().position(is_next).map(|lane| (index, lane))
        };
        self.outputs.iter().enumerate().find_map(lane_of).or(first)
    }

    /// Gives up waiting for the answer to a delivery; false if it is not wholly sent.
    pub(crate) fn recall(&mut self, base: &mut Base, key: DeliveryKey) -> bool {
        let Some(Delivery { spec, .. }) = base.holdings.delivery(key) else { return false };
        let lane = usize::from(base.options.lane_of(spec.output, spec.class));
        let lane = &mut self.outputs[usize::from(spec.output.0)].lanes[lane];
        base.holdings.take_unconfirmed(&mut lane.unconfirmed, key)
    }

    fn output_mut(&mut self, destination: Destination) -> Option<&mut OutputState> {
        let Destination::Output(output) = destination else { return None };
        self.outputs.get_mut(usize::from(output.0))
    }

    /// A destination refused a record for now.
    pub(crate) fn refused_for_now(&mut self, now: Time, destination: Destination) {
        let Some(output) = self.output_mut(destination) else { return };
        output.refused_since.get_or_insert(now);
        if let Destination::Output(output) = destination {
            self.grants.given_back(now, output);
        }
    }

    /// A destination confirmed a record: what was refused for now may be taken again.
    pub(crate) fn takes_again(&mut self, base: &mut Base, destination: Destination) {
        let Some(output) = self.output_mut(destination) else { return };
        output.refused_since = None;
        if std::mem::take(&mut output.is_shut) && output.is_open() {
            base.outbox.report(Event::Destination { destination, up: true });
        }
    }

    /// A connection came up or went down. Answers with what was under way on it, in the order in which it
    /// is to go back to its queues, and what people are to hear.
    pub(crate) fn path_state(
        &mut self,
        base: &mut Base,
        path: PathId,
        state: PathState,
    ) -> (Vec<DeliveryKey>, Option<Event>) {
        let Some(output) = self.outputs.get_mut(usize::from(path.output.0)) else {
            return Default::default();
        };
        let was_up = output.is_open();
        let (uplink, first_path) = (output.uplink, output.first_path);
        let Some(lane) = output.lanes.get_mut(usize::from(path.lane)) else {
            return Default::default();
        };
        let is_up = state == PathState::Up;
        let LaneState { current, mut unconfirmed, last_number, .. } = std::mem::take(lane);
        *lane = LaneState { is_up, last_number, ..LaneState::default() };
        output.is_shut |= !is_up && output.refused_since.is_some();
        let is_any_up = output.is_open();
        let index = first_path + usize::from(path.lane);
        self.uplinks[uplink].uplink.path_down(index);
        self.grants.lost(path, &base.options);
        // Newest first, each to the head of its queue: so they stand in their old order again.
        let mut lost: Vec<DeliveryKey> = current.into_iter().map(|(key, _)| key).collect();
        while let Some(key) = unconfirmed.at(ListEnd::Back) {
            base.holdings.take_unconfirmed(&mut unconfirmed, key);
            if !self.goes_on(base, key) {
                lost.push(key);
            }
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
    pub(crate) fn capacity_told(&mut self, output: OutputId, rate: Rate) {
        if let Some(state) = self.outputs.get(usize::from(output.0)) {
            self.uplinks[state.uplink].uplink.report_rate(rate);
        }
    }

    /// What is below an output takes only so many records unconfirmed.
    pub(crate) fn window_told(&mut self, base: &Base, output: OutputId, records: usize) {
        let index = usize::from(output.0);
        if let Some(state) = self.outputs.get_mut(index) {
            state.window = records.clamp(1, base.options.outputs[index].unconfirmed_max);
        }
    }

    /// Byte-level figures of a path.
    pub(crate) fn path_sample(&mut self, base: &Base, path: PathId, sample: &PathSample) {
        let Some(output) = self.outputs.get_mut(usize::from(path.output.0)) else { return };
        let (uplink, index) = (output.uplink, output.first_path + usize::from(path.lane));
        let lane = output.lanes.get_mut(usize::from(path.lane));
        let Some(lane) = lane.filter(|lane| lane.is_up) else { return };
        lane.silence.note(base.now, sample);
        lane.tcp = sample.tcp.or(lane.tcp);
        self.uplinks[uplink].uplink.sample(base.now, index, sample);
    }
}
