//! Records on their way: from the offer, over their pieces, to the peer's word about each.
//!
//! Records wait by deadline, and begin only when the peer has room for all of them. Within a stream none
//! overtakes another, whatever its deadline.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::Bytes;

use super::packet::{Custody, PIECE_MIN, Piece, Window, piece_length};
use super::reassembly::{RECORD_COST, cost};
use super::{OfferError, Outgoing};
use crate::units::{Size, Time};

/// What a sender may begin before the peer has said more.
pub(super) const WINDOW_START: Size = Size::from_kib(128);

/// A piece by its urgency: its record's deadline, and its data sequence number.
pub(super) type PieceKey = (Time, u64);

/// A record that has begun.
#[derive(Clone, Debug)]
struct Begun {
    token: u64,
    stream: u64,
    after: u64,
    deadline: Time,
    size: u32,
    pieces: u32,
    /// Emptied when all of it has arrived.
    content: Bytes,
    /// Bit set of the pieces that have arrived.
    arrived: Vec<u64>,
    missing: u32,
    /// The peer has said that it answers for it.
    is_held: bool,
}

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
    begun: BTreeMap<u64, Begun>,
    ready: BTreeSet<PieceKey>,
    /// Pieces that failed and have not arrived.
    failed: BTreeSet<u64>,
    ready_bytes: Size,
    waiting_bytes: Size,
    /// Bytes that have not arrived.
    held: Size,
    next_dsn: u64,
    window: Window,
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
            ready_bytes: Size::ZERO,
            waiting_bytes: Size::ZERO,
            held: Size::ZERO,
            next_dsn: 1,
            window: Window { limit: WINDOW_START, record_max: WINDOW_START },
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

    /// Bytes of records that the peer takes at most.
    pub(super) fn peer_window(&self) -> Size {
        self.window.record_max
    }

    /// Whether the peer's window keeps the most urgent record that waits from beginning.
    pub(super) fn is_blocked(&self) -> bool {
        let waiting = self.waiting.first_key_value();
        waiting.is_some_and(|(_, outgoing)| !self.fits(outgoing))
    }

    fn fits(&self, outgoing: &Outgoing) -> bool {
        self.begun_cost + cost(outgoing.content.len() as u32) <= self.window.limit
    }

    /// The peer takes more.
    pub(super) fn widen(&mut self, window: Window) {
        self.is_window_known = true;
        if window.limit >= self.window.limit {
            self.window = window;
        }
    }

    /// Gives up what has expired and did not begin.
    pub(super) fn expire(&mut self, now: Time, mut gone: impl FnMut(u64)) {
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

    fn leave_stream(&mut self, stream: u64) {
        if let Some(tail) = self.tails.get_mut(&stream) {
            tail.records -= 1;
            if tail.records == 0 {
                self.tails.remove(&stream);
            }
        }
    }

    /// The most urgent piece that may be sent. Begins records as they come to their turn.
    pub(super) fn peek(&mut self) -> Option<(PieceKey, Size)> {
        loop {
            let piece = self.ready.first().copied();
            let waiting = self.waiting.first_key_value();
            let begins = waiting.filter(|&(&(deadline, _), outgoing)| {
                piece.is_none_or(|(earliest, _)| deadline < earliest) && self.fits(outgoing)
            });
            let Some((&key, _)) = begins else {
                return piece.map(|key| (key, self.length(key.1)));
            };
            if let Some(outgoing) = self.waiting.remove(&key) {
                if let Some(expires) = outgoing.expires {
                    self.expiring.remove(&(expires, key));
                }
                self.begin(key.0, outgoing);
            }
        }
    }

    fn begin(&mut self, deadline: Time, outgoing: Outgoing) {
        let Outgoing { token, stream, content, .. } = outgoing;
        let size = content.len() as u32;
        let pieces = (size.div_ceil(self.piece_max as u32)).max(1);
        let record = self.next_dsn;
        self.next_dsn += u64::from(pieces);
        self.begun_cost += cost(size);
        self.waiting_bytes -= Size(u64::from(size));
        let tail = self.tails.entry(stream).or_default();
        let after = std::mem::replace(&mut tail.begun, record);
        let arrived = vec![0; (pieces as usize).div_ceil(64)];
        let missing = pieces;
        let begun = Begun {
            token,
            stream,
            after,
            deadline,
            size,
            pieces,
            content,
            arrived,
            missing,
            is_held: false,
        };
        self.begun.insert(record, begun);
        (record..record + u64::from(pieces)).for_each(|dsn| self.requeue(dsn));
    }

    fn find(&self, dsn: u64) -> Option<(u64, &Begun)> {
        let (&record, begun) = self.begun.range(..=dsn).next_back()?;
        (dsn < record + u64::from(begun.pieces)).then_some((record, begun))
    }

    fn has_arrived(&self, dsn: u64) -> bool {
        self.find(dsn).is_none_or(|(record, begun)| {
            let place = (dsn - record) as usize;
            begun.arrived[place / 64] >> (place % 64) & 1 == 1
        })
    }

    /// Bytes of a piece; none of one that is done.
    pub(super) fn length(&self, dsn: u64) -> Size {
        let range = self.find(dsn).map(|(record, begun)| span(begun, (dsn - record) as u32));
        Size(range.map_or(0, |range| range.len() as u64))
    }

    /// Takes the piece of this key out of what waits for a path.
    pub(super) fn assign(&mut self, key: PieceKey) {
        if self.ready.remove(&key) {
            self.ready_bytes -= self.length(key.1);
        }
    }

    /// A piece failed, and is to be sent again unless it has arrived.
    pub(super) fn fail(&mut self, dsn: u64) {
        if !self.has_arrived(dsn) {
            self.failed.insert(dsn);
            self.requeue(dsn);
        }
    }

    /// Whether a piece failed before.
    pub(super) fn has_failed(&self, dsn: u64) -> bool {
        self.failed.contains(&dsn)
    }

    /// A piece is to be sent, again or for the first time, unless it has arrived.
    pub(super) fn requeue(&mut self, dsn: u64) {
        let Some((_, begun)) = self.find(dsn) else { return };
        let key = (begun.deadline, dsn);
        if !self.has_arrived(dsn) && self.ready.insert(key) {
            self.ready_bytes += self.length(dsn);
        }
    }

    /// The piece, unless it has arrived.
    pub(super) fn piece(&self, dsn: u64) -> Option<Piece<'_>> {
        if self.has_arrived(dsn) {
            return None;
        }
        let (record, begun) = self.find(dsn)?;
        let place = (dsn - record) as u32;
        let data = &begun.content[span(begun, place)];
        let Begun { size, pieces, after, .. } = *begun;
        Some(Piece { record, place, pieces, size, after, data })
    }

    /// A piece has arrived. Answers the token of its record if that is whole now.
    pub(super) fn arrived(&mut self, dsn: u64) -> Option<u64> {
        if self.has_arrived(dsn) {
            return None;
        }
        let (record, begun) = self.find(dsn)?;
        let (deadline, place) = (begun.deadline, (dsn - record) as usize);
        self.assign((deadline, dsn));
        self.failed.remove(&dsn);
        let begun = self.begun.get_mut(&record)?;
        begun.arrived[place / 64] |= 1 << (place % 64);
        begun.missing -= 1;
        self.held -= Size(span(begun, place as u32).len() as u64);
        if begun.missing > 0 {
            return None;
        }
        begun.content = Bytes::new();
        Some(begun.token)
    }

    /// The peer says who answers for a record. Answers its token if that is news.
    pub(super) fn settle(&mut self, record: u64, custody: Custody) -> Option<u64> {
        let pieces = self.begun.get(&record)?.pieces;
        // The acknowledgement of what it answers for may be lost, or still under way.
        for dsn in record..record + u64::from(pieces) {
            self.arrived(dsn);
        }
        let begun = self.begun.get_mut(&record)?;
        if begun.is_held && custody == Custody::Held {
            return None;
        }
        let (token, stream) = (begun.token, begun.stream);
        let was_held = std::mem::replace(&mut begun.is_held, true);
        if !was_held {
            self.leave_stream(stream);
        }
        if custody != Custody::Held {
            self.begun.remove(&record);
        }
        Some(token)
    }

    /// Gives everything back: tokens of records without a fate, and whether each may have arrived.
    pub(super) fn close(&mut self) -> Vec<(u64, bool)> {
        let waiting = std::mem::take(&mut self.waiting);
        let begun = std::mem::take(&mut self.begun);
        (self.ready_bytes, self.waiting_bytes, self.held) = (Size::ZERO, Size::ZERO, Size::ZERO);
        self.ready.clear();
        self.failed.clear();
        self.tails.clear();
        self.expiring.clear();
        let waiting = waiting.into_values().map(|outgoing| (outgoing.token, false));
        begun.into_values().map(|begun| (begun.token, true)).chain(waiting).collect()
    }

    /// When the first record that waits expires.
    pub(super) fn next_timeout(&self) -> Option<Time> {
        self.expiring.first().map(|&(expires, _)| expires)
    }

    /// Most that records without a fate cost the peer: what the test bed holds it to.
    #[cfg(test)]
    fn begun_cost(&self) -> Size {
        self.begun_cost
    }
}

