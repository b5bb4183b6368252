//! AMQP 0-9-1 to RabbitMQ: a publisher with confirms, on the codec alone.
//!
//! Why not a whole client library: its send buffer and its own I/O loop would be a deep buffer below the
//! scheduler (docs/decisions/0006-amqp-on-the-codec.md).

mod encode;
mod incoming;
mod keys;
mod session;

use std::sync::Arc;

pub use keys::AmqpConfig;
pub use session::{Session, fuzz};
use tidegate_types::hidden::Hidden;

use super::hosts::Far;
use super::kind::{Driver, Served};
use super::lanes;
use crate::keys::url::Host;
use crate::node::contract::OutputPort;
use crate::support::tls::ClientTls;

/// Where and how to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AmqpOptions {
    /// Its hosts, which are tried in turn.
    pub hosts: Vec<Host>,
    /// TLS, if the far end speaks it.
    pub tls: Option<ClientTls>,
    /// Virtual host.
    pub virtual_host: String,
    /// User name.
    pub user: String,
    /// Its password.
    pub password: Hidden,
    /// Exchange that records go to; it must exist.
    pub exchange: String,
    /// Routing key; `{topic}` stands for the record's key with `.` for `/`.
    pub routing_key: String,
    /// Whether the broker keeps records across its restart.
    pub persistent: bool,
    /// Names of the classes, for the header.
    pub classes: Arc<[Arc<str>]>,
}

impl Driver for AmqpOptions {
    fn run(self: Box<Self>, port: OutputPort) -> Served {
        let far = Far::new(&self.hosts, self.tls.as_ref());
        Box::pin(lanes::serve(far, port, move |_| Session::new((*self).clone())))
    }
}
