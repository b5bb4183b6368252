//! What a lane needs to know of a protocol: bytes in, what they mean out. No socket, no clock.

use std::time::Duration;

use bytes::BytesMut;
use tidegate_node::io::Refusal;
use tidegate_types::record::{DeliveryId, DropReason};
use tidegate_types::units::Time;

use crate::keys::url::Host;
use crate::node::contract::Transmit;

/// Longest text of a far end that is repeated to people.
const WORDS_MAX: usize = 300;

/// Why a connection cannot go on. The text names the cause; the lane connects again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The far end closed it and said why.
    #[error("the far end closed the connection: {0}")]
    Closed(String),
    /// It lets us in, and does not take what we send.
    #[error("the far end rejects what it is sent: {0}")]
    Rejected(String),
    /// It lets us in, and what we want to send to is not to be had.
    #[error("the far end lets us in, but {0}")]
    Unusable(String),
    /// The far end does not let us in.
    #[error("the far end refuses the login: {0}")]
    Refused(String),
    /// The far end does not let us in by this version of the protocol: it is asked again in an older one.
    #[error("the far end refuses the login: {0}")]
    Older(String),
    /// Bytes that are not of this protocol.
    #[error("the far end does not speak {protocol}: {what}")]
    Malformed {
        /// Which protocol.
        protocol: &'static str,
        /// What was seen.
        what: String,
    },
    /// Nothing is owed on either side: the next connection is made at once, and nobody is told.
    #[error("the connection is over")]
    Over,
    /// Nothing came for too long.
    #[error("nothing was heard for {0:?}")]
    Silent(Duration),
    /// The node broke its own promise; a new connection makes both agree again.
    #[error("the node ordered {0}")]
    Order(&'static str),
}

/// A far end's words, fit for a log: one line, not too long.
pub(super) fn words(text: &str) -> String {
    text.chars().filter(|letter| !letter.is_control()).take(WORDS_MAX).collect()
}

/// What the far end said of records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdicts {
    /// It has these.
    pub confirmed: Vec<DeliveryId>,
    /// It will not take these.
    pub refused: Vec<(DeliveryId, Refusal)>,
    /// What an operator should hear of it, in the far end's words; told with the output's name.
    pub told: Vec<String>,
}

/// A client's side of a protocol over one connection.
///
/// A record goes as one `begin` and then any number of `piece`s, one for each cut, until its payload is
/// complete; nothing but these makes bytes of a record, so no encoding ever waits in memory as a whole.
pub trait Protocol: Send {
    /// Whether what the protocol says for itself (heartbeats, replies) may stand between two pieces of
    /// one record. Where it may not, it waits for the record's end.
    const INTERLEAVES: bool;

    /// Gets what the next connection needs and takes time to get: a password of today.
    ///
    /// # Errors
    /// It is not to be had, and why: there is no connection without it.
    fn prepare(&mut self) -> impl Future<Output = Result<(), String>> + Send {
        std::future::ready(Ok(()))
    }

    /// The next connection leads to this host.
    fn leads_to(&mut self, _host: &Host) {}

    /// A new connection: appends the first bytes to say.
    fn connect(&mut self, now: Time, out: &mut BytesMut);

    /// Takes bytes from the far end off `input`, appends replies to `out` and verdicts on records.
    ///
    /// # Errors
    /// The connection cannot go on.
    fn receive(
        &mut self,
        now: Time,
        input: &mut BytesMut,
        out: &mut BytesMut,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError>;

    /// The far end says nothing more: takes what its end says of records, and answers why the connection is over.
    fn ended(&mut self, now: Time, verdicts: &mut Verdicts) -> ProtocolError {
        let _ = (now, verdicts);
        ProtocolError::Closed("without a word".into())
    }

    /// Whether the login is done.
    fn is_ready(&self) -> bool;

    /// How many records the far end takes unconfirmed, where the node must know it: all classes go by one connection, and
    /// what the node had ordered beyond would wait here in front of what is more urgent.
    fn window(&self) -> Option<usize> {
        None
    }

    /// Whether the far end takes another record now.
    fn may_send(&self) -> bool;

    /// Appends what goes before the payload of a record, which waits for its verdict from here on.
    ///
    /// # Errors
    /// The record can never be sent; nothing was appended.
    fn begin(&mut self, order: &Transmit, out: &mut BytesMut) -> Result<(), DropReason>;

    /// Appends the next piece of the begun record's payload; never an empty one.
    fn piece(&mut self, piece: &[u8], out: &mut BytesMut);

    /// Bytes were written: a sign of life.
    fn wrote(&mut self, now: Time);

    /// Time passes: appends what is due to `out`.
    ///
    /// # Errors
    /// The far end is silent.
    fn tick(&mut self, now: Time, out: &mut BytesMut) -> Result<(), ProtocolError>;

    /// When `tick` is due.
    fn next_timeout(&self) -> Option<Time>;

    /// Appends a polite end.
    fn close(&mut self, out: &mut BytesMut);
}

/// Signs of life in both directions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heartbeat {
    interval: Option<Duration>,
    said_at: Time,
    heard_at: Time,
}

impl Heartbeat {
    /// Both directions are alive at `now`; an interval of zero asks for none.
    pub(super) fn new(now: Time, interval: Duration) -> Self {
        let interval = (!interval.is_zero()).then_some(interval);
        Heartbeat { interval, said_at: now, heard_at: now }
    }

    pub(super) fn said(&mut self, now: Time) {
        self.said_at = now;
    }

    pub(super) fn heard(&mut self, now: Time) {
        self.heard_at = now;
    }

    /// Whether something must be said now.
    ///
    /// # Errors
    /// Nothing was heard for two intervals.
    pub(super) fn is_due(&self, now: Time) -> Result<bool, ProtocolError> {
        let Some(interval) = self.interval else { return Ok(false) };
        if self.heard_at + interval * 2 <= now {
            return Err(ProtocolError::Silent(interval * 2));
        }
        Ok(self.said_at + interval / 2 <= now)
    }

    pub(super) fn next_timeout(&self) -> Option<Time> {
        let interval = self.interval?;
        Some((self.said_at + interval / 2).min(self.heard_at + interval * 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heartbeat_is_due_at_half_and_silence_ends_at_twice_the_interval() {
        let second = Duration::from_secs(1);
        let mut heartbeat = Heartbeat::new(Time::ZERO, second * 10);
        assert_eq!(heartbeat.is_due(Time::ZERO + second * 4), Ok(false));
        assert_eq!(heartbeat.is_due(Time::ZERO + second * 5), Ok(true));
        heartbeat.said(Time::ZERO + second * 5);
        heartbeat.heard(Time::ZERO + second * 3);
        assert_eq!(heartbeat.next_timeout(), Some(Time::ZERO + second * 10));
        let silent = heartbeat.is_due(Time::ZERO + second * 23);
        assert_eq!(silent, Err(ProtocolError::Silent(second * 20)));
        assert_eq!(Heartbeat::new(Time::ZERO, Duration::ZERO).next_timeout(), None);
    }

    #[test]
    fn foreign_words_stay_on_one_line() {
        assert_eq!(words("NOT_FOUND\r\nlevel=error"), "NOT_FOUNDlevel=error");
        assert_eq!(words(&"x".repeat(10_000)).len(), WORDS_MAX);
    }
}
