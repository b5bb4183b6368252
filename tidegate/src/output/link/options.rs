//! What a link output is told.

use std::sync::Arc;
use std::time::Duration;

use tidegate_link::path_scheduler::PathSchedulerName;
use tidegate_link::predict::PredictorName;
use tidegate_link::{LinkOptions, RedundancyName};
use tidegate_types::units::Ratio;

use crate::link::dial::Fallback;
use crate::link::{self, Binding, Links, PACKET_MAX};
use crate::support::tls::ClientTls;

/// What a link output is.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkOptionsOut {
    /// Where it tells what it looks like.
    pub links: Links,
    /// Its name, for status.
    pub name: Arc<str>,
    /// Name or address of the far node.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its paths, at least one.
    pub paths: Vec<Binding>,
    /// What both ends prove.
    pub tls: ClientTls,
    /// Which path takes the next piece.
    pub schedule: PathSchedulerName,
    /// How the next delay of each path is predicted.
    pub predictor: PredictorName,
    /// Whether of paths through one bottleneck only one carries data.
    pub spare_shared: bool,
    /// Whether losses of congestion halve a path for a round trip.
    pub back_off: bool,
    /// How records for whose repeat there is no time are guarded, and what that may cost.
    pub guard: (RedundancyName, Ratio),
    /// Whether TCP stands in where UDP is blocked.
    pub fallback: Fallback,
    /// Latency bound of each class, the most urgent first.
    pub bounds: Vec<Duration>,
    /// Records that the far node may owe an answer for: those of the node.
    pub unconfirmed_max: usize,
    /// Whether the far node relays for us: its own records go first, and we answer for ours.
    pub is_peer: bool,
    /// Whether it dials whom its node names ([`link::Links`]): `host` and `port` are nothing then.
    pub is_place: bool,
}

/// What a life of the link is made with.
pub(super) fn link_options(options: &LinkOptionsOut) -> LinkOptions {
    let (incarnation, paths) = (link::new_incarnation(), options.paths.len());
    let whole = match options.schedule {
        PathSchedulerName::FdMvqsPaper => LinkOptions::of_paper(incarnation, paths),
        _ => LinkOptions::new(incarnation, paths),
    };
    LinkOptions {
        packet_max: PACKET_MAX,
        schedule: options.schedule,
        predictor: options.predictor,
        spares_shared: options.spare_shared,
        decreases_on_loss: options.back_off,
        guard: options.guard.0,
        guard_share: options.guard.1,
        unsettled_max: options.unconfirmed_max,
        ..whole
    }
}
