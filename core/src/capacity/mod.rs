//! Finding the uplink's rate without being told, and how much may be below the scheduler.
//!
//! One law an uplink. A law sees byte-level feedback only (`TCP_INFO`, packet acknowledgements), never
//! confirmations of whole records, for a broker's confirmations also measure its disk and come in lumps
//! as large as a record. It answers with a window (bytes that may be unacknowledged) and a pace.

mod tide;
pub mod windowed;

use std::time::Duration;

use crate::units::{Rate, Size, Time};

/// One acknowledgement as a law sees it, merged over the paths of an uplink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ack {
    /// From handing the newest acknowledged byte to its path to its acknowledgement.
    pub rtt: Duration,
    /// When that byte was handed over.
    pub sent_at: Time,
    /// `Sent` bytes that were already acknowledged when it was handed over, over all paths: the
    /// delivery rate is (`delivered` - `delivered_at_send`) / (now - `sent_at`).
    pub delivered_at_send: Size,
    /// Bytes acknowledged so far, over all paths, this acknowledgement included.
    pub delivered: Size,
    /// Bytes acknowledged by this acknowledgement.
    pub newly: Size,
    /// Bytes handed over and not acknowledged, after this acknowledgement.
    pub in_flight: Size,
    /// Of these, bytes that have not left the host.
    pub unsent: Size,
    /// Bytes newly found lost.
    pub lost: Size,
    /// Whether the byte was sent while there was nothing more to send.
    pub app_limited: bool,
}

/// A law of capacity. All methods are total: any sequence of calls with non-decreasing times is legal.
pub trait Law: std::fmt::Debug + Send {
    /// Takes an acknowledgement.
    fn acked(&mut self, now: Time, ack: &Ack);
    /// Bytes were handed to a path; `in_flight` counts them already.
    fn sent(&mut self, now: Time, bytes: Size, in_flight: Size);
    /// Time passes: called at `next_timeout` at the latest.
    fn tick(&mut self, now: Time);
    /// The estimated capacity in bytes/s; zero while nothing is known.
    fn rate(&self) -> Rate;
    /// Bytes that may be unacknowledged.
    fn window(&self) -> Size;
    /// The rate at which bytes may be handed over, >= `rate` in most laws.
    fn pace(&self) -> Rate;
    /// The smallest round trip seen on the present path; `None` before the first sample.
    fn min_rtt(&self) -> Option<Duration>;
    /// When `tick` must be called next.
    fn next_timeout(&self) -> Option<Time> {
        None
    }
}

/// The laws, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LawName {
    /// Ours.
    #[default]
    Tide,
    /// BBR.
    Bbr,
    /// Copa.
    Copa,
    /// LEDBAT.
    Ledbat,
    /// 92 % of the configured rate.
    Known,
    /// No network below: a fixed window, no pace.
    Unlimited,
}

#[derive(Debug)]
struct Fixed {
    rate: Rate,
    window: Size,
}

impl Law for Fixed {
    fn acked(&mut self, _now: Time, _ack: &Ack) {}
    fn sent(&mut self, _now: Time, _bytes: Size, _in_flight: Size) {}
    fn tick(&mut self, _now: Time) {}
    fn rate(&self) -> Rate {
        self.rate
    }
    fn window(&self) -> Size {
        self.window
    }
    fn pace(&self) -> Rate {
        self.rate
    }
    fn min_rtt(&self) -> Option<Duration> {
        None
    }
}

/// The law of this name for an uplink.
pub fn build(options: &crate::options::UplinkOptions) -> Box<dyn Law> {
    match options.law {
        LawName::Unlimited => Box::new(Fixed { rate: Rate::ZERO, window: Size::from_kib(256) }),
        LawName::Tide => Box::new(tide::Tide::new(options.remembered)),
        _ => Box::new(Fixed {
            rate: options.cap.unwrap_or(Rate::from_bits(1.8e6)),
            window: Size::from_kib(64),
        }),
    }
}
