//! Records on their way: from the offer, over their pieces, to the peer's word about each.
//!
//! Records wait by deadline, and begin when the peer has room for all of them, but for one, which may begin in
//! part. Within a stream none overtakes another, whatever its deadline.

mod hedge;
mod numbers;
mod partial;
mod rollback;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_types::units::{Size, Time};

use self::numbers::SpareNumbers;
use super::outgoing_record::{FirstSend, OutgoingRecord, Part, Protection};
use super::packet::{Custody, PIECE_MIN, ReceiveWindow};
use super::reassembly::{RECORD_COST, cost};
use super::{OfferError, Outgoing};

/// What a sender may begin before the peer has said more.
pub(super) const WINDOW_START: Size = Size::from_kib(128);

/// A part by its urgency: its record's deadline, and its name.
pub(super) type PartKey = (Time, Part);

/// The end of a stream that has records under way.
#[derive(Clone, Copy, Debug, Default)]
struct Tail {
    /// Records that wait, or that the peer does not answer for.
    records: usize,
    /// The one that began last; 0 for none.
    begun: u64,
    /// Latest deadline of its records: none that comes later begins before.
    deadline: Time,
}

/// Everything that was offered and that the peer has not settled.
#[derive(Debug)]
pub(super) struct Outbox {
    memory: Size,
    unsettled_max: usize,
    piece_max: usize,
    waiting: BTreeMap<(Time, u64), Outgoing>,
    /// Those of them that expire, by when.
    expiring: BTreeSet<(Time, (Time, u64))>,
    offered: u64,
    tails: BTreeMap<u64, Tail>,
    begun: BTreeMap<u64, OutgoingRecord>,
    ready: BTreeSet<PartKey>,
    /// Parts that are sent again and have not arrived.
    failed: BTreeSet<Part>,
    /// Records by when they are hedged.
    hedges: BTreeSet<(Time, u64)>,
    /// The record that has begun in part, by its deadline.
    half: Option<(Time, u64)>,
    /// Records that expire and of which nothing was sent, by when.
    unsent: BTreeSet<(Time, u64)>,
    ready_bytes: Size,
    waiting_bytes: Size,
    /// Bytes that have not arrived.
    held: Size,
    next_dsn: u64,
    /// Numbers before it that are to be given again.
    spare: SpareNumbers,
    window: ReceiveWindow,
    /// The peer has told its window.
    is_window_known: bool,
    begun_cost: Size,
}

impl Outbox {
    /// Nothing was offered. `memory` bounds bytes that have not arrived, `unsettled_max` records without a
    /// fate; a piece has at most `piece_max` bytes.
    pub(super) fn new(memory: Size, unsettled_max: usize, piece_max: usize) -> Self {
        assert!(piece_max >= PIECE_MIN, "a packet holds a piece");
        Outbox {
            memory,
            unsettled_max,
            piece_max,
            waiting: BTreeMap::new(),
            expiring: BTreeSet::new(),
            offered: 0,
            tails: BTreeMap::new(),
            begun: BTreeMap::new(),
            ready: BTreeSet::new(),
            failed: BTreeSet::new(),
            hedges: BTreeSet::new(),
            half: None,
            unsent: BTreeSet::new(),
            ready_bytes: Size::ZERO,
            waiting_bytes: Size::ZERO,
            held: Size::ZERO,
            next_dsn: 1,
            spare: SpareNumbers::default(),
            window: ReceiveWindow { limit: WINDOW_START, record_max: WINDOW_START },
            is_window_known: false,
            begun_cost: Size::ZERO,
        }
    }

    /// Takes a record, or says why not.
    pub(super) fn offer(&mut self, outgoing: Outgoing) -> Result<(), OfferError> {
        let size = u32::try_from(outgoing.content.len()).map_err(|_| OfferError::Oversize)?;
        if cost(size) > self.window.record_max {
            let error = if self.is_window_known { OfferError::Oversize } else { OfferError::Full };
            return Err(error);
        }
        let size = Size(u64::from(size));
        if self.held + size > self.memory || self.unsettled() >= self.unsettled_max {
            return Err(OfferError::Full);
        }
        self.held += size;
        self.waiting_bytes += size;
        self.offered += 1;
        let tail = self.tails.entry(outgoing.stream).or_default();
        tail.records += 1;
        tail.deadline = tail.deadline.max(outgoing.deadline);
        let key = (tail.deadline, self.offered);
        self.expiring.extend(outgoing.expires.map(|expires| (expires, key)));
        self.waiting.insert(key, outgoing);
        Ok(())
    }

