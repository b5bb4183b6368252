//! When a connection is given up, and the timer for it.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::session::End;

/// Sets the timer if it would ring too late, or has rung; an early ring is cheaper than a reset a read.
pub(super) fn arm(timer: Pin<&mut Sleep>, deadline: Option<Instant>) {
    if let Some(deadline) = deadline
        && (timer.is_elapsed() || deadline < timer.deadline())
    {
        timer.reset(deadline);
    }
}

/// When a connection is given up: a silent client, or one that does not read.
pub(super) struct Pulse {
    keepalive: Option<Duration>,
    write_timeout: Duration,
    /// When bytes came last, or when reading began again: a client that is not read is not silent.
    heard: Instant,
    reading: bool,
    blocked: Option<Instant>,
}

impl Pulse {
    pub(super) fn new(keepalive: Option<Duration>, write_timeout: Duration) -> Self {
        let heard = Instant::now();
        Pulse { keepalive, write_timeout, heard, reading: false, blocked: None }
    }

    pub(super) fn never(&self) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.heard + YEAR
    }

    pub(super) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// When to look again, if ever.
    pub(super) fn deadline(&mut self, reading: bool, blocked: bool) -> Option<Instant> {
        if reading && !self.reading {
            self.heard();
        }
        self.reading = reading;
        if blocked {
            let since = *self.blocked.get_or_insert_with(Instant::now);
            return Some(since + self.write_timeout);
        }
        self.blocked = None;
        self.keepalive.filter(|_| reading).map(|keepalive| self.heard + keepalive)
    }

    /// At a ring of the timer.
    pub(super) fn check(&self, deadline: Option<Instant>) -> Result<(), End> {
        match deadline {
            Some(deadline) if Instant::now() < deadline => Ok(()),
            _ if self.blocked.is_some() => Err(End::NotReading),
            _ => Err(End::KeepAlive),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep_until};

    use super::*;

    const KEEPALIVE: Duration = Duration::from_secs(90);
    const WRITE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn silence_counts_only_while_the_client_is_read() {
        let mut pulse = Pulse::new(Some(KEEPALIVE), WRITE);
        let deadline = pulse.deadline(true, false);
        assert_eq!(deadline, Some(Instant::now() + KEEPALIVE));
        advance(KEEPALIVE / 2).await;
        assert_eq!(pulse.check(deadline), Ok(()));
        assert_eq!(pulse.deadline(false, false), None, "paused");
        advance(2 * KEEPALIVE).await;
        let deadline = pulse.deadline(true, false);
        assert_eq!(deadline, Some(Instant::now() + KEEPALIVE));
        advance(KEEPALIVE).await;
        assert_eq!(pulse.check(deadline), Err(End::KeepAlive));
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocked_write_has_its_own_deadline() {
        let mut pulse = Pulse::new(None, WRITE);
        assert_eq!(pulse.deadline(true, false), None);
        let deadline = pulse.deadline(false, true);
        advance(WRITE / 2).await;
        assert_eq!(pulse.deadline(false, true), deadline, "counts from its beginning");
        advance(WRITE / 2).await;
        assert_eq!(pulse.check(deadline), Err(End::NotReading));
        assert_eq!(pulse.deadline(true, false), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_is_set_earlier_and_never_later() {
        let start = Instant::now();
        let mut timer = std::pin::pin!(sleep_until(start + KEEPALIVE));
        arm(timer.as_mut(), Some(start + 2 * KEEPALIVE));
        assert_eq!(timer.deadline(), start + KEEPALIVE);
        arm(timer.as_mut(), Some(start + WRITE));
        assert_eq!(timer.deadline(), start + WRITE);
        timer.as_mut().await;
        arm(timer.as_mut(), Some(start + 2 * KEEPALIVE));
        assert_eq!(timer.deadline(), start + 2 * KEEPALIVE);
    }
}
