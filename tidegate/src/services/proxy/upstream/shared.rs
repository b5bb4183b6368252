//! What all threads know of an upstream: how it is reached, and whether it lives.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_node::io::OutputId;
use tokio::sync::Notify;

use super::connect::{Address, ConnectSettings};
use super::sockets::Sockets;
use crate::config::network::address;
use crate::config::{Protocol, ProxyConfig, UpstreamConfig};
use crate::services::proxy::counts::{ProxyCounts, UpstreamCounts};
use crate::services::proxy::hall::Hall;

/// Between two looks at the sockets of an upstream that is paced.
const LOOK_PACED: Duration = Duration::from_millis(10);
/// Between two looks where only scripts want to know.
const LOOK: Duration = Duration::from_millis(100);

/// What the hall was told.
#[derive(Debug, Default)]
struct Told {
    is_down: bool,
    /// Another one is in its place: what it finds is of no matter.
    is_retired: bool,
}

/// See the file's header.
#[derive(Debug)]
pub(in crate::services::proxy) struct Shared {
    pub(super) name: Arc<str>,
    pub(super) output: OutputId,
    pub(super) config: UpstreamConfig,
    pub(super) settings: ConnectSettings,
    pub(super) addresses: Vec<Arc<Address>>,
    pub(super) next: AtomicUsize,
    pub(super) sockets: Arc<Sockets>,
    /// Locked while the hall is told: what it hears last is what is so.
    told: Mutex<Told>,
    /// An address was found down.
    pub(super) found_down: Notify,
    hall: Hall,
    pub(super) counts: Arc<UpstreamCounts>,
    pub(super) all_counts: ProxyCounts,
}

impl Shared {
    /// One of this configuration, which was checked.
    ///
    /// # Errors
    /// A file of its TLS cannot be used.
    pub(in crate::services::proxy) fn new(
        config: &UpstreamConfig,
        (output, sockets): (OutputId, Arc<Sockets>),
        hall: Hall,
        all_counts: ProxyCounts,
    ) -> anyhow::Result<Arc<Shared>> {
        let (mut tls, mut name) = (None, None);
        if let Some(far) = &config.tls {
            if let Some(files) = far.files() {
                let mut client = (*crate::support::tls::client(&files)?).clone();
                let all: &[&[u8]] = match config.protocol {
                    Protocol::Auto => &[b"h2", b"http/1.1"],
                    Protocol::Http1 => &[b"http/1.1"],
                    Protocol::Http2 => &[b"h2"],
                };
                client.alpn_protocols = all.iter().map(|name| name.to_vec()).collect();
                tls = Some(Arc::new(client));
            }
            let named = far.name.as_deref().map(crate::support::tls::server_name).transpose();
            name = named.map_err(anyhow::Error::msg)?;
        }
        let settings = ConnectSettings {
            protocol: config.protocol,
            tls,
            name,
            connect_timeout: config.connect_timeout.0,
            idle_timeout: config.idle_timeout.0,
        };
        let named = config.to.iter().filter_map(|to| address(to));
        Ok(Arc::new(Shared {
            name: config.label().into(),
            output,
            config: config.clone(),
            settings,
            addresses: named.map(|(host, port)| Address::new(host, port)).collect(),
            next: AtomicUsize::new(0),
            sockets,
            told: Mutex::default(),
            found_down: Notify::new(),
            hall,
            counts: all_counts.upstream(config.label()),
            all_counts,
        }))
    }

    /// Whether another configuration leads to the same place in the same way: how fast, and how many at once, is its
    /// node's to know.
    pub(in crate::services::proxy) fn is_of(&self, config: &UpstreamConfig) -> bool {
        let UpstreamConfig { rate, in_flight, .. } = config.clone();
        UpstreamConfig { rate, in_flight, ..self.config.clone() } == *config
    }

    /// Whether its node paces what goes there.
    pub(in crate::services::proxy) fn is_paced(&self, proxy: &ProxyConfig) -> bool {
        proxy.upstream.iter().any(|one| one.label() == &*self.name && one.rate.is_some())
    }

    /// What the kernel knows of its connections: counted on where another one takes its place.
    pub(in crate::services::proxy) fn sockets(&self) -> &Arc<Sockets> {
        &self.sockets
    }

    /// What is counted of it is shown from now on.
    pub(in crate::services::proxy) fn note_used(&self) {
        self.all_counts.show_upstream(&self.name, &self.counts);
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another one takes its place: when this returns, the hall hears no more of it.
    pub(in crate::services::proxy) fn retire(&self) {
        self.told().is_retired = true;
    }

    pub(super) fn note_unreachable(&self, address: &Arc<Address>, error: &std::io::Error) {
        let Address { host, port, .. } = &**address;
        let error = crate::support::tls::explain(error).unwrap_or_else(|| error.to_string());
        tracing::debug!(upstream = %self.name, "connecting to {host}:{port}: {error}");
        let is_own = self.addresses.iter().any(|own| Arc::ptr_eq(own, address));
        if is_own && !address.is_down.swap(true, Ordering::Relaxed) {
            self.refresh();
            self.found_down.notify_one();
        }
    }

    /// Tells the hall where it changed whether any address lives.
    pub(super) fn refresh(&self) {
        // Threads tell it one after the other.
        let mut told = self.told();
        let is_down = self.addresses.iter().all(|address| address.is_down());
        let has_changed = is_down != std::mem::replace(&mut told.is_down, is_down);
        if has_changed && !told.is_retired {
            match is_down {
                true => tracing::warn!(upstream = %self.name, "the upstream is down"),
                false => tracing::info!(upstream = %self.name, "the upstream is up"),
            }
            self.hall.set_up(self.output, !is_down);
        }
    }

    /// Looks at its sockets now and then, for the pacer and for scripts.
    pub(in crate::services::proxy) async fn watch(self: Arc<Self>, is_paced: bool) {
        let mut looks = tokio::time::interval(if is_paced { LOOK_PACED } else { LOOK });
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if self.sockets.count() > 0 {
                let (sample, rate) = self.sockets.figures(self.hall.clock().now());
                self.hall.sample(self.output, sample, rate.filter(|_| !is_paced));
            }
        }
    }
}
