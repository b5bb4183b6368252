//! Outputs: where a node sends. One file an external thing.
//!
//! What all TCP outputs share stands in files of its own: `lane` keeps a connection, `connection` serves
//! one, `outgoing` holds the few bytes that are bound to go, `gauge` and [`tcp_info`] count them, and
//! [`protocol`] is what AMQP and MQTT add to it.

pub mod amqp;
pub(crate) mod backoff;
mod connection;
mod gauge;
pub mod headers;
mod lane;
#[cfg(test)]
mod lane_tests;
pub mod mqtt;
mod outgoing;
pub mod protocol;
pub mod sink;
pub mod tcp_info;
#[cfg(test)]
mod test_protocol;

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::amqp::AmqpOptions;
use self::lane::Lane;
pub(crate) use self::lane::{Complaint, connect};
use self::mqtt::MqttOptions;
use self::protocol::Protocol;
use self::sink::SinkOptions;
use crate::port::{Order, OutputPort};

/// What an output is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputOptions {
    /// RabbitMQ, or another AMQP 0-9-1 broker.
    Amqp(AmqpOptions),
    /// An MQTT 5 broker, or another node.
    Mqtt(MqttOptions),
    /// Files on this machine, or nothing.
    Sink(SinkOptions),
}

/// Serves an output until it is told to stop.
pub async fn run(options: OutputOptions, port: OutputPort) {
    match options {
        OutputOptions::Amqp(options) => {
            let (host, number) = (options.host.clone(), options.port);
            lanes(&host, number, port, |_| amqp::Session::new(options.clone())).await;
        }
        OutputOptions::Mqtt(options) => {
            let (host, number) = (options.host.clone(), options.port);
            lanes(&host, number, port, |lane| mqtt::Session::new(options.clone(), lane)).await;
        }
        OutputOptions::Sink(options) => sink::run(options, port).await,
    }
}

/// One connection a lane, all of them at once: the first alarm must not wait for a login.
async fn lanes<P: Protocol + 'static>(
    host: &str,
    tcp_port: u16,
    mut port: OutputPort,
    session: impl Fn(u8) -> P,
) {
    let mut tasks = JoinSet::new();
    let mut senders = Vec::new();
    let (host, complaint): (Arc<str>, _) = (host.into(), Complaint::default());
    for number in 0..port.lanes {
        let (sender, orders) = mpsc::unbounded_channel();
        senders.push(sender);
        let lane = Lane {
            number,
            host: host.clone(),
            port: tcp_port,
            protocol: session(number),
            orders,
            feedback: port.feedback.clone(),
            complaint: complaint.clone(),
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
