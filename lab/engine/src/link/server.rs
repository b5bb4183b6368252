//! The wire: sends one packet after the other at the rate of its service.

use std::time::Duration;

use tidegate_types::units::Time;

use super::chances::Chances;
use super::profile::{Profile, work_of};

/// How fast packets leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// At a rate, constant or in steps.
    Rate(Profile),
    /// When a recording has a chance.
    Chances(Chances),
}

impl Service {
    /// Bytes that it can carry between two times since its beginning.
    pub fn room(&self, from: Duration, until: Duration) -> f64 {
        match self {
            Service::Rate(profile) => profile.work_between(from, until) as f64 / work_of(1) as f64,
            Service::Chances(chances) => chances.room(from, until) as f64,
        }
    }
}

/// The packet that is being sent.
#[derive(Clone, Copy, Debug)]
struct Job {
    bytes: u64,
    begun: Time,
    work: u128,
    /// When it has left; `None` while there is no rate.
    ends: Option<Time>,
}

#[derive(Clone, Debug)]
pub(super) struct Server {
    service: Service,
    /// When the service began: its times count from here.
    origin: Time,
    job: Option<Job>,
    /// Work that the last nanosecond of the last packet could have done, and when that was: what
    /// follows at once has it for nothing, so that rounding never adds up.
    beyond: (Time, u128),
}

impl Server {
    pub(super) fn new(service: Service, origin: Time) -> Self {
        Server { service, origin, job: None, beyond: (origin, 0) }
    }

    /// When the packet that is being sent has left; `None` without one, or without a rate.
    pub(super) fn ends(&self) -> Option<Time> {
        self.job?.ends
    }

    pub(super) fn is_idle(&self) -> bool {
        self.job.is_none()
    }

    /// Begins to send a packet; the wire must be idle.
    pub(super) fn begin(&mut self, at: Time, bytes: u64) {
        let (when, beyond) = self.beyond;
        let gift = if when == at { beyond } else { 0 };
        let work = work_of(bytes);
        self.start(at, bytes, work.saturating_sub(gift));
        // A nanosecond of a fast wire is longer than a small packet: what that one left is the next one's.
        self.beyond.1 += gift.saturating_sub(work);
    }

    /// The packet has left.
    pub(super) fn complete(&mut self) {
        self.job = None;
    }

    /// Another service from `now` on. What has been sent of a packet stays sent, unless it had chances,
    /// which are taken as a whole.
    pub(super) fn replace(&mut self, service: Service, now: Time) {
        let left = self.job.map(|job| match &self.service {
            Service::Rate(profile) => {
                let span = |at: Time| at.since(self.origin);
                let done = profile.work_between(span(job.begun), span(now));
                (job.bytes, job.work.saturating_sub(done))
            }
            Service::Chances(_) => (job.bytes, job.work),
        });
        (self.service, self.origin, self.beyond) = (service, now, (now, 0));
        if let Some((bytes, work)) = left {
            self.start(now, bytes, work);
        }
    }

    fn start(&mut self, at: Time, bytes: u64, work: u128) {
        let since = at.since(self.origin);
        let ends = match &mut self.service {
            Service::Rate(profile) => profile.finish(since, work),
            Service::Chances(chances) => {
                let bytes = u64::try_from(work.div_ceil(work_of(1))).unwrap_or(u64::MAX);
                chances.take(since, bytes).map(|ends| (ends, 0))
            }
        };
        let ends = ends.map(|(span, beyond): (Duration, u128)| {
            let ends = self.origin + span;
            self.beyond = (ends, beyond);
            ends
        });
        self.job = Some(Job { bytes, begun: at, work, ends });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_in_the_middle_of_a_packet_counts_from_there() {
        let mut server = Server::new(Service::Rate(Profile::constant(8000)), Time::ZERO);
        server.begin(Time::ZERO, 100);
        assert_eq!(server.ends(), Some(Time::from_millis(100)));
        server.replace(Service::Rate(Profile::constant(0)), Time::from_millis(40));
        assert_eq!(server.ends(), None);
        server.replace(Service::Rate(Profile::constant(80_000)), Time::from_millis(1040));
        assert_eq!(server.ends(), Some(Time::from_millis(1046)));
    }

    #[test]
    fn rounding_never_adds_up() {
        // 7 bit/s: a byte takes 8/7 s, which is no whole number of nanoseconds.
        let mut server = Server::new(Service::Rate(Profile::constant(7)), Time::ZERO);
        let mut at = Time::ZERO;
        for _ in 0..7000 {
            server.begin(at, 1);
            at = server.ends().unwrap();
            server.complete();
        }
        assert_eq!(at, Time::from_millis(8_000_000));
    }

    #[test]
    fn a_nanosecond_carries_several_small_packets() {
        // 24 Gbit/s: three bytes a nanosecond.
        let mut server = Server::new(Service::Rate(Profile::constant(24_000_000_000)), Time::ZERO);
        let mut at = Time::ZERO;
        for _ in 0..3000 {
            server.begin(at, 1);
            at = server.ends().unwrap();
            server.complete();
        }
        assert_eq!(at, Time::from_millis(0) + Duration::from_nanos(1000));
    }
}