    /// Records without a fate.
    pub(super) fn unsettled(&self) -> usize {
        self.waiting.len() + self.begun.len()
    }

    /// Bytes that have not arrived.
    pub(super) fn held(&self) -> Size {
        self.held
    }

    /// Bytes that no path has been chosen for.
    pub(super) fn unassigned(&self) -> Size {
        self.waiting_bytes + self.ready_bytes
    }

    /// Whether anything may be sent, or begin.
    pub(super) fn has_unassigned(&self) -> bool {
        !self.ready.is_empty() || !self.waiting.is_empty() || self.half.is_some()
    }

    /// Bytes of records that the peer takes at most.
    pub(super) fn peer_window(&self) -> Size {
        self.window.record_max
    }

    fn fits(&self, outgoing: &Outgoing) -> bool {
        self.begun_cost + cost(outgoing.content.len() as u32) <= self.window.limit
    }

    /// The peer takes more.
    pub(super) fn widen(&mut self, window: ReceiveWindow) {
        self.is_window_known = true;
        if window.limit >= self.window.limit {
            self.window = window;
        }
    }

    fn leave_stream(&mut self, stream: u64) {
        if let Some(tail) = self.tails.get_mut(&stream) {
            tail.records -= 1;
            if tail.records == 0 {
                self.tails.remove(&stream);
            }
        }
    }

    /// The most urgent part that may be sent, and its length. Begins records as they come to their turn, each
    /// with the protection that it is given for its deadline and number of pieces, of so many bytes each.
    pub(super) fn peek(
        &mut self,
        mut protect: impl FnMut(Time, u32, Size) -> Protection,
    ) -> Option<(PartKey, Size)> {
        loop {
            let part = self.ready.first().copied();
            let is_next = |deadline| part.is_none_or(|(earliest, _)| deadline < earliest);
            let waiting = self.waiting.first_key_value();
            let waiting = waiting.filter(|&(&(deadline, _), _)| is_next(deadline));
            let waiting = waiting.map(|(&key, outgoing)| (key, self.fits(outgoing)));
            let half = self.half.filter(|&(deadline, _)| is_next(deadline));
            let goes_on = match (half, waiting) {
                // What does not fit waits for what has begun in part: that can always be ended.
                (Some((deadline, _)), Some((key, true))) if key.0 < deadline => {
                    self.begin(key, false, &mut protect)
                }
                (Some((_, record)), _) => self.open_piece(record),
                (None, Some((key, true))) => self.begin(key, false, &mut protect),
                (None, Some((key, false))) => {
                    self.begins_half(key) && self.begin(key, true, &mut protect)
                }
                (None, None) => false,
            };
            if !goes_on {
                return part.map(|key| (key, self.length(key.1)));
            }
        }
    }

    /// Begins a record, all of it or its first piece. Answers whether it did.
    fn begin(
        &mut self,
        key: (Time, u64),
        is_half: bool,
        protect: &mut impl FnMut(Time, u32, Size) -> Protection,
    ) -> bool {
        let Some(outgoing) = self.waiting.remove(&key) else { return false };
        if let Some(expires) = outgoing.expires {
            self.expiring.remove(&(expires, key));
        }
        let deadline = key.0;
        let Outgoing { token, stream, content, expires, .. } = outgoing;
        let size = content.len() as u32;
        let pieces = (size.div_ceil(self.piece_max as u32)).max(1);
        // A record says how far behind it its predecessor in the stream is: a spare number before that one is not its own.
        let tail = self.tails.entry(stream).or_default();
        let record = self.spare.take(u64::from(pieces), tail.begun, &mut self.next_dsn);
        let after = std::mem::replace(&mut tail.begun, record);
        let protection = protect(deadline, pieces, Size(u64::from(size.div_ceil(pieces))));
        let beginning =
            FirstSend { token, stream, deadline, expires, after, content, pieces, protection };
        self.hedges.extend(protection.hedge.map(|at| (at, record)));
        self.unsent.extend(expires.map(|at| (at, record)));
        let mut begun = OutgoingRecord::new(record, beginning);
        begun.open(if is_half { 1 } else { pieces });
        self.half = if begun.is_open() { self.half } else { Some((deadline, record)) };
        let opened = Size(u64::from(size)) - begun.closed();
        self.begun_cost += opened + RECORD_COST;
        self.waiting_bytes -= opened;
        let parts = begun.open_parts();
        self.begun.insert(record, begun);
        parts.for_each(|part| self.requeue(part));
        true
    }

    fn find(&self, part: Part) -> Option<&OutgoingRecord> {
        let (_, begun) = self.begun.range(..=part.dsn).next_back()?;
        begun.has(part.dsn).then_some(begun)
    }

