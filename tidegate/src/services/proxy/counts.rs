//! What the proxy counts beside what its node does.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::StatusCode;

use super::routes::Route;

/// One route's exchanges.
#[derive(Debug, Default)]
pub(super) struct RouteCounts {
    /// By the first digit of the status.
    by_class: [AtomicU64; 6],
    /// Whose client went away before it had all.
    broken: AtomicU64,
}

/// One upstream's connections.
#[derive(Debug, Default)]
pub(super) struct UpstreamCounts {
    opened: AtomicU64,
    failed: AtomicU64,
}

/// Those that there are or were, by name, in the order in which they came.
type Named<T> = Mutex<Vec<(String, Arc<T>)>>;

#[derive(Debug, Default)]
struct All {
    routes: Named<RouteCounts>,
    /// Of what no route takes.
    none: RouteCounts,
    upstreams: Named<UpstreamCounts>,
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

impl RouteCounts {
    fn note(&self, status: StatusCode, is_whole: bool) {
        let class = usize::from(status.as_u16() / 100).min(5);
        self.by_class[class].fetch_add(1, Ordering::Relaxed);
        if !is_whole {
            self.broken.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl UpstreamCounts {
    pub(super) fn note_connect(&self, is_open: bool) {
        let count = if is_open { &self.opened } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The one of a name; a new one is not shown yet.
fn named<T: Default>(all: &Named<T>, name: &str) -> Arc<T> {
    let all = &*all.lock().unwrap_or_else(PoisonError::into_inner);
    let known = all.iter().find(|(known, _)| known == name);
    known.map(|(_, known)| known.clone()).unwrap_or_default()
}

/// Shows one under its name.
fn show<T>(all: &Named<T>, name: &str, new: &Arc<T>) {
    let all = &mut *all.lock().unwrap_or_else(PoisonError::into_inner);
    if all.iter().all(|(known, _)| known != name) {
        all.push((name.to_owned(), new.clone()));
    }
}

impl ProxyCounts {
    /// Those of a route, which go on where one of this name comes back.
    pub(super) fn route(&self, name: &str) -> Arc<RouteCounts> {
        let counts = named(&self.0.routes, name);
        show(&self.0.routes, name, &counts);
        counts
    }

    /// Those of an upstream, likewise; they are not shown before it is in force.
    pub(super) fn upstream(&self, name: &str) -> Arc<UpstreamCounts> {
        named(&self.0.upstreams, name)
    }

    /// An upstream is in force.
    pub(super) fn show_upstream(&self, name: &str, counts: &Arc<UpstreamCounts>) {
        show(&self.0.upstreams, name, counts);
    }

    pub(super) fn note_end(&self, route: Option<&Route>, status: StatusCode, is_whole: bool) {
        // What no route takes is counted too.
        route.map_or(&self.0.none, |route| &route.counts).note(status, is_whole);
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
        let route = |name: &str, route: &RouteCounts| {
            (name.to_owned(), route.by_class.each_ref().map(load), load(&route.broken))
        };
        let routes = all.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let routes = routes.iter().map(|(name, counts)| route(name, counts));
        let upstreams = all.upstreams.lock().unwrap_or_else(PoisonError::into_inner);
        let upstream = |(name, upstream): &(String, Arc<UpstreamCounts>)| {
            (name.clone(), load(&upstream.opened), load(&upstream.failed))
        };
        ProxyFigures {
            routes: routes.chain([route("none", &all.none)]).collect(),
            upstreams: upstreams.iter().map(upstream).collect(),
            connections: all.connections.load(Ordering::Relaxed).max(0).unsigned_abs(),
            accepted: load(&all.accepted),
            turned_away: load(&all.turned_away),
            informational: load(&all.informational),
        }
    }
}
