//! The far end of links: records of other nodes, taken over by this one.
//!
//! `listener` takes connections, and `life` is one life of one node's link over all of its paths. What
//! comes is offered to our node by [`super::streams`].

mod life;
mod listener;
mod sockets;

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use tidegate_link::claims::VouchPolicy;
use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_types::units::Size;

use super::kind::{Driver, Opened, Opening};
use super::relays::RelayCounts;
use super::streams::Names;
use crate::link::{Links, run_on};
use crate::node::contract::Intake;
use crate::support::tls::Trust;

pub use self::listener::{LinkListener, bind};
pub use self::sockets::LinkError;

/// What a link input is.
#[derive(Clone, Debug)]
pub struct LinkInputOptions {
    /// Where they tell what they look like.
    pub links: Links,
    /// Where other nodes dial, by UDP and TCP.
    pub listen: Vec<SocketAddr>,
    /// What we prove, and whose proof we believe.
    pub tls: Arc<ServerConfig>,
    /// Whose letters we believe.
    pub trust: Trust,
    /// The same after a restart, and known to nobody else.
    pub secret: Vec<u8>,
    /// Names of the nodes that may come; all with a certificate if empty.
    pub from: Vec<String>,
    /// Bytes of records of one node that are on their way or not accepted yet.
    pub window: Size,
    /// Whether TCP is listened on as well.
    pub tcp: bool,
    /// For what we send: acknowledgements only, at present.
    pub schedule: PathSchedulerName,
    /// Set where neighbours' records come, for our uplink: they are counted here.
    pub relays: Option<RelayCounts>,
    /// What is asked of the names that nodes give their records.
    pub vouching: VouchPolicy,
}

/// A listener for links that is to be served.
#[derive(Clone, Debug)]
pub struct LinkInput {
    /// What it is.
    pub options: LinkInputOptions,
    /// What the node accepted from other nodes before it started.
    pub names: Names,
}

impl Driver for LinkInput {
    fn open(self: Box<Self>, intake: Intake) -> Opening {
        Box::pin(async move {
            let LinkInput { options, names } = *self;
            let handle = options.links.thread().handle().map_err(LinkError::Thread)?;
            let listener = {
                // Its sockets belong to the thread of links.
                let _of_thread = handle.enter();
                bind(options)?
            };
            let (addresses, offered) = (listener.local_addrs(), intake.clone());
            let serve = |stopped| async move {
                run_on(&handle, listener.run(offered, names, stopped)).await;
            };
            Ok(Opened::listener(addresses, intake, serve))
        })
    }
}
