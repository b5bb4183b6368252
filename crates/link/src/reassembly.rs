//! Records from their pieces: each once, in order within its stream and never across streams, within a
//! window of bytes.
//!
//! The window counts what has come, and a little for each record. That no set of half records stops each other is
//! the sender's part (`crates/link/src/outbox/partial.rs`). Order needs no table of streams: each record names the one
//! that must be delivered before it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use tidegate_types::ranges::Ranges;
use tidegate_types::units::Size;

use super::erasure_code;
use super::packet::{Parity, Piece, ReceiveWindow};
use super::piece::piece_length;

/// What a record costs in the window beside its bytes: its places in the tables.
pub(super) const RECORD_COST: Size = Size(128);

/// What came of the record that is being read is not counted, up to so much of it: a reader of TCP puts a record
/// together outside of the socket's buffer as well.
pub const READ_MAX: Size = Size::from_kib(64);

/// What a record of so many bytes takes of the window.
pub(super) fn cost(size: u32) -> Size {
    Size(u64::from(size)) + RECORD_COST
}

/// What so many bytes of a record of this size take of it: never more than all of it does.
fn partial_cost(came: u64, size: u32) -> Size {
    Size(came.min(u64::from(size))) + RECORD_COST
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is news.
    New,
    /// It was here before.
    Duplicate,
    /// It exceeds the window, or contradicts another piece of its record: the packet must not be
    /// acknowledged.
    Refused,
}

/// A record of which parts have come: never more of them than it has pieces.
#[derive(Clone, Debug)]
struct Partial {
    size: u32,
    after: u64,
    /// How many pieces there are.
    count: u32,
    /// Those that have come, by their places: a record takes no more memory than what came of it.
    pieces: BTreeMap<u32, Box<[u8]>>,
    repairs: Vec<(u8, Box<[u8]>)>,
    /// Bytes of both.
    came: u64,
}

impl Partial {
    fn new(named: Named) -> Self {
        Partial {
            size: named.size,
            after: named.after,
            count: named.pieces,
            pieces: BTreeMap::new(),
            repairs: Vec::new(),
            came: 0,
        }
    }

    fn agrees(&self, named: Named) -> bool {
        (named.size, named.pieces, named.after) == (self.size, self.count, self.after)
    }

    fn cost(&self) -> Size {
        partial_cost(self.came, self.size)
    }

    fn has(&self, part: &Part<'_>) -> bool {
        match *part {
            Part::Piece(place, _) => self.pieces.contains_key(&place),
            Part::Repair(number, _) => self.repairs.iter().any(|(other, _)| *other == number),
        }
    }

    fn take(&mut self, part: &Part<'_>) {
        self.came += part.data().len() as u64;
        match *part {
            Part::Piece(place, data) => drop(self.pieces.insert(place, data.into())),
            Part::Repair(number, data) => self.repairs.push((number, data.into())),
        }
    }

    /// Whether what came is all of the record.
    fn is_whole(&self) -> bool {
        self.pieces.len() + self.repairs.len() >= self.count as usize
    }

    /// The record's bytes.
    fn bytes(mut self) -> Bytes {
        let mut pieces: Vec<Option<Box<[u8]>>> =
            (0..self.count).map(|place| self.pieces.remove(&place)).collect();
        if !self.repairs.is_empty() {
            erasure_code::restore(&mut pieces, &self.repairs, piece_length(self.size, self.count));
        }
        let mut bytes = Vec::with_capacity(self.size as usize);
        pieces.iter().flatten().for_each(|piece| bytes.extend_from_slice(piece));
        // A last piece that was restored has the zeros behind it.
        bytes.truncate(self.size as usize);
        bytes.into()
    }
}

/// A part that comes: its place or number, and its bytes.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Piece(u32, &'a [u8]),
    Repair(u8, &'a [u8]),
}

impl Part<'_> {
    fn data(&self) -> &[u8] {
        match *self {
            Part::Piece(_, data) | Part::Repair(_, data) => data,
        }
    }
}

/// The record that a part belongs to.
#[derive(Clone, Copy, Debug)]
struct Named {
    record: u64,
    pieces: u32,
    size: u32,
    after: u64,
}

