//! HTTP/1.1: each record is a POST to one url, and the answer says whether the far end has it.
//!
//! Requests follow each other on one connection for each urgency group. The first one on a connection goes alone;
//! with every answer that keeps the connection open one more may be under way, up to `pipeline`. A record that is
//! sent twice has the same `Idempotency-Key`, which is what allows this (RFC 9112, 9.3.2).
//!
//! Why not a whole client library: its send buffer and its pool of connections would be a deep buffer below the
//! scheduler, as with AMQP (docs/decisions/0006-amqp-on-the-codec.md).

mod encode;
mod keys;
mod replies;
mod session;

use std::sync::Arc;
use std::time::Duration;

pub use keys::HttpOutputConfig;
pub use session::{Session, fuzz};
use tidegate_types::hidden::Hidden;

use super::hosts::Far;
use super::kind::{Driver, Served};
use super::lanes;
use crate::keys::url::Host;
use crate::node::contract::OutputPort;
use crate::support::tls::ClientTls;

/// Where and how to post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOptions {
    /// Its hosts, which are tried in turn.
    pub hosts: Vec<Host>,
    /// TLS, if the far end speaks it.
    pub tls: Option<ClientTls>,
    /// Path and query.
    pub target: String,
    /// Value of `Authorization`.
    pub authorization: Option<Hidden>,
    /// Type of payloads whose record does not say its own.
    pub content_type: String,
    /// Requests that may be sent on one connection before the first of them is answered.
    pub pipeline: usize,
    /// How long the far end may take for an answer.
    pub timeout: Duration,
    /// Names of the classes, for the header.
    pub classes: Arc<[Arc<str>]>,
}

impl Driver for HttpOptions {
    fn run(self: Box<Self>, port: OutputPort) -> Served {
        let far = Far::new(&self.hosts, self.tls.as_ref());
        Box::pin(lanes::serve(far, port, move |_| Session::new((*self).clone())))
    }
}
