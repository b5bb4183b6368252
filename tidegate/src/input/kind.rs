//! What every kind of input says of itself, so that nothing else must know it.
//!
//! A kind is the table of its keys: `mqtt = {...}` of an `[[input]]`. `config::inputs` lists all kinds.

use std::fmt;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use tidegate_types::units::Size;
use tokio::sync::watch;

use super::mqtt::{Clients, MqttControl, MqttOptions};
use super::relays::RelayCounts;
use super::streams::Names;
use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::keys::secrets::Secret;
use crate::link::Links;
use crate::node::contract::Intake;
use crate::support::access::Quotas;
use crate::support::tls::{ClientFiles, ServerFiles};

/// A kind of input, with its keys.
pub trait InputKind: fmt::Debug {
    /// Its key in an `[[input]]`.
    fn name(&self) -> &'static str;

    /// Finds what is wrong with its keys, which stand at `place`.
    fn check(&self, place: &Place, findings: &mut Findings);

    /// Finds what is wrong with files that it names, beside its certificates.
    fn check_files(&self, _place: &Place, _findings: &mut Findings) {}

    /// Where it listens.
    fn ports(&self) -> Option<Ports<'_>> {
        None
    }

    /// The files of its TLS, if it speaks TLS and is right.
    fn certificates(&self) -> Option<Certificates> {
        None
    }

    /// The keys that name a secret, each with where that is.
    fn secrets(&self) -> Vec<Secret<'_>> {
        Vec::new()
    }

    /// Makes what serves it. Nothing is opened yet.
    ///
    /// # Errors
    /// A key is missing, or a password or a file of TLS cannot be read.
    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>>;

    /// Makes what changes one that serves, so that these keys count and its clients stay; `None` where it has to begin
    /// anew. It was started with the keys `before`. Nothing has changed until the answer is called.
    ///
    /// # Errors
    /// As [`InputKind::build`], or a new address cannot be listened on.
    fn change(
        &self,
        _before: &dyn InputKind,
        _control: &Control,
        _surroundings: &Surroundings,
    ) -> anyhow::Result<Option<Change>> {
        Ok(None)
    }
}

/// Makes a change that is prepared.
pub type Change = Box<dyn FnOnce() + Send>;

/// What an input that serves can be told.
#[derive(Clone, Debug, Default)]
pub enum Control {
    /// Nothing.
    #[default]
    Nothing,
    /// What an MQTT listener can.
    Mqtt(MqttControl),
}

/// Addresses that an input listens on: its key `listen`.
#[derive(Clone, Copy, Debug)]
pub struct Ports<'a> {
    /// The addresses.
    pub listen: &'a [SocketAddr],
    /// Whether by TCP.
    pub tcp: bool,
    /// Whether by UDP.
    pub udp: bool,
    /// Whether other nodes dial there, by links: else clients do.
    pub for_nodes: bool,
}

/// Certificates that an input shows, by who sees them.
#[derive(Clone, Debug)]
pub enum Certificates {
    /// Anybody, whose certificates may be of another authority: the table `tls`.
    ToClients(ServerFiles),
    /// Nodes, of one authority with this one.
    ToNodes(ServerFiles),
    /// The far end that it dials.
    ToFarEnd(ClientFiles),
}

/// What an input is told of the node that it belongs to.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Name of the node.
    pub node: String,
    /// Largest record that is taken.
    pub record_max: Size,
    /// Client connections that are taken.
    pub connections_max: usize,
    /// What users may have.
    pub quotas: Arc<Quotas>,
    /// The MQTT clients of all inputs.
    pub clients: Arc<Clients>,
    /// What the node accepted from other nodes before it started.
    pub names: Names,
    /// Where neighbours' records are counted.
    pub relays: RelayCounts,
    /// Where links tell what they look like.
    pub links: Links,
}

impl Surroundings {
    /// An MQTT packet that is larger holds no record that is taken.
    pub fn max_packet_size(&self) -> u32 {
        let record_max = u32::try_from(self.record_max.0).unwrap_or(u32::MAX);
        let sizes = MqttOptions::PACKET_SIZES;
        record_max.clamp(*sizes.start(), *sizes.end())
    }
}

/// Serves an input.
pub trait Driver: fmt::Debug + Send {
    /// Opens what it needs, and says what serves it from then on, until the node is gone.
    fn open(self: Box<Self>, intake: Intake) -> Opening;
}

/// An input that is being opened.
pub type Opening = Pin<Box<dyn Future<Output = anyhow::Result<Opened>> + Send>>;

/// An input that is open.
pub struct Opened {
    /// The addresses that it listens on.
    pub addresses: Vec<SocketAddr>,
    /// Serves it; an error ends the node.
    pub serve: Served,
    /// What it can be told meanwhile.
    pub control: Control,
}

/// An input while it is served.
pub type Served = Pin<Box<dyn Future<Output = anyhow::Result<()>> + Send>>;

impl Opened {
    /// An input that listens nowhere.
    pub fn quiet(serve: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> Opened {
        Opened { addresses: Vec::new(), serve: Box::pin(serve), control: Control::Nothing }
    }

    /// A listener, which is told to stop when the node is gone.
    pub fn listener<F: Future<Output = ()> + Send + 'static>(
        addresses: Vec<SocketAddr>,
        intake: Intake,
        run: impl FnOnce(watch::Receiver<bool>) -> F,
    ) -> Opened {
        let (stop, stopped) = watch::channel(false);
        let serve = run(stopped);
        let serve = async move {
            let mut serve = pin!(serve);
            tokio::select! {
                () = &mut serve => return Ok(()),
                () = intake.closed() => {}
            }
            // The listener may have ended by itself.
            let _ = stop.send(true);
            serve.await;
            Ok(())
        };
        Opened { addresses, serve: Box::pin(serve), control: Control::Nothing }
    }

    /// The same, and what it can be told.
    pub fn told_by(self, control: Control) -> Opened {
        Opened { control, ..self }
    }
}