    fn find_mut(&mut self, part: Part) -> Option<(u64, &mut OutgoingRecord)> {
        let (&record, begun) = self.begun.range_mut(..=part.dsn).next_back()?;
        begun.has(part.dsn).then_some((record, begun))
    }

    /// Bytes of a part; none of one that is done.
    pub(super) fn length(&self, part: Part) -> Size {
        self.find(part).map_or(Size::ZERO, |begun| begun.length(part))
    }

    /// How the record of this part is protected.
    pub(super) fn protection(&self, part: Part) -> Protection {
        self.find(part).map_or(Protection::default(), |begun| begun.protection)
    }

    /// Whether both are of one record, which has repairs.
    pub(super) fn repairs_each_other(&self, part: Part, other: Part) -> bool {
        let begun = self.find(part).filter(|begun| begun.protection.repairs > 0);
        begun.is_some_and(|begun| begun.has(other.dsn))
    }

    /// A part goes by this path.
    pub(super) fn goes_by(&mut self, part: Part, path: usize) {
        if let Some((_, begun)) = self.find_mut(part) {
            begun.goes_by(path);
        }
    }

    /// How many parts of its record went by this path.
    pub(super) fn gone_by(&self, part: Part, path: usize) -> u8 {
        self.find(part).map_or(0, |begun| begun.gone_by(path))
    }

    /// Takes the part of this key out of what waits for a path.
    pub(super) fn assign(&mut self, key: PartKey) {
        if self.ready.remove(&key) {
            self.ready_bytes -= self.length(key.1);
        }
    }

    /// A part failed, and what is short without it is to be sent again.
    pub(super) fn fail(&mut self, part: Part) -> usize {
        let again = self.find_mut(part).map_or(Vec::new(), |(_, begun)| begun.failed(part));
        for &part in &again {
            self.failed.insert(part);
            self.requeue(part);
        }
        again.len()
    }

    /// Whether a part failed before.
    pub(super) fn has_failed(&self, part: Part) -> bool {
        self.failed.contains(&part)
    }

    /// A part is to be sent, again or for the first time, unless the peer needs it no more.
    pub(super) fn requeue(&mut self, part: Part) {
        let Some(begun) = self.find(part).filter(|begun| !begun.is_done(part)) else { return };
        let (key, length) = ((begun.deadline, part), begun.length(part));
        if self.ready.insert(key) {
            self.ready_bytes += length;
        }
    }

    /// Whether the peer needs the part.
    pub(super) fn is_wanted(&self, part: Part) -> bool {
        self.find(part).is_some_and(|begun| !begun.is_done(part))
    }

    /// Writes the frame of a part that is wanted, and goes.
    pub(super) fn encode(&mut self, part: Part, to: &mut Vec<u8>) {
        self.leaves(part);
        if let Some(begun) = self.find(part) {
            begun.encode(part, to);
        }
    }

    /// A part has arrived. Answers the token of its record if that is whole now.
    pub(super) fn arrived(&mut self, part: Part) -> Option<u64> {
        let (record, begun) = self.find_mut(part).filter(|(_, begun)| !begun.is_done(part))?;
        let (key, freed) = ((begun.deadline, part), begun.arrived(part));
        let (is_whole, token) = (begun.is_whole(), begun.token);
        self.held -= freed;
        self.forget(key);
        is_whole.then(|| self.finish(record)).map(|()| token)
    }

    fn forget(&mut self, key: PartKey) {
        self.assign(key);
        self.failed.remove(&key.1);
    }

    /// The peer has all of a record: none of it is sent any more.
    fn finish(&mut self, record: u64) {
        let Some(begun) = self.begun.get_mut(&record) else { return };
        let (deadline, parts) = (begun.deadline, begun.parts());
        let hedge = begun.protection.hedge;
        // Of what it has not been sent a peer can have no part, whatever it says.
        self.waiting_bytes -= begun.closed();
        begun.open(u32::MAX);
        self.half = self.half.filter(|&(_, half)| half != record);
        self.held -= begun.finish();
        hedge.map(|at| self.hedges.remove(&(at, record)));
        parts.for_each(|part| self.forget((deadline, part)));
    }

    /// The peer says who answers for a record. Answers its token if that is news, and the set of paths by which it went.
    pub(super) fn settle(&mut self, record: u64, custody: Custody) -> Option<(u64, u32)> {
        // The acknowledgement of what it answers for may be lost, or still under way.
        self.finish(record);
        let begun = self.begun.get_mut(&record)?;
        if begun.is_held && custody == Custody::Held {
            return None;
        }
        let (token, stream, paths) = (begun.token, begun.stream, begun.paths());
        if !std::mem::replace(&mut begun.is_held, true) {
            self.leave_stream(stream);
        }
        if custody != Custody::Held {
            self.begun.remove(&record);
        }
        Some((token, paths))
    }

