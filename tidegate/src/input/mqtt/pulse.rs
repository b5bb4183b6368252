//! When a connection is given up, and the timer for it.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::options::MqttOptions;
use super::session::End;

/// Sets the timer if it would ring too late, or has rung; an early ring is cheaper than a reset a read.
pub(super) fn arm(timer: Pin<&mut Sleep>, deadline: Option<Instant>) {
    if let Some(deadline) = deadline
        && (timer.is_elapsed() || deadline < timer.deadline())
    {
        timer.reset(deadline);
    }
}

/// How often it is looked whether somebody waits for the room of a packet that is slow.
const OVERDUE: Duration = Duration::from_secs(1);
/// A packet of which nothing came for so long is slow: who waits for its room gets it.
const STALL: Duration = Duration::from_secs(3);

/// When a connection is given up: a silent client, one that does not read, or one that holds the room of a
/// large packet while others wait for it.
pub(super) struct Pulse {
    silence: Option<Duration>,
    write_timeout: Duration,
    packet_timeout: Duration,
    /// When bytes came last, or when reading began again: a client that is not read is not silent.
    heard: Instant,
    reading: bool,
    blocked: Option<Instant>,
    /// When the large packet that has room must be complete, and when to look at it next.
    packet: Option<(Instant, Instant)>,
    /// When what the client came in by counts no more.
    until: Option<Instant>,
}

impl Pulse {
    pub(super) fn new(keepalive: Option<Duration>, options: &MqttOptions) -> Self {
        let MqttOptions { idle_timeout, write_timeout, packet_timeout, .. } = *options;
        let silence = keepalive.or((!idle_timeout.is_zero()).then_some(idle_timeout));
        let heard = Instant::now();
        let (reading, blocked, packet) = (false, None, None);
        let until = None;
        Pulse { silence, write_timeout, packet_timeout, heard, reading, blocked, packet, until }
    }

    /// The same for a client whose right to be here ends then.
    pub(super) fn until(self, until: Option<Instant>) -> Self {
        Pulse { until, ..self }
    }

