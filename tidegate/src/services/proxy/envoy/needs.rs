//! What queues and scripts need of Envoy.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_types::units::Size;

use crate::config::{BodyMode, Config, UpstreamConfig};
use crate::script::Scripts;
use crate::services::proxy::plan::{routes_of, sides, sides_of, specs};

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
        let sides = sides(scripts.all());
        let routes = routes_of(&config.proxy);
        let wait = routes.iter().map(|route| route.wait.0).max().unwrap_or_default();
        let message_timeout = Duration::from_secs((wait + MARGIN).as_secs());
        anyhow::ensure!(
            message_timeout <= TIMEOUT_MAX,
            "a route's wait is {wait:?}: Envoy takes at most {:?}",
            TIMEOUT_MAX - MARGIN
        );
        let mut bodies = [false; 2];
        for route in routes.iter().filter(|route| route.body != BodyMode::Head) {
            let scripts = sides_of(route, &sides)?;
            bodies.iter_mut().zip(scripts).for_each(|(sees, script)| *sees |= script.is_some());
        }
        let listen = config.proxy.listener.iter().flat_map(|listener| &listener.listen);
        let processor = listen.flat_map(|listen| &listen.0).next();
        Ok(Needs {
            wait,
            waiting: routes.iter().map(|route| u64::from(route.waiting)).sum(),
            message_timeout,
            timeout: routes.iter().map(|route| route.timeout.0).max().unwrap_or_default(),
            buffer: routes.iter().map(|route| route.message_max.0.0).fold(BUFFER.0, u64::max),
            bodies,
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
