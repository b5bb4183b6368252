//! Records that have begun, of which nothing was sent: they are still ours, and are given up when they expire.
//!
//! A record begins when it comes to its turn, so what a path has before it in its virtual queue, at the rate of
//! before, is begun; where the path has slowed down that is many times what it carries until they expire. Once a byte
//! of a record has gone the peer may wait for the rest of it. So it does for the record that another one names as the
//! one before it: of a stream only the last ones are taken back. Their numbers are given again, for the peer takes a
//! number that never comes for a record that it is owed.

use std::collections::BTreeSet;

use tidegate_types::units::{Size, Time};

use super::{Outbox, PartKey};
use crate::outgoing_record::Part;

impl Outbox {
    /// Gives up what has expired and did not begin.
    pub(crate) fn expire(&mut self, now: Time, mut gone: impl FnMut(u64)) {
        while let Some(&(expires, key)) = self.expiring.first() {
            if expires > now {
                return;
            }
            self.expiring.remove(&(expires, key));
            let Some(outgoing) = self.waiting.remove(&key) else { continue };
            let size = Size(outgoing.content.len() as u64);
            self.held -= size;
            self.waiting_bytes -= size;
            self.leave_stream(outgoing.stream);
            gone(outgoing.token);
        }
    }

    /// A byte of the part's record goes: it is not ours any more.
    pub(super) fn leaves(&mut self, part: Part) {
        if let Some((record, begun)) = self.find_mut(part)
            && let Some(expires) = begun.expires.take()
        {
            self.unsent.remove(&(expires, record));
        }
    }

    /// Gives up what has expired and has begun, and of which nothing was sent. `gone` is told its token, and what a path
    /// may have of it.
    pub(crate) fn take_back(&mut self, now: Time, mut gone: impl FnMut(u64, &[PartKey])) {
        let mut streams = BTreeSet::new();
        while let Some(&(expires, record)) = self.unsent.first().filter(|(at, _)| *at <= now) {
            self.unsent.remove(&(expires, record));
            streams.extend(self.begun.get(&record).map(|begun| begun.stream));
        }
        for stream in streams {
            while let Some(record) = self.last_unsent(stream, now) {
                let Some((token, parts)) = self.take_one_back(record) else { break };
                gone(token, &parts);
            }
        }
    }

    /// The last record of a stream that has begun, if it has expired and nothing of it was sent.
    fn last_unsent(&self, stream: u64, now: Time) -> Option<u64> {
        let last = self.tails.get(&stream)?.begun;
        let begun = self.begun.get(&last)?;
        let is_unsent = begun.stream == stream && begun.expires.is_some_and(|at| at <= now);
        is_unsent.then_some(last)
    }

