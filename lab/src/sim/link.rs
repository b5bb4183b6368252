//! The emulated link: a rate or a trace, a queue that drops what does not fit, propagation, loss.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::Context;
use tidegate_core::units::{Rate, Size, Time};

use super::random::Random;
use super::scenario::LinkSpec;

/// What crosses the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    /// Whose it is.
    pub(super) flow: usize,
    /// Which life of that connection.
    pub(super) epoch: u32,
    /// Its number in that life.
    pub(super) number: u64,
    /// Its place in the connection's order of sending: a packet sent again has a new one.
    pub(super) sent: u64,
    /// Its size.
    pub(super) bytes: u64,
}

/// When packets leave.
#[derive(Debug)]
enum Service {
    Rate(Rate),
    /// Chances to send `CHANCE` bytes: milliseconds, replayed for ever.
    Trace {
        millis: Vec<u64>,
        place: usize,
        rounds: u64,
    },
}

/// What one line of a trace carries.
const CHANCE: u64 = 1500;

/// The link.
#[derive(Debug)]
pub(super) struct Link {
    service: Service,
    delay: Duration,
    loss: f64,
    limit: u64,
    queue: VecDeque<Packet>,
    queued: u64,
    is_busy: bool,
    last_arrival: Time,
    random: Random,
}

impl Link {
    /// The link of a scenario.
    ///
    /// # Errors
    /// A trace that cannot be read.
    pub(super) fn new(spec: &LinkSpec, random: Random) -> anyhow::Result<Self> {
        let service = match &spec.trace {
            Some(path) => read_trace(path)?,
            None => Service::Rate(spec.rate.0),
        };
        Ok(Link {
            service,
            delay: spec.delay.0,
            loss: spec.loss,
            limit: spec.queue.0,
            queue: VecDeque::new(),
            queued: 0,
            is_busy: false,
            last_arrival: Time::ZERO,
            random,
        })
    }

    /// Propagation, one way.
    pub(super) fn delay(&self) -> Duration {
        self.delay
    }

    pub(super) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    pub(super) fn set_loss(&mut self, loss: f64) {
        self.loss = loss;
    }

    /// Changes the rate from the next packet on; a trace stays what it is.
    pub(super) fn set_rate(&mut self, rate: Rate) {
        if let Service::Rate(old) = &mut self.service {
            *old = rate;
        }
    }

    /// Takes a packet, or drops it.
    pub(super) fn offer(&mut self, packet: Packet) {
        if self.queued + packet.bytes <= self.limit {
            self.queued += packet.bytes;
            self.queue.push_back(packet);
        }
    }

    /// Begins with the next packet, if the link is free; answers when it will have left.
    pub(super) fn begin(&mut self, now: Time) -> Option<Time> {
        if self.is_busy {
            return None;
        }
        let bytes = self.queue.front()?.bytes;
        let leaves = match &mut self.service {
            Service::Rate(rate) if rate.is_zero() => return None,
            Service::Rate(rate) => now + rate.time_for(Size(bytes)),
            Service::Trace { millis, place, rounds } => {
                let last = millis[millis.len() - 1].max(1);
                loop {
                    let at = Time::from_millis(*rounds * last + millis[*place]);
                    *place += 1;
                    if *place == millis.len() {
                        (*place, *rounds) = (0, *rounds + 1);
                    }
                    // A chance that nobody took is gone.
                    if at >= now {
                        break at;
                    }
                }
            }
        };
        self.is_busy = true;
        Some(leaves)
    }

    /// What began has left; answers with each packet and when it arrives, `None` for a lost one. A
    /// chance of a trace carries several small packets.
    pub(super) fn depart(&mut self, now: Time) -> Vec<(Packet, Option<Time>)> {
        self.is_busy = false;
        let mut room = CHANCE;
        let mut left = Vec::new();
        while let Some(packet) = self.queue.front().copied() {
            let is_first = left.is_empty();
            let fits = matches!(self.service, Service::Trace { .. }) && packet.bytes <= room;
            if !is_first && !fits {
                break;
            }
            room = room.saturating_sub(packet.bytes);
            self.queue.pop_front();
            self.queued -= packet.bytes;
            // First in, first out, even where the path became shorter.
            self.last_arrival = self.last_arrival.max(now + self.delay);
            let is_lost = self.random.happens(self.loss);
            left.push((packet, (!is_lost).then_some(self.last_arrival)));
        }
        left
    }
}

