//! Holds what comes in to a rate.
//! Source: papers/janus.txt, §IV-A, Λ <= C_in.
//! Inputs: bytes that were accepted. Outputs: how long the next record must wait. O(1).
//! Deviations: the paper states the constraint and no means; here it is a token bucket: a record is let in
//! when the ones before it are paid for, and its connection is not read until then (docs/algorithms-janus.md#inbound).
//! Limits: `DEPTH` of the rate at once.

use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

/// What a pause saves up at most: a batch is read at once.
const DEPTH: Duration = Duration::from_millis(100);
/// What must be saved up before an exhausted limit lets anything in again: connections are paused and read
/// for a batch, not for each record.
const RECOVERY: Duration = Duration::from_millis(50);

/// The limit of a node; without a rate it lets everything in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inbound {
    rate: Option<Rate>,
    /// Everything let in so far is paid for at this time; in the past, there is something saved up.
    paid_at: Time,
    is_exhausted: bool,
}

impl Inbound {
    /// A limit, or none.
    pub fn new(rate: Option<Rate>) -> Self {
        Inbound { rate, ..Inbound::default() }
    }

    /// How long the next record must wait; `None` where it may come in now.
    pub fn wait(&mut self, now: Time) -> Option<Duration> {
        self.rate?;
        self.is_exhausted |= self.paid_at > now;
        let recovered_at = self.paid_at + RECOVERY;
        self.is_exhausted &= recovered_at > now;
        self.is_exhausted.then(|| recovered_at.since(now))
    }

    /// A record of so many bytes was let in.
    pub fn spend(&mut self, now: Time, size: Size) {
        if let Some(rate) = self.rate {
            self.paid_at = self.paid_at.max(now - DEPTH) + rate.time_for(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_never_waits() {
        let mut inbound = Inbound::new(None);
        inbound.spend(Time::ZERO, Size(u64::MAX / 2));
        assert_eq!(inbound.wait(Time::ZERO), None);
    }

    #[test]
    fn a_batch_comes_in_and_then_the_rate_holds() {
        // 10 kB/s, records of 100 B, offered without end.
        let mut inbound = Inbound::new(Some(Rate::new(10_000.0)));
        let (mut now, mut bytes, mut pauses) = (Time::from_millis(1_000), 0, 0);
        while now < Time::from_millis(11_000) {
            match inbound.wait(now) {
                None => {
                    inbound.spend(now, Size(100));
                    bytes += 100;
                }
                Some(wait) => {
                    assert!(wait > Duration::ZERO && wait <= RECOVERY + Duration::from_millis(10));
                    now += wait;
                    pauses += 1;
                }
            }
        }
        // Ten seconds of the rate, and what was saved up before.
        assert!((100_000..=101_200).contains(&bytes), "{bytes}");
        assert!(pauses <= 200, "{pauses}");
    }

    #[test]
    fn a_record_larger_than_a_batch_is_paid_for_afterwards() {
        let mut inbound = Inbound::new(Some(Rate::new(10_000.0)));
        let now = Time::from_millis(1_000);
        assert_eq!(inbound.wait(now), None);
        inbound.spend(now, Size(10_000));
        // A second of the rate, less the tenth saved up, and half a tenth to recover.
        assert_eq!(inbound.wait(now), Some(Duration::from_millis(950)));
        assert_eq!(inbound.wait(now + Duration::from_millis(949)), Some(Duration::from_millis(1)));
        assert_eq!(inbound.wait(now + Duration::from_millis(950)), None);
    }
}
