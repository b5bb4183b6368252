//! What a rate controller is: it hears of acknowledgements, and answers with a window and a pace.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::pace::cut_size;
use crate::target::QueueBelow;

/// Byte-level feedback of one path. Cumulative counters start at 0 when the path comes up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathSample {
    /// From handing a byte to the path to its acknowledgement, for the newest acknowledged byte. It
    /// includes what stood in buffers below the scheduler. `None` when nothing new was acknowledged.
    pub rtt: Option<Duration>,
    /// Bytes acknowledged since the path came up.
    pub delivered: Size,
    /// Bytes handed to the path and not yet acknowledged, `unsent` included.
    pub in_flight: Size,
    /// Bytes handed to the path that have not left the host yet.
    pub unsent: Size,
    /// Bytes found lost since the path came up.
    pub lost: Size,
    /// Bytes acknowledged that came with a mark of congestion (ECN), since the path came up.
    pub marked: Size,
    /// A timer takes what is under way for lost, and not a gap between what came.
    pub is_timeout: bool,
    /// What the kernel says of it, where it is a TCP connection.
    pub tcp: Option<TcpState>,
}

/// What the kernel says of a TCP connection (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpState {
    /// Its congestion window.
    pub window: Size,
    /// Bytes on the wire without an answer.
    pub unacked: Size,
    /// Its smoothed round trip.
    pub srtt: Duration,
    /// The mean deviation of it.
    pub rttvar: Duration,
    /// The shortest one of the last minutes.
    pub min_rtt: Duration,
    /// Segments that were sent again, since the connection was made.
    pub retransmits: u64,
    /// Bytes/s of the newest measured flight; 0 before one was measured.
    pub delivery_rate: u64,
}

impl TcpState {
    /// Several connections as one: what they carry together, and the mean of their round trips. `None` without one.
    pub fn together(all: impl Iterator<Item = TcpState> + Clone) -> Option<TcpState> {
        let count = u32::try_from(all.clone().count()).ok().filter(|count| *count > 0)?;
        let mean = |part: fn(TcpState) -> Duration| all.clone().map(part).sum::<Duration>() / count;
        Some(TcpState {
            window: all.clone().map(|one| one.window).sum(),
            unacked: all.clone().map(|one| one.unacked).sum(),
            srtt: mean(|one| one.srtt),
            rttvar: mean(|one| one.rttvar),
            min_rtt: all.clone().map(|one| one.min_rtt).min().unwrap_or_default(),
            retransmits: all.clone().map(|one| one.retransmits).sum(),
            delivery_rate: all.map(|one| one.delivery_rate).sum(),
        })
    }

    /// Bytes/s that it carries, as far as is known: a measured flight, or a window in each round trip.
    pub fn rate(&self) -> Option<Rate> {
        if self.delivery_rate > 0 {
            return Some(Rate::new(self.delivery_rate as f64));
        }
        let is_known = self.srtt > Duration::ZERO && self.window > Size::ZERO;
        is_known.then(|| Rate::of(self.window, self.srtt))
    }
}

/// One acknowledgement as a rate controller sees it, merged over the paths of an uplink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ack {
    /// From handing the newest acknowledged byte to its path to its acknowledgement.
    pub rtt: Duration,
    /// When that byte was handed over.
    pub sent_at: Time,
    /// `Sent` bytes that were already acknowledged when it was handed over, over all paths: the
    /// delivery rate is (`delivered` - `delivered_at_send`) / (now - `sent_at`).
    pub delivered_at_send: Size,
    /// When `delivered_at_send` was reached: the last acknowledgement before that byte was handed over,
    /// or the end of the last time with nothing in flight.
    pub reached_at: Time,
    /// Bytes acknowledged so far, over all paths, this acknowledgement included.
    pub delivered: Size,
    /// Bytes acknowledged by this acknowledgement.
    pub newly: Size,
    /// Bytes handed over and not acknowledged, after this acknowledgement.
    pub in_flight: Size,
    /// Bytes newly found lost.
    pub lost: Size,
    /// Bytes newly acknowledged that came with a mark of congestion.
    pub marked: Size,
    /// A timer found them, which takes most of what is under way for lost and proves nothing.
    pub is_timeout: bool,
    /// Whether the byte was sent while there was nothing more to send.
    pub app_limited: bool,
}

/// What is known of an uplink before its first acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownRates {
    /// The configured rate.
    pub(crate) cap: Option<Rate>,
    /// The rate that an earlier run found.
    pub(crate) remembered: Option<Rate>,
    /// How long the queue below may be.
    pub(crate) queue: QueueBelow,
    /// Whether whoever sends has a start of its own.
    pub(crate) has_own_start: bool,
}

/// What a controller's file tells the list of controllers, in its constant `ENTRY`: how one is made.
pub(crate) type Build = fn(KnownRates) -> Box<dyn RateController>;

/// A rate controller. All methods are total: any sequence of calls with non-decreasing times is legal.
pub trait RateController: std::fmt::Debug + Send {
    /// Takes an acknowledgement.
    fn acked(&mut self, now: Time, ack: &Ack);
    /// Bytes were handed to a path; `in_flight` counts them already.
    fn sent(&mut self, now: Time, bytes: Size, in_flight: Size);
    /// Time passes: called at `next_timeout` at the latest.
    fn tick(&mut self, now: Time);
    /// Most of what is sent lately is an old backlog, or no longer: then rather leave a little of the
    /// capacity than have a queue stand. Only `tide` listens.
    fn patient(&mut self, _is_patient: bool) {}
    /// The tightest bound on latency of what was sent lately; `None` before any. Only `tide` listens.
    fn urgent(&mut self, _bound: Option<Duration>) {}
    /// What is below has found its own capacity, in bytes/s. Only `told` listens.
    fn report_rate(&mut self, _rate: Rate) {}
    /// What an acknowledged byte adds at most for each byte of a packet, over the windows of all paths of a link: α of RFC 6356
    /// over their sum. Only `coupled` listens.
    fn couple(&mut self, _factor: f64) {}
    /// The estimated capacity in bytes/s; zero while nothing is known.
    fn rate(&self) -> Rate;
    /// Bytes that may be unacknowledged.
    fn window(&self) -> Size;
    /// The rate at which bytes may be handed over, >= `rate` in most rate controllers; zero for no pace at all.
    fn pace(&self) -> Rate;
    /// What may be handed over at once, at least a packet.
    fn cut(&self) -> Size {
        cut_size(self.rate())
    }
    /// The smallest round trip seen on the present path; `None` before the first sample.
    fn min_rtt(&self) -> Option<Duration>;
    /// When `tick` must be called next.
    fn next_timeout(&self) -> Option<Time> {
        None
    }
}
