//! All lanes of an output that speaks a protocol over TCP: one connection each, all of them to one far end.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::lane::Lane;
use super::protocol::Protocol;
use crate::node::contract::{Order, OutputPort};
use crate::support::complaints::Complaint;
use crate::support::tls::{self, ClientTls};

/// Where all lanes of an output connect to.
pub(super) struct Far {
    host: Arc<str>,
    port: u16,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

impl Far {
    pub(super) fn new(host: &str, port: u16, tls: Option<&ClientTls>) -> Far {
        // A host that no certificate can name was refused with its url: here it is never trusted.
        let name = || tls::server_name(host).unwrap_or(IpAddr::from([0, 0, 0, 0]).into());
        let tls = tls.map(|tls| (tls.config(), name()));
        Far { host: host.into(), port, tls }
    }
}

/// One connection a lane, all of them at once: the first alarm must not wait for a login.
pub(super) async fn serve<P: Protocol + 'static>(
    far: Far,
    mut port: OutputPort,
    session: impl Fn(u8) -> P,
) {
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
