//! Packets of one path that are not acknowledged, and which of them are lost.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use tidegate_types::units::{Size, Time};

use super::outgoing_record::Part;
use super::packet::{Custody, SelectiveAck};
use super::rate_control::Mark;

/// A packet is lost when one that was sent so many after it has come (RFC 9002, 6.1.1): a single path
/// hardly reorders.
const PACKETS: u64 = 3;
/// Packets that are remembered after they were given up, in case an acknowledgement comes all the same.
const GIVEN_UP_MAX: usize = 4096;
/// Places that an empty ring keeps.
const ROOM: usize = 64;
/// Numbers back to which they are remembered.
const SPAN_MAX: usize = 16_384;

/// What a packet carries that must arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carried {
    /// A part of a record.
    Part(Part),
    /// Who answers for a record.
    Custody(u64, Custody),
    /// A wider window.
    Window,
}

/// What an acknowledgement or a time-out says about what was sent.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// It arrived.
    pub(super) arrived: Vec<Carried>,
    /// It must be sent again.
    pub(super) failed: Vec<Carried>,
    /// It was not answered in time, and may have been lost.
    pub(super) overdue: Vec<Carried>,
    /// The round trip of the path that says so.
    pub(super) rtt: Duration,
    /// When the newest packet was sent that arrived, and its arrival delay in seconds.
    pub(super) measured: Option<(Time, f64)>,
}

/// A packet that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// When, and what the rate controller must know.
    pub(super) mark: Mark,
    /// Its bytes.
    pub(super) size: Size,
    /// What it carries.
    pub(super) carried: Vec<Carried>,
    /// What it carries was given to another packet, and it counts no more.
    is_given_up: bool,
}

impl Sent {
    /// A packet that has just been sent.
    pub(super) fn new(mark: Mark, size: Size, carried: Vec<Carried>) -> Self {
        Sent { mark, size, carried, is_given_up: false }
    }
}

/// The packets, by their numbers: a ring, for numbers follow each other and the oldest go first.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    packets: VecDeque<Option<Sent>>,
    /// The number of the first place.
    first: u64,
    bytes: Size,
    /// Packets under way, given up or not; and those of them that are given up.
    count: usize,
    given_up: usize,
    largest_acked: Option<u64>,
}

impl InFlight {
    /// Bytes that are under way, as far as is known.
    pub(super) fn bytes(&self) -> Size {
        self.bytes
    }

    /// Adds a packet; its number is larger than all before.
    pub(super) fn push(&mut self, psn: u64, sent: Sent) {
        // What would be forgotten after it is forgotten before it: no gap is filled for that.
        while psn.saturating_sub(self.first) > SPAN_MAX as u64
            && self.packets.front().and_then(Option::as_ref).is_some_and(|sent| sent.is_given_up)
        {
            self.remove(self.first);
        }
        if self.packets.is_empty() {
            self.packets.shrink_to(ROOM);
            self.first = psn;
        }
        // Packets that only acknowledge have numbers, too, and nobody waits for them.
        while self.end() < psn {
            self.packets.push_back(None);
        }
        self.bytes += sent.size;
        self.count += 1;
        self.packets.push_back(Some(sent));
        self.forget();
    }

