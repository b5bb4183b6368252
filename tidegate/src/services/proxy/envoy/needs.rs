//! What queues and scripts need of Envoy.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_types::units::Size;

use crate::config::{BodyMode, Config, UpstreamConfig};
use crate::script::Scripts;
use crate::services::proxy::plan::{plan, specs};

/// Beside the longest wait: for the way there and back, and a busy processor.
const MARGIN: Duration = Duration::from_secs(5);
/// What Envoy takes for a time-out of a message at most.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// Envoy's own bound on what it buffers of a connection.
const BUFFER: Size = Size::from_mib(1);

/// See the file's header.
#[derive(Clone, Debug)]
pub struct Needs {
    /// The longest that a message may wait.
    pub(crate) wait: Duration,
    /// Messages that may wait at once, of all routes.
    pub(crate) waiting: u64,
    /// What Envoy must let a message wait.
    pub(crate) message_timeout: Duration,
    /// The longest that an upstream may take for its head.
    pub(crate) timeout: Duration,
    /// Bytes of a body that is part of a message.
    pub(crate) buffer: u64,
    /// Whether bodies of requests and of responses are looked at.
    pub(crate) bodies: [bool; 2],
    pub(crate) upstreams: Vec<UpstreamConfig>,
    /// Where the processor listens.
    pub(crate) processor: SocketAddr,
}

impl Needs {
    /// Those of a configuration that was checked.
    ///
    /// # Errors
    /// Scripts cannot be loaded, or a wait is longer than Envoy can be told.
    pub fn of(config: &Config) -> anyhow::Result<Needs> {
        let scripts = Scripts::load(&specs(config)?)?;
        let routes = plan(config, &scripts)?.routes;
        let waits = match config.proxy.route.is_empty() {
            true => vec![crate::config::RouteConfig::default().wait.0],
            false => config.proxy.route.iter().map(|route| route.wait.0).collect(),
        };
        let wait = waits.into_iter().max().unwrap_or_default();
        let message_timeout = Duration::from_secs((wait + MARGIN).as_secs());
        anyhow::ensure!(
            message_timeout <= TIMEOUT_MAX,
            "a route's wait is {wait:?}: Envoy takes at most {:?}",
            TIMEOUT_MAX - MARGIN
        );
        let sees = |side: usize| {
            routes.iter().any(|route| route.scripts[side] && route.body != BodyMode::Head)
        };
        let listen = config.proxy.listener.iter().flat_map(|listener| &listener.listen);
        let processor = listen.flat_map(|listen| &listen.0).next();
        Ok(Needs {
            wait,
            waiting: routes.iter().map(|route| u64::from(route.waiting)).sum(),
            message_timeout,
            timeout: routes.iter().map(|route| route.timeout).max().unwrap_or_default(),
            buffer: routes.iter().map(|route| route.message_max).fold(BUFFER.0, u64::max),
            bodies: [sees(0), sees(1)],
            upstreams: config.proxy.upstream.clone(),
            processor: *processor.ok_or_else(|| anyhow::anyhow!("no listener has an address"))?,
        })
    }

    /// The body mode of a side: what is longer than the buffer passes without being seen.
    pub(crate) fn mode(&self, side: usize) -> &'static str {
        if self.bodies[side] { "BUFFERED_PARTIAL" } else { "NONE" }
    }

    /// Whether scripts can send requests elsewhere.
    pub(crate) fn can_redirect(&self) -> bool {
        self.upstreams.len() > 1 || self.upstreams.iter().any(|upstream| !upstream.is_original())
    }
}
