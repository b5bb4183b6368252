//! What a link is told, and what it tells.

use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;
use tidegate_capacity::RateControllerName;
use tidegate_types::units::{Rate, Ratio, Size, Time};

use super::packet::Custody;
use super::path_scheduler::PathSchedulerName;
use super::predict::PredictorName;
use super::redundancy::RedundancyName;

/// What a guard may cost for each byte of a record unless told otherwise: with the heaviest loss of the paper's
/// paths and headers, half as many bytes again.
pub const GUARD_SHARE: f64 = 0.45;

/// Whether of paths through one bottleneck only one carries data, unless told otherwise.
pub const SPARE_SHARED: bool = true;
/// Whether losses of congestion halve a path for a round trip, unless told otherwise.
pub const BACK_OFF: bool = false;

/// The options of a link.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// Which life of this end it is: not 0, and another one after every start.
    pub incarnation: u32,
    /// How many paths it may have, at most [`super::PATHS_MAX`]; both ends number them alike.
    pub paths: usize,
    /// Bytes of records that have come, or are coming, and are not taken; at least 128 KiB.
    pub receive_window: Size,
    /// Bytes of records that were offered and have not arrived.
    pub memory: Size,
    /// Records that were offered and have no fate.
    pub unsettled_max: usize,
    /// Largest packet in bytes, at least 600: what every path carries in one datagram.
    pub packet_max: usize,
    /// The rate controller of each path's rate.
    pub controller: RateControllerName,
    /// Which path takes the next piece.
    pub schedule: PathSchedulerName,
    /// How the next arrival delay of a path is predicted.
    pub predictor: PredictorName,
    /// How far the link may go for a record for whose repeat its deadline leaves no time.
    pub guard: RedundancyName,
    /// What that may cost, for each byte of a record.
    pub guard_share: Ratio,
    /// η of FD-MVQS Eq. 22.
    pub decrease_factor: Ratio,
    /// Whether a loss of congestion shrinks a path's window to η for a round trip, beside what the rate controller
    /// does: for paths that share a bottleneck with others.
    pub decreases_on_loss: bool,
    /// Whether of paths that go through one bottleneck only one carries data.
    pub spares_shared: bool,
    /// Whether a piece that failed goes again by two paths at once: a second failure costs a record
    /// another round trip, and copies are as rare as failures.
    pub doubles_repeats: bool,
}

impl LinkOptions {
    /// The options of a link of so many paths, for the common case.
    pub fn new(incarnation: u32, paths: usize) -> Self {
        LinkOptions {
            incarnation,
            paths,
            receive_window: Size::from_mib(16),
            memory: Size::from_mib(16),
            unsettled_max: 65_536,
            packet_max: 1350,
            controller: RateControllerName::Tide,
            schedule: PathSchedulerName::FdMvqs,
            predictor: PredictorName::Last,
            guard: RedundancyName::Code,
            guard_share: Ratio::new(GUARD_SHARE),
            decrease_factor: Ratio::new(0.5),
            decreases_on_loss: BACK_OFF,
            spares_shared: SPARE_SHARED,
            doubles_repeats: true,
        }
    }
}

impl LinkOptions {
    /// A link that does what FD-MVQS's paper does and nothing else: MPTCP's windows, which every loss halves, its scheduler with
    /// its prediction, neither repairs nor copies.
    pub fn of_paper(incarnation: u32, paths: usize) -> Self {
        LinkOptions {
            controller: RateControllerName::Coupled,
            schedule: PathSchedulerName::FdMvqsPaper,
            predictor: PredictorName::Chaos,
            guard: RedundancyName::Off,
            doubles_repeats: false,
            ..LinkOptions::new(incarnation, paths)
        }
    }
}

/// What is known of a path before it is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathOptions {
    /// Its rate when it was used last: a start begins with half of it.
    pub remembered: Option<Rate>,
    /// What it may carry at most.
    pub cap: Option<Rate>,
    /// Whether the peer hears of packets that came marked.
    pub hears_marks: bool,
}

/// A record to be carried.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// The caller's name for it.
    pub token: u64,
    /// Its stream: records of one stream are delivered in the order in which they were offered.
    pub stream: u64,
    /// Its bytes.
    pub content: Bytes,
    /// The earlier, the sooner it goes.
    pub deadline: Time,
    /// When it is given up if none of it was sent: in the queue of a path as well.
    pub expires: Option<Time>,
}

/// Why an offer was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OfferError {
    /// Later: memory, or the number of records, is at its bound, or the peer's window is not known.
    #[error("the link takes no more at present")]
    Full,
    /// Never: it is larger than the peer's window.
    #[error("the record is larger than the peer's window")]
    Oversize,
}

/// What a link tells its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// A record came. The peer waits for [`super::Link::settle`].
    Arrived {
        /// Its name on this link.
        record: u64,
        /// Its bytes.
        content: Bytes,
    },
    /// All of a record has reached the peer's memory. It is not safe there yet.
    Delivered {
        /// The caller's name.
        token: u64,
    },
    /// The peer says who answers for a record; nothing follows after `Custody::Final`.
    Custody {
        /// The caller's name.
        token: u64,
        /// Who.
        custody: Custody,
        /// The paths by which it went: a bit each.
        paths: u32,
    },
    /// A record expired before any of it was sent.
    Expired {
        /// The caller's name.
        token: u64,
    },
    /// A path died or came back.
    Path {
        /// Which.
        path: usize,
        /// Its state.
        state: PathHealth,
    },
    /// The peer has begun a new life: this link is over, and `Link::close` says what it owes.
    Restarted {
        /// The peer's new incarnation.
        incarnation: u32,
    },
}

/// Whether a path works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathHealth {
    /// It does, or nothing is known to the contrary.
    Up,
    /// A probe time-out has passed without a word: what was in flight goes by other paths as well.
    Silent,
    /// Two have: nothing is sent but questions.
    Dead,
    /// The driver has no such path.
    Absent,
}

/// Sums of one path since it came up first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// Packets sent that ask for an acknowledgement, and their bytes.
    pub packets: u64,
    /// See `packets`.
    pub bytes: Size,
    /// Of these, found lost by acknowledgements of later ones.
    pub lost: u64,
    /// Of these, marked by a queue on the way, as the peer counts them.
    pub marked: u64,
    /// Probe time-outs.
    pub timeouts: u64,
}

/// What a path looks like at present.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStatus {
    /// Whether it works.
    pub state: PathHealth,
    /// Its estimated capacity; zero while that is not known.
    pub rate: Rate,
    /// Bytes that may be unacknowledged on it.
    pub window: Size,
    /// Part of its packets that are lost.
    pub loss_rate: Ratio,
    /// Its smoothed round trip.
    pub srtt: Option<Duration>,
    /// How long packets stand in queues on the way to the peer.
    pub queue_delay: Duration,
    /// Bytes in its virtual queue.
    pub queued: Size,
    /// Whether another path carries data instead, for both go through one bottleneck.
    pub is_spare: bool,
    /// Its sums.
    pub counts: PathCounts,
}

/// Sums of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Pieces and repairs that came a second time, or too late to be of use.
    pub duplicates: u64,
    /// Repairs that came in time.
    pub repairs: u64,
    /// Packets that did not keep to the window, or contradicted themselves.
    pub refused: u64,
    /// Packets that could not be read, or were meant for another life.
    pub strange: u64,
    /// Pieces and repairs that were sent, each as often as it was.
    pub parts: u64,
    /// Pieces and repairs sent again.
    pub repeated: u64,
    /// Bytes of pieces that came, each once.
    pub arrived: Size,
}