/// Where a piece stands in its record.
fn span(begun: &Begun, place: u32) -> Range<usize> {
    let length = piece_length(begun.size, begun.pieces);
    let start = place as usize * length;
    start..(start + length).min(begun.size as usize)
}

const _: () = assert!(RECORD_COST.0 < WINDOW_START.0);

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(token: u64, stream: u64, size: usize, deadline: u64) -> Outgoing {
        let deadline = Time::from_millis(deadline);
        Outgoing { token, stream, content: vec![1; size].into(), deadline, expires: None }
    }

    fn outbox() -> Outbox {
        Outbox::new(Size::from_mib(1), 1000, 1000)
    }

    /// The data sequence number of the next piece, which a path takes.
    fn next(outbox: &mut Outbox) -> Option<u64> {
        let (key, _) = outbox.peek()?;
        outbox.assign(key);
        Some(key.1)
    }

    #[test]
    fn the_urgent_goes_first_but_never_before_its_own_stream() {
        let mut outbox = outbox();
        outbox.offer(outgoing(1, 7, 1500, 900)).unwrap();
        assert_eq!(next(&mut outbox), Some(1));
        outbox.offer(outgoing(2, 7, 100, 50)).unwrap();
        outbox.offer(outgoing(3, 8, 100, 60)).unwrap();
        assert_eq!(next(&mut outbox), Some(3), "another stream's, in the midst of the first");
        assert_eq!(outbox.piece(3).unwrap().after, 0);
        assert_eq!([next(&mut outbox), next(&mut outbox)], [Some(2), Some(4)]);
        assert_eq!(outbox.piece(4).unwrap().after, 1);
        assert_eq!(next(&mut outbox), None);
    }

    #[test]
    fn a_record_begins_only_if_the_peer_has_room_for_all_of_it() {
        let mut outbox = outbox();
        for token in 0..3 {
            outbox.offer(outgoing(token, token, 60_000, 10 + token)).unwrap();
        }
        let sent = std::iter::from_fn(|| next(&mut outbox)).count();
        assert_eq!(sent, 120);
        assert!(outbox.begun_cost() <= WINDOW_START);
        let window = |limit| Window { limit: Size(limit), record_max: Size::from_kib(128) };
        outbox.widen(window(200_000));
        assert_eq!(next(&mut outbox), Some(121));
        outbox.widen(window(1));
        assert_eq!(outbox.window.limit, Size(200_000), "an old word takes nothing back");
    }

    #[test]
    fn what_has_arrived_is_not_sent_again_and_its_memory_is_free() {
        let mut outbox = outbox();
        outbox.offer(outgoing(9, 1, 2000, 10)).unwrap();
        assert_eq!([next(&mut outbox), next(&mut outbox)], [Some(1), Some(2)]);
        assert_eq!(outbox.arrived(1), None);
        outbox.requeue(1);
        outbox.requeue(2);
        assert_eq!(outbox.unassigned(), Size(1000));
        assert_eq!(outbox.arrived(2), Some(9), "by an earlier copy");
        assert_eq!((outbox.held(), outbox.unassigned()), (Size::ZERO, Size::ZERO));
        assert_eq!(next(&mut outbox), None);
    }

    #[test]
    fn a_fate_is_told_once_and_custody_before_it() {
        let confirmed = Custody::Final(crate::record::Fate::Confirmed);
        let mut outbox = outbox();
        outbox.offer(outgoing(9, 1, 10, 10)).unwrap();
        assert_eq!(outbox.settle(1, confirmed), None, "it has not begun");
        assert_eq!(next(&mut outbox), Some(1));
        assert_eq!(
            outbox.settle(1, Custody::Held),
            Some(9),
            "the word is worth an acknowledgement"
        );
        assert_eq!((outbox.held(), outbox.arrived(1)), (Size::ZERO, None));
        assert_eq!(outbox.settle(1, Custody::Held), None);
        assert_eq!(outbox.settle(1, confirmed), Some(9));
        assert_eq!((outbox.settle(1, confirmed), outbox.unsettled()), (None, 0));
        assert!(outbox.tails.is_empty());
    }

    #[test]
    fn offers_beyond_the_bounds_are_refused() {
        let mut outbox = Outbox::new(Size(1500), 2, 1000);
        assert_eq!(outbox.offer(outgoing(1, 1, 1 << 20, 1)), Err(OfferError::Full));
        outbox.widen(Window { limit: WINDOW_START, record_max: WINDOW_START });
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
            outbox.peek();
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
