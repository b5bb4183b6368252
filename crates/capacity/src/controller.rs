//! What a rate controller is: it hears of acknowledgements, and answers with a window and a pace.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use crate::QueueBelow;

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
    /// The estimated capacity in bytes/s; zero while nothing is known.
    fn rate(&self) -> Rate;
    /// Bytes that may be unacknowledged.
    fn window(&self) -> Size;
    /// The rate at which bytes may be handed over, >= `rate` in most rate controllers; zero for no pace at all.
    fn pace(&self) -> Rate;
    /// The smallest round trip seen on the present path; `None` before the first sample.
    fn min_rtt(&self) -> Option<Duration>;
    /// When `tick` must be called next.
    fn next_timeout(&self) -> Option<Time> {
        None
    }
}
