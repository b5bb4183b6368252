//! What the shelf's state says of nodes, flows and subscriptions, and how these end.

use std::sync::Arc;
use std::time::Duration;

use tidegate_types::units::Time;

use super::super::slot::Slot;
use super::super::wire::{FlowMessage, FrameMessage};
use super::State;

impl State {
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn names_of(&self, node: &str) -> Vec<String> {
        let of_node = self.cameras.values().filter(|camera| camera.node == node);
        of_node.map(|camera| camera.name.clone()).collect()
    }

    pub(super) fn node_of(&self, flow: &FlowMessage) -> Option<&str> {
        self.cameras.get(&flow.camera).map(|camera| camera.node.as_str())
    }

    pub(super) fn wanted_of(&self, node: &str) -> Vec<FlowMessage> {
        let of_node = self.flows.values().map(|flow| &flow.message);
        of_node.filter(|flow| self.node_of(flow) == Some(node)).cloned().collect()
    }

    pub(super) fn tell(&mut self, node: &str) {
        let wanted = self.wanted_of(node);
        if let Some(seat) = self.nodes.get(node) {
            seat.wanted.send_replace(wanted);
        }
    }

    /// How old a frame is that came from a node between two times; `None` where it has no bound, or its node does not
    /// tell. Only what came first of it is compared: how long all of it takes depends on its size.
    pub(super) fn took(
        &mut self,
        began_at: Time,
        now: Time,
        node: &str,
        frame: &FrameMessage,
    ) -> Option<Duration> {
        let seat = self.nodes.get_mut(node).filter(|_| frame.left_us > 0)?;
        let (left, way) =
            (Duration::from_micros(frame.left_us), Duration::from_micros(frame.way_us));
        let on_way = seat.transit.came(began_at, left, way) + now.since(began_at);
        Some(Duration::from_micros(frame.age_us).saturating_add(on_way))
    }

    pub(super) fn slots_of(&self, flow: u64) -> Vec<Arc<Slot>> {
        let of_flow = self.subscriptions.values().filter(|one| one.flow == flow);
        of_flow.map(|one| one.slot.clone()).collect()
    }

    /// A subscription is over, and its flow if that was the last one.
    pub(super) fn leave(&mut self, id: u64) {
        let Some(subscriber) = self.subscriptions.remove(&id) else { return };
        subscriber.slot.close();
        self.counts.skipped += subscriber.slot.skipped();
        self.counts.late += subscriber.slot.late();
        let flow = subscriber.flow;
        if self.subscriptions.values().any(|other| other.flow == flow) {
            return;
        }
        let Some(seat) = self.flows.remove(&flow) else { return };
        if let Some(node) = self.node_of(&seat.message).map(str::to_owned) {
            self.tell(&node);
        }
    }

    /// What is live of a node's cameras ends, for these are away; replays wait for them.
    pub(super) fn end_live(&mut self, node: &str) {
        let is_away = |name: &str| {
            self.cameras.get(name).is_some_and(|camera| camera.node == node && !camera.is_online)
        };
        let live = self.flows.iter().filter(|(_, flow)| !flow.message.is_replay());
        let away = live.filter(|(_, flow)| is_away(&flow.message.camera));
        let flows: Vec<u64> = away.map(|(&flow, _)| flow).collect();
        for flow in flows {
            self.slots_of(flow).iter().for_each(|slot| slot.close_away());
            self.end(flow);
        }
    }

    /// A flow is over: what waits for its subscribers is the last that they hear.
    pub(super) fn end(&mut self, flow: u64) {
        let of_flow = self.subscriptions.iter().filter(|(_, one)| one.flow == flow);
        let ids: Vec<u64> = of_flow.map(|(&id, _)| id).collect();
        ids.iter().for_each(|&id| self.leave(id));
    }
}