/// A record that is whole and in its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// Its name on the link.
    pub(super) record: u64,
    /// Its bytes.
    pub(super) bytes: Bytes,
}

/// Everything that has come and is not handed over.
#[derive(Clone, Debug)]
pub(super) struct Reassembly {
    window: Size,
    /// Costs of all that came, and of the records that were handed over.
    opened: Size,
    released: Size,
    /// Data sequence numbers of records that were handed over, or stand in `whole`.
    delivered: Ranges,
    partial: BTreeMap<u64, Partial>,
    /// Records that are whole, by the record that must come before.
    waiting: BTreeMap<u64, Vec<u64>>,
    whole: VecDeque<Whole>,
    /// The one record that is being read: it waits for no other, and the window does not count so much of it.
    reading: Option<(u64, Size)>,
    /// Largest data sequence number that came.
    newest: u64,
    disordered: u64,
}

impl Reassembly {
    /// Nothing has come yet; records that are not handed over cost `window` at most.
    pub(super) fn new(window: Size) -> Self {
        Reassembly {
            window,
            opened: Size::ZERO,
            released: Size::ZERO,
            delivered: Ranges::default(),
            partial: BTreeMap::new(),
            waiting: BTreeMap::new(),
            whole: VecDeque::new(),
            reading: None,
            newest: 0,
            disordered: 0,
        }
    }

    /// What the sender is told.
    pub(super) fn window(&self) -> ReceiveWindow {
        ReceiveWindow { limit: self.released + self.window + self.lent(), record_max: self.window }
    }

    /// What came of the record that is being read, as far as the window does not count it.
    fn lent(&self) -> Size {
        self.reading.map_or(Size::ZERO, |(_, lent)| lent)
    }

    /// Cost of what is here.
    pub(super) fn held(&self) -> Size {
        self.opened - self.released
    }

    /// Pieces that came after one with a larger number: what the paper counts as disordered.
    pub(super) fn disordered(&self) -> u64 {
        self.disordered
    }

    /// Takes a piece.
    pub(super) fn push(&mut self, piece: &Piece<'_>) -> Taken {
        let Piece { record, place, pieces, size, after, data } = *piece;
        let taken = self.take(Named { record, pieces, size, after }, &Part::Piece(place, data));
        if taken == Taken::New {
            if piece.dsn() < self.newest {
                self.disordered += 1;
            }
            self.newest = self.newest.max(piece.dsn());
        }
        taken
    }

    /// Takes a repair.
    pub(super) fn push_repair(&mut self, repair: &Parity<'_>) -> Taken {
        let Parity { record, number, pieces, size, after, data } = *repair;
        self.take(Named { record, pieces, size, after }, &Part::Repair(number, data))
    }

    fn take(&mut self, named: Named, part: &Part<'_>) -> Taken {
        if self.delivered.contains(named.record) {
            return Taken::Duplicate;
        }
        let known = self.partial.get(&named.record);
        if known.is_some_and(|partial| !partial.agrees(named)) {
            return Taken::Refused;
        }
        // A record that waits for the one before it needs nothing more.
        if known.is_some_and(|partial| partial.is_whole() || partial.has(part)) {
            return Taken::Duplicate;
        }
        let before = known.map_or(Size::ZERO, Partial::cost);
        let came = known.map_or(0, |partial| partial.came) + part.data().len() as u64;
        let grown = partial_cost(came, named.size) - before;
        if !self.has_room(named.size, grown) {
            return Taken::Refused;
        }
        self.opened += grown;
        let partial = self.partial.entry(named.record).or_insert_with(|| Partial::new(named));
        partial.take(part);
        let (came, is_whole) = (Size(partial.came), partial.is_whole());
        self.read(named, came);
        if is_whole {
            self.completed(named);
        }
        Taken::New
    }

