//! A small link in virtual time that drives one rate controller through the real uplink and pacer, for tests only.
//! The whole node over emulated links is the lab's.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tidegate_types::units::{Rate, Size, Time};

use super::{PathSample, RateControllerName, UplinkOptions};
use crate::uplink::{PickedOf, Uplink};

/// How acknowledgements come back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Feedback {
    /// Each at once.
    Each,
    /// In lumps, `held` of each `period`.
    Held { held: Duration, period: Duration },
    /// What is there when somebody looks, each `period`.
    Polled(Duration),
}

/// A link, a load (bulk without end, an alarm each 20 ms) and a rate controller, or two of the same law.
pub(super) struct Trial {
    pub(super) controller: RateControllerName,
    /// (from when, propagation delay one way), in order.
    pub(super) delays: Vec<(Time, Duration)>,
    pub(super) feedback: Feedback,
    /// (from when, rate), in order.
    pub(super) rates: Vec<(Time, Rate)>,
    /// The wire carries only in the first part of each period: (part, period).
    pub(super) served: Option<(Duration, Duration)>,
    pub(super) cap: Option<Rate>,
    pub(super) length: Duration,
    /// Whether the bulk is a backlog.
    pub(super) is_backlog: bool,
    /// When a second sender begins.
    pub(super) second: Option<Time>,
    /// Each has a clock of its own, which begins when it does: two nodes look for a shorter path at different moments.
    pub(super) has_clocks: bool,
}

/// What came out.
#[derive(Default)]
pub(super) struct Outcome {
    /// (when sent, how long it took) of each alarm.
    pub(super) alarms: Vec<(Time, Duration)>,
    /// (when, bytes) of everything delivered, of each sender.
    pub(super) delivered: [Vec<(Time, u64)>; 2],
    pub(super) rate: Rate,
    pub(super) min_rtt: Duration,
}

const PACKET: u64 = 1400;
const ALARM: u64 = 200;
const STEP: Duration = Duration::from_micros(100);

struct Packet {
    of: usize,
    sent: Time,
    bytes: u64,
    /// When the receiver has it.
    arrives: Time,
}

impl Trial {
    pub(super) fn fixed(controller: RateControllerName, megabits: f64, delay_ms: u64) -> Self {
        Trial {
            controller,
            delays: vec![(Time::ZERO, Duration::from_millis(delay_ms))],
            feedback: Feedback::Each,
            rates: vec![(Time::ZERO, Rate::from_bits(megabits * 1e6))],
            served: None,
            cap: None,
            length: Duration::from_secs(20),
            is_backlog: false,
            second: None,
            has_clocks: false,
        }
    }

    fn at<T: Copy>(steps: &[(Time, T)], now: Time) -> T {
        steps.iter().rev().find(|(from, _)| *from <= now).expect("a first step").1
    }

    /// When the wire begins to carry what is there at `at`.
    fn begins(&self, at: Time) -> Time {
        let Some((part, period)) = self.served else { return at };
        let phase = at.as_nanos() % period.as_nanos() as u64;
        if phase < part.as_nanos() as u64 {
            at
        } else {
            at + (period - Duration::from_nanos(phase))
        }
    }

    /// When what arrived at `at` is known to the sender.
    fn heard(&self, at: Time) -> Time {
        let back = at + Self::at(&self.delays, at);
        let nanos = |span: Duration| span.as_nanos() as u64;
        match self.feedback {
            Feedback::Each => back,
            Feedback::Held { held, period } => {
                let phase = back.as_nanos() % nanos(period);
                if phase < nanos(held) {
                    back + Duration::from_nanos(nanos(held) - phase)
                } else {
                    back
                }
            }
            Feedback::Polled(period) => {
                Time::from_nanos(back.as_nanos().div_ceil(nanos(period)) * nanos(period))
            }
        }
    }