fn read_trace(path: &str) -> anyhow::Result<Service> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let number = |(at, line): (usize, &str)| {
        line.trim().parse::<u64>().with_context(|| format!("{path}:{}: no number", at + 1))
    };
    let millis = text.lines().enumerate().map(number).collect::<anyhow::Result<Vec<u64>>>()?;
    anyhow::ensure!(!millis.is_empty() && millis.is_sorted(), "{path}: no rising list of times");
    Ok(Service::Trace { millis, place: 0, rounds: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::quantity::{Amount, Span, Speed};

    fn link(change: impl Fn(&mut LinkSpec)) -> Link {
        let mut spec = LinkSpec {
            rate: Speed::megabits(2.0),
            trace: None,
            delay: Span::millis(50),
            queue: Amount(3000),
            loss: 0.0,
        };
        change(&mut spec);
        Link::new(&spec, Random::new(1, 0)).unwrap()
    }

    fn packet(number: u64) -> Packet {
        Packet { flow: 0, epoch: 0, number, sent: number, bytes: 1000 }
    }

    #[test]
    fn a_packet_takes_its_time_on_the_wire_and_the_propagation() {
        let mut link = link(|_| ());
        assert_eq!(link.begin(Time::ZERO), None);
        link.offer(packet(1));
        let leaves = link.begin(Time::ZERO).unwrap();
        assert_eq!(leaves, Time::from_millis(4));
        assert_eq!(link.begin(Time::ZERO), None, "one at a time");
        assert_eq!(link.depart(leaves), [(packet(1), Some(Time::from_millis(54)))]);
        assert_eq!(link.queued, 0);
    }

    #[test]
    fn what_does_not_fit_is_dropped() {
        let mut link = link(|_| ());
        (0..5).for_each(|number| link.offer(packet(number)));
        assert_eq!(link.queued, 3000);
    }

    #[test]
    fn an_outage_serves_nobody_and_a_shorter_path_keeps_the_order() {
        let mut link = link(|_| ());
        link.offer(packet(1));
        link.offer(packet(2));
        let leaves = link.begin(Time::ZERO).unwrap();
        let (_, first) = link.depart(leaves)[0];
        link.set_rate(Rate::ZERO);
        assert_eq!(link.begin(leaves), None);
        link.set_rate(Rate::from_bits(8e6));
        link.set_delay(Duration::ZERO);
        let leaves = link.begin(leaves).unwrap();
        assert_eq!(leaves, Time::from_millis(5));
        assert_eq!(link.depart(leaves)[0].1, first);
    }

    #[test]
    fn loss_is_random_and_repeats_with_the_seed() {
        let run = || {
            let mut link = link(|spec| spec.loss = 0.25);
            let lost = |number| {
                link.offer(packet(number));
                let leaves = link.begin(Time::ZERO).unwrap();
                link.depart(leaves)[0].1.is_none()
            };
            (0..1000).map(lost).collect::<Vec<bool>>()
        };
        let lost = run().into_iter().filter(|&lost| lost).count();
        assert!((200..300).contains(&lost), "{lost}");
        assert_eq!(run(), run());
    }

    #[test]
    fn a_trace_gives_chances_and_wraps_round() {
        let mut link = link(|_| ());
        link.service = Service::Trace { millis: vec![5, 5, 10], place: 0, rounds: 0 };
        link.limit = 1 << 20;
        (0..5).for_each(|number| link.offer(packet(number)));
        let mut left = Vec::new();
        let mut now = Time::ZERO;
        while let Some(leaves) = link.begin(now) {
            left.push(leaves.as_nanos() / 1_000_000);
            assert_eq!(link.depart(leaves).len(), 1, "1000 + 1000 bytes need two chances");
            now = leaves;
        }
        assert_eq!(left, [5, 5, 10, 15, 15]);
    }
}
