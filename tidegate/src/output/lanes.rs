//! All lanes of an output that speaks a protocol over TCP: one connection each, to one of its hosts.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::hosts::Far;
use super::lane::Lane;
use super::protocol::Protocol;
use crate::node::contract::{Order, OutputPort};

/// One connection a lane, all of them at once: the first alarm must not wait for a login.
pub(super) async fn serve<P: Protocol + 'static>(
    far: Far,
    mut port: OutputPort,
    session: impl Fn(u8) -> P,
) {
    let mut tasks = JoinSet::new();
    let far = Arc::new(far);
    for (number, orders) in (0..).zip(port.by_lane()) {
        let lane = Lane {
            number,
            output: port.name.clone(),
            far: far.clone(),
            protocol: session(number),
            orders,
            feedback: port.feedback.clone(),
        };
        tasks.spawn(lane.run());
    }
    loop {
        tokio::select! {
            lane = tasks.join_next() => if lane.is_none() { return },
            // Before the lanes had their channels, nothing could be ordered but to stop: they have no connection yet.
            Some(order) = port.orders.recv() => if matches!(order, Order::Stop) { tasks.abort_all() },
        }
    }
}