    /// So much has come of a record: it is read if it can be and no other is.
    fn read(&mut self, Named { record, size, after, .. }: Named, came: Size) {
        let is_next = after == 0 || self.delivered.contains(after);
        if self.reading.is_none() && is_next {
            self.reading = Some((record, Size::ZERO));
        }
        if let Some((_, lent)) = self.reading.as_mut().filter(|(reading, _)| *reading == record) {
            *lent = came.min(Size(u64::from(size))).min(READ_MAX);
        }
    }

    /// Whether so much more may come of a record of this size. A gap among the delivered ones is a record that the
    /// peer has begun and that costs something: a peer that makes more gaps does not keep to its window.
    fn has_room(&self, size: u32, grown: Size) -> bool {
        let records_max = (self.window.0 / RECORD_COST.0) as usize;
        cost(size) <= self.window
            && self.held() + grown <= self.window + self.lent()
            && self.delivered.runs() <= records_max
    }

    /// A record is whole, and costs what all of it does.
    fn completed(&mut self, Named { record, after, .. }: Named) {
        if after != 0 && !self.delivered.contains(after) {
            self.waiting.entry(after).or_default().push(record);
            return;
        }
        let mut turn = vec![record];
        while let Some(record) = turn.pop() {
            let Some(partial) = self.partial.remove(&record) else { continue };
            self.delivered.insert(record..=record + u64::from(partial.count) - 1);
            self.whole.push_back(Whole { record, bytes: partial.bytes() });
            turn.extend(self.waiting.remove(&record).into_iter().flatten());
        }
    }

    /// The next whole record; its place in the window is free from now on.
    pub(super) fn pop(&mut self) -> Option<Whole> {
        let whole = self.whole.pop_front()?;
        self.released += Size(whole.bytes.len() as u64) + RECORD_COST;
        self.reading = self.reading.filter(|(reading, _)| *reading != whole.record);
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DATA: [u8; 1200] = [7; 1200];

    /// Piece `place` of a record of two pieces of 600 bytes.
    fn half(record: u64, place: u32, after: u64) -> Piece<'static> {
        Piece { record, place, pieces: 2, size: 1200, after, data: &DATA[..600] }
    }

    fn pop(reassembly: &mut Reassembly) -> Option<u64> {
        reassembly.pop().map(|whole| whole.record)
    }

    #[test]
    fn a_record_waits_for_the_one_before_it_and_for_no_other() {
        let mut all = Reassembly::new(Size::from_kib(64));
        for record in [5, 3] {
            assert_eq!(all.push(&half(record, 1, record - 2)), Taken::New);
            assert_eq!(all.push(&half(record, 0, record - 2)), Taken::New);
        }
        assert_eq!(pop(&mut all), None);
        assert_eq!(all.push(&half(7, 0, 0)), Taken::New);
        assert_eq!(all.push(&half(7, 1, 0)), Taken::New);
        assert_eq!(pop(&mut all), Some(7), "another stream");
        assert_eq!(all.push(&half(1, 0, 0)), Taken::New);
        assert_eq!(all.push(&half(1, 0, 0)), Taken::Duplicate);
        assert_eq!(all.push(&half(1, 1, 0)), Taken::New);
        assert_eq!([pop(&mut all), pop(&mut all), pop(&mut all)], [Some(1), Some(3), Some(5)]);
        assert_eq!(all.push(&half(3, 0, 1)), Taken::Duplicate);
        assert_eq!((all.held(), all.disordered()), (Size::ZERO, 5));
    }

    #[test]
    fn the_window_counts_what_has_come_until_it_is_taken() {
        let mut all = Reassembly::new(Size(2 * (1200 + 128)));
        assert_eq!(all.push(&half(1, 0, 0)), Taken::New);
        assert_eq!(all.push(&half(3, 0, 0)), Taken::New);
        assert_eq!((all.push(&half(1, 1, 0)), all.held()), (Taken::New, Size(1328 + 728)));
        // The first is whole and not taken yet: its 1200 bytes are read, all others count.
        assert_eq!([all.push(&half(5, 0, 0)), all.push(&half(5, 1, 0))], [Taken::New; 2]);
        assert_eq!(all.push(&half(7, 0, 0)), Taken::Refused);
        assert_eq!((pop(&mut all), pop(&mut all)), (Some(1), Some(5)));
        assert_eq!(all.window().limit, Size(4 * (1200 + 128)));
        assert_eq!(all.push(&half(7, 0, 0)), Taken::New);
        let long = Piece { record: 9, size: 2529, ..half(9, 0, 0) };
        assert_eq!(all.push(&long), Taken::Refused, "all of it would never fit");
    }

