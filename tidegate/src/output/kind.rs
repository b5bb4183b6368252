//! What every kind of output says of itself, so that nothing outside its folder knows it.
//!
//! A kind is the table of its keys: `amqp = {...}` of an `[[output]]`. [`super::registry`] lists all kinds.

use std::fmt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::units::Size;

use crate::keys::findings::Findings;
use crate::keys::places::Place;
use crate::keys::secrets::Secret;
use crate::link::Links;
use crate::node::contract::OutputPort;
use crate::support::tls::ClientFiles;

/// Records sent and not confirmed at once where the configuration does not say: enough to fill a
/// broker's confirm window, few enough that a lost connection sends little twice.
pub(crate) const UNCONFIRMED_MAX: u32 = 256;

/// A kind of output, with its keys.
pub trait OutputKind: fmt::Debug {
    /// Its key in an `[[output]]`.
    fn name(&self) -> &'static str;

    /// Finds what is wrong with its keys, which stand at `place`, beside the bounds that are declared with them.
    fn check(&self, place: &Place, findings: &mut Findings) {
        let _ = (place, findings);
    }

    /// The files of its TLS, if it speaks TLS and is right.
    fn tls_files(&self) -> Option<ClientFiles> {
        None
    }

    /// The keys that name a secret, each with where that is.
    fn secrets(&self) -> Vec<Secret<'_>> {
        Vec::new()
    }

    /// The key of the folder that it writes to, and the folder.
    fn folder(&self) -> Option<(&'static str, &Path)> {
        None
    }

    /// Where it leads, in words.
    fn destination(&self) -> String;

    /// When it confirms a record, in words; the log forgets the record then.
    fn confirms(&self) -> &'static str;

    /// What is below it.
    fn below(&self) -> Below {
        Below::Uplink
    }

    /// What each record costs beside payload, key and properties: identity, deadline and source time as
    /// headers, and the protocol's own framing.
    fn overhead(&self) -> Size;

    /// Records sent and not confirmed at once where the configuration does not say.
    fn unconfirmed_max(&self) -> u32 {
        UNCONFIRMED_MAX
    }

    /// Whether one connection carries all classes, where others have one for each.
    fn is_one_connection(&self) -> bool {
        false
    }

    /// Whether it can end and begin anew with other keys while the node runs: it tells the node of each connection
    /// that ends.
    fn begins_anew(&self) -> bool {
        false
    }

    /// Makes what serves it. Nothing is connected yet.
    ///
    /// # Errors
    /// A password or a file of TLS cannot be read.
    fn build(&self, surroundings: &Surroundings) -> anyhow::Result<Box<dyn Driver>>;
}

/// What is below an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// The uplink, whose capacity is measured, and which outputs share.
    Uplink,
    /// Paths of its own, whose capacity it reports.
    Paths,
    /// No network.
    Nothing,
}

/// What an output is told of the node that it belongs to.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Name of the node.
    pub node: String,
    /// Name of the output.
    pub output: Arc<str>,
    /// Names of the classes that are configured, the most urgent first.
    pub classes: Arc<[Arc<str>]>,
    /// Latency bound of each class of the node.
    pub bounds: Vec<Duration>,
    /// Records that may be sent and not confirmed at once.
    pub unconfirmed_max: usize,
    /// Where links tell what they look like.
    pub links: Links,
}

/// Serves an output until it is told to stop.
pub trait Driver: fmt::Debug + Send {
    /// Obeys the port's orders and reports to it.
    fn run(self: Box<Self>, port: OutputPort) -> Served;
}

/// An output while it is served.
pub type Served = Pin<Box<dyn Future<Output = ()> + Send>>;
