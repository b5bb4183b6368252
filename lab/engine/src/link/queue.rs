//! The queue before the wire, bounded in bytes: first in, first out, and drop-tail or RED; or one that signals early.

use std::collections::VecDeque;

use tidegate_types::units::Time;

use super::aqm::{CoDel, Coupled, Ecn, Tag};
use crate::sim::random::Random;

/// Which packets a queue refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Discipline {
    /// Those that do not fit.
    DropTail,
    /// Some of them earlier, at random.
    Red(Red),
    /// Those at the head of a queue that stands, or they are marked: RFC 8289.
    CoDel,
    /// A queue of its own for those that are ECT(1), which are marked early, beside a classic one: RFC 9332.
    DualPi2,
}

/// Random early detection as of Floyd and Jacobson 1993, counted in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Average length below which nothing is dropped, in bytes.
    pub min: u64,
    /// Average length from which everything is dropped, in bytes; > `min`.
    pub max: u64,
    /// Part of the packets that is dropped just below `max`.
    pub probability: f64,
    /// Weight of the present length in the average.
    pub weight: f64,
}

impl Red {
    /// The thresholds that the authors advise for a queue of so many bytes: an eighth and three of them.
    pub fn of(limit: u64) -> Self {
        Red { min: limit / 8, max: limit * 3 / 8, probability: 0.1, weight: 0.002 }
    }
}

/// Where a packet's tag is.
pub(super) type TagOf<T> = for<'a> fn(&'a mut T) -> &'a mut Tag;

/// A packet that waits; `None` for one of the cross traffic.
#[derive(Clone, Debug)]
struct Waiting<T> {
    bytes: u64,
    item: Option<T>,
    since: Time,
}

/// The queue. The packet that is being sent counts until it has left.
#[derive(Clone, Debug)]
pub(super) struct Queue<T> {
    discipline: Discipline,
    limit: u64,
    /// All packets, but those of L4S, which are the second queue of a dual one.
    lanes: [VecDeque<Waiting<T>>; 2],
    sending: Option<Waiting<T>>,
    bytes: u64,
    /// How many of them are not cross traffic.
    items: usize,
    average: Average,
    codel: CoDel,
    coupled: Coupled,
    pub(super) tag: Option<TagOf<T>>,
    /// Dropped at the head; `None` within for cross traffic.
    dropped: VecDeque<Option<T>>,
}

#[derive(Clone, Copy, Debug)]
struct Average {
    bytes: f64,
    /// Packets since the last drop.
    since_drop: f64,
    /// Since when the queue is empty.
    empty_since: Option<Time>,
}

impl<T> Queue<T> {
    pub(super) fn new(discipline: Discipline, limit: u64) -> Self {
        let average = Average { bytes: 0.0, since_drop: -1.0, empty_since: Some(Time::ZERO) };
        Queue {
            discipline,
            limit,
            lanes: [VecDeque::new(), VecDeque::new()],
            sending: None,
            bytes: 0,
            items: 0,
            average,
            codel: CoDel::default(),
            coupled: Coupled::default(),
            tag: None,
            dropped: VecDeque::new(),
        }
    }

