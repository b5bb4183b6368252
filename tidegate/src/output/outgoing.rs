//! The bytes that one connection is bound to write: whole cuts in order, and where each of them ends.
//!
//! This is the only buffer of records below the node. What stands in it can no longer be overtaken on
//! this connection, so it takes cuts only while it holds little (see `has_room`). The payload of a record
//! is copied cut by cut, never as a whole.

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use tidegate_types::record::{DeliveryId, DropReason};
use tidegate_types::units::Size;

use super::protocol::{Protocol, ProtocolError};
use crate::node::contract::Transmit;

/// Above this no further cut is taken: enough to write many small records by one call, and little beside
/// what any window allows. One cut may reach beyond.
const FILL: usize = 8 * 1024;

/// A record of which some cuts are taken and some are not.
#[derive(Debug)]
struct Open {
    id: DeliveryId,
    payload: Bytes,
    /// Payload bytes taken.
    taken: usize,
    /// Bytes that went before the payload.
    prefix: usize,
}

impl Open {
    /// How much of the payload is taken after `order`. The encoding as a whole stands for the whole of
    /// the node's size; what goes before the payload belongs to the first cut.
    fn end(&self, order: &Transmit) -> usize {
        if order.end >= order.size {
            return self.payload.len();
        }
        let total = (self.prefix + self.payload.len()) as u128;
        let end = (total * u128::from(order.end) / u128::from(order.size)) as usize;
        end.saturating_sub(self.prefix).clamp(self.taken, self.payload.len())
    }
}

/// What became of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Its bytes are here; `Outgoing::written` will name it.
    Bytes,
    /// There is nothing to write for it.
    Nothing,
    /// There is nothing to write, and the record can never be sent.
    Refused(DropReason),
}

/// See the file's header.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: BytesMut,
    /// Bytes written so far.
    written: u64,
    /// Cuts not wholly written: which delivery, where it ends, how many bytes.
    cuts: VecDeque<(DeliveryId, u64, u64)>,
    open: Option<Open>,
    /// A record that cannot be sent; its other cuts are still to come.
    refused: Option<(DeliveryId, DropReason)>,
}

