//! A protocol for tests: `begin ` before each payload, and a line of verdicts from the far end.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tidegate_node::io::Refusal;
use tidegate_types::class::ClassId;
use tidegate_types::record::{
    DeliveryId, DropReason, Identity, Origin, Properties, Record, StreamId,
};
use tidegate_types::units::Time;

use super::protocol::{Protocol, ProtocolError, Verdicts};
use crate::node::contract::Transmit;

/// A record of this payload.
pub(super) fn record(seq: u64, payload: &[u8]) -> Record {
    let origin = Arc::new(Origin { node: "gate-7".into(), incarnation: 0x1c9f });
    Record {
        identity: Identity { origin, stream: StreamId(12), seq },
        key: Bytes::from_static(b"plant/3/alarm"),
        properties: Properties::default(),
        payload: Bytes::copy_from_slice(payload),
        arrived: Time::from_millis(1000),
        deadline: Time::from_millis(1050),
        expires: None,
        source_unix_ns: Some(1_700_000_000_123_456_789),
    }
}

/// The order for a cut of `range` of a record that the node counts as `size` bytes.
pub(super) fn transmit(id: u64, payload: &[u8], range: Range<u64>, size: u64) -> Transmit {
    Transmit {
        id: DeliveryId(id),
        lane: 0,
        epoch: 0,
        record: Arc::new(record(id, payload)),
        class: ClassId(0),
        start: range.start,
        end: range.end,
        size,
        again: false,
    }
}

/// The order for a whole record.
pub(super) fn whole(id: u64, payload: &[u8]) -> Transmit {
    let size = payload.len() as u64 + 6;
    transmit(id, payload, 0..size, size)
}

/// The far end says `w` (welcome) first, and for each record, in order, `c` (confirmed) or `r` (retry);
/// `b` and `u`: it is blocked and unblocked; `o`: nothing is owed, and the connection is over; anything else is an error.
#[derive(Default)]
pub(super) struct Plain {
    is_ready: bool,
    is_blocked: bool,
    waiting: std::collections::VecDeque<DeliveryId>,
}

impl Protocol for Plain {
    const INTERLEAVES: bool = false;

    fn connect(&mut self, _now: Time, out: &mut BytesMut) {
        *self = Plain::default();
        out.extend_from_slice(b"hello ");
    }

    fn receive(
        &mut self,
        _now: Time,
        input: &mut BytesMut,
        _out: &mut BytesMut,
        verdicts: &mut Verdicts,
    ) -> Result<(), ProtocolError> {
        for byte in input.split() {
            match byte {
                b'w' => self.is_ready = true,
                b'b' => self.is_blocked = true,
                b'u' => self.is_blocked = false,
                b'o' => return Err(ProtocolError::Over),
                b'c' => verdicts.confirmed.extend(self.waiting.pop_front()),
                b'r' => {
                    let id = self.waiting.pop_front();
                    verdicts.refused.extend(id.map(|id| (id, Refusal::Retry)));
                }
                _ => return Err(ProtocolError::Closed("it said so".into())),
            }
        }
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.is_ready
    }

    fn may_send(&self) -> bool {
        self.is_ready && !self.is_blocked
    }

    fn begin(&mut self, order: &Transmit, out: &mut BytesMut) -> Result<(), DropReason> {
        if order.record.payload == "poison" {
            return Err(DropReason::Oversize);
        }
        out.extend_from_slice(b"begin ");
        self.waiting.push_back(order.id);
        Ok(())
    }

    fn piece(&mut self, piece: &[u8], out: &mut BytesMut) {
        out.extend_from_slice(piece);
    }

    fn wrote(&mut self, _now: Time) {}

    fn tick(&mut self, _now: Time, _out: &mut BytesMut) -> Result<(), ProtocolError> {
        Ok(())
    }

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn close(&mut self, out: &mut BytesMut) {
        out.extend_from_slice(b"bye");
    }
}
