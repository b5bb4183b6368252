//! What the proxy counts beside what its node does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use hyper::StatusCode;

/// One route's exchanges.
#[derive(Debug, Default)]
struct RouteCounts {
    name: String,
    /// By the first digit of the status.
    by_class: [AtomicU64; 6],
    /// Whose client went away before it had all.
    broken: AtomicU64,
}

/// One upstream's connections.
#[derive(Debug, Default)]
struct UpstreamCounts {
    name: String,
    opened: AtomicU64,
    failed: AtomicU64,
}

#[derive(Debug, Default)]
struct All {
    routes: Vec<RouteCounts>,
    upstreams: Vec<UpstreamCounts>,
    connections: AtomicI64,
    accepted: AtomicU64,
    turned_away: AtomicU64,
    informational: AtomicU64,
}

/// See the file's header. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ProxyCounts(Arc<All>);

/// What they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyFigures {
    /// Of each route, requests by the first digit of their status, from 0, and those that broke off.
    pub routes: Vec<(String, [u64; 6], u64)>,
    /// Of each upstream, connections opened, and those that could not be.
    pub upstreams: Vec<(String, u64, u64)>,
    /// Connections of clients that are open.
    pub connections: u64,
    /// Connections of clients that were.
    pub accepted: u64,
    /// Connections that had no place, or made room for another.
    pub turned_away: u64,
    /// Interim responses of upstreams, which go no further.
    pub informational: u64,
}

impl ProxyCounts {
    /// Of these routes and upstreams.
    pub(super) fn new(routes: Vec<String>, upstreams: Vec<String>) -> ProxyCounts {
        // What no route takes is counted too.
        let names = routes.into_iter().chain(["none".to_owned()]);
        let route = |name| RouteCounts { name, ..RouteCounts::default() };
        let upstream = |name| UpstreamCounts { name, ..UpstreamCounts::default() };
        ProxyCounts(Arc::new(All {
            routes: names.map(route).collect(),
            upstreams: upstreams.into_iter().map(upstream).collect(),
            ..All::default()
        }))
    }

    pub(super) fn note_end(&self, route: Option<usize>, status: StatusCode, is_whole: bool) {
        let place = route.unwrap_or(self.0.routes.len().saturating_sub(1));
        let Some(route) = self.0.routes.get(place) else { return };
        let class = usize::from(status.as_u16() / 100).min(5);
        route.by_class[class].fetch_add(1, Ordering::Relaxed);
        if !is_whole {
            route.broken.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn note_connect(&self, upstream: usize, is_open: bool) {
        if let Some(counts) = self.0.upstreams.get(upstream) {
            let count = if is_open { &counts.opened } else { &counts.failed };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn note_client(&self, change: i64) {
        self.0.connections.fetch_add(change, Ordering::Relaxed);
        if change > 0 {
            self.0.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A connection had no place, or was idle and made room.
    pub(super) fn note_turned_away(&self) {
        self.0.turned_away.fetch_add(1, Ordering::Relaxed);
    }

    /// An upstream sent an interim response.
    pub(super) fn note_informational(&self) {
        self.0.informational.fetch_add(1, Ordering::Relaxed);
    }

    /// What they say now.
    pub fn read(&self) -> ProxyFigures {
        let all = &*self.0;
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let route = |route: &RouteCounts| {
            (route.name.clone(), route.by_class.each_ref().map(load), load(&route.broken))
        };
        let upstream = |upstream: &UpstreamCounts| {
            (upstream.name.clone(), load(&upstream.opened), load(&upstream.failed))
        };
        ProxyFigures {
            routes: all.routes.iter().map(route).collect(),
            upstreams: all.upstreams.iter().map(upstream).collect(),
            connections: all.connections.load(Ordering::Relaxed).max(0).unsigned_abs(),
            accepted: load(&all.accepted),
            turned_away: load(&all.turned_away),
            informational: load(&all.informational),
        }
    }
}
