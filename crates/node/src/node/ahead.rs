//! Reads what a whole batch will need before its first record is served.
//!
//! With thousands of streams almost every record finds its stream, queue and record outside the
//! processor's caches. One after the other these waits add up; read side by side they overlap. Nothing is
//! decided here: the sums only keep the reads from being left out.

use std::hint::black_box;
use std::sync::Arc;

use tidegate_types::record::{DeliveryId, Offered};

use super::base::Base;
use super::holdings::Holdings;

/// The connection, stream and queue that each offer will probably go to.
pub(super) fn offers(base: &Base, offers: &[Offered]) {
    if offers.len() < 2 {
        return;
    }
    let streams = offers.iter().filter_map(|offer| base.sources.get(offer.source)?.likely());
    let queues = streams.flat_map(|stream| base.holdings.stream(stream).queues());
    black_box(
        queues.map(|queue| base.holdings.queues().backlog_of(queue).live_records).sum::<u64>(),
    );
}

/// The delivery and the record of each handle, as far as they are known.
pub(super) fn deliveries(holdings: &Holdings, ids: &[DeliveryId]) {
    if ids.len() < 2 {
        return;
    }
    let records = ids.iter().filter_map(|id| {
        let record = holdings.delivery((*id).into())?.record;
        Some(&holdings.record(record)?.record)
    });
    // Of a record, the count of its owners, and what stands in its other cache lines.
    let sizes =
        records.map(|record| Arc::strong_count(record) + record.key.len() + record.payload.len());
    black_box(sizes.sum::<usize>());
}