    pub(super) fn run(&self) -> Outcome {
        let mut outcome = Outcome::default();
        let begins = std::iter::once(Time::ZERO).chain(self.second);
        let mut senders: Vec<Sender> = begins.map(|from| Sender::new(self, from)).collect();
        let mut below: VecDeque<Packet> = VecDeque::new();
        let (mut now, mut wire_free) = (Time::ZERO, Time::ZERO);
        while now.since(Time::ZERO) < self.length {
            now += STEP;
            let mut newest = [None; 2];
            // What is heard at one moment comes as one sample, as from TCP_INFO.
            while let Some(packet) = below.pop_front_if(|packet| self.heard(packet.arrives) <= now)
            {
                senders[packet.of].delivered += packet.bytes;
                newest[packet.of] = Some(packet.sent);
            }
            for (of, sender) in senders.iter_mut().enumerate() {
                if let Some(sent) = newest[of] {
                    sender.hear(now, sent);
                }
                sender.uplink.tick(sender.local(now));
                while let Some((bytes, alarm)) = sender.next(now, self.is_backlog) {
                    let mut left = bytes;
                    while left > 0 {
                        let bytes = left.min(PACKET);
                        left -= bytes;
                        let starts = self.begins(wire_free.max(now));
                        wire_free = starts + Self::at(&self.rates, starts).time_for(Size(bytes));
                        let arrives = wire_free + Self::at(&self.delays, wire_free);
                        let last = below.back().map_or(arrives, |last| last.arrives);
                        let arrives = arrives.max(last);
                        outcome.delivered[of].push((arrives, bytes));
                        below.push_back(Packet { of, sent: now, bytes, arrives });
                    }
                    if let Some(at) = alarm {
                        let arrived = below.back().expect("just pushed").arrives;
                        outcome.alarms.push((at, arrived.since(at)));
                    }
                }
            }
        }
        outcome.rate = senders[0].uplink.capacity();
        outcome.min_rtt = senders[0].uplink.min_rtt().unwrap_or_default();
        outcome
    }
}

/// One sender: bulk without end, and an alarm each 20 ms.
struct Sender {
    uplink: Uplink,
    alarms: VecDeque<Time>,
    next_alarm: Time,
    from: Time,
    /// When its clock was at zero.
    clock: Time,
    handed: u64,
    delivered: u64,
}

impl Sender {
    fn new(trial: &Trial, from: Time) -> Sender {
        let options = UplinkOptions {
            name: Arc::from("trial"),
            controller: trial.controller,
            cap: trial.cap,
            ..UplinkOptions::default()
        };
        let uplink = Uplink::new(&options, super::build(&options), 1);
        let alarms = VecDeque::new();
        let clock = if trial.has_clocks { from } else { Time::ZERO };
        Sender { uplink, alarms, next_alarm: from, from, clock, handed: 0, delivered: 0 }
    }

    /// Its own clock.
    fn local(&self, now: Time) -> Time {
        Time::ZERO + now.since(self.clock)
    }

    fn hear(&mut self, now: Time, sent: Time) {
        let in_flight = Size(self.handed - self.delivered);
        let (rtt, delivered) = (Some(now.since(sent)), Size(self.delivered));
        let sample = PathSample { rtt, delivered, in_flight, ..PathSample::default() };
        self.uplink.sample(self.local(now), 0, &sample);
    }

    /// Bytes that go now, and when they were due if they are an alarm.
    fn next(&mut self, now: Time, is_backlog: bool) -> Option<(u64, Option<Time>)> {
        if now < self.from {
            return None;
        }
        while self.next_alarm <= now {
            self.alarms.push_back(self.next_alarm);
            self.next_alarm += Duration::from_millis(20);
        }
        let is_alarm = !self.alarms.is_empty();
        let bytes = if is_alarm { ALARM } else { self.uplink.cut().0.min(20_000) };
        let local = self.local(now);
        if !self.uplink.is_free(local, Size(bytes), is_alarm.then_some(0)) {
            return None;
        }
        self.uplink.picked_for(local, 0, Size(bytes));
        let bound = Duration::from_millis(if is_alarm { 50 } else { 1000 });
        let of = PickedOf { is_backlog: is_backlog && !is_alarm, bound: Some(bound) };
        self.uplink.picked_of(local, of, Size(bytes));
        self.uplink.handed(0, Size(bytes), Size(bytes));
        self.handed += bytes;
        Some((bytes, self.alarms.pop_front()))
    }
}

impl Outcome {
    /// The `share` quantile of the alarms sent in [from, to), in milliseconds.
    pub(super) fn quantile(&self, share: f64, from: f64, to: f64) -> f64 {
        let inside = |at: Time| (from..to).contains(&at.as_secs_f64());
        let mut taken: Vec<f64> = self
            .alarms
            .iter()
            .filter(|(at, _)| inside(*at))
            .map(|(_, took)| took.as_secs_f64() * 1e3)
            .collect();
        taken.sort_by(f64::total_cmp);
        taken[((taken.len() as f64 * share) as usize).min(taken.len() - 1)]
    }

    /// What arrived in [from, to) as a share of `megabits`.
    pub(super) fn share(&self, megabits: f64, from: f64, to: f64) -> f64 {
        self.share_of(0, megabits, from, to)
    }

    /// The same of one of two senders.
    pub(super) fn share_of(&self, of: usize, megabits: f64, from: f64, to: f64) -> f64 {
        let inside = |at: Time| (from..to).contains(&at.as_secs_f64());
        let all = self.delivered[of].iter().filter(|(at, _)| inside(*at));
        let bytes: u64 = all.map(|(_, bytes)| bytes).sum();
        bytes as f64 * 8.0 / (to - from) / (megabits * 1e6)
    }
}
