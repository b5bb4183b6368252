//! What the sources offer, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tidegate_types::record::{Offered, Properties, SourceId, Token};
use tidegate_types::units::Time;

use super::random::Random;
use super::scenario::{Arrivals, LoadSpec};
use crate::query::{self, Sums};

/// Records that a backlogged source offers at once: enough that the node never runs dry between two
/// of its own answers.
const BACKLOG_BATCH: usize = 4;
/// Payloads are slices of a few buffers, each of which begins with another value.
const PAYLOADS: u64 = 16;
const PAYLOAD_MAX: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Load {
    spec: LoadSpec,
    source: SourceId,
    until: Time,
    pub(super) is_paused: bool,
    /// Records offered so far.
    pub(super) offered: u64,
    payloads: Vec<Bytes>,
    /// When each record was offered that has no answer yet, and its value.
    unanswered: BTreeMap<u64, (Time, i64)>,
    /// Sums of what was accepted.
    sums: Sums,
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
            payloads: (0..PAYLOADS).map(|value| payload(value * 625, size)).collect(),
            unanswered: BTreeMap::new(),
            sums: Sums::new(),
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

    /// A record was accepted or refused.
    pub(super) fn answered(&mut self, token: Token, is_accepted: bool) {
        let record = self.unanswered.remove(&token.0);
        if let Some((at, value)) = record.filter(|_| is_accepted) {
            query::add(&mut self.sums, at.as_nanos(), value);
        }
    }

    /// What its records carry, by windows.
    pub(super) fn into_sums(self) -> Sums {
        self.sums
    }

    fn record(&mut self, now: Time) -> Offered {
        let size = self.random.between(self.spec.size.0.0, self.spec.size.1.0);
        self.offered += 1;
        let payload = &self.payloads[(self.offered * self.offered / 3 % PAYLOADS) as usize];
        let payload = payload.slice(..(size as usize).min(payload.len()));
        self.unanswered.insert(self.offered, (now, value_in(&payload)));
        Offered {
            source: self.source,
            token: Some(Token(self.offered)),
            key: Bytes::from(self.spec.key.clone()),
            properties: Properties::default(),
            payload,
            read_at: now,
            source_unix_ns: None,
            ttl: None,
            foreign: None,
            packet: None,
        }
    }
}

/// A payload that begins with this value.
fn payload(value: u64, size: usize) -> Bytes {
    let mut payload = vec![0; size];
    payload.iter_mut().zip((value as u16).to_be_bytes()).for_each(|(byte, of)| *byte = of);
    payload.into()
}

/// What a record carries: the first two bytes of its payload.
pub(super) fn value_in(payload: &[u8]) -> i64 {
    payload.iter().take(2).fold(0, |value, byte| value << 8 | i64::from(*byte))
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
            assert!(offers.iter().all(|offer| (100..=200).contains(&offer.payload.len())));
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

    #[test]
    fn what_was_accepted_is_summed_by_what_it_carries() {
        let spec = LoadSpec {
            name: "alarm".into(),
            key: "alarm".into(),
            latency: Span::millis(50),
            size: (Amount(9), Amount(9)),
            arrivals: Arrivals::Constant(2.0),
            from: Span::default(),
            until: None,
        };
        let mut load = Load::new(&spec, 0, Duration::from_secs(2), Random::new(7, 0));
        let mut next = Some(load.first());
        let mut values = Vec::new();
        while let Some(now) = next {
            let (offers, after) = load.offer(now);
            values.extend(offers.iter().map(|offer| value_in(&offer.payload)));
            next = after;
        }
        (1..=4).for_each(|token| load.answered(Token(token), token != 2));
        let sums = load.into_sums();
        assert_eq!((sums[&0].count, sums[&0].sum), (1, values[0]));
        assert_eq!((sums[&1].count, sums[&1].sum), (2, values[2] + values[3]));
        assert!(values.iter().any(|value| *value > 0), "{values:?}");
    }
}