    fn take_one_back(&mut self, record: u64) -> Option<(u64, Vec<PartKey>)> {
        let begun = self.begun.get(&record)?;
        let numbers = (record, u64::from(begun.pieces()));
        if !self.spare.put(numbers, &mut self.next_dsn) {
            return None;
        }
        let mut begun = self.begun.remove(&record)?;
        let deadline = begun.deadline;
        let keys: Vec<PartKey> = begun.parts().map(|part| (deadline, part)).collect();
        for key in &keys {
            if self.ready.remove(key) {
                self.ready_bytes -= begun.length(key.1);
            }
        }
        self.half = self.half.filter(|&(_, half)| half != record);
        self.waiting_bytes -= begun.closed();
        self.begun_cost -= begun.opened_cost();
        self.held -= begun.finish();
        begun.protection.hedge.map(|at| self.hedges.remove(&(at, record)));
        begun.expires.map(|at| self.unsent.remove(&(at, record)));
        if let Some(tail) = self.tails.get_mut(&begun.stream) {
            tail.begun = begun.after();
        }
        self.leave_stream(begun.stream);
        Some((begun.token, keys))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{next, outbox, outgoing};
    use super::*;
    use crate::Outgoing;

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn expiring(token: u64, stream: u64, size: usize, millis: u64) -> Outgoing {
        Outgoing { expires: Some(at(millis)), ..outgoing(token, stream, size, millis) }
    }

    fn taken_back(outbox: &mut Outbox, millis: u64) -> Vec<u64> {
        let mut tokens = Vec::new();
        outbox.take_back(at(millis), |token, _| tokens.push(token));
        tokens
    }

    #[test]
    fn a_number_is_given_again_to_whom_it_comes_behind_the_last_of_its_stream() {
        let mut outbox = outbox();
        outbox.offer(expiring(1, 7, 100, 10)).unwrap();
        outbox.offer(outgoing(2, 8, 100, 20)).unwrap();
        assert_eq!([next(&mut outbox), next(&mut outbox)], [Some(1), Some(2)]);
        assert_eq!(taken_back(&mut outbox, 10), [1]);
        outbox.offer(outgoing(3, 8, 100, 30)).unwrap();
        assert_eq!(next(&mut outbox), Some(3), "it names 2 as the one before it");
        outbox.encode(Part::piece(3), &mut Vec::new());
        outbox.offer(outgoing(4, 9, 100, 40)).unwrap();
        assert_eq!(next(&mut outbox), Some(1));
    }

    #[test]
    fn what_has_begun_is_taken_back_until_a_byte_of_it_goes() {
        let mut outbox = outbox();
        for token in 1..=3 {
            outbox.offer(expiring(token, 7, 2000, 100)).unwrap();
        }
        let cost = outbox.begun_cost();
        // All six pieces have a path, and the first has gone.
        assert_eq!([(); 6].map(|()| next(&mut outbox)), [1, 2, 3, 4, 5, 6].map(Some));
        outbox.encode(Part::piece(1), &mut Vec::new());
        assert_eq!(outbox.next_timeout(), Some(at(100)));
        assert!(taken_back(&mut outbox, 99).is_empty());
        assert_eq!(taken_back(&mut outbox, 100), [3, 2], "not the first");
        assert!(outbox.is_wanted(Part::piece(2)) && !outbox.is_wanted(Part::piece(3)));
        assert_eq!((outbox.held(), outbox.unsettled()), (Size(2000), 1));
        assert_eq!(outbox.begun_cost() - cost, Size(2000 + 128), "their window is free again");
        // Its numbers are given again, and the one before it is the one that went.
        outbox.offer(expiring(4, 7, 1000, 200)).unwrap();
        assert_eq!(next(&mut outbox), Some(3));
        assert_eq!(outbox.begun[&3].after(), 1);
    }

    #[test]
    fn what_another_record_waits_for_is_sent() {
        let mut outbox = outbox();
        outbox.offer(expiring(1, 7, 500, 100)).unwrap();
        outbox.offer(expiring(2, 7, 500, 100)).unwrap();
        assert_eq!([next(&mut outbox), next(&mut outbox)], [Some(1), Some(2)]);
        outbox.encode(Part::piece(2), &mut Vec::new());
        assert!(taken_back(&mut outbox, 100).is_empty());
        assert!(outbox.is_wanted(Part::piece(1)));
    }

    #[test]
    fn numbers_in_the_middle_are_given_to_what_fits_there() {
        let mut outbox = outbox();
        outbox.offer(expiring(1, 1, 3000, 100)).unwrap();
        outbox.offer(expiring(2, 2, 1000, 300)).unwrap();
        assert_eq!([(); 4].map(|()| next(&mut outbox)), [1, 2, 3, 4].map(Some));
        assert_eq!(taken_back(&mut outbox, 100), [1]);
        outbox.offer(expiring(3, 3, 4000, 400)).unwrap();
        assert_eq!(next(&mut outbox), Some(5), "too long for three");
        outbox.offer(expiring(4, 4, 2000, 400)).unwrap();
        while next(&mut outbox).is_some() {}
        assert!(outbox.begun.contains_key(&1) && !outbox.begun.contains_key(&9));
        // All of them: nothing is left over.
        assert_eq!(taken_back(&mut outbox, 400).len(), 3);
        assert_eq!((outbox.next_dsn, outbox.spare.0.len()), (1, 0));
        assert_eq!((outbox.held(), outbox.unassigned()), (Size::ZERO, Size::ZERO));
    }
}