    /// Gives everything back: tokens of records without a fate, and whether each may have arrived.
    pub(super) fn close(&mut self) -> Vec<(u64, bool)> {
        let waiting = std::mem::take(&mut self.waiting);
        let begun = std::mem::take(&mut self.begun);
        (self.ready_bytes, self.waiting_bytes, self.held) = (Size::ZERO, Size::ZERO, Size::ZERO);
        self.ready.clear();
        self.failed.clear();
        self.hedges.clear();
        self.half = None;
        self.tails.clear();
        self.expiring.clear();
        self.unsent.clear();
        let waiting = waiting.into_values().map(|outgoing| (outgoing.token, false));
        begun.into_values().map(|begun| (begun.token, true)).chain(waiting).collect()
    }

    /// When the first record expires of which nothing was sent, or the first one is to be hedged.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        let expires = self.expiring.first().map(|&(expires, _)| expires);
        let unsent = self.unsent.first().map(|&(expires, _)| expires);
        let hedge = self.hedges.first().map(|&(hedge, _)| hedge);
        [expires, unsent, hedge].into_iter().flatten().min()
    }

    /// Most that records without a fate cost the peer: what the test bed holds it to.
    #[cfg(test)]
    fn begun_cost(&self) -> Size {
        self.begun_cost
    }
}

