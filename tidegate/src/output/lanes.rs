//! All lanes of an output that speaks a protocol over TCP: one connection each, to one of its hosts.

use std::sync::Arc;

use tokio::sync::mpsc;
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
    let mut senders = Vec::new();
    let far = Arc::new(far);
    for number in 0..port.lanes {
        let (sender, orders) = mpsc::unbounded_channel();
        senders.push(sender);
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
    while let Some(order) = port.orders.recv().await {
        match order {
            Order::Transmit(order) => {
                if let Some(lane) = senders.get(usize::from(order.lane)) {
                    // A lane that is gone is stopping with the process.
                    let _ = lane.send(Order::Transmit(order));
                }
            }
            order @ (Order::Cancel(_) | Order::Stop) => {
                for lane in &senders {
                    let _ = lane.send(order.clone());
                }
                if matches!(order, Order::Stop) {
                    break;
                }
            }
        }
    }
    drop(senders);
    while tasks.join_next().await.is_some() {}
}