    #[test]
    fn of_one_record_at_a_time_so_much_is_not_counted() {
        let window = Size::from_kib(200);
        let mut all = Reassembly::new(window);
        let lent = |all: &Reassembly| all.window().limit - all.released - window;
        let (size, length) = (120_000, 1200);
        let long = |record, place, after| {
            let data = &DATA[..length as usize];
            Piece { record, place, pieces: size / length, size, after, data }
        };
        assert_eq!(all.push(&long(101, 0, 1)), Taken::New);
        assert_eq!(lent(&all), Size::ZERO, "it waits for the one before it");
        for place in 0..100 {
            assert_eq!(all.push(&long(1, place, 0)), Taken::New);
            let came = Size(u64::from((place + 1) * length));
            assert_eq!(lent(&all), came.min(READ_MAX));
        }
        all.push(&long(201, 0, 0));
        assert_eq!((lent(&all), pop(&mut all)), (READ_MAX, Some(1)));
        assert_eq!(lent(&all), Size::ZERO);
        all.push(&long(201, 1, 0));
        assert_eq!(lent(&all), Size(2400), "the next one");
    }

    #[test]
    fn pieces_that_contradict_each_other_are_refused() {
        let mut all = Reassembly::new(Size::from_kib(64));
        assert_eq!(all.push(&half(3, 0, 1)), Taken::New);
        assert_eq!(all.push(&half(3, 1, 2)), Taken::Refused);
        assert_eq!(all.push(&Piece { size: 1199, ..half(3, 1, 1) }), Taken::Refused);
    }

    #[test]
    fn a_peer_that_leaves_gaps_only_is_stopped() {
        let window = Size(128 * 100);
        let mut all = Reassembly::new(window);
        let tiny = |record| Piece { record, place: 0, pieces: 1, size: 0, after: 0, data: &[] };
        let taken = (1..1000).filter(|number| {
            let taken = all.push(&tiny(number * 2)) == Taken::New;
            all.pop();
            taken
        });
        assert_eq!(taken.count(), 101);
    }

    proptest! {
        #[test]
        fn in_any_order_each_record_comes_once_and_its_stream_in_order(
            sizes in prop::collection::vec((0u32..3000, 0u64..4), 1..20),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..300),
        ) {
            let (mut next, mut last) = (1, [0; 4]);
            let mut pieces = Vec::new();
            let mut streams = BTreeMap::new();
            for (size, stream) in sizes {
                let count = (size / 600).max(1);
                let length = piece_length(size, count) as u32;
                let after = std::mem::replace(&mut last[stream as usize], next);
                for place in 0..count {
                    let data = &DATA[..length.min(size - place * length) as usize];
                    pieces.push(Piece { record: next, place, pieces: count, size, after, data });
                }
                streams.insert(next, stream);
                next += u64::from(count);
            }
            let mut all = Reassembly::new(Size::from_kib(64));
            // Any of them any number of times, and at last all of them.
            let chosen: Vec<_> = order.iter().map(|at| *at.get(&pieces)).collect();
            let mut seen = Vec::new();
            let mut limit = all.window().limit;
            for piece in chosen.iter().chain(&pieces) {
                prop_assert!(all.push(piece) != Taken::Refused);
                prop_assert!(all.window().limit >= limit, "what a peer was told holds");
                limit = all.window().limit;
                seen.extend(std::iter::from_fn(|| all.pop()).map(|whole| whole.record));
            }
            for stream in 0..4 {
                let of_stream = |record: &&u64| streams[*record] == stream;
                prop_assert!(seen.iter().filter(of_stream).is_sorted());
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, streams.into_keys().collect::<Vec<_>>());
            prop_assert_eq!(all.held(), Size::ZERO);
        }
    }
}
