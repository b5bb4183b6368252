//! What the sources offer, and when.

use std::time::Duration;

use bytes::Bytes;
use tidegate_core::record::{Body, Offered, Properties, SourceId, Token};
use tidegate_core::units::Time;

use super::random::Random;
use super::scenario::{Arrivals, LoadSpec};

/// Records that a backlogged source offers at once: enough that the node never runs dry between two
/// of its own answers.
const BACKLOG_BATCH: usize = 4;
/// Payloads are slices of one buffer: their content means nothing here.
const PAYLOAD_MAX: usize = 1 << 20;

/// One source.
#[derive(Debug)]
pub(super) struct Load {
    spec: LoadSpec,
    source: SourceId,
    until: Time,
    pub(super) is_paused: bool,
    /// Records offered so far.
    pub(super) offered: u64,
    payload: Bytes,
    random: Random,
}

impl Load {
    pub(super) fn new(spec: &LoadSpec, place: usize, length: Duration, random: Random) -> Self {
        let until = Time::ZERO + spec.until.map_or(length, |until| until.0);
        let size = (spec.size.1.0 as usize).min(PAYLOAD_MAX);
        Load {
            spec: spec.clone(),
            source: SourceId(place as u32),
            until,
            is_paused: false,
            offered: 0,
            payload: Bytes::from(vec![0; size]),
            random,
        }
    }

    /// When its first record comes.
    pub(super) fn first(&mut self) -> Time {
        let from = Time::ZERO + self.spec.from.0;
        match self.spec.arrivals {
            Arrivals::Constant(_) | Arrivals::Backlogged => from,
            Arrivals::Poisson(per_second) => from + self.random.interval(per_second),
        }
    }

    /// Whether it offers as long as the node takes.
    pub(super) fn is_backlogged(&self) -> bool {
        self.spec.arrivals == Arrivals::Backlogged
    }

    /// What it offers now, and when it offers again on its own.
    pub(super) fn offer(&mut self, now: Time) -> (Vec<Offered>, Option<Time>) {
        if now >= self.until || (self.is_paused && self.is_backlogged()) {
            return (Vec::new(), None);
        }
        let (count, next) = match self.spec.arrivals {
            Arrivals::Constant(per_second) => {
                (1, Some(now + Duration::from_secs_f64(1.0 / per_second)))
            }
            Arrivals::Poisson(per_second) => (1, Some(now + self.random.interval(per_second))),
            Arrivals::Backlogged => (BACKLOG_BATCH, None),
        };
        let offers = (0..count).map(|_| self.record(now)).collect();
        (offers, next.filter(|&next| next < self.until))
    }

    fn record(&mut self, now: Time) -> Offered {
        let size = self.random.between(self.spec.size.0.0, self.spec.size.1.0);
        self.offered += 1;
        Offered {
            source: self.source,
            token: Some(Token(self.offered)),
            key: Bytes::from(self.spec.key.clone()),
            properties: Properties::default(),
            body: Body::Resident(self.payload.slice(..(size as usize).min(self.payload.len()))),
            read_at: now,
            source_unix_ns: None,
            ttl: None,
            foreign: None,
            packet: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::quantity::{Amount, Span};

    fn count(arrivals: Arrivals) -> u64 {
        let spec = LoadSpec {
            name: "alarm".into(),
            key: "alarm".into(),
            latency: Span::millis(50),
            size: (Amount(100), Amount(200)),
            arrivals,
            from: Span::seconds(1),
            until: None,
        };
        let mut load = Load::new(&spec, 0, Duration::from_secs(101), Random::new(7, 0));
        let mut next = Some(load.first());
        while let Some(now) = next {
            let (offers, after) = load.offer(now);
            assert!(offers.iter().all(|offer| (100..=200).contains(&offer.body.size().0)));
            next = after;
        }
        load.offered
    }

    #[test]
    fn sources_keep_their_rate() {
        assert_eq!(count(Arrivals::Constant(20.0)), 2000);
        let poisson = count(Arrivals::Poisson(20.0));
        assert!((1850..2150).contains(&poisson), "{poisson}");
        assert_eq!(count(Arrivals::Backlogged), 4);
    }
}