    /// The number after the last.
    fn end(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    fn remove(&mut self, psn: u64) -> Option<Sent> {
        let place = usize::try_from(psn.checked_sub(self.first)?).ok()?;
        let sent = self.packets.get_mut(place)?.take()?;
        self.count -= 1;
        if sent.is_given_up {
            self.given_up -= 1;
        } else {
            self.bytes -= sent.size;
        }
        while let Some(None) = self.packets.front() {
            self.packets.pop_front();
            self.first += 1;
        }
        Some(sent)
    }

    /// Those with these numbers, oldest first.
    fn range(&self, numbers: Range<u64>) -> impl Iterator<Item = (u64, &Sent)> {
        let places = self.places(&numbers);
        let first = self.first + places.start as u64;
        let sent = (first..).zip(self.packets.range(places));
        sent.filter_map(|(psn, sent)| Some((psn, sent.as_ref()?)))
    }

    fn places(&self, numbers: &Range<u64>) -> Range<usize> {
        let place = |psn: u64| (psn.max(self.first).min(self.end()) - self.first) as usize;
        place(numbers.start)..place(numbers.end).max(place(numbers.start))
    }

    /// Takes out the packets that came, oldest first.
    pub(super) fn acked(&mut self, ack: &SelectiveAck) -> Vec<Sent> {
        self.largest_acked = self.largest_acked.max(Some(ack.largest()));
        if self.count == 0 {
            return Vec::new();
        }
        // The newest stand first; most of the others are known for long.
        let oldest = self.first;
        let news = ack.runs.iter().take_while(|run| *run.end() >= oldest).count();
        let mut came = Vec::new();
        for run in ack.runs[..news].iter().rev() {
            let places = self.places(&(*run.start()..run.end().saturating_add(1)));
            let numbers = self.first + places.start as u64..self.first + places.end as u64;
            came.extend(numbers.filter_map(|psn| self.remove(psn)));
        }
        came
    }

    /// Whether a packet is under way, given up or not.
    pub(super) fn get(&self, psn: u64) -> Option<&Sent> {
        let place = usize::try_from(psn.checked_sub(self.first)?).ok()?;
        self.packets.get(place)?.as_ref()
    }

    /// Takes out the packets that are lost: one that went later has come, and either enough of them or
    /// long enough ago.
    pub(super) fn lost(&mut self, now: Time, patience: Duration) -> Vec<Sent> {
        let Some(largest) = self.largest_acked else { return Vec::new() };
        let is_lost = |(psn, sent): (u64, &Sent)| {
            (psn + PACKETS <= largest || sent.mark.at() + patience <= now).then_some(psn)
        };
        let lost: Vec<u64> = self.range(0..largest).filter_map(is_lost).collect();
        let sent = lost.into_iter().filter_map(|psn| self.remove(psn));
        sent.filter(|sent| !sent.is_given_up).collect()
    }

    /// When `lost` may find another one.
    pub(super) fn loss_timeout(&self, patience: Duration) -> Option<Time> {
        let largest = self.largest_acked?;
        self.range(0..largest).next().map(|(_, sent)| sent.mark.at() + patience)
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.count == self.given_up
    }

    /// Numbers of packets that no later one has overtaken: only time can tell that they are lost.
    fn tail(&self) -> Range<u64> {
        self.largest_acked.map_or(0, |largest| largest + 1)..u64::MAX
    }

    /// When the oldest packet of the tail was sent that is not given up.
    pub(super) fn oldest(&self) -> Option<Time> {
        let mut counted = self.range(self.tail()).filter(|(_, sent)| !sent.is_given_up);
        counted.next().map(|(_, sent)| sent.mark.at())
    }

    /// Gives up the packets of the tail that were sent until `until`. Answers what they carried, and how many
    /// there were.
    pub(super) fn overdue(&mut self, until: Time) -> (Vec<Carried>, u32) {
        let places = self.places(&self.tail());
        let tail = self.packets.range_mut(places).flatten();
        let old = tail.take_while(|sent| sent.mark.at() <= until);
        let (mut carried, mut count) = (Vec::new(), 0);
        for sent in old.filter(|sent| !sent.is_given_up) {
            sent.is_given_up = true;
            self.given_up += 1;
            self.bytes -= sent.size;
            count += 1;
            carried.extend_from_slice(&sent.carried);
        }
        self.forget();
        (carried, count)
    }

    /// Gives all packets up. Answers what they carried.
    pub(super) fn give_up(&mut self) -> Vec<Carried> {
        let mut carried = Vec::new();
        for sent in self.packets.iter_mut().flatten().filter(|sent| !sent.is_given_up) {
            sent.is_given_up = true;
            self.given_up += 1;
            carried.extend_from_slice(&sent.carried);
        }
        self.bytes = Size::ZERO;
        self.forget();
        carried
    }

    /// Bounds what is remembered of packets that were given up: how many, and how far back.
    fn forget(&mut self) {
        while let Some(psn) = self.forgettable() {
            self.remove(psn);
        }
    }

    /// The oldest packet that was given up and is remembered for too long.
    fn forgettable(&self) -> Option<u64> {
        let oldest = self.packets.front().and_then(Option::as_ref);
        let is_far = self.packets.len() > SPAN_MAX && oldest.is_some_and(|sent| sent.is_given_up);
        // Those that are given up are the oldest ones, but for a few.
        let mut all = self.range(0..u64::MAX);
        let found = |(psn, sent): (u64, &Sent)| sent.is_given_up.then_some(psn);
        (is_far || self.given_up > GIVEN_UP_MAX).then(|| all.find_map(found)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_capacity::RateControllerName;

    use super::*;
    use crate::rate_control::PathControl;

    const PATIENCE: Duration = Duration::from_millis(112);

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn piece(dsn: u64) -> Carried {
        Carried::Part(Part::piece(dsn))
    }

    /// Packets of 1000 bytes, one each millisecond from 1, each with the piece of its number.
    fn sent(count: u64) -> InFlight {
        let mut in_flight = InFlight::default();
        let mut control = PathControl::new(RateControllerName::Tide, None, None, None);
        for psn in 0..count {
            let size = Size(1000);
            let mark = control.sent(at(1 + psn), size, in_flight.bytes(), false);
            in_flight.push(psn, Sent::new(mark, size, vec![piece(psn)]));
        }
        in_flight
    }

    fn ack(in_flight: &mut InFlight, runs: &[(u64, u64)]) -> usize {
        let runs = runs.iter().map(|&(start, end)| start..=end).collect();
        in_flight.acked(&SelectiveAck { path: 0, received_at: 0, delay: 0, runs }).len()
    }

    fn lost(in_flight: &mut InFlight, now: Time) -> Vec<Carried> {
        in_flight.lost(now, PATIENCE).into_iter().flat_map(|sent| sent.carried).collect()
    }

    #[test]
    fn three_later_ones_or_a_later_one_and_time_make_a_packet_lost() {
        let mut in_flight = sent(6);
        assert_eq!(ack(&mut in_flight, &[(3, 4), (1, 1)]), 3);
        assert_eq!(lost(&mut in_flight, at(10)), vec![piece(0)]);
        assert_eq!(in_flight.loss_timeout(PATIENCE), Some(at(3) + PATIENCE));
        assert_eq!(lost(&mut in_flight, at(3) + PATIENCE), vec![piece(2)]);
        // Nothing that went after the last one has come.
        assert_eq!(lost(&mut in_flight, at(9999)), vec![]);
        assert_eq!((in_flight.oldest(), in_flight.bytes()), (Some(at(6)), Size(1000)));
    }

    #[test]
    fn what_is_overdue_counts_no_more_and_may_come_all_the_same() {
        let mut in_flight = sent(4);
        let (carried, count) = in_flight.overdue(at(2));
        assert_eq!((carried, count), (vec![piece(0), piece(1)], 2));
        assert_eq!((in_flight.bytes(), in_flight.oldest()), (Size(2000), Some(at(3))));
        assert_eq!(in_flight.overdue(at(2)).1, 0);
        assert_eq!(ack(&mut in_flight, &[(0, 3)]), 4);
        assert_eq!((in_flight.bytes(), in_flight.is_empty()), (Size::ZERO, true));
    }

    #[test]
    fn of_what_was_given_up_only_so_much_is_remembered() {
        let mut in_flight = sent(5000);
        assert_eq!(in_flight.give_up().len(), 5000);
        assert_eq!((in_flight.is_empty(), in_flight.count), (true, GIVEN_UP_MAX));
        assert_eq!(ack(&mut in_flight, &[(0, 4999)]), GIVEN_UP_MAX);
    }

    #[test]
    fn what_was_given_up_long_ago_is_forgotten() {
        let mut in_flight = sent(1);
        let mut control = PathControl::new(RateControllerName::Tide, None, None, None);
        let mark = control.sent(at(9), Size(1000), in_flight.bytes(), false);
        in_flight.give_up();
        let far = 2 * SPAN_MAX as u64;
        in_flight.push(far, Sent::new(mark, Size(1000), vec![piece(1)]));
        assert_eq!((in_flight.count, in_flight.packets.len()), (1, 1), "no gap is filled for it");
        assert_eq!(ack(&mut in_flight, &[(0, far)]), 1);
    }
}