    /// Another bound from now on; what waits beyond it stays.
    pub(super) fn set(&mut self, discipline: Discipline, limit: u64) {
        (self.discipline, self.limit) = (discipline, limit);
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a packet waits that is not cross traffic.
    pub(super) fn has_items(&self) -> bool {
        self.items > 0
    }

    fn heads(&self) -> [Option<Time>; 2] {
        [0, 1].map(|lane| self.lanes[lane].front().map(|head| head.since))
    }

    /// Takes a packet, or gives it back.
    pub(super) fn push(
        &mut self,
        now: Time,
        bytes: u64,
        mut item: Option<T>,
        random: &mut Random,
    ) -> Result<(), Option<T>> {
        let is_early = match self.discipline {
            Discipline::Red(red) => self.average.is_early(&red, now, self.bytes, random),
            _ => false,
        };
        if is_early || self.bytes + bytes > self.limit {
            return Err(item);
        }
        self.bytes += bytes;
        self.items += usize::from(item.is_some());
        self.average.empty_since = None;
        let mut lane = 0;
        if self.discipline == Discipline::DualPi2 {
            self.coupled.update(now, self.heads());
            let ecn = item.as_mut().zip(self.tag).map(|(item, tag)| tag(item).ecn);
            lane = usize::from(matches!(ecn, Some(Ecn::Ect1 | Ecn::Ce)));
        }
        self.lanes[lane].push_back(Waiting { bytes, item, since: now });
        Ok(())
    }

    /// Size of the next packet, which is being sent from now on.
    pub(super) fn next(&mut self, now: Time) -> Option<u64> {
        loop {
            let lane = match self.discipline {
                Discipline::DualPi2 => {
                    self.coupled.update(now, self.heads());
                    Coupled::turn(self.heads())
                }
                _ => usize::from(self.lanes[0].is_empty()),
            };
            let mut packet = self.lanes[lane].pop_front()?;
            let waited = now.since(packet.since);
            let signals = match self.discipline {
                Discipline::DropTail | Discipline::Red(_) => false,
                Discipline::CoDel => self.codel.signals(now, waited, self.bytes - packet.bytes),
                Discipline::DualPi2 => {
                    self.coupled.signals(waited, lane, self.lanes[lane].is_empty())
                }
            };
            let mut nothing = Tag::default();
            let tag = match packet.item.as_mut().zip(self.tag) {
                Some((item, tag)) => tag(item),
                None => &mut nothing,
            };
            if signals && tag.ecn == Ecn::NotEct {
                self.count_out(now, &packet);
                self.dropped.push_back(packet.item);
                continue;
            }
            if signals {
                tag.ecn = Ecn::Ce;
            }
            tag.waited = waited;
            let bytes = packet.bytes;
            self.sending = Some(packet);
            return Some(bytes);
        }
    }

    /// What was dropped at the head since; `None` within for cross traffic.
    pub(super) fn take_dropped(&mut self) -> Option<Option<T>> {
        self.dropped.pop_front()
    }

    /// The packet that is being sent leaves, or else that at the head; `None` within for one of the cross traffic.
    pub(super) fn pop(&mut self, now: Time) -> Option<(u64, Option<T>)> {
        let [classic, low] = &mut self.lanes;
        let sent = self.sending.take();
        let packet = sent.or_else(|| classic.pop_front()).or_else(|| low.pop_front())?;
        self.count_out(now, &packet);
        Some((packet.bytes, packet.item))
    }

    fn count_out(&mut self, now: Time, packet: &Waiting<T>) {
        self.bytes -= packet.bytes;
        self.items -= usize::from(packet.item.is_some());
        if self.bytes == 0 {
            self.average.empty_since = Some(now);
        }
    }
}

impl Average {
    /// Whether RED drops the packet that comes now.
    fn is_early(&mut self, red: &Red, now: Time, length: u64, random: &mut Random) -> bool {
        if let Some(empty_since) = self.empty_since {
            // As if small packets had come meanwhile: one each 100 us, at any rate. The average must
            // fall in an idle time, the exact speed of it matters little.
            let packets = now.since(empty_since).as_secs_f64() * 1e4;
            self.bytes *= (1.0 - red.weight).powf(packets);
            self.empty_since = Some(now);
        }
        self.bytes += red.weight * (length as f64 - self.bytes);
        let (min, max) = (red.min as f64, red.max as f64);
        if self.bytes < min {
            self.since_drop = -1.0;
            return false;
        }
        self.since_drop += 1.0;
        let base = red.probability * (self.bytes - min) / (max - min).max(1.0);
        let spread = (1.0 - self.since_drop * base).max(f64::MIN_POSITIVE);
        let is_early = self.bytes >= max || random.happens((base / spread).min(1.0));
        if is_early {
            self.since_drop = 0.0;
        }
        is_early
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(queue: &mut Queue<u32>, at: u64, random: &mut Random) -> bool {
        queue.push(Time::from_millis(at), 1000, Some(0), random).is_ok()
    }

    #[test]
    fn what_does_not_fit_is_given_back() {
        let mut random = Random::new(1, 0);
        let mut queue = Queue::new(Discipline::DropTail, 2500);
        assert!(push(&mut queue, 0, &mut random));
        assert!(queue.push(Time::ZERO, 1500, None, &mut random).is_ok());
        assert_eq!(queue.push(Time::ZERO, 1, Some(7), &mut random), Err(Some(7)));
        assert_eq!((queue.bytes(), queue.has_items()), (2500, true));
        assert_eq!(queue.pop(Time::ZERO), Some((1000, Some(0))));
        assert_eq!((queue.next(Time::ZERO), queue.has_items()), (Some(1500), false));
    }

    #[test]
    fn red_drops_early_and_only_where_the_average_is_long() {
        let mut random = Random::new(1, 0);
        let red = Red { min: 10_000, max: 30_000, probability: 0.1, weight: 0.02 };
        let mut queue = Queue::new(Discipline::Red(red), 1_000_000);
        // Held at 5 kB: below the lower threshold nothing is dropped.
        (0..5).for_each(|_| assert!(push(&mut queue, 0, &mut random)));
        for _ in 0..1000 {
            assert!(push(&mut queue, 0, &mut random));
            queue.pop(Time::ZERO);
        }
        // Held at 20 kB: halfway between the thresholds. Half of the probability, spread evenly
        // between 1 and 20 packets: about one in ten.
        while queue.bytes() < 20_000 {
            push(&mut queue, 0, &mut random);
        }
        let mut drops = 0;
        for _ in 0..10_000 {
            match push(&mut queue, 0, &mut random) {
                true => drop(queue.pop(Time::ZERO)),
                false => drops += 1,
            }
        }
        assert!((700..1200).contains(&drops), "{drops}");
    }

    #[test]
    fn red_forgets_while_nothing_comes() {
        let mut random = Random::new(1, 0);
        let red = Red { min: 1000, max: 2000, probability: 0.1, weight: 0.5 };
        let mut queue = Queue::new(Discipline::Red(red), 10_000);
        let taken = (0..4).filter(|_| push(&mut queue, 0, &mut random)).count();
        assert!(taken < 4, "the average is beyond the upper threshold");
        while queue.pop(Time::ZERO).is_some() {}
        assert!(push(&mut queue, 1000, &mut random), "after a second the average is zero");
    }
}
