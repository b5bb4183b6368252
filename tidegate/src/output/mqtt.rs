//! MQTT to another broker, or to another node: a QoS 1 publisher that speaks MQTT 5, and 3.1.1 to a
//! broker that knows no better.
//!
//! Under 3.1.1 a PUBLISH carries topic and payload only: identity, class and times stay behind.

mod encode;
mod incoming;
mod keys;
mod session;

use std::sync::Arc;

pub use keys::{Connections, MqttOutputConfig};
pub use session::{Session, fuzz};
use tidegate_mqtt::Version;
use tidegate_mqtt::topics::TopicMap;

use super::hosts::Far;
use super::kind::{Driver, Served};
use super::lanes;
use crate::keys::url::Host;
use crate::node::contract::OutputPort;
use crate::support::password::Password;
use crate::support::tls::ClientTls;

/// Where and how to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MqttOptions {
    /// Its hosts, which are tried in turn.
    pub hosts: Vec<Host>,
    /// TLS, if the far end speaks it.
    pub tls: Option<ClientTls>,
    /// Client identifier; each lane adds its number, unless this is the one.
    pub client_id: String,
    /// Whether the client identifier is that of the one connection there is.
    pub is_exact: bool,
    /// MQTT 5 or 3.1.1; `None` is 5, and 3.1.1 to a broker that knows no better.
    pub version: Option<Version>,
    /// What topics are called at the far end.
    pub topics: TopicMap,
    /// User name.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Password>,
    /// Names of the classes, for the property.
    pub classes: Arc<[Arc<str>]>,
    /// Whether the broker is asked to retain what came with the retain flag.
    pub retain: bool,
}

impl Driver for MqttOptions {
    fn run(self: Box<Self>, port: OutputPort) -> Served {
        let far = Far::new(&self.hosts, self.tls.as_ref());
        Box::pin(lanes::serve(far, port, move |lane| Session::new((*self).clone(), lane)))
    }
}