    pub(super) fn never(&self) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        self.heard + YEAR
    }

    pub(super) fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Whether the connection has room for a large packet that is not complete.
    pub(super) fn holds_room(&mut self, is_so: bool) {
        if !is_so {
            self.packet = None;
        } else if self.packet.is_none() {
            let now = Instant::now();
            let until = now + self.packet_timeout;
            self.packet = Some((until, until.min(now + STALL)));
        }
    }

    /// When to look again, if ever.
    pub(super) fn deadline(&mut self, reading: bool, blocked: bool) -> Option<Instant> {
        self.patience(reading, blocked).into_iter().chain(self.until).min()
    }

    fn patience(&mut self, reading: bool, blocked: bool) -> Option<Instant> {
        if reading && !self.reading {
            self.heard();
        }
        self.reading = reading;
        if blocked {
            let since = *self.blocked.get_or_insert_with(Instant::now);
            return Some(since + self.write_timeout);
        }
        self.blocked = None;
        let silent = self.silence.map(|silence| self.heard + silence);
        [silent, self.packet.map(|(_, look)| look)].into_iter().flatten().min().filter(|_| reading)
    }

    fn is_silent(&self, now: Instant) -> bool {
        self.silence.is_some_and(|silence| self.heard + silence <= now)
    }

    /// At a ring of the timer; `is_awaited` tells that others wait for the room of large packets.
    pub(super) fn check(&mut self, deadline: Option<Instant>, is_awaited: bool) -> Result<(), End> {
        let now = Instant::now();
        match (deadline, self.packet) {
            (Some(deadline), _) if now < deadline => Ok(()),
            _ if self.until.is_some_and(|until| until <= now) => {
                Err(End::Revoked("the time of its login is over"))
            }
            _ if self.blocked.is_some() => Err(End::NotReading),
            (_, Some((until, _))) if is_awaited && (until <= now || self.heard + STALL <= now) => {
                Err(End::SlowPacket)
            }
            (_, Some((until, _))) if !self.is_silent(now) => {
                self.packet = Some((until, now + OVERDUE));
                Ok(())
            }
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

    fn options() -> MqttOptions {
        MqttOptions { write_timeout: WRITE, ..MqttOptions::new(Vec::new()) }
    }

    #[tokio::test(start_paused = true)]
    async fn silence_counts_only_while_the_client_is_read() {
        let mut pulse = Pulse::new(Some(KEEPALIVE), &options());
        let deadline = pulse.deadline(true, false);
        assert_eq!(deadline, Some(Instant::now() + KEEPALIVE));
        advance(KEEPALIVE / 2).await;
        assert_eq!(pulse.check(deadline, false), Ok(()));
        assert_eq!(pulse.deadline(false, false), None, "paused");
        advance(2 * KEEPALIVE).await;
        let deadline = pulse.deadline(true, false);
        assert_eq!(deadline, Some(Instant::now() + KEEPALIVE));
        advance(KEEPALIVE).await;
        assert_eq!(pulse.check(deadline, false), Err(End::KeepAlive));
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocked_write_has_its_own_deadline() {
        let mut pulse = Pulse::new(None, &options());
        assert_eq!(pulse.deadline(true, false), None);
        let deadline = pulse.deadline(false, true);
        advance(WRITE / 2).await;
        assert_eq!(pulse.deadline(false, true), deadline, "counts from its beginning");
        advance(WRITE / 2).await;
        assert_eq!(pulse.check(deadline, false), Err(End::NotReading));
        assert_eq!(pulse.deadline(true, false), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_without_a_keepalive_may_be_silent_unless_it_is_told() {
        assert_eq!(Pulse::new(None, &options()).deadline(true, false), None);
        let options = MqttOptions { idle_timeout: KEEPALIVE, ..options() };
        let mut pulse = Pulse::new(None, &options);
        let deadline = pulse.deadline(true, false);
        advance(KEEPALIVE).await;
        assert_eq!(pulse.check(deadline, false), Err(End::KeepAlive));
        let of_client = Pulse::new(Some(WRITE), &options).deadline(true, false);
        assert_eq!(of_client, Some(Instant::now() + WRITE), "its own word counts");
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_packet_gives_its_room_up_to_who_waits_and_to_nobody_else() {
        let options = MqttOptions { packet_timeout: WRITE, ..options() };
        let mut pulse = Pulse::new(Some(KEEPALIVE), &options);
        pulse.holds_room(true);
        let deadline = pulse.deadline(true, false);
        assert_eq!(deadline, Some(Instant::now() + STALL));
        advance(STALL).await;
        assert_eq!(pulse.check(deadline, false), Ok(()), "it stalls, and in nobody's way");
        pulse.heard();
        assert_eq!(pulse.check(deadline, true), Ok(()), "it goes on");
        advance(WRITE - STALL).await;
        pulse.heard();
        assert_eq!(pulse.check(deadline, false), Ok(()), "slow, and in nobody's way");
        pulse.holds_room(true);
        let deadline = pulse.deadline(true, false);
        assert_eq!(deadline, Some(Instant::now() + OVERDUE));
        advance(OVERDUE).await;
        assert_eq!(pulse.check(deadline, true), Err(End::SlowPacket));
        pulse.holds_room(false);
        assert_eq!(pulse.deadline(true, false), Some(Instant::now() + KEEPALIVE - OVERDUE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_packet_that_stalls_gives_its_room_up_to_who_waits() {
        let mut pulse = Pulse::new(Some(KEEPALIVE), &options());
        pulse.holds_room(true);
        let deadline = pulse.deadline(true, false);
        advance(STALL).await;
        assert_eq!(pulse.check(deadline, true), Err(End::SlowPacket));
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_ends_whatever_the_client_does() {
        let until = Instant::now() + WRITE;
        let mut pulse = Pulse::new(Some(KEEPALIVE), &options()).until(Some(until));
        assert_eq!(pulse.deadline(false, false), Some(until), "paused");
        let deadline = pulse.deadline(true, false);
        advance(WRITE / 2).await;
        pulse.heard();
        assert_eq!(pulse.check(deadline, false), Ok(()));
        advance(WRITE / 2).await;
        let end = End::Revoked("the time of its login is over");
        assert_eq!(pulse.check(deadline, false), Err(end));
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