const _: () = assert!(RECORD_COST.0 < WINDOW_START.0);

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn outgoing(token: u64, stream: u64, size: usize, deadline: u64) -> Outgoing {
        let deadline = Time::from_millis(deadline);
        Outgoing { token, stream, content: vec![1; size].into(), deadline, expires: None }
    }

    pub(super) fn outbox() -> Outbox {
        Outbox::new(Size::from_mib(1), 1000, 1000)
    }

    /// The data sequence number of the next piece, which a path takes.
    pub(super) fn next(outbox: &mut Outbox) -> Option<u64> {
        let (key, _) = outbox.peek(|_, _, _| Protection::default())?;
        outbox.assign(key);
        Some(key.1.dsn)
    }

    #[test]
    fn the_urgent_goes_first_but_never_before_its_own_stream() {
        let mut outbox = outbox();
        outbox.offer(outgoing(1, 7, 1500, 900)).unwrap();
        assert_eq!(next(&mut outbox), Some(1));
        outbox.offer(outgoing(2, 7, 100, 50)).unwrap();
        outbox.offer(outgoing(3, 8, 100, 60)).unwrap();
        assert_eq!(next(&mut outbox), Some(3), "another stream's, in the midst of the first");
        assert_eq!([next(&mut outbox), next(&mut outbox)], [Some(2), Some(4)]);
        let mut after = |dsn| {
            let mut frame = Vec::new();
            outbox.encode(Part::piece(dsn), &mut frame);
            // Of 100 bytes: type, record, place, pieces, size and the distance to the one before.
            frame[5]
        };
        assert_eq!([after(3), after(4)], [0, 4 - 1]);
        assert_eq!(next(&mut outbox), None);
    }

    #[test]
    fn one_record_begins_although_the_peer_has_no_room_for_all_of_it() {
        let mut outbox = outbox();
        for token in 0..3 {
            outbox.offer(outgoing(token, token, 60_000, 10 + token)).unwrap();
        }
        let sent = std::iter::from_fn(|| next(&mut outbox)).count();
        // Two whole ones of 60,128, and of what is left but 2 KiB eight pieces of the third.
        assert_eq!(sent, 120 + 8);
        assert!(outbox.begun_cost() <= WINDOW_START);
        let window = |limit| ReceiveWindow { limit: Size(limit), record_max: Size::from_kib(128) };
        outbox.widen(window(200_000));
        assert_eq!(next(&mut outbox), Some(129));
        outbox.widen(window(1));
        assert_eq!(outbox.window.limit, Size(200_000), "an old word takes nothing back");
    }

    #[test]
    fn what_has_arrived_is_not_sent_again_and_its_memory_is_free() {
        let mut outbox = outbox();
        outbox.offer(outgoing(9, 1, 2000, 10)).unwrap();
        assert_eq!([next(&mut outbox), next(&mut outbox)], [Some(1), Some(2)]);
        assert_eq!(outbox.arrived(Part::piece(1)), None);
        outbox.requeue(Part::piece(1));
        outbox.requeue(Part::piece(2));
        assert_eq!(outbox.unassigned(), Size(1000));
        assert_eq!(outbox.arrived(Part::piece(2)), Some(9), "by an earlier copy");
        assert_eq!((outbox.held(), outbox.unassigned()), (Size::ZERO, Size::ZERO));
        assert_eq!(next(&mut outbox), None);
    }

    #[test]
    fn a_record_with_repairs_is_whole_when_any_of_its_parts_are_enough() {
        let mut outbox = outbox();
        outbox.offer(outgoing(9, 1, 2000, 10)).unwrap();
        let mut asked = Vec::new();
        let mut next = || {
            let protect = |deadline, pieces, length| {
                asked.push((deadline, pieces, length));
                Protection { repairs: 2, ..Protection::default() }
            };
            let (key, _) = outbox.peek(protect)?;
            outbox.assign(key);
            Some(key.1)
        };
        let parts: Vec<Part> = std::iter::from_fn(&mut next).collect();
        assert_eq!(asked, [(Time::from_millis(10), 2, Size(1000))]);
        assert_eq!(parts.len(), 4);
        // One repair may be lost and one piece: nothing is sent again.
        assert_eq!((outbox.fail(parts[2]), outbox.fail(parts[0])), (0, 0));
        assert_eq!(outbox.fail(parts[1]), 1);
        assert_eq!(outbox.unassigned(), Size(1000));
        assert_eq!(outbox.arrived(parts[3]), None);
        assert_eq!(outbox.arrived(parts[2]), Some(9), "what was lost came all the same");
        assert_eq!((outbox.held(), outbox.unassigned()), (Size::ZERO, Size::ZERO));
        assert!(!outbox.is_wanted(parts[1]));
    }

    #[test]
    fn a_fate_is_told_once_and_custody_before_it() {
        let confirmed = Custody::Final(tidegate_types::record::Fate::Confirmed);
        let mut outbox = outbox();
        outbox.offer(outgoing(9, 1, 10, 10)).unwrap();
        assert_eq!(outbox.settle(1, confirmed), None, "it has not begun");
        assert_eq!(next(&mut outbox), Some(1));
        assert_eq!(
            outbox.settle(1, Custody::Held),
            Some((9, 0)),
            "the word is worth an acknowledgement"
        );
        assert_eq!((outbox.held(), outbox.arrived(Part::piece(1))), (Size::ZERO, None));
        assert_eq!(outbox.settle(1, Custody::Held), None);
        assert_eq!(outbox.settle(1, confirmed), Some((9, 0)));
        assert_eq!((outbox.settle(1, confirmed), outbox.unsettled()), (None, 0));
        assert!(outbox.tails.is_empty());
    }

    #[test]
    fn offers_beyond_the_bounds_are_refused() {
        let mut outbox = Outbox::new(Size(1500), 2, 1000);
        assert_eq!(outbox.offer(outgoing(1, 1, 1 << 20, 1)), Err(OfferError::Full));
        outbox.widen(ReceiveWindow { limit: WINDOW_START, record_max: WINDOW_START });
        assert_eq!(outbox.offer(outgoing(1, 1, 1 << 20, 1)), Err(OfferError::Oversize));
        assert_eq!(outbox.offer(outgoing(1, 1, 1000, 1)), Ok(()));
        assert_eq!(outbox.offer(outgoing(2, 1, 1000, 1)), Err(OfferError::Full));
        assert_eq!(outbox.offer(outgoing(2, 1, 10, 1)), Ok(()));
        assert_eq!(outbox.offer(outgoing(3, 1, 10, 1)), Err(OfferError::Full));
    }

    #[test]
    fn what_waits_too_long_expires_and_what_has_begun_does_not() {
        let mut outbox = outbox();
        let at = Time::from_millis(500);
        for token in 1..=2 {
            let outgoing = Outgoing { expires: Some(at), ..outgoing(token, 1, 10, 10) };
            outbox.offer(outgoing).unwrap();
            outbox.peek(|_, _, _| Protection::default());
            if token == 1 {
                assert_eq!(next(&mut outbox), Some(1));
            }
        }
        outbox.offer(Outgoing { expires: Some(at), ..outgoing(3, 1, 10, 99) }).unwrap();
        assert_eq!(outbox.next_timeout(), Some(at));
        let mut gone = Vec::new();
        outbox.expire(at, |token| gone.push(token));
        assert_eq!(gone, vec![3]);
        assert_eq!(outbox.close(), vec![(1, true), (2, true)]);
    }
}
