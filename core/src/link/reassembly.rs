//! Records from their pieces: each once, in order within its stream and never across streams, within a
//! window of bytes.
//!
//! The window counts whole records from their first piece on: a sender begins a record only if all of it
//! fits, so no set of half records can stop each other. Order needs no table of streams: each record
//! names the one that must be delivered before it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::code;
use super::packet::{Piece, Repair, Window};
use super::part::piece_length;
use super::ranges::Ranges;
use crate::units::Size;

/// What a record costs in the window beside its bytes: its places in the tables.
pub(super) const RECORD_COST: Size = Size(128);

/// What a record of so many bytes takes of the window.
pub(super) fn cost(size: u32) -> Size {
    Size(u64::from(size)) + RECORD_COST
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
    pieces: Vec<Option<Box<[u8]>>>,
    /// Pieces that have not come.
    missing: usize,
    repairs: Vec<(u8, Box<[u8]>)>,
}

impl Partial {
    fn new(named: Named) -> Self {
        Partial {
            size: named.size,
            after: named.after,
            pieces: vec![None; named.pieces as usize],
            missing: named.pieces as usize,
            repairs: Vec::new(),
        }
    }

    fn agrees(&self, named: Named) -> bool {
        (named.size, named.pieces as usize, named.after)
            == (self.size, self.pieces.len(), self.after)
    }

    fn take(&mut self, piece: &Piece<'_>) -> Taken {
        let place = &mut self.pieces[piece.place as usize];
        if place.is_some() {
            return Taken::Duplicate;
        }
        *place = Some(piece.data.into());
        self.missing -= 1;
        Taken::New
    }

    fn take_repair(&mut self, repair: &Repair<'_>) -> Taken {
        if self.repairs.iter().any(|(number, _)| *number == repair.number) {
            return Taken::Duplicate;
        }
        self.repairs.push((repair.number, repair.data.into()));
        Taken::New
    }

    /// Whether what came is all of the record.
    fn is_whole(&self) -> bool {
        self.repairs.len() >= self.missing
    }

    /// The record's bytes.
    fn bytes(mut self) -> Bytes {
        if self.missing > 0 {
            let length = piece_length(self.size, self.pieces.len() as u32);
            code::restore(&mut self.pieces, &self.repairs, length);
        }
        let mut bytes = Vec::with_capacity(self.size as usize);
        self.pieces.iter().flatten().for_each(|piece| bytes.extend_from_slice(piece));
        // A last piece that was restored has the zeros behind it.
        bytes.truncate(self.size as usize);
        bytes.into()
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
    /// Costs of all records that were begun here, and of those that were handed over.
    opened: Size,
    released: Size,
    /// Data sequence numbers of records that were handed over, or stand in `whole`.
    delivered: Ranges,
    partial: BTreeMap<u64, Partial>,
    /// Records that are whole, by the record that must come before.
    waiting: BTreeMap<u64, Vec<u64>>,
    whole: VecDeque<Whole>,
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
            newest: 0,
            disordered: 0,
        }
    }

    /// What the sender is told.
    pub(super) fn window(&self) -> Window {
        Window { limit: self.released + self.window, record_max: self.window }
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
        let Piece { record, pieces, size, after, .. } = *piece;
        let taken = self.take(Named { record, pieces, size, after }, |partial| partial.take(piece));
        if taken == Taken::New {
            if piece.dsn() < self.newest {
                self.disordered += 1;
            }
            self.newest = self.newest.max(piece.dsn());
        }
        taken
    }

    /// Takes a repair.
    pub(super) fn push_repair(&mut self, repair: &Repair<'_>) -> Taken {
        let Repair { record, pieces, size, after, .. } = *repair;
        self.take(Named { record, pieces, size, after }, |partial| partial.take_repair(repair))
    }

    fn take(&mut self, named: Named, take: impl FnOnce(&mut Partial) -> Taken) -> Taken {
        if self.delivered.contains(named.record) {
            return Taken::Duplicate;
        }
        if !self.partial.contains_key(&named.record) {
            if !self.has_room(named.size) {
                return Taken::Refused;
            }
            self.opened += cost(named.size);
            self.partial.insert(named.record, Partial::new(named));
        }
        let Some(partial) = self.partial.get_mut(&named.record) else { return Taken::Refused };
        if !partial.agrees(named) {
            return Taken::Refused;
        }
        // A record that waits for the one before it needs nothing more.
        if partial.is_whole() {
            return Taken::Duplicate;
        }
        let taken = take(partial);
        if partial.is_whole() {
            self.completed(named.record, named.after);
        }
        taken
    }

    /// Whether a new record of so many bytes may begin. A gap among the delivered ones is a record that the peer
    /// has begun and that costs something: a peer that makes more gaps does not keep to its window.
    fn has_room(&self, size: u32) -> bool {
        let records_max = (self.window.0 / RECORD_COST.0) as usize;
        self.held() + cost(size) <= self.window && self.delivered.runs() <= records_max
    }

    fn completed(&mut self, record: u64, after: u64) {
        if after != 0 && !self.delivered.contains(after) {
            self.waiting.entry(after).or_default().push(record);
            return;
        }
        let mut turn = vec![record];
        while let Some(record) = turn.pop() {
            let Some(partial) = self.partial.remove(&record) else { continue };
            self.delivered.insert(record..=record + partial.pieces.len() as u64 - 1);
            self.whole.push_back(Whole { record, bytes: partial.bytes() });
            turn.extend(self.waiting.remove(&record).into_iter().flatten());
        }
    }

    /// The next whole record; its place in the window is free from now on.
    pub(super) fn pop(&mut self) -> Option<Whole> {
        let whole = self.whole.pop_front()?;
        self.released += Size(whole.bytes.len() as u64) + RECORD_COST;
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
    fn the_window_counts_whole_records_until_they_are_taken() {
        let mut all = Reassembly::new(Size(2 * (1200 + 128)));
        assert_eq!(all.push(&half(1, 0, 0)), Taken::New);
        assert_eq!(all.push(&half(3, 0, 0)), Taken::New);
        assert_eq!(all.push(&half(5, 0, 0)), Taken::Refused);
        assert_eq!(all.push(&half(1, 1, 0)), Taken::New);
        assert_eq!(all.push(&half(5, 0, 0)), Taken::Refused, "the first is not taken yet");
        assert_eq!(pop(&mut all), Some(1));
        assert_eq!(all.window().limit, Size(3 * (1200 + 128)));
        assert_eq!(all.push(&half(5, 0, 0)), Taken::New);
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
            for piece in chosen.iter().chain(&pieces) {
                prop_assert!(all.push(piece) != Taken::Refused);
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
