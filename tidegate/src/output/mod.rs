//! Outputs: where a node sends. One file an external thing.
//!
//! What all TCP outputs share stands in files of its own: `lane` keeps a connection, `connection` serves
//! one, `outgoing` holds the few bytes that are bound to go, `gauge` and [`tcp_info`] count them, and
//! [`protocol`] is what AMQP and MQTT add to it.

pub mod amqp;
pub(crate) mod backoff;
mod connection;
pub(crate) mod frames;
mod gauge;
pub mod headers;
mod lane;
#[cfg(test)]
mod lane_tests;
pub mod link;
pub mod mqtt;
mod outgoing;
pub mod protocol;
pub mod sink;
pub mod tcp_info;
#[cfg(test)]
mod test_protocol;

use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::amqp::AmqpOptions;
use self::lane::Lane;
pub(crate) use self::lane::{Complaint, connect};
use self::link::LinkOptionsOut;
use self::mqtt::MqttOptions;
use self::protocol::Protocol;
use self::sink::SinkOptions;
use crate::port::{Order, OutputPort};
use crate::tls::{self, ClientTls};

/// What an output is.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputOptions {
    /// RabbitMQ, or another AMQP 0-9-1 broker.
    Amqp(AmqpOptions),
    /// An MQTT 5 broker, or another node.
    Mqtt(MqttOptions),
    /// Another node, by several paths at once.
    Link(Box<LinkOptionsOut>),
    /// Files on this machine, or nothing.
    Sink(SinkOptions),
}

/// Serves an output until it is told to stop.
pub async fn run(options: OutputOptions, port: OutputPort) {
    match options {
        OutputOptions::Amqp(options) => {
            let far = Far::new(&options.host, options.port, options.tls.as_ref());
            lanes(far, port, |_| amqp::Session::new(options.clone())).await;
        }
        OutputOptions::Mqtt(options) => {
            let far = Far::new(&options.host, options.port, options.tls.as_ref());
            lanes(far, port, |lane| mqtt::Session::new(options.clone(), lane)).await;
        }
        OutputOptions::Link(options) => link::run(*options, port).await,
        OutputOptions::Sink(options) => sink::run(options, port).await,
    }
}

/// Where all lanes of an output connect to.
struct Far {
    host: Arc<str>,
    port: u16,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Far {
    fn new(host: &str, port: u16, tls: Option<&ClientTls>) -> Far {
        // A host that no certificate can name was refused with its url: here it is never trusted.
        let name = || tls::server_name(host).unwrap_or(IpAddr::from([0, 0, 0, 0]).into());
        let tls = tls.map(|tls| (tls.config(), name()));
        Far { host: host.into(), port, tls }
    }
}

/// One connection a lane, all of them at once: the first alarm must not wait for a login.
async fn lanes<P: Protocol + 'static>(far: Far, mut port: OutputPort, session: impl Fn(u8) -> P) {
    let mut tasks = JoinSet::new();
    let mut senders = Vec::new();
    let complaint = Complaint::default();
    for number in 0..port.lanes {
        let (sender, orders) = mpsc::unbounded_channel();
        senders.push(sender);
        let lane = Lane {
            number,
            output: port.name.clone(),
            host: far.host.clone(),
            port: far.port,
            tls: far.tls.clone(),
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
