//! Subscribers at this node: pieces of frames come by the node's queues like all records, and are whole frames
//! again here. Nothing waits here but replays, whose subscribers take every frame.

use tidegate_node::io::{PathState, Refusal};
use tidegate_types::record::{DeliveryId, DropReason};
use tidegate_types::units::Size;

use crate::node::contract::{Feedback, Order, OutputPort, Stopping, Transmit};
use crate::services::cameras::{Delivery, Shelf};
use crate::support::complaints::Complaints;

/// Serves the output until it is told to stop.
pub(crate) async fn run(shelf: Shelf, port: OutputPort) {
    let OutputPort { lanes, mut orders, feedback, .. } = port;
    let complaints = Complaints::new(std::time::Instant::now());
    let output = Output { shelf, feedback, complaints };
    for lane in 0..lanes {
        if output.feedback.path_state(lane, PathState::Up).await.is_err() {
            return;
        }
    }
    while let Some(Order::Transmit(order)) = next(&mut orders).await {
        // It ends only by being stopped.
        if output.take(order).await.is_err() {
            return;
        }
    }
}

/// The next order that is one.
async fn next(orders: &mut tokio::sync::mpsc::UnboundedReceiver<Order>) -> Option<Order> {
    loop {
        match orders.recv().await {
            // What is handed over whole cannot be cancelled.
            Some(Order::Cancel(_)) => {}
            None | Some(Order::Stop) => return None,
            order => return order,
        }
    }
}

struct Output {
    shelf: Shelf,
    feedback: Feedback,
    complaints: Complaints,
}

impl Output {
    async fn take(&self, order: Transmit) -> Result<(), Stopping> {
        let Transmit { id, start, end, size, record, .. } = order;
        self.feedback.sent(id, Size(end - start)).await?;
        if end < size {
            return Ok(());
        }
        let now = self.feedback.now();
        match self.shelf.piece(now, &record.identity.origin.node, record.payload.clone()) {
            Ok(None) => self.feedback.confirmed(vec![id]).await,
            Ok(Some(delivery)) if delivery.may_wait() => {
                tokio::spawn(wait(delivery, self.feedback.clone(), id));
                Ok(())
            }
            Ok(Some(delivery)) => {
                delivery.hand_over().await;
                self.feedback.confirmed(vec![id]).await
            }
            Err(why) => self.refuse(id, &why).await,
        }
    }

    async fn refuse(&self, id: DeliveryId, why: &str) -> Result<(), Stopping> {
        if let Some(withheld) = self.complaints.allow(std::time::Instant::now()) {
            tracing::warn!(withheld, "no piece of a frame: {why}");
        }
        self.feedback.refused(vec![id], Refusal::Final(DropReason::Refused)).await
    }
}

/// A replay goes on when its subscribers have room: its sender waits for the confirmation.
async fn wait(delivery: Delivery, feedback: Feedback, id: DeliveryId) {
    delivery.hand_over().await;
    // The node may be gone.
    let _ = feedback.confirmed(vec![id]).await;
}
