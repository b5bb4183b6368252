//! The record that begins although the peer has room for a part of it only, and how it goes on.
//!
//! There is one at a time, and none begins that comes after it in its stream or is less urgent. So all others that
//! have begun have room to be ended, are ended and taken by the peer whatever becomes of this one, and leave it the
//! whole window in the end: no set of records can stop each other.

use tidegate_types::units::{Size, Time};

use super::Outbox;
use crate::reassembly::{RECORD_COST, cost};

/// What a record that begins in part leaves of the window: small urgent ones find room beside it.
const RESERVE: Size = Size::from_kib(2);

impl Outbox {
    /// Whether the peer's window keeps the most urgent record that waits from beginning.
    pub(crate) fn is_blocked(&self) -> bool {
        let waiting = self.waiting.first_key_value();
        self.half.is_some() || waiting.is_some_and(|(_, outgoing)| !self.fits(outgoing))
    }

    /// Whether the most urgent record that waits may begin in part.
    pub(super) fn begins_half(&self, key: (Time, u64)) -> bool {
        let piece = Size(self.piece_max as u64);
        let begins =
            |size: u32| Size(u64::from(size)) > piece && self.has_room(RECORD_COST + piece, size);
        let waiting = self.waiting.get(&key).filter(|_| self.half.is_none());
        waiting.is_some_and(|outgoing| begins(outgoing.content.len() as u32))
    }

    /// Whether the window has room for so much of a record of this size, which leaves what it need not have.
    fn has_room(&self, part: Size, size: u32) -> bool {
        let reserve = RESERVE.min(self.window.record_max.saturating_sub(cost(size)));
        self.begun_cost + part + reserve <= self.window.limit
    }

    /// The record that has begun in part may send another piece. Answers whether the window has room for it.
    pub(super) fn open_piece(&mut self, record: u64) -> bool {
        let Some(begun) = self.begun.get(&record) else { return false };
        let Some(piece) = begun.next_piece() else { return false };
        let (length, size) = (begun.length(piece), begun.size());
        if !self.has_room(length, size) {
            return false;
        }
        self.begun_cost += length;
        self.waiting_bytes -= length;
        let Some(begun) = self.begun.get_mut(&record) else { return false };
        begun.open_next();
        let repairs = begun.is_open().then(|| begun.parts().filter(|part| part.repair > 0));
        if begun.is_open() {
            self.half = None;
        }
        self.requeue(piece);
        repairs.into_iter().flatten().for_each(|part| self.requeue(part));
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tidegate_types::record::Fate;

    use super::super::tests::outgoing;
    use super::*;
    use crate::outgoing_record::{Part, Protection};
    use crate::packet::{Custody, LinkFrame, PacketHeader, ReceiveWindow};
    use crate::reassembly::{Reassembly, Taken};

    /// Both ends, and what is between them.
    struct Ends {
        outbox: Outbox,
        inbox: Reassembly,
        flight: Vec<Part>,
        came: Vec<u64>,
        repairs: u8,
    }

    impl Ends {
        fn new(window: Size, repairs: u8) -> Self {
            let mut outbox = Outbox::new(Size::from_mib(1), 1000, 1000);
            outbox.window = ReceiveWindow { limit: window, record_max: window };
            let inbox = Reassembly::new(window);
            Ends { outbox, inbox, flight: Vec::new(), came: Vec::new(), repairs }
        }

        fn send(&mut self) -> bool {
            let repairs = self.repairs;
            let protect = |_, _, _| Protection { repairs, ..Protection::default() };
            let Some((key, _)) = self.outbox.peek(protect) else { return false };
            self.outbox.assign(key);
            self.flight.push(key.1);
            true
        }

        /// A packet arrives, and what is whole by it is taken, of which the sender hears.
        fn arrive(&mut self, place: usize) {
            let part = self.flight.swap_remove(place);
            if !self.outbox.is_wanted(part) {
                return;
            }
            let mut packet = Vec::new();
            PacketHeader { from: 1, to: 1, psn: 0 }.encode(&mut packet);
            self.outbox.encode(part, &mut packet);
            let (_, frames) = PacketHeader::decode(&packet).expect("our own packet");
            let taken = match &frames[0] {
                LinkFrame::Piece(piece) => self.inbox.push(piece),
                LinkFrame::Repair(repair) => self.inbox.push_repair(repair),
                other => panic!("{other:?}"),
            };
            assert!(taken != Taken::Refused, "the window holds: {part:?}");
            self.outbox.arrived(part);
            while let Some(whole) = self.inbox.pop() {
                self.came.push(whole.record);
                self.outbox.settle(whole.record, Custody::Final(Fate::Confirmed));
            }
            self.outbox.widen(self.inbox.window());
        }
    }

    proptest! {
        /// Whatever is offered and in whatever order packets come: nothing waits for ever, and no window is exceeded.
        #[test]
        fn no_set_of_records_stops_another(
            records in prop::collection::vec((1_usize..12_000, 0_u64..4, 0_u64..50), 1..40),
            window in 12_128_u64..40_000,
            repairs in 0_u8..3,
            steps in prop::collection::vec(any::<prop::sample::Index>(), 0..400),
        ) {
            let mut ends = Ends::new(Size(window), repairs);
            let count = records.len();
            let mut records = records.into_iter().enumerate();
            for step in &steps {
                match step.index(3) {
                    0 => if let Some((token, (size, stream, deadline))) = records.next() {
                        ends.outbox.offer(outgoing(token as u64, stream, size, deadline)).unwrap();
                    },
                    1 => drop(ends.send()),
                    _ => if !ends.flight.is_empty() {
                        ends.arrive(step.index(ends.flight.len()));
                    },
                }
            }
            for (token, (size, stream, deadline)) in records {
                ends.outbox.offer(outgoing(token as u64, stream, size, deadline)).unwrap();
            }
            while ends.send() || !ends.flight.is_empty() {
                if let Some(place) = ends.flight.len().checked_sub(1) {
                    ends.arrive(steps.first().map_or(place, |step| step.index(place + 1)));
                }
            }
            prop_assert_eq!(ends.came.len(), count);
            prop_assert_eq!(ends.outbox.unassigned(), Size::ZERO);
            prop_assert_eq!(ends.inbox.held(), Size::ZERO);
        }
    }

    #[test]
    fn an_urgent_record_finds_room_beside_the_one_that_has_begun_in_part() {
        let mut ends = Ends::new(Size(20_000), 0);
        for token in 0..2 {
            ends.outbox.offer(outgoing(token, token, 15_000, 100)).unwrap();
        }
        while ends.send() {}
        assert!(ends.outbox.half.is_some() && ends.flight.len() > 15);
        ends.outbox.offer(outgoing(9, 9, 500, 10)).unwrap();
        assert!(ends.send(), "2 KiB are kept for it");
        ends.outbox.offer(outgoing(10, 1, 500, 10)).unwrap();
        assert!(!ends.send(), "the next of its own stream waits");
        while ends.send() || !ends.flight.is_empty() {
            ends.arrive(0);
        }
        assert_eq!(ends.came.len(), 4);
    }
}