impl Outgoing {
    /// What is to be written.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether another cut may be taken.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() < FILL
    }

    /// Whether no record is begun and not completed.
    pub(super) fn is_between_records(&self) -> bool {
        self.open.is_none() && self.refused.is_none()
    }

    /// Takes what the protocol says for itself, if this is a place for it.
    pub(super) fn take_control<P: Protocol>(&mut self, control: &mut BytesMut) {
        if P::INTERLEAVES || self.open.is_none() {
            self.bytes.extend_from_slice(control);
            control.clear();
        }
    }

    /// Takes a cut.
    ///
    /// # Errors
    /// It does not follow from the cuts before.
    pub(super) fn take<P: Protocol>(
        &mut self,
        protocol: &mut P,
        order: &Transmit,
    ) -> Result<Taken, ProtocolError> {
        let is_last = order.end >= order.size;
        if let Some((id, reason)) = self.refused {
            if id != order.id {
                return Err(ProtocolError::Order("a record inside another"));
            }
            return Ok(self.refuse(id, reason, is_last));
        }
        let before = self.bytes.len();
        let mut open = match self.open.take() {
            Some(open) if open.id == order.id => open,
            Some(_) => return Err(ProtocolError::Order("a record inside another")),
            None if order.start > 0 => return Err(ProtocolError::Order("a cut without its begin")),
            None => match self.begin(protocol, order) {
                Ok(open) => open,
                Err(reason) => return Ok(self.refuse(order.id, reason, is_last)),
            },
        };
        let end = open.end(order);
        if end > open.taken {
            protocol.piece(&open.payload[open.taken..end], &mut self.bytes);
            open.taken = end;
        }
        self.open = (!is_last).then_some(open);
        let bytes = (self.bytes.len() - before) as u64;
        if bytes == 0 {
            return Ok(Taken::Nothing);
        }
        let ends_at = self.written + self.bytes.len() as u64;
        self.cuts.push_back((order.id, ends_at, bytes));
        Ok(Taken::Bytes)
    }

    fn begin<P: Protocol>(
        &mut self,
        protocol: &mut P,
        order: &Transmit,
    ) -> Result<Open, DropReason> {
        let before = self.bytes.len();
        protocol.begin(order, &mut self.bytes)?;
        let prefix = self.bytes.len() - before;
        Ok(Open { id: order.id, payload: order.record.payload.clone(), taken: 0, prefix })
    }

    /// The node waits for every cut that it ordered, and takes a refusal after the last one only.
    fn refuse(&mut self, id: DeliveryId, reason: DropReason, is_last: bool) -> Taken {
        self.refused = (!is_last).then_some((id, reason));
        if is_last { Taken::Refused(reason) } else { Taken::Nothing }
    }

    /// So many bytes were written: takes the next cut that they complete, if any. Call it with 0 until
    /// it answers `None`.
    pub(super) fn written(&mut self, bytes: usize) -> Option<(DeliveryId, Size)> {
        self.bytes.advance(bytes);
        self.written += bytes as u64;
        let &(id, ends_at, bytes) = self.cuts.front()?;
        (ends_at <= self.written).then(|| {
            self.cuts.pop_front();
            (id, Size(bytes))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_protocol::{Plain, transmit};
    use super::*;

    /// Takes everything that is there and counts it.
    fn write_all(outgoing: &mut Outgoing) -> Vec<(u64, u64)> {
        let length = outgoing.bytes().len();
        let mut done: Vec<_> = outgoing.written(length).into_iter().collect();
        while let Some(cut) = outgoing.written(0) {
            done.push(cut);
        }
        done.iter().map(|(id, bytes)| (id.0, bytes.0)).collect()
    }

    #[test]
    fn cuts_of_any_size_make_the_record_and_nothing_else() {
        for cut in [1, 7, 100, 999, 1000, 5000] {
            let (mut protocol, mut outgoing) = (Plain::default(), Outgoing::default());
            let mut wire = Vec::new();
            // The node counts 1300 bytes for what is 6 + 1000 here.
            let mut start = 0;
            while start < 1300 {
                let end = (start + cut).min(1300);
                let order = transmit(1, &[7; 1000], start..end, 1300);
                outgoing.take(&mut protocol, &order).unwrap();
                wire.extend_from_slice(outgoing.bytes());
                write_all(&mut outgoing);
                start = end;
            }
            assert!(wire.starts_with(b"begin ") && wire.ends_with(&[7]), "cut {cut}");
            assert_eq!(wire.iter().filter(|byte| **byte == 7).count(), 1000, "cut {cut}");
            assert!(outgoing.is_between_records());
        }
    }

    #[test]
    fn real_bytes_are_reported_when_the_last_one_of_a_cut_is_written() {
        let (mut protocol, mut outgoing) = (Plain::default(), Outgoing::default());
        outgoing.take(&mut protocol, &transmit(1, b"abcd", 0..5, 10)).unwrap();
        outgoing.take(&mut protocol, &transmit(1, b"abcd", 5..10, 10)).unwrap();
        outgoing.take(&mut protocol, &transmit(2, b"x", 0..10, 10)).unwrap();
        // "begin " belongs to the first cut: half of 10 bytes on the wire lies within it.
        assert_eq!(outgoing.written(5), None);
        assert_eq!(outgoing.written(1), Some((DeliveryId(1), Size(6))));
        assert_eq!(write_all(&mut outgoing), [(1, 4), (2, 7)]);
    }

    #[test]
    fn control_bytes_wait_for_the_end_of_a_record() {
        let (mut protocol, mut outgoing) = (Plain::default(), Outgoing::default());
        let mut control = BytesMut::from(&b"!"[..]);
        outgoing.take(&mut protocol, &transmit(1, b"abcd", 0..5, 10)).unwrap();
        outgoing.take_control::<Plain>(&mut control);
        assert_eq!(control.len(), 1, "inside the record");
        outgoing.take(&mut protocol, &transmit(1, b"abcd", 5..10, 10)).unwrap();
        outgoing.take_control::<Plain>(&mut control);
        assert!(control.is_empty() && outgoing.bytes().ends_with(b"!"));
    }

    #[test]
    fn a_record_that_cannot_be_sent_is_refused_at_its_end() {
        let (mut protocol, mut outgoing) = (Plain::default(), Outgoing::default());
        let poison = |range| transmit(3, b"poison", range, 10);
        assert_eq!(outgoing.take(&mut protocol, &poison(0..5)), Ok(Taken::Nothing));
        assert!(!outgoing.is_between_records());
        let refused = Ok(Taken::Refused(DropReason::Oversize));
        assert_eq!(outgoing.take(&mut protocol, &poison(5..10)), refused);
        assert!(outgoing.is_between_records() && outgoing.bytes().is_empty());
    }

    #[test]
    fn orders_that_make_no_sense_end_the_connection() {
        let (mut protocol, mut outgoing) = (Plain::default(), Outgoing::default());
        assert!(outgoing.take(&mut protocol, &transmit(1, b"abcd", 5..10, 10)).is_err());
        outgoing.take(&mut protocol, &transmit(1, b"abcd", 0..5, 10)).unwrap();
        assert!(outgoing.take(&mut protocol, &transmit(2, b"abcd", 0..10, 10)).is_err());
    }
}
