//! Both ends of the channels by which the node orders an output what to send.
//!
//! An output has one channel, or takes one for each lane ([`OutputPort::by_lane`]): then the loop puts a cut into the
//! channel of its lane, and no task between sorts them (docs/decisions/0110-from-the-loop-to-the-socket.md).

use std::sync::{Arc, OnceLock};

use tidegate_node::io::OutputId;
use tidegate_types::record::DeliveryId;
use tokio::sync::mpsc;

use super::{Feedback, Order, Transmit};

/// The channels of an output's lanes, once it has taken them.
type Lanes = Arc<OnceLock<Vec<mpsc::UnboundedSender<Order>>>>;

/// The node's end. The channels are not bounded, but the node never orders more bytes than the uplink's window and one
/// cut a lane.
#[derive(Debug)]
pub struct Orders {
    all: mpsc::UnboundedSender<Order>,
    lanes: Lanes,
}

impl Orders {
    /// Orders a cut. An output that is gone is stopping with the process; what it held stays unconfirmed.
    pub fn transmit(&self, order: Transmit) {
        let lane = self.lanes.get().and_then(|lanes| lanes.get(usize::from(order.lane)));
        let _ = lane.unwrap_or(&self.all).send(Order::Transmit(order));
    }

    /// Gives a delivery up.
    pub fn cancel(&self, id: DeliveryId) {
        self.tell(&Order::Cancel(id));
    }

    /// Ends the output.
    pub fn stop(&self) {
        self.tell(&Order::Stop);
    }

    /// Every lane hears it.
    fn tell(&self, order: &Order) {
        match self.lanes.get() {
            Some(lanes) => lanes.iter().for_each(|lane| drop(lane.send(order.clone()))),
            None => drop(self.all.send(order.clone())),
        }
    }
}

/// An output's end.
#[derive(Debug)]
pub struct OutputPort {
    /// Which output this is.
    pub id: OutputId,
    /// What the configuration calls it.
    pub name: Arc<str>,
    /// How many lanes (connections) it may use, from the most urgent, lane 0.
    pub lanes: u8,
    /// What to do; of an output that took a channel for each lane, what was ordered before.
    pub orders: mpsc::UnboundedReceiver<Order>,
    /// Where to report.
    pub feedback: Feedback,
    by_lane: Lanes,
}

impl OutputPort {
    /// Both ends.
    pub fn new(
        id: OutputId,
        name: Arc<str>,
        lanes: u8,
        feedback: Feedback,
    ) -> (Orders, OutputPort) {
        let (all, orders) = mpsc::unbounded_channel();
        let by_lane = Lanes::default();
        let ends = Orders { all, lanes: by_lane.clone() };
        (ends, OutputPort { id, name, lanes, orders, feedback, by_lane })
    }

    /// Takes a channel for each lane: from now on the node puts orders there. They end with the node's end.
    pub fn by_lane(&mut self) -> Vec<mpsc::UnboundedReceiver<Order>> {
        let channels = (0..self.lanes).map(|_| mpsc::unbounded_channel());
        let (senders, receivers): (Vec<_>, Vec<_>) = channels.unzip();
        // The second call finds them taken, and its own senders end at once.
        let _ = std::mem::take(&mut self.by_lane).set(senders);
        receivers
    }
}

#[cfg(test)]
mod tests {
    use tidegate_types::class::ClassId;
    use tidegate_types::record::{Identity, Origin, Properties, Record, StreamId};
    use tidegate_types::units::Time;

    use super::*;
    use crate::node::contract::Clock;

    fn cut(id: u64, lane: u8) -> Transmit {
        let origin = Arc::new(Origin { node: "a".into(), incarnation: 1 });
        let record = Record {
            identity: Identity { origin, stream: StreamId(0), seq: id },
            key: "t".into(),
            properties: Properties::default(),
            payload: "x".into(),
            arrived: Time::ZERO,
            deadline: Time::ZERO,
            expires: None,
            source_unix_ns: None,
        };
        Transmit {
            id: DeliveryId(id),
            lane,
            epoch: 0,
            record: Arc::new(record),
            class: ClassId(lane),
            start: 0,
            end: 2,
            size: 2,
            again: false,
        }
    }

    fn ends() -> (Orders, OutputPort) {
        let (sender, _reports) = mpsc::channel(1);
        let feedback = Feedback::new(sender, OutputId(0), Clock::start());
        OutputPort::new(OutputId(0), "far".into(), 2, feedback)
    }

    #[test]
    fn a_cut_goes_to_its_lane_and_a_stop_to_all() {
        let (orders, mut port) = ends();
        orders.transmit(cut(1, 0));
        let mut lanes = port.by_lane();
        orders.transmit(cut(2, 1));
        orders.cancel(DeliveryId(2));
        orders.stop();
        drop(orders);
        let told = |lane: &mut mpsc::UnboundedReceiver<Order>| -> Vec<u64> {
            std::iter::from_fn(|| lane.try_recv().ok())
                .map(|order| match order {
                    Order::Transmit(order) => order.id.0,
                    Order::Cancel(id) => 100 + id.0,
                    Order::Stop => 1000,
                })
                .collect()
        };
        assert_eq!(told(&mut port.orders), [1], "what was ordered before");
        assert_eq!(told(&mut lanes[0]), [102, 1000]);
        assert_eq!(told(&mut lanes[1]), [2, 102, 1000]);
        assert!(lanes.iter().all(mpsc::UnboundedReceiver::is_closed), "they end with the node");
    }
}
